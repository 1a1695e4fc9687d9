"""The card over the grid: what the engine is doing when there is nothing to see, in a few words and with a way on.

Lines in, lines out; it reads the feed's status and the view and decides which card, if any, is due.
"""

from __future__ import annotations

from collections.abc import Iterable

from kvtop.app.lines import Line, Span, fitted, line_width, wrapped
from kvtop.app.scene import Scene
from kvtop.engine.pool_size import pool_of
from kvtop.view.clean import clean_line
from kvtop.view.words import count

BAR = 28
SPINNER = "◐◓◑◒"
FRAME_LINES = 4
"""A card's edges, and the air inside them."""
LOG_LINES = 3
"""Of what was printed before, above the line that says what is going on."""


def card_for(scene: Scene, width: int, height: int) -> list[Line]:
    """The lines of the card that is due, framed; empty when the grid speaks for itself. What must not be missed fits
    into a few lines, the rest of it stands there where ``height`` allows."""
    state, view = scene.feed.status.state, scene.view
    if state == "failed":
        body = _failed(scene, min(60, width - 6))
    elif state == "stopped":
        body = [[("the engine has ended", scene.palette.named.strong)]]
    elif view.info is None:
        body = _loading(scene, min(60, width - 6))
    elif scene.course is None and not view.counters.requests and not view.sequences and state != "loading":
        body = _empty(scene, min(60, width - 6), height - FRAME_LINES)
    else:
        return []
    return _framed(scene, body, width)


def _loading(scene: Scene, width: int) -> list[list[Span]]:
    named, status = scene.palette.named, scene.feed.status
    seconds = scene.feed.loading_s
    lines: list[list[Span]] = [list(line) for line in wrapped(clean_line(status.detail), named.strong, width - 2)]
    lines[0].insert(0, (SPINNER[int(seconds * 4) % len(SPINNER)] + " ", named.accent))
    said = [clean_line(line, width) for line in status.traceback.splitlines()[-1 - LOG_LINES : -1]]
    lines[:0] = [[(line[:width], named.faint)] for line in said]
    if status.total > 0:
        share = min(1.0, status.done / status.total)
        full = round(share * BAR)
        lines.append([("━" * full, named.accent), ("━" * (BAR - full), named.faint), (f" {share:4.0%}", named.text)])
    if scene.feed.held:
        what = count(len(scene.feed.held), "request")
        lines += [[], [(f"{what} will go out when it is ready", named.text)]]
    keys: list[Span] = [("esc", named.accent), (" cancel   ", named.muted), ("i", named.accent)]
    return [*lines, [], [(f"{seconds:.0f} s   ", named.muted), *keys, (" send requests", named.muted)]]


def _empty(scene: Scene, width: int, height: int) -> list[list[Span]]:
    named, info = scene.palette.named, scene.view.info
    assert info is not None
    pool = [line for words in pool_of(info).report(info.max_model_len) for line in wrapped(words, named.muted, width)]
    if len(pool) + 4 > height:
        pool = [((f"{info.num_blocks:,} blocks of {info.block_size} tokens are waiting", named.muted),)]
    send: list[list[Span]] = [[("i", named.accent), (" send requests", named.text)]]
    return [
        [("No traffic yet", named.strong)],
        *map(list, pool),
        [],
        *(send if scene.feed.tape is None else ()),  # nothing can be sent into a recording
        [("?", named.accent), (" what everything means", named.text)],
    ]


def _failed(scene: Scene, width: int) -> list[list[Span]]:
    named, status = scene.palette.named, scene.feed.status
    last = [line for line in status.traceback.strip().splitlines() if line.strip()]
    reason = clean_line(status.detail or (last[-1] if last else "no reason was given"), 300)
    if scene.watched:
        return [
            [(" the server is silent ", named.alarm)],
            [],
            *(list(line) for line in wrapped(reason, named.text, width)[:4]),
            [],
            [("m", named.accent), (" its metrics   ", named.text), ("q", named.accent), (" quit", named.text)],
        ]
    return [
        [(" the engine died ", named.alarm)],
        [],
        *(list(line) for line in wrapped(reason, named.text, width)[:4]),
        [],
        [
            ("r", named.accent), (" restart   ", named.text),
            ("T", named.accent), (" traceback   ", named.text),
            ("q", named.accent), (" quit", named.text),
        ],
        [("what you see is its last state", named.muted)],
    ]  # fmt: skip


def _framed(scene: Scene, body: Iterable[Iterable[Span]], width: int) -> list[Line]:
    """The body centred in a box with one line of air above and below."""
    named = scene.palette.named
    lines = [tuple(line) for line in body]
    inner = min(width - 2, max(line_width(line) for line in lines) + 6)
    if inner < 8:
        return []
    edge = named.focus
    framed: list[Line] = [(("╭" + "─" * inner + "╮", edge),)]
    for line in ((), *lines, ()):
        air = max(0, inner - line_width(line)) // 2
        framed.append((("│", edge), *fitted(((" " * air, named.text), *line), inner, named.text), ("│", edge)))
    return [*framed, (("╰" + "─" * inner + "╯", edge),)]

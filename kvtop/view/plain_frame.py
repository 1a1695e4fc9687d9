"""One frame as plain text, for scripts, tickets and screen readers: figures, pool, sequences, prefixes, what happened.

No colour and no cursor movement: each line can be read aloud or searched. In the pool a letter or digit is the owner
of an active block, ``:`` a cached one, ``.`` a free one; the same letters stand before the sequences.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import islice

from kvtop.view import figures
from kvtop.view.cells import ACTIVE, CACHED, Cells, cells_of
from kvtop.view.clean import clean_line, fit
from kvtop.view.describe import describe
from kvtop.view.event_log import is_routine
from kvtop.view.finding import Finding
from kvtop.view.owner_slots import NO_SLOT, glyph
from kvtop.view.pool_view import PoolView
from kvtop.view.preemptions import preemption_words
from kvtop.view.prefix_tree import Branch, prefix_tree
from kvtop.view.sequence_view import SequenceView
from kvtop.view.sequence_words import state_of, waits_for
from kvtop.view.turns import reading_order
from kvtop.view.waste import Waste, measure_waste
from kvtop.view.words import UNKNOWN, count, duration, share, size

CELLS_A_ROW = 64
MOST_CELLS = 64 * CELLS_A_ROW
MOST_SEQUENCES = 100
EVENTS = 12
MOST_BRANCHES = 12
MOST_HOLDERS = 8


def plain_frame(view: PoolView, now_s: float, state: str, findings: Sequence[Finding] = ()) -> str:
    """The view at wall time ``now_s``, with the ``findings`` that stand; ``state`` says what the engine is doing."""
    info = view.info
    if info is None:
        return f"kvtop: {clean_line(state)}, nothing is known yet"
    settings = view.settings
    lines = [
        f"kvtop  {clean_line(info.model, 60)}{'' if info.simulated else f' on {info.device}'}, {info.dtype}, "
        f"policy {info.policy}, "
        f"preempts by {settings.get('preempt', info.preempt)}, victim {settings.get('victim', info.victim)}",
        f"step {view.step:,}, {clean_line(state)}, {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(view.wall_s))}",
    ]
    if info.simulated:
        lines.append("simulated: scheduler and pool are real, no model runs, words and step times are made up")
    if view.incomplete_since is not None:
        lines.append(f"incomplete since event {view.incomplete_since:,}: figures may be behind")
    waste = measure_waste(view)
    assert waste is not None
    parts = (
        _figures(view, now_s, waste),
        _pool(view),
        _sequences(view),
        _prefixes(view),
        _findings(findings, view.step),
        _preemptions(view),
        _events(view),
    )
    for part in parts:
        lines += ["", *part]
    return "\n".join(lines)


def _figures(view: PoolView, now_s: float, waste: Waste) -> list[str]:
    blocks, totals, info = view.blocks, view.counters, view.info
    assert info is not None
    thrown = figures.preemptions_per_minute(view, now_s)
    speed = figures.tokens_per_second(view, now_s)
    full_s = figures.seconds_until_full(view, now_s)

    def over(window_s: float) -> str:
        return f" over the last {duration(min(window_s, now_s - view.series.started_s))}"

    rows = [
        (
            "pool",
            f"{count(blocks.num_blocks, 'block')} of {count(info.block_size, 'token')}, "
            f"{size(blocks.num_blocks * info.block_size * info.kv_bytes_per_token)}, "
            f"{size(info.kv_bytes_per_token)} a token",
        ),
        ("active", f"{blocks.active:,} ({share(blocks.active, blocks.num_blocks)})" + _shared(view)),
        ("cached", f"{blocks.cached:,} ({share(blocks.cached, blocks.num_blocks)}), evictable"),
        ("free", f"{blocks.free:,} ({share(blocks.free, blocks.num_blocks)})"),
        (
            "waste",
            f"{_percent(waste.wasted_share)} of held slots"
            + (f", {size(waste.wasted * waste.slot_bytes)}" if waste.held else ""),
        ),
        ("full in", f"about {duration(full_s)}" if full_s else UNKNOWN if full_s is None else "now"),
        ("speed", UNKNOWN if speed is None else f"{speed:,.0f} tokens/s" + over(figures.THROUGHPUT_SECONDS)),
        (
            "preempted",
            (UNKNOWN if thrown is None else f"{thrown:.1f} a minute" + over(figures.PREEMPTION_SECONDS))
            + f"; {totals.preemptions:,} since start, {count(totals.recomputed_tokens, 'token')} recomputed",
        ),
        ("prefix hits", f"{_percent(figures.hit_rate(view))} of prompt tokens since start"),
    ]
    if view.swap.num_blocks:
        rows.insert(4, ("swap", f"{view.swap.active:,} of {count(view.swap.num_blocks, 'block')} taken"))
    return [f"{name:<12} {value}" for name, value in rows]


def _shared(view: PoolView) -> str:
    shared = int((view.blocks.ref_counts > 1).sum())
    return f", {shared:,} shared" if shared else ""


def _percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{100 * value:.1f}%"


def _pool(view: PoolView) -> list[str]:
    per_cell = -(-view.blocks.num_blocks // MOST_CELLS)
    signs = _signs(cells_of(view, per_cell))
    several = f"{per_cell:,} blocks a sign, the owner of most" if per_cell > 1 else "one sign a block"
    lines = [f"blocks: {several}; A-Z a-z 0-9 owner, : cached, . free"]
    digits = len(f"{view.blocks.num_blocks - 1:,}")
    for first in range(0, len(signs), CELLS_A_ROW):
        lines.append(f"{first * per_cell:>{digits},}  {signs[first : first + CELLS_A_ROW]}")
    return lines


def _signs(cells: Cells) -> str:
    states, slots = cells.states.tolist(), cells.slots.tolist()
    return "".join(
        (glyph(slot) if slot != NO_SLOT else "?") if state == ACTIVE else ":" if state == CACHED else "."
        for state, slot in zip(states, slots, strict=True)
    )


def _sequences(view: PoolView) -> list[str]:
    rows = sorted(view.sequences.values(), key=reading_order)
    counts = ", ".join(f"{len(view.with_status(status)):,} {status}" for status in ("running", "waiting", "swapped"))
    lines = [f"sequences: {counts}"]
    if rows:
        width = max(7, min(24, max(len(row.name) for row in rows)))
        lines.append(f"   {fit('request', width)}  {fit('state', 12)}  tokens  blocks  shared     made/most  out")
        lines += [_sequence(view, row, width) for row in rows[:MOST_SEQUENCES]]
    if len(rows) > MOST_SEQUENCES:
        lines.append(f"   and {len(rows) - MOST_SEQUENCES:,} more")
    return lines


def _sequence(view: PoolView, row: SequenceView, width: int) -> str:
    slot = view.slots.slot_of(row.seq)
    shared = int((view.blocks.ref_counts[row.table] > 1).sum()) if row.table else 0
    made = f"{row.generated:,}/{row.max_tokens:,}"
    line = (
        f"{glyph(slot) if row.table else ' '}  {fit(row.name, width)}  {fit(state_of(row), 12)}  {row.tokens:>6,}  "
        f"{len(row.table):>6,}  {shared:>6,}  {made:>12}  {row.preemptions:>3,}"
    )
    return line if row.status == "running" else f"{line}  {waits_for(view, row)}".rstrip()


def _prefixes(view: PoolView) -> list[str]:
    """What prompts have in common, most saved first, and who shares it."""
    tree, info = prefix_tree(view), view.info
    assert info is not None
    saved = f"sharing saves {count(tree.saved_blocks, 'block')}"
    if tree.saved_blocks:
        saved += f", {size(tree.saved_blocks * info.block_size * info.kv_bytes_per_token)}"
    if not view.caches_prefixes:
        return [f"prefixes: no prefix cache, {saved}"]
    lines = [f"prefixes: {count(tree.indexed_blocks, 'block')} indexed, {saved}"]
    shared = sorted((branch for branch, _ in tree.rows() if branch.saved), key=lambda branch: -branch.saved)
    if shared:
        lines.append("   blocks        tokens   ref    hits   saves  held by")
        lines += [_branch(view, branch) for branch in shared[:MOST_BRANCHES]]
    if len(shared) > MOST_BRANCHES:
        lines.append(f"   and {len(shared) - MOST_BRANCHES:,} more that are shared")
    return lines


def _branch(view: PoolView, branch: Branch) -> str:
    first = branch.depth * view.block_size
    tokens = UNKNOWN if branch.is_cut else f"{first:,}–{first + len(branch.blocks) * view.block_size - 1:,}"
    names = ", ".join(view.name_of(seq) for seq in branch.seqs[:MOST_HOLDERS])
    more = f" and {len(branch.seqs) - MOST_HOLDERS:,} more" if len(branch.seqs) > MOST_HOLDERS else ""
    return (
        f"   {len(branch.blocks):>6,}  {tokens:>12}  {branch.ref_count:>4,}  {branch.hits:>6,}  {branch.saved:>6,}  "
        f"{names}{more}"
    )


def _findings(findings: Sequence[Finding], step: int) -> list[str]:
    lines = ["findings:" if findings else "findings: none"]
    for finding in findings:
        case = finding.case
        lines += [f"   {case.weight}: {case.headline}", f"      {finding.evidence_at(step)}", f"      {case.advice}"]
    return lines


def _preemptions(view: PoolView) -> list[str]:
    """What the last ones cost: a busy engine's events soon scroll them out."""
    total, last = view.counters.preemptions, view.preemptions
    lines = [f"preemptions: {total:,} since start" + (f", the last {len(last)}" if 0 < len(last) < total else "")]
    width = max((len(preemption.name) for preemption in last), default=0)
    lines += [f"{one.step:>7,}  {fit(one.name, width)}  {preemption_words(view, one)}" for one in last]
    return lines


def _events(view: PoolView) -> list[str]:
    decisions = (entry for entry in reversed(view.log.entries) if not is_routine(entry.event))
    entries = list(islice(decisions, EVENTS))[::-1]
    seen = f"the last {count(len(entries), 'decision')} of {count(view.log.total, 'event')}"
    lines = [f"events: {seen}" if entries else "events: none yet"]
    lines += [f"{entry.step:>7,}  {describe(entry.event, view)}" for entry in entries]
    return lines

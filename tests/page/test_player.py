"""The page in a real browser: it plays and jumps, paints what was recorded, asks for nothing and believes no text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvtop import cli
from kvtop.app.theme_files import load_themes
from kvtop.engine.events import Batch
from kvtop.sources.recording import Recording
from kvtop.view.cells import ACTIVE, FULL, cells_of
from kvtop.view.colours import mix
from kvtop.view.pool_view import PoolView
from tests.commands.test_events import hostile, record
from tests.page.chromium import Chromium
from tests.sources.traffic import batches

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def made() -> list[Batch]:
    return batches(150)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory, made: list[Batch]) -> Path:
    return record(tmp_path_factory.mktemp("player") / "a.kvrec", made)


@pytest.fixture(scope="module")
def page(recording: Path) -> str:
    out = recording.with_suffix(".html")
    assert cli.main(["export", str(recording), "--html", str(out), "--theme", "dark"]) == 0
    return out.as_uri()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


def show(browser: Chromium, page: str, step: int) -> None:
    browser.open("about:blank")
    browser.open(f"{page}#step={step}")
    browser.wait_for("window.player !== undefined && document.querySelectorAll('#events li').length > 0")


def step_shown(browser: Chromium) -> int:
    return int(browser.evaluate("document.getElementById('where').textContent").split()[1].replace(",", ""))


def view_after(recording: Path, step: int) -> PoolView:
    with Recording(recording) as opened:
        return opened.timeline.view_at(opened.timeline.position_after_step(step))


def test_keys_step_and_jump(browser: Chromium, page: str, made: list[Batch]) -> None:
    show(browser, page, 40)
    assert step_shown(browser) == 40
    for key, expected in ((".", 41), (",", 40), ("ArrowRight", 41), ("Home", made[0].step), ("End", made[-1].step)):
        browser.press(key)
        assert step_shown(browser) == expected
    preempted = [b.step for b in made for event in b.events if type(event).__name__ == "Preempted"]
    browser.press("<")
    assert step_shown(browser) == preempted[-1]
    browser.press("Home")
    browser.press(">")
    assert step_shown(browser) == preempted[0]
    assert browser.evaluate("document.querySelector('#events .now.preempted') !== null")


def test_it_plays_and_stops_at_the_end(browser: Chromium, page: str, made: list[Batch]) -> None:
    show(browser, page, made[-20].step)
    browser.press(" ")
    assert browser.evaluate("player.playing")
    browser.wait_for("!player.playing")
    assert step_shown(browser) == made[-1].step


def test_every_cell_is_painted_as_its_block_was(browser: Chromium, page: str, recording: Path) -> None:
    show(browser, page, 100)
    theme, cells = load_themes()[0]["dark"], cells_of(view_after(recording, 100))
    painted = browser.evaluate(
        "(() => { const g = player.grid, pen = g.canvas.getContext('2d'), scale = devicePixelRatio;"
        "return [...player.film.cellsAt(player.moment).keys()].map((at) => [...pen.getImageData("
        "(at % g.columns * g.size + 2) * scale, (Math.floor(at / g.columns) * g.size + 2) * scale, 1, 1).data]"
        ".slice(0, 3)); })()"
    )
    before = cells_of(view_after(recording, 99))
    looked_at = 0
    for at, colour in enumerate(painted):
        changed = any(getattr(cells, name)[at] != getattr(before, name)[at] for name in ("states", "slots", "fills"))
        if cells.states[at] == ACTIVE and cells.fills[at] == FULL and not changed:
            owner = theme.owners.colors[cells.slots[at] % len(theme.owners.colors)]
            assert tuple(colour) == mix(theme.colors.background, owner, theme.shares.full)
            looked_at += 1
    assert looked_at > 5


def test_the_table_of_sequences_says_what_the_view_says(browser: Chromium, page: str, recording: Path) -> None:
    show(browser, page, 100)
    rows = browser.evaluate(
        "[...document.querySelectorAll('tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    view = view_after(recording, 100)
    assert {row[1] for row in rows} == {sequence.name for sequence in view.sequences.values()}
    for row in rows:
        (sequence,) = (s for s in view.sequences.values() if s.name == row[1])
        if sequence.status == "running":
            assert row[3:5] == [f"{sequence.tokens:,}", f"{len(sequence.table):,}"]


def test_a_chosen_sequence_lights_its_table_in_logical_order(browser: Chromium, page: str, recording: Path) -> None:
    show(browser, page, 100)
    view = view_after(recording, 100)
    longest = max(view.sequences.values(), key=lambda sequence: len(sequence.table))
    name = json.dumps(longest.name)
    browser.evaluate(
        f"[...document.querySelectorAll('tbody tr')].find((row) => row.cells[1].textContent === {name}).click()"
    )
    table = browser.evaluate("player.film.tableOf(player.chosen, player.moment)")
    assert table == longest.table
    browser.press("Escape")
    assert browser.evaluate("player.chosen") == 0


def test_the_pointer_tells_what_a_block_is(browser: Chromium, page: str, recording: Path) -> None:
    show(browser, page, 100)
    view = view_after(recording, 100)
    shared = next(block for block in range(view.blocks.num_blocks) if view.blocks.ref_counts[block] > 1)
    x, y = browser.evaluate(
        f"(() => {{ const at = {shared}, g = player.grid, box = g.canvas.getBoundingClientRect(); return ["
        "box.left + (at % g.columns + .5) * g.size, box.top + (Math.floor(at / g.columns) + .5) * g.size]; })()"
    )
    browser.point(x, y)
    words = browser.evaluate("document.getElementById('under').textContent")
    holders = [sequence.name for sequence, _ in view.holders_of(shared)]
    assert words.startswith(f"block {shared}: held by ") and sorted(words.split(" by ")[1].split(", ")) == sorted(
        holders
    )


def test_it_asks_for_nothing_and_believes_no_text(browser: Chromium, tmp_path: Path, made: list[Batch]) -> None:
    path, out = record(tmp_path / "h.kvrec", hostile(made)), tmp_path / "h.html"
    title = "<img src=http://example.invalid/x onerror=alert(1)><script>alert(2)</script>"
    assert cli.main(["export", str(path), "--html", str(out), "--title", title]) == 0
    browser.requests.clear()
    browser.complaints.clear()
    show(browser, out.as_uri(), 20)
    assert browser.evaluate("document.querySelector('h1').textContent") == title
    assert browser.evaluate("document.title") == title
    assert "[red]" in browser.evaluate("document.querySelector('tbody').textContent")
    counts: dict[str, Any] = browser.evaluate(
        "({img: document.images.length, scripts: document.scripts.length, links: document.links.length})"
    )
    assert counts == {"img": 0, "scripts": 3, "links": 0}
    assert browser.requests == ["about:blank", f"{out.as_uri()}#step=20"] or browser.requests == [out.as_uri()]
    assert browser.complaints == []


def test_what_slips_through_could_run_nothing(browser: Chromium, page: str) -> None:
    show(browser, page, 20)
    browser.complaints.clear()
    browser.evaluate(
        "(() => { const one = document.createElement('script'); one.textContent = 'window.ran = true';"
        "document.body.append(one); const two = document.createElement('img');"
        "two.src = 'http://example.invalid/x'; document.body.append(two); })()"
    )
    assert browser.evaluate("window.ran") is None
    browser.wait_for("true")
    assert any("Content Security Policy" in words for words in browser.complaints)

"""The page of ``kvtop web`` in a real browser: it draws the grid, answers keys, and asks nobody else for anything."""

from __future__ import annotations

import base64
import signal
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kvtop.app.palette import ACTIVE, Cell, Palette
from kvtop.app.theme_files import load_themes
from kvtop.view.colours import Depth
from tests.page.chromium import Chromium
from tests.web.server import Served, gone

pytestmark = pytest.mark.browser


def pixels_of(browser: Chromium, colour: tuple[int, int, int]) -> int:
    """How many pixels of the page have exactly this colour."""
    picture = base64.b64encode(browser.picture()).decode()
    counted = browser.evaluate(
        "(async () => { const image = new Image(); image.src = 'data:image/png;base64," + picture + "';"
        "await image.decode(); const canvas = new OffscreenCanvas(image.width, image.height);"
        "const pen = canvas.getContext('2d'); pen.drawImage(image, 0, 0);"
        "const seen = pen.getImageData(0, 0, image.width, image.height).data; let count = 0;"
        "for (let at = 0; at < seen.length; at += 4)"
        f"if (seen[at] === {colour[0]} && seen[at + 1] === {colour[1]} && seen[at + 2] === {colour[2]}) count++;"
        "return count; })()"
    )
    return int(counted)


def test_the_grid_is_drawn_keys_work_and_no_request_leaves_this_machine(tmp_path: Path) -> None:
    paper = Palette(load_themes()[0]["dark"], Depth.TRUE).cell(Cell(ACTIVE, 0)).bgcolor
    assert paper is not None and paper.triplet is not None
    owner = (paper.triplet.red, paper.triplet.green, paper.triplet.blue)
    with Served("live", "--sim", "--num-blocks", "64", "--paused") as served, Chromium(tmp_path / "profile") as browser:
        browser.open(served.address)
        browser.wait_for("document.activeElement.tagName === 'TEXTAREA'")  # something was drawn: keys go to it
        assert browser.evaluate("document.fonts.check(\"15px 'Roboto Mono'\")")
        for key, text in (("i", "i"), ("Enter", "\r"), (".", "."), (".", ".")):  # the form and what it holds, two steps
            assert pixels_of(browser, owner) < 500
            browser.press(key, text)
            browser.evaluate("new Promise((done) => setTimeout(done, 500))")
        until = time.monotonic() + 20
        while pixels_of(browser, owner) < 500:  # four full blocks
            assert time.monotonic() < until
        assert browser.requests and {
            urlsplit(url).netloc for url in browser.requests if not url.startswith("data:")
        } == {urlsplit(served.address).netloc}
        assert [words for words in browser.complaints if "Content Security Policy" in words] == []
        processes = served.family()
        browser.press("q", "q")
        browser.wait_for("document.body.classList.contains('-closed')")
        assert "kvtop has ended" in browser.evaluate("document.getElementById('ended').innerText")
        assert browser.evaluate(
            "(() => { const box = document.getElementById('ended').getBoundingClientRect();"
            "return [1, box.height / 2, box.height - 1].every((y) => [1, box.width / 2, box.width - 1].every((x) =>"
            "document.getElementById('ended').contains(document.elementFromPoint(box.left + x, box.top + y)))); })()"
        ), "the terminal lies over the line that says it has ended"
        assert gone(processes)
        assert served.end(signal.SIGTERM) == 128 + signal.SIGTERM

"""The page needs nothing from outside, lets nothing in, and stays under its limit."""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from kvtop.app.theme_files import load_themes
from kvtop.failure import Failure
from kvtop.page.document import make_bounded_document, make_document
from kvtop.page.film import Bounds, make_film
from kvtop.page.look import look_of
from kvtop.sources.recording import Recording
from tests.commands.test_events import hostile, record
from tests.sources.traffic import batches

TITLE = "</title><script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def look() -> dict[str, Any]:
    return look_of(load_themes()[0]["dark"])


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, look: dict[str, Any]) -> str:
    path = record(tmp_path_factory.mktemp("page") / "a.kvrec", hostile(batches(80)))
    with Recording(path) as recording:
        return make_document(make_film(recording.timeline, Bounds()), TITLE, look)


def unpacked(page: str, block: str) -> bytes:
    found = re.search(rf'<script id="{block}" type="text/plain">([A-Za-z0-9+/=]*)</script>', page)
    assert found is not None
    return zlib.decompress(base64.b64decode(found[1]))


def test_it_names_nothing_outside_itself(page: str) -> None:
    for reference in (r"\bsrc\s*=", r"\bhref\s*=", r"url\(", r"@import", r"https?:", r"//[a-z]+\.", r"import\s*\("):
        assert re.search(reference, page.replace(html.escape(TITLE), "")) is None, reference
    for caller in ("fetch(", "XMLHttpRequest", "WebSocket", "innerHTML", "document.write", "eval("):
        assert caller not in page


def test_its_policy_allows_its_own_script_and_style_and_nothing_else(page: str) -> None:
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    script, style = (
        re.search(r"<script>(.*?)</script>", page, re.DOTALL),
        re.search(r"<style>(.*?)</style>", page, re.DOTALL),
    )
    assert policy and script and style
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].split(";"))
    hashes = [f"'sha256-{base64.b64encode(sha256(m[1].encode()).digest()).decode()}'" for m in (script, style)]
    assert rules == {
        "default-src": "'none'",
        "script-src": hashes[0],
        "style-src": hashes[1],
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_untrusted_text_lies_in_packed_data_or_escaped(page: str) -> None:
    assert "<img" not in page and "alert(1)</script>" not in page
    assert "&lt;/title&gt;&lt;script&gt;alert(1)" in page
    facts = json.loads(unpacked(page, "facts"))
    assert facts["title"] == TITLE
    assert any("title" in name and "[red]" in name for name in facts["names"].values())
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(json.dumps(facts, ensure_ascii=False))


def test_a_limit_is_kept_by_showing_less(tmp_path: Path, look: dict[str, Any]) -> None:
    with Recording(record(tmp_path / "a.kvrec", batches(200, requests_in=100))) as recording:

        def page(limit: int) -> str:
            return make_bounded_document(lambda bounds: make_film(recording.timeline, bounds), "long", look, limit)

        whole = page(8 << 20)
        limit = len(whole) * 2 // 3
        smaller = page(limit)
        assert len(smaller.encode()) <= limit
        facts = json.loads(unpacked(smaller, "facts"))
        assert facts["left_out"] and json.loads(unpacked(whole, "facts"))["left_out"] != facts["left_out"]
        with pytest.raises(Failure, match="raise it"):
            page(17_000)

"""A film → one HTML file that needs nothing else: no font, no script, no picture from anywhere.

The page's scripts and styles are files of their own beside this one. A content security policy names their hashes and
forbids all else, so that even a text that slipped through could load or run nothing. Data lies in the page deflated, as
base64, in blocks that no browser executes; the script puts texts on the page as text only.
"""

from __future__ import annotations

import base64
import html
import json
import zlib
from collections.abc import Callable
from hashlib import sha256
from importlib import resources
from typing import Any

from kvtop.failure import Failure
from kvtop.page.film import Bounds, Film

FEWEST_MOMENTS = 50
"""Fewer are no film."""

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="kvtop">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<noscript>This page plays a recording and needs JavaScript; it loads nothing from anywhere.</noscript>
<main id="player"></main>
<script id="facts" type="text/plain">{facts}</script>
<script id="cells" type="text/plain">{cells}</script>
<script>{script}</script>
</body>
</html>
"""


def make_document(film: Film, title: str, look: dict[str, Any]) -> str:
    """The page. ``title`` may hold anything; ``look``: colours and shares as the script expects them (see look.py)."""
    script, style = _asset("grid.js") + _asset("player.js"), _asset("player.css")
    facts = json.dumps({**film.facts, "title": title, "look": look}, separators=(",", ":"))
    return _PAGE.format(
        policy=(
            f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; base-uri 'none'; "
            "form-action 'none'"
        ),
        title=html.escape(title),
        style=style,
        facts=_packed(facts.encode()),
        cells=_packed(film.cells),
        script=script,
    )


def make_bounded_document(make: Callable[[Bounds], Film], title: str, look: dict[str, Any], limit_bytes: int) -> str:
    """The page with as many moments and events as ``limit_bytes`` hold.

    Raises:
        Failure: not even a few moments fit.
    """
    bounds = Bounds()
    while True:
        document = make_document(make(bounds), title, look)
        if len(document.encode()) <= limit_bytes:
            return document
        bounds = bounds.halved()
        if bounds.moments < FEWEST_MOMENTS:
            raise Failure(f"{FEWEST_MOMENTS} moments of this recording take more than the limit; raise it (--limit)")


def _asset(name: str) -> str:
    return resources.files("kvtop.page").joinpath(name).read_text("utf-8")


def _hash(inline: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(inline.encode()).digest()).decode()}'"


def _packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 9)).decode()

"""What a theme gives the page: its colours, the shares they are mixed by, and the owners' signs."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from kvtop.app.theme_files import Theme
from kvtop.view.colours import to_hex
from kvtop.view.owner_slots import GLYPHS


def look_of(theme: Theme) -> dict[str, Any]:
    """Plain data for JSON."""
    return {
        "dark": theme.dark,
        "colors": {field.name: to_hex(getattr(theme.colors, field.name)) for field in fields(theme.colors)},
        "shares": asdict(theme.shares),
        "owners": [to_hex(colour) for colour in theme.owners.colors],
        "glyphs": GLYPHS,
    }

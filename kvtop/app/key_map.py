"""Keys from the config file: which action listens to which, checked against the actions and keys there are.

What is wrong is a warning that names file, key and what is allowed; that action then keeps its own keys. Two actions
that can be meant at once never share a key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from textual.binding import Binding
from textual.keys import KEY_TO_UNICODE_NAME, Keys

from kvtop.app.actions import ACTIONS
from kvtop.app.actions.action import KEY_NAMES, Action
from kvtop.app.watch.actions import WATCH_ACTIONS

_NAMED = {key.value for key in Keys if not key.value.startswith("<")} | set(KEY_NAMES) | set(KEY_TO_UNICODE_NAME)
_WITH_MODIFIER = re.compile(r"(?:(?:ctrl|alt|shift)\+)+([a-z0-9_]+)")
_SEPARATORS = {",": "comma", " ": "space"}
"""What stands between keys in a binding."""
_EXPECTED = "expected a character or a name like f5, space, pageup, ctrl+x"


def key_map(wanted: Mapping[str, Sequence[str]], place: str) -> tuple[dict[str, str], list[str]]:
    """Action name → keys as bindings have them, and what was wrong. ``wanted``: action name → keys as people write
    them (``"."``, ``"f5"``, ``"ctrl+x"``); ``place`` names the file in warnings."""
    mapped: dict[str, str] = {}
    warnings: list[str] = []
    for name, keys in wanted.items():
        if name not in ACTIONS and name not in WATCH_ACTIONS:
            near = get_close_matches(name, {**ACTIONS, **WATCH_ACTIONS}, n=3)
            allowed = f"did you mean {' or '.join(near)}?" if near else "kvtop config --keys lists the actions"
            warnings.append(f"{place}: keys.{name}: there is no action of that name; {allowed}")
            continue
        names = [_key_name(key) for key in keys]
        unknown = [key for key, found in zip(keys, names, strict=True) if found is None]
        if unknown:
            warnings.append(f"{place}: keys.{name}: there is no key {unknown[0]!r}, {_EXPECTED}; ignored")
        else:
            mapped[name] = ",".join(found for found in names if found is not None)
    for name in list(mapped):
        clash = _clash(name, ACTIONS, mapped) or _clash(name, WATCH_ACTIONS, mapped)
        if clash is not None:
            key, other = clash
            warnings.append(f"{place}: keys.{name}: {key} is the key of {other}; give that one another key; ignored")
            del mapped[name]
    return mapped, warnings


def _clash(name: str, actions: Mapping[str, Action[Any]], mapped: Mapping[str, str]) -> tuple[str, str] | None:
    """A key of the action ``name`` and another one of ``actions``, those of one screen, that can be meant by it."""
    action = actions.get(name)
    if action is None:
        return None
    keys = mapped[name].split(",")
    for other in actions.values():
        if other is action or (other.panel and action.panel and other.panel != action.panel):
            continue
        for key in mapped.get(other.name, other.keys).split(","):
            if key in keys:
                return key, other.name
    return None


def _key_name(key: str) -> str | None:
    """A key as bindings name it; None when there is no such key."""
    if key in _SEPARATORS:
        return _SEPARATORS[key]
    if len(key) == 1 and key.isprintable():
        return next(iter(Binding.make_bindings([Binding(key, "")]))).key
    modified = _WITH_MODIFIER.fullmatch(key)
    known = key in _NAMED or (modified is not None and (len(modified[1]) == 1 or modified[1] in _NAMED))
    return key if known else None

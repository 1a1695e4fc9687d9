"""msgspec's complaints about data from outside, in our words: the key first, then what was wrong and what is expected.

"Expected `int`, got `str` - at `$.n`" reads "n: expected a whole number, got text".
"""

from __future__ import annotations

import re

_PLACE = re.compile(r"^(?P<what>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<field>.*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>.*)`")
_EXPECTED = re.compile(r"Expected `(?P<expected>.*)`, got `(?P<got>.*)`")
_BOUND = re.compile(r"Expected `(?:int|float)` (?P<sign><=|>=|<|>) (?P<limit>.*)")
_LENGTH = re.compile(r"Expected `(?P<kind>\w+)` of length (?P<sign><=|>=) (?P<limit>\d+)")
_SIGNS = {"<=": "at most", ">=": "at least", "<": "below", ">": "above"}
_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "list": "a list",
    "array": "a list",
    "dict": "an object",
    "object": "an object",
}


def in_our_words(message: str, whole: str = "request") -> str:
    """A message of msgspec.ValidationError; ``whole`` is what the outermost object is called."""
    found = _PLACE.match(message)
    what, path = (found["what"], (found["path"] or "").lstrip(".")) if found else (message, "")
    if missing := _MISSING.fullmatch(what):
        needed = f"every {whole} needs it" if not path else "it is needed there"
        return f"{path + '.' if path else ''}{missing['field']}: is missing, {needed}"
    if unknown := _UNKNOWN.fullmatch(what):
        return f"{path + '.' if path else ''}{unknown['field']}: is not known here"
    if expected := _EXPECTED.fullmatch(what):
        allowed = " or ".join(named(name) for name in expected["expected"].split(" | "))
        what = f"expected {allowed}, got {named(expected['got'])}"
    elif bound := _BOUND.fullmatch(what):
        what = f"expected {_SIGNS[bound['sign']]} {bound['limit']}"
    elif length := _LENGTH.fullmatch(what):
        unit = {"str": "characters", "object": "entries"}.get(length["kind"], "elements")
        what = f"expected {_SIGNS[length['sign']]} {length['limit']} {unit}"
    return f"{path}: {what}" if path else what


def named(type_name: str) -> str:
    """What a person calls a JSON type."""
    return _TYPES.get(type_name, type_name)

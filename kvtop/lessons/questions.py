"""The page of questions and answers: each with the lesson that shows it live."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

FILE = Path(__file__).parent / "questions.toml"


class Explained(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question, its answer, and the id of the lesson that shows it."""

    question: str
    answer: str
    lesson: str


def load_questions() -> list[Explained]:
    """All of them, in the order in which they build on each other."""
    return msgspec.convert(tomllib.loads(FILE.read_text(encoding="utf-8"))["explained"], list[Explained])

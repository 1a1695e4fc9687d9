"""The page of questions and answers: each with the scene that shows it live."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

FILE = Path(__file__).parent / "questions.toml"


class Explained(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question, its answer, and the lesson that shows it: its id, and the scene, counted from 1."""

    question: str
    answer: str
    lesson: str
    scene: int = 1


def load_questions() -> list[Explained]:
    """All of them, in the order in which they build on each other."""
    return msgspec.convert(tomllib.loads(FILE.read_text(encoding="utf-8"))["explained"], list[Explained])

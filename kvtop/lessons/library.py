"""The lessons there are: those that come with the program, and those in the user's own folder.

A file that is no lesson is listed with what is wrong with it, never an end to the others. A user's lesson of the same
name takes the place of ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from string import ascii_lowercase

from kvtop.lessons.lesson import Lesson, LessonError, read_lesson

LETTERS = "".join(letter for letter in ascii_lowercase if letter not in "jkq")
"""By which the list on the screen opens lessons, in their order; j, k and q do something else there."""
OWN_FOLDER = Path(__file__).parent / "texts"


@dataclass(frozen=True, slots=True)
class Library:
    """``lessons`` in their order; ``faults`` are messages about files that are no lessons."""

    lessons: list[Lesson]
    faults: list[str] = field(default_factory=list)

    def find(self, lesson_id: str) -> Lesson | None:
        return next((lesson for lesson in self.lessons if lesson.id == lesson_id), None)

    def at(self, place: str) -> Lesson | None:
        """The lesson with that number, from 1, or that letter in the list."""
        at = int(place) - 1 if place.isdecimal() and len(place) < 5 else LETTERS.find(place) if len(place) == 1 else -1
        return self.lessons[at] if 0 <= at < len(self.lessons) else None


def load_library(folders: Iterable[Path] = ()) -> Library:
    """Our lessons and those in ``folders``; a later one replaces an earlier one of the same id."""
    lessons: dict[str, Lesson] = {}
    faults: list[str] = []
    for folder in (OWN_FOLDER, *folders):
        for path in sorted(folder.glob("*.toml")):
            try:
                lessons[path.stem] = read_lesson(path)
            except LessonError as error:
                faults.append(str(error))
    return Library(sorted(lessons.values(), key=lambda lesson: (lesson.order, lesson.id)), faults)

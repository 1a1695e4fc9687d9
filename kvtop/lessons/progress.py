"""How far a student came: one small JSON file in the user's data folder, written whole or not at all.

A file that cannot be read is as good as none: the lessons begin anew, and nothing is lost but the place.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec


class LessonProgress(msgspec.Struct, frozen=True):
    """Where a lesson was left, and whether its question was ever answered rightly."""

    position: int = 0
    answered: bool = False


class Progress:
    """Progress by lesson id, kept in ``path``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._of = msgspec.json.decode(path.read_bytes(), type=dict[str, LessonProgress])
        except (OSError, msgspec.MsgspecError):
            self._of = {}

    def of(self, lesson_id: str) -> LessonProgress:
        return self._of.get(lesson_id, LessonProgress())

    def keep(self, lesson_id: str, progress: LessonProgress) -> None:
        """Remember and write.

        Raises:
            OSError: the file cannot be written; what was there is unchanged.
        """
        self._of[lesson_id] = progress
        self._path.parent.mkdir(parents=True, exist_ok=True)
        staged = self._path.with_suffix(".new")
        staged.write_bytes(msgspec.json.format(msgspec.json.encode(self._of)))
        os.replace(staged, self._path)


def progress_path() -> Path:
    """Where progress is kept; need not exist."""
    import platformdirs

    return platformdirs.user_data_path("kvtop") / "lessons.json"

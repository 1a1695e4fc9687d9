"""The folder of models on this machine: what is in it, and how something gets in whole or not at all.

A model is a folder that ``from_pretrained`` loads, with a ``kvtop.json`` that says where it came from. It is made in a
staging folder beside its place and renamed into it as the last act, under a lock, so a reader sees all of a model or
nothing of it. What an interrupted pull left in staging is removed by the next one, which holds the lock by then.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kvtop.failure import Failure
from kvtop.models.progress import Report

ORIGIN_FILE = "kvtop.json"


@dataclass(frozen=True, slots=True)
class Installed:
    """One model of the store. ``origin`` is a line for people; empty for a folder somebody put there by hand."""

    name: str
    path: Path
    size_bytes: int
    origin: str
    notes: tuple[str, ...]


class Store:
    """``root`` need not exist; it is made when the first model comes."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def place(self, name: str) -> Path:
        """Where the model of this name lies or would lie; a hub id's slash becomes ``--``."""
        return self.root / name.replace("/", "--")

    def get(self, name: str) -> Path | None:
        """The model's folder, or None while it is not there."""
        place = self.place(name)
        return place if (place / "config.json").is_file() else None

    def installed(self) -> list[Installed]:
        """All models of the store, by name."""
        if not self.root.is_dir():
            return []
        return [
            _read(folder)
            for folder in sorted(self.root.iterdir())
            if not folder.name.startswith(".") and (folder / "config.json").is_file()
        ]

    @contextmanager
    def staging(self, name: str, report: Report) -> Iterator[Path | None]:
        """A folder to build the model in; on a clean exit it becomes the model. None: it is already there.

        Two at once are safe: the second waits for the first and finds its work done.

        Raises:
            Failure: the store cannot be written.
        """
        from filelock import FileLock, Timeout

        place = self.place(name)
        left_over = self.root / ".staging" / place.name
        staged = left_over / str(os.getpid())
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.root / f".lock-{place.name}")
            try:
                lock.acquire(timeout=0)
            except Timeout:
                report(f"waiting for another pull of {name}", 0, 0)
                lock.acquire()
        except OSError as error:
            raise Failure(f"cannot write to the model folder {self.root}: {error}; set KVTOP_MODEL_DIR") from error
        try:
            if self.get(name) is not None:
                yield None
                return
            shutil.rmtree(left_over, ignore_errors=True)
            staged.mkdir(parents=True)
            yield staged
            os.rename(staged, place)
        except OSError as error:
            raise Failure(f"cannot write {name} to {self.root}: {error}") from error
        finally:
            shutil.rmtree(left_over, ignore_errors=True)
            lock.release()


def write_origin(folder: Path, name: str, origin: str, notes: list[str]) -> None:
    """Say in the model's folder where it came from, and what is known to be missing or changed."""
    text = json.dumps({"name": name, "origin": origin, "notes": notes}, indent=2)
    (folder / ORIGIN_FILE).write_text(text + "\n", encoding="utf-8")


def _read(folder: Path) -> Installed:
    size_bytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    try:
        origin = json.loads((folder / ORIGIN_FILE).read_text(encoding="utf-8"))
        return Installed(origin["name"], folder, size_bytes, origin["origin"], tuple(origin["notes"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Installed(folder.name, folder, size_bytes, "", ())

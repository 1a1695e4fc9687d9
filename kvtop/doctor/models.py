"""Is the model that would run on this machine, and is there a place to put one?"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from rich.filesize import decimal

from kvtop.doctor.finding import Finding
from kvtop.failure import Failure
from kvtop.models.catalogue import KNOWN
from kvtop.models.resolve import kind_of_model
from kvtop.models.store import Store

PULL_TIMES = 3
"""A pull takes up to this many times a model's size while it runs: the download, what is unpacked, what is kept."""


def model_finding(model: str, store: Store) -> Finding:
    """``model`` as the setting has it: a known name, a folder, a .gguf file or a hub id."""
    try:
        kind = kind_of_model(model)
    except Failure as failure:
        return Finding("model", "fail", str(failure), "give another with --model, or see kvtop model list")
    if kind == "folder":
        return Finding("model", "ok", f"{model}, a folder")
    if kind == "file":
        return Finding("model", "ok", f"{model}, converted once to bf16 safetensors when it is first used")
    if store.get(model) is None:
        return Finding("model", "warn", f"{model} is not here", f"kvtop model pull {model}; a first start does it too")
    return Finding("model", "ok", f"{model} is here")


def store_finding(store: Store, missing_bytes: int) -> Finding:
    """``missing_bytes``: the size of a model that is still to be pulled; 0 when none is, or it is unknown."""
    installed = store.installed()
    size = sum(model.size_bytes for model in installed)
    place = _nearest_folder(store.root)
    free = shutil.disk_usage(place).free
    count = f"{len(installed)} model{'' if len(installed) == 1 else 's'}"
    value = f"{store.root}: {count}, {decimal(size)}, {decimal(free)} free on the disk"
    figures = {"models": float(len(installed)), "size_bytes": float(size), "free_bytes": float(free)}
    if not os.access(place, os.W_OK | os.X_OK):
        return Finding("model folder", "warn", f"{value}; it cannot be written", "set KVTOP_MODEL_DIR", figures)
    if free < PULL_TIMES * missing_bytes:
        advice = f"free {decimal(PULL_TIMES * missing_bytes)} for the pull, or set KVTOP_MODEL_DIR"
        return Finding("model folder", "warn", value, advice, figures)
    return Finding("model folder", "ok", value, figures=figures)


def missing_bytes(model: str, store: Store) -> int:
    """Weights of ``model`` that are not on this machine yet, as far as kvtop knows the model."""
    return KNOWN[model].weight_bytes if model in KNOWN and store.get(model) is None else 0


def _nearest_folder(path: Path) -> Path:
    """``path``, or what of it exists."""
    return next(place for place in (path, *path.parents) if place.is_dir())

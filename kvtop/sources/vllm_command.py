"""How a vLLM is started so that kvtop can watch it: which Python has one, what is on its command line, where it speaks.

vLLM's own flags pass through untouched, after ours, so that they win. Nothing of vLLM is imported here: its Python is
asked what it has.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvtop.exporter.private import private_folder
from kvtop.exporter.vllm_reader import NotExportable, check_version
from kvtop.failure import Failure, WrongUsage

ASK_SECONDS = 30
_WHAT_IT_HAS = """
import importlib.metadata as m, importlib.util as u, json
owners = m.packages_distributions().get("vllm") if u.find_spec("vllm") else None
plugins = [plugin.name for plugin in m.entry_points(group="vllm.general_plugins")]
print(json.dumps([m.version(owners[0]) if owners else "", plugins]))
"""

FLAGS = {
    "block_size": "--block-size",
    "num_blocks": "--num-gpu-blocks-override",
    "kv_memory": "--kv-cache-memory-bytes",
    "max_num_seqs": "--max-num-seqs",
    "max_num_batched_tokens": "--max-num-batched-tokens",
    "max_model_len": "--max-model-len",
    "dtype": "--dtype",
}
"""Our settings that vLLM has too, under its names. Its pool has one block more than can be used."""
_NOT_HERE = ("--headless", "--uds", "--ssl-keyfile", "--ssl-certfile")
"""Flags under which kvtop could not reach the server it starts."""


def check_python(python: str) -> None:
    """Ask a Python whether it has a vLLM that can be watched.

    Raises:
        Failure: it has not; the message says what to do.
    """
    try:
        asked = subprocess.run([python, "-c", _WHAT_IT_HAS], capture_output=True, text=True, timeout=ASK_SECONDS)
        version, plugins = json.loads(asked.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        raise Failure(f"{python} is no Python that answers ({type(error).__name__}); see --vllm-python") from error
    if not version:
        raise Failure(
            f"{python} has no vLLM: name a Python that has one with --vllm-python, or pip install vllm kvtop-live there"
        )
    try:
        check_version(version)
    except NotExportable as error:
        raise Failure(f"{python}: kvtop's exporter is no use there: {error}") from error
    if "kvtop" not in plugins:
        raise Failure(
            f"{python} has vLLM but not kvtop, whose exporter tells the tables: {python} -m pip install kvtop-live"
        )


@dataclass(frozen=True, slots=True)
class VllmPlan:
    """What is to be started, as often as need be."""

    python: str
    model: str
    """A folder, a file, or a hub id."""
    ours: tuple[str, ...] = ()
    """Flags of vLLM's that our settings stand for."""
    theirs: tuple[str, ...] = ()
    """vLLM's flags as they were given."""
    rank: int = 0
    """The data-parallel rank that is shown."""
    control: bool = False
    """The server may be paused and stepped."""

    @property
    def ranks(self) -> int:
        """Data-parallel ranks, by the flags."""
        told = _value_of(self.theirs, "--data-parallel-size", "-dp")
        return int(told) if told and told.isdecimal() else 1

    def check(self) -> None:
        """Raise WrongUsage where the flags do not go together."""
        for flag in _NOT_HERE:
            if any(word == flag or word.startswith(f"{flag}=") for word in self.theirs):
                raise WrongUsage(f"{flag}: kvtop reaches the vLLM it starts over plain HTTP on this machine only")
        if self.rank >= self.ranks:
            raise WrongUsage(f"--rank is {self.rank}, and there are {self.ranks} data-parallel ranks, from 0 on")

    def launch(self) -> VllmLaunch:
        """Choose a port and make a folder for one start.

        Raises:
            PermissionError: the folder cannot be ours alone.
        """
        folder = private_folder() / f"live-{uuid.uuid4().hex[:12]}"
        folder.mkdir(mode=0o700)
        port = _value_of(self.theirs, "--port") or str(_free_port())
        host = _value_of(self.theirs, "--host") or "127.0.0.1"
        name = Path(self.model).name if Path(self.model).exists() else self.model
        command = (
            *(self.python, "-m", "vllm.entrypoints.openai.api_server", "--model", self.model),
            *("--host", "127.0.0.1", "--port", port, "--served-model-name", name),
            *self.ours,
            *self.theirs,
        )
        environment = dict(os.environ) | {
            "KVTOP_EXPORT": f"ipc://{folder}/tables",
            "KVTOP_CONTROL": "1" if self.control else "0",
        }
        if plugins := environment.get("VLLM_PLUGINS"):  # where only some are wanted, ours is one of them
            environment["VLLM_PLUGINS"] = f"{plugins},kvtop"
        reached = "127.0.0.1" if host in ("0.0.0.0", "::", "localhost") else host
        return VllmLaunch(
            command=command,
            environment=environment,
            folder=folder,
            url=f"http://{f'[{reached}]' if ':' in reached else reached}:{port}",
            endpoint=f"ipc://{folder}/tables-{self.rank}",
            headers=_headers(self.theirs, environment, self.rank if self.ranks > 1 else None),
        )


@dataclass(frozen=True, slots=True)
class VllmLaunch:
    """One start."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    """Its sockets are here; it goes with the server."""
    url: str
    endpoint: str
    """Where the exporter of the rank that is shown sends."""
    headers: Mapping[str, str]
    """To go along with each request."""


def _headers(flags: Sequence[str], environment: Mapping[str, str], rank: int | None) -> dict[str, str]:
    """The key that the server asks for, and the rank that is to take our requests: the one that is shown."""
    headers = {}
    if key := _value_of(flags, "--api-key") or environment.get("VLLM_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    if rank is not None:
        headers["X-data-parallel-rank"] = str(rank)
    return headers


def _value_of(flags: Sequence[str], *names: str) -> str | None:
    """The value of a flag, given as ``--flag value`` or ``--flag=value``; the last one counts. None: not given."""
    found = None
    for at, word in enumerate(flags):
        flag, equals, value = word.partition("=")
        if flag in names:
            found = value if equals else flags[at + 1] if at + 1 < len(flags) else None
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

"""The folder in which sockets lie that nobody but this user may open, and where in it a server's are.

The kernel keeps others out: the folder is this user's, with mode 0700, and is refused when it is anything else. So
there is no password that could leak, and no port that another user of the machine could connect to.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path


def private_folder() -> Path:
    """``/tmp/kvtop-UID``, made if need be.

    Raises:
        PermissionError: there is something of that name that others can open or own.
    """
    folder = Path("/tmp", f"kvtop-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(f"{folder} is not a folder that only you can open; remove it, or chmod 700 it")
    return folder


def control_path(endpoint: str) -> Path:
    """Where the exporter that sends at ``endpoint`` takes commands: beside its socket, or by its port's number.

    Raises:
        PermissionError: see :func:`private_folder`.
    """
    if endpoint.startswith("ipc://"):
        tables = Path(endpoint.removeprefix("ipc://"))
        return tables.with_name(f"{tables.name}.control")
    return private_folder() / f"{endpoint.rpartition(':')[2]}.control"

"""The packages of the extras ``[engine]`` and ``[serve]``, which a watcher does without, and the line that says that
they are missing."""

from __future__ import annotations

import importlib.util

from kvtop.failure import Failure

PACKAGES = (
    *("torch", "transformers", "triton", "gguf", "accelerate", "safetensors", "tokenizers"),
    *("huggingface_hub", "filelock"),
)
"""Import names of ``[engine]``."""
SERVE_PACKAGES = ("starlette", "uvicorn")
"""Import names of ``[serve]``."""


def require(what: str, *packages: str) -> None:
    """Raise Failure when one of ``packages`` is not installed; ``what`` begins the sentence. Imports none of them."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise Failure(missing_words(what, *missing))


def require_serve() -> None:
    """Raise Failure when what an HTTP server needs is not installed."""
    require("serving", *SERVE_PACKAGES)


def missing_words(what: str, *missing: str) -> str:
    """What to install."""
    extra = "engine,serve" if missing[0] in SERVE_PACKAGES else "engine"
    return f"{what} needs {', '.join(missing)}, which is not installed: pip install 'kvtop-live[{extra}]'"

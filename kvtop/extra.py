"""The packages of the extras, which a watcher does without, and the line that says which to install."""

from __future__ import annotations

import importlib.util

from kvtop.failure import Failure

EXTRAS = {
    "engine": (
        *("torch", "transformers", "triton", "gguf", "accelerate", "safetensors", "tokenizers"),
        *("huggingface_hub", "filelock"),
    ),
    "engine,serve": ("starlette", "uvicorn"),
    "web": ("textual_serve", "aiohttp"),
}
"""Extra → import names."""


def extra_of(module: str) -> str:
    """The extra that brings ``module``; empty: none does."""
    package = module.partition(".")[0]
    return next((extra for extra, packages in EXTRAS.items() if package in packages), "")


def require(what: str, *packages: str) -> None:
    """Raise Failure when one of ``packages``, all of one extra, is not installed; ``what`` begins the sentence. Imports
    none of them."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise Failure(missing_words(what, *missing))


def require_serve() -> None:
    """Raise Failure when what an HTTP server needs is not installed."""
    require("serving", *EXTRAS["engine,serve"])


def missing_words(what: str, *missing: str) -> str:
    """What to install."""
    extra = extra_of(missing[0])
    return f"{what} needs {', '.join(missing)}, which is not installed: pip install 'kvtop-live[{extra}]'"

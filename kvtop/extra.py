"""The packages of the extra ``[engine]``, which a watcher does without, and the line that says they are missing."""

from __future__ import annotations

import importlib.util

from kvtop.failure import Failure

PACKAGES = (
    *("torch", "transformers", "triton", "gguf", "accelerate", "safetensors", "tokenizers"),
    *("huggingface_hub", "filelock"),
)
"""Import names."""


def require(what: str, *packages: str) -> None:
    """Raise Failure when one of ``packages`` is not installed; ``what`` begins the sentence. Imports none of them."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise Failure(missing_words(what, *missing))


def missing_words(what: str, *missing: str) -> str:
    """What to install."""
    return f"{what} needs {', '.join(missing)}, which is not installed: pip install 'kvtop-live[engine]'"

"""A GGUF file → a folder of bf16 safetensors, config and tokenizer.

Reading a GGUF takes half a minute of unpacking each time, safetensors a second, so it is done once. The values are those
of the quantised file: nothing is won back. The tokenizer is rebuilt from the file's vocabulary and merges; how text is
split before merging stands there only as a name, and what is not carried over is returned as notes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kvtop.failure import Failure
from kvtop.models.progress import Report


def convert_gguf(gguf: Path, target: Path, report: Report) -> list[str]:
    """Write the model in ``gguf`` to the folder ``target``; returns notes on what the file did not carry.

    Raises:
        Failure: not a GGUF file, an architecture transformers cannot read, or a packet that is missing.
    """
    with gguf.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise Failure(f"{gguf}: is not a GGUF file (it does not begin with GGUF)")
    report(f"reading {gguf.name}", 0, 0)
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    except ImportError as error:
        raise Failure(f"converting a GGUF file needs {error.name}; install kvtop-live[engine]") from error
    try:
        with _quiet_transformers():
            tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
            report(f"converting {gguf.name} to bf16 safetensors", 0, 0)
            model = AutoModelForCausalLM.from_pretrained(
                gguf.parent,
                gguf_file=gguf.name,
                dtype=torch.bfloat16,
                quantization_config=GgufConfig(dequantize=True),
            )
            notes = _restore_text_split(tokenizer, _text_split_name(gguf))
            tokenizer.model_max_length = model.config.max_position_embeddings
            report("writing safetensors", 0, 0)
            model.save_pretrained(target)
            tokenizer.save_pretrained(target)
    except (ValueError, KeyError, ImportError, NotImplementedError, RuntimeError) as error:
        raise Failure(f"{gguf}: transformers cannot read it ({type(error).__name__}: {error})") from error
    return notes


def _text_split_name(gguf: Path) -> str:
    """The name under which the file says how its text is split before merging; empty when it says nothing."""
    from gguf import GGUFReader

    entry = GGUFReader(gguf).get_field("tokenizer.ggml.pre")
    return str(entry.contents()) if entry else ""


def _restore_text_split(tokenizer: Any, name: str) -> list[str]:
    """Set the split that transformers does not know by name, in place; returns notes."""
    from tokenizers import pre_tokenizers

    notes = []
    backend = tokenizer.backend_tokenizer
    byte_level = isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel)
    if name == "smollm":
        # SmolLM's tokenizer takes every digit for itself before anything else; "a  1" has one token for both blanks.
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )
    elif byte_level and name not in {"", "default", "gpt-2"}:
        notes.append(f"text is split as GPT-2 does; the file asks for {name!r}, so some token ids may differ")
    if not tokenizer.chat_template:
        notes.append("the file carries no chat template")
    return notes


@contextmanager
def _quiet_transformers() -> Iterator[None]:
    """No bars and no advice from transformers for a while: progress is reported our way."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()

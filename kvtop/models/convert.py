"""A GGUF file → a folder of bf16 safetensors, config and tokenizer.

Reading a GGUF takes half a minute of unpacking each time, safetensors a second, so it is done once, in a process of its
own: it can be interrupted at any moment, and its bars, advice and memory stay out of ours. The values are those of the
quantised file; nothing is won back. The tokenizer is rebuilt from the file's vocabulary and merges; how text is split
before merging stands there only as a name, and what is not carried over is returned as notes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from kvtop.extra import require
from kvtop.failure import Failure
from kvtop.models.child import run_child
from kvtop.models.progress import Report


def convert_gguf(gguf: Path, target: Path, report: Report) -> list[str]:
    """Write the model in ``gguf`` to the existing folder ``target``; returns notes on what the file did not carry.

    Raises:
        Failure: not a GGUF file, an architecture transformers cannot read, or a package that is missing.
    """
    with gguf.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise Failure(f"{gguf}: is not a GGUF file (it does not begin with GGUF)")
    require("converting a GGUF file", "torch", "transformers", "gguf", "accelerate", "safetensors")
    ended = run_child(
        "kvtop.models.convert",
        [str(gguf), str(target)],
        folder=target,
        total_bytes=0,
        detail=f"converting {gguf.name} to bf16 safetensors",
        report=report,
    )
    if ended.code:
        reason = (ended.stderr.strip().splitlines() or [f"exit code {ended.code}"])[-1]
        raise Failure(f"{gguf}: transformers cannot read it ({reason})")
    notes: list[str] = json.loads(ended.stdout)
    return notes


def _convert(gguf: Path, target: Path) -> list[str]:
    """The work itself; runs in the child process."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
    )
    notes = _restore_text_split(tokenizer, _text_split_name(gguf))
    tokenizer.model_max_length = model.config.max_position_embeddings
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
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
    if name == "smollm":
        # SmolLM takes every digit for itself before anything else, so that "a  1" has one token for both blanks.
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )
    elif isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel) and name not in {"", "default", "gpt-2"}:
        notes.append(f"text is split as GPT-2 does; the file asks for {name!r}, so some token ids may differ")
    if not tokenizer.chat_template:
        notes.append("the file carries no chat template")
    return notes


if __name__ == "__main__":
    print(json.dumps(_convert(Path(sys.argv[1]), Path(sys.argv[2]))))  # noqa: T201 - the answer to the parent process

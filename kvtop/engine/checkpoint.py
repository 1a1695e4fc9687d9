"""Reading a model folder: configuration, tokenizer, weights, and what follows from them.

One idea: transformers raises many kinds of errors for what is wrong with a folder; each becomes one line that names
the folder and says what was expected. Nothing here knows of paged KV or asks a server.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from kvtop.engine.memory import free_bytes
from kvtop.engine.pool_size import format_bytes
from kvtop.failure import Failure, first_line


def read_config(folder: Path) -> Any:
    if not folder.is_dir():
        raise Failure(f"{folder}: there is no such model folder")
    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # transformers raises many kinds for a bad config
        raise Failure(f"{folder}: is not a model transformers can read ({first_line(error)})") from error


def read_tokenizer(folder: Path) -> Any:
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # as many kinds
        raise Failure(
            f"{folder}: has no tokenizer that can be read ({first_line(error)}); expected tokenizer.json beside the "
            "weights"
        ) from error


def read_weights(folder: Path, config: Any, dtype: str, device: torch.device) -> Any:
    weights = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    if weights > free_bytes(device):
        raise Failure(
            f"{folder.name}: its weights take {format_bytes(weights)}, {format_bytes(free_bytes(device))} are free on "
            f"{device.type}; choose a smaller model"
        )
    try:
        model = AutoModelForCausalLM.from_pretrained(
            folder,
            config=config,
            dtype="auto" if dtype == "auto" else getattr(torch, dtype),
            attn_implementation="eager",
            local_files_only=True,
        )
    except Exception as error:
        raise Failure(f"{folder}: its weights cannot be loaded ({first_line(error)})") from error
    if dtype == "auto" and device.type == "cpu" and model.dtype == torch.float16:
        model = model.float()
    try:
        model = model.to(device)
    except torch.OutOfMemoryError as error:
        raise Failure(f"{folder.name}: its weights do not fit on {device.type}; choose a smaller model") from error
    return model.eval().requires_grad_(False)


def choose_max_model_len(config: Any, wanted: int | None) -> int:
    """What was asked for, else what the model was made for.

    Raises:
        Failure: more was asked for than the model can place.
    """
    text_config = config.get_text_config()
    longest = getattr(text_config, "max_position_embeddings", None)
    switch = _rope_switch(getattr(text_config, "rope_parameters", None) or {})
    if switch is not None and (longest is None or switch < longest):
        if wanted is not None and wanted > switch:
            raise Failure(
                f"--max-model-len {wanted}: beyond {switch} positions {config.model_type} models change their rotary "
                "factors for the whole batch at once, which paged KV does not carry; give at most that"
            )
        longest = switch
    if longest is None:
        return wanted or 2048
    if wanted is not None and wanted > longest:
        raise Failure(f"--max-model-len {wanted}: the model is made for {longest} positions; give at most that")
    return wanted or longest


def _rope_switch(parameters: dict[str, Any]) -> int | None:
    """The position beyond which long-context rotary factors replace the short ones, for all tokens of a batch at once;
    None where none do. Parameters may be those of several layer types."""
    several = [value for value in parameters.values() if isinstance(value, dict)]
    if several:
        switches = [switch for switch in map(_rope_switch, several) if switch is not None]
        return min(switches, default=None)
    if parameters.get("rope_type") not in ("longrope", "dynamic"):
        return None
    return parameters.get("original_max_position_embeddings")


def vocab_size(model: Any) -> int:
    size: int = model.get_input_embeddings().num_embeddings
    return size


def eos_token_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """What ends an answer: the ids the generation config names, and the tokenizer's own."""
    named = model.generation_config.eos_token_id if model.generation_config else None
    ids = [named] if isinstance(named, int) else list(named or [])
    return frozenset([*ids, *([] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id])])

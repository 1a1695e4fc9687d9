"""A local .gguf file becomes a folder that from_pretrained loads, once for each content."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvtop.failure import Failure
from kvtop.models.resolve import resolve_model

pytestmark = pytest.mark.slow  # each conversion is a process that imports torch and transformers

HIDDEN, LAYERS, WORDS = 32, 1, ["<s>", "</s>", *(chr(code) for code in range(33, 127)), "Ġ", "ab"]


def write_gguf(path: Path, *, architecture: str = "llama", text_split: str = "gpt-2", seed: int = 0) -> dict[str, Any]:
    """A llama of one layer with a byte-level vocabulary of printable characters; returns its tensors."""
    from gguf import GGUFWriter

    rng = np.random.default_rng(seed)
    writer = GGUFWriter(path, architecture)
    writer.add_block_count(LAYERS)
    writer.add_context_length(64)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(48)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(len(WORDS))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(text_split)
    writer.add_token_list(WORDS)
    writer.add_token_types([3, 3] + [1] * (len(WORDS) - 2))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    shapes = {
        "token_embd.weight": (len(WORDS), HIDDEN), "output_norm.weight": (HIDDEN,),
        "blk.0.attn_norm.weight": (HIDDEN,), "blk.0.ffn_norm.weight": (HIDDEN,),
        "blk.0.attn_q.weight": (HIDDEN, HIDDEN), "blk.0.attn_k.weight": (16, HIDDEN),
        "blk.0.attn_v.weight": (16, HIDDEN), "blk.0.attn_output.weight": (HIDDEN, HIDDEN),
        "blk.0.ffn_gate.weight": (48, HIDDEN), "blk.0.ffn_up.weight": (48, HIDDEN),
        "blk.0.ffn_down.weight": (HIDDEN, 48),
    }  # fmt: skip
    tensors = {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors


def test_a_gguf_is_converted_once_for_its_content_and_names_what_it_lacked(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    gguf, store = tmp_path / "tiny.gguf", tmp_path / "models"
    tensors = write_gguf(gguf, text_split="unheard-of")
    reports: list[str] = []

    def resolve() -> Path:
        reports.clear()
        return resolve_model(str(gguf), model_dir=str(store), report=lambda detail, done, total: reports.append(detail))

    folder = resolve()
    assert folder.parent == store
    assert folder.name.startswith("tiny-")
    assert "converting tiny.gguf to bf16 safetensors" in reports
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    assert (config["model_type"], config["num_key_value_heads"], config["dtype"]) == ("llama", 2, "bfloat16")
    assert "quantization_config" not in config
    notes = json.loads((folder / "kvtop.json").read_text())["notes"]
    assert notes == [
        "text is split as GPT-2 does; the file asks for 'unheard-of', so some token ids may differ",
        "the file carries no chat template",
    ]
    converted = load_file(folder / "model.safetensors")
    value_weights = torch.from_numpy(tensors["blk.0.attn_v.weight"]).bfloat16()
    assert torch.equal(converted["model.layers.0.self_attn.v_proj.weight"], value_weights)

    assert resolve() == folder
    assert reports and set(reports) == {"checking tiny.gguf"}

    write_gguf(gguf, seed=1)
    assert resolve() != folder


def test_an_architecture_transformers_cannot_read_is_one_line(tmp_path: Path) -> None:
    gguf = tmp_path / "odd.gguf"
    write_gguf(gguf, architecture="nonesuch")
    with pytest.raises(Failure, match=r"odd\.gguf: transformers cannot read it \(.*nonesuch") as caught:
        resolve_model(str(gguf), model_dir=str(tmp_path / "models"))
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "models").glob("[!.]*"))


def test_a_cut_off_gguf_is_one_line(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.gguf", tmp_path / "cut.gguf"
    write_gguf(whole)
    cut.write_bytes(whole.read_bytes()[:3000])
    with pytest.raises(Failure, match=r"cut\.gguf: transformers cannot read it"):
        resolve_model(str(cut), model_dir=str(tmp_path / "models"))

"""Loading a folder: what comes out of it, and one clear line for whatever is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from kvtop.engine import checkpoint, loading
from kvtop.engine.loading import LoadedModel, load_model
from kvtop.engine.requests import Request
from kvtop.failure import Failure
from kvtop.settings import EngineSettings
from tests.engine.plan_maker import PlanMaker
from tests.engine.tiny_models import REFUSED, SERVED, VOCABULARY, make_model
from tests.engine.tiny_tokenizers import byte_level

SMALL = EngineSettings(num_blocks=20, block_size=4, device="cpu")


def save(folder: Path, config: Any, dtype: torch.dtype = torch.float32) -> Path:
    make_model(config, dtype).save_pretrained(folder)
    byte_level().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("models") / "tiny-llama", SERVED["Llama"]())


def failure(folder: Path, **changes: Any) -> str:
    with pytest.raises(Failure) as caught:
        load_model(folder, EngineSettings(**{"num_blocks": 20, "device": "cpu", **changes}))
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_loaded_model_knows_what_an_engine_must_know(llama: Path) -> None:
    stages: list[tuple[str, float, float]] = []
    loaded = load_model(llama, SMALL, lambda *stage: stages.append(stage))
    assert loaded.name == "tiny-llama"
    assert (loaded.device, loaded.dtype, loaded.max_model_len) == ("cpu", "float32", 128)
    assert loaded.pool.kv_bytes_per_token == 2 * 4 * 2 * 8 * 4
    assert (loaded.pool.num_blocks, loaded.swap_blocks) == (20, 0)
    assert loaded.vocab_size == VOCABULARY
    assert loaded.eos_token_ids == {2, byte_level().eos_token_id}
    assert [stage for stage, _, _ in stages] == [
        "reading the tokenizer",
        "loading the weights",
        "checking the model",
        "allocating the KV pool",
        "ready",
    ]
    assert stages[-1][1] == stages[-1][2]


def answer(loaded: LoadedModel, prompt: list[int], count: int) -> list[int]:
    maker = PlanMaker(loaded.pool.num_blocks, loaded.pool.block_size)
    sequence = maker.sequence(prompt)
    for _ in range(count):
        result = loaded.runner.run(maker.plan(maker.schedule(sequence, draws=1)))
        sequence.tokens.append(result.sampled[0][0].token)
    return sequence.tokens[len(prompt) :]


def test_a_loaded_model_answers_as_generate_does(llama: Path) -> None:
    loaded = load_model(llama, SMALL)
    plain = transformers.AutoModelForCausalLM.from_pretrained(llama)
    prompt = [5, 17, 3, 88, 41]
    expected = plain.generate(torch.tensor([prompt]), max_new_tokens=12, do_sample=False, eos_token_id=None)
    assert answer(loaded, prompt, 12) == expected[0, 5:].tolist()


def test_text_goes_in_and_out_through_the_codec(llama: Path) -> None:
    codec = load_model(llama, SMALL).codec
    tokens = codec.encode("physical blocks")
    stream = codec.stream(Request(id="r", prompt="x", stop=["bl"]))
    assert "".join(stream.push(token) for token in tokens) == "physical "
    assert stream.stopped == "bl"


@pytest.mark.parametrize(
    ("checkpoint", "asked", "loaded"),
    [
        (torch.bfloat16, "auto", "bfloat16"),
        (torch.float16, "auto", "float32"),
        (torch.float32, "auto", "float32"),
        (torch.float32, "bfloat16", "bfloat16"),
        (torch.bfloat16, "float16", "float16"),
    ],
)
def test_the_dtype_is_the_checkpoints_but_never_half_on_a_cpu_unless_asked_for(
    tmp_path: Path, checkpoint: torch.dtype, asked: str, loaded: str
) -> None:
    folder = save(tmp_path / "model", SERVED["Llama"](), checkpoint)
    assert load_model(folder, EngineSettings(num_blocks=8, device="cpu", dtype=asked)).dtype == loaded


def test_a_missing_folder_says_so(tmp_path: Path) -> None:
    assert failure(tmp_path / "nowhere").endswith("there is no such model folder")


def test_a_folder_that_is_no_model_says_so(tmp_path: Path) -> None:
    assert "is not a model transformers can read" in failure(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "abacus"}')
    assert "is not a model transformers can read" in failure(tmp_path)
    (tmp_path / "config.json").write_text("not json")
    assert "is not a model transformers can read" in failure(tmp_path)


def test_a_model_without_tokenizer_says_what_is_missing(tmp_path: Path) -> None:
    make_model(SERVED["Llama"]()).save_pretrained(tmp_path)
    message = failure(tmp_path)
    assert "has no tokenizer that can be read" in message
    assert "expected tokenizer.json" in message


def test_a_model_without_weights_says_so(tmp_path: Path, llama: Path) -> None:
    for file in llama.iterdir():
        if file.suffix != ".safetensors":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    assert "its weights cannot be loaded" in failure(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 100)
    assert "its weights cannot be loaded" in failure(tmp_path)


def test_an_unsupported_family_is_refused_by_name(tmp_path: Path) -> None:
    assert failure(save(tmp_path, REFUSED["Mamba"]())).startswith(
        "mamba models (MambaForCausalLM) cannot run on paged KV"
    )


def test_cuda_asked_for_and_absent_says_what_to_use(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "use --device cpu, or auto" in failure(llama, device="cuda")
    assert str(loading.choose_device("auto")) == "cpu"


def test_no_memory_for_weights_or_pool_says_how_much_there_is(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no memory for the KV pool: --num-blocks 1000000000 takes" in failure(llama, num_blocks=10**9)
    monkeypatch.setattr(checkpoint, "free_bytes", lambda device: 10_000)
    assert "its weights take" in failure(llama)


def test_a_length_beyond_the_models_positions_is_refused(llama: Path) -> None:
    assert load_model(llama, EngineSettings(num_blocks=20, max_model_len=64)).max_model_len == 64
    assert (
        failure(llama, max_model_len=129)
        == "--max-model-len 129: the model is made for 128 positions; give at most that"
    )


def test_long_rotary_factors_that_switch_for_a_whole_batch_limit_the_length(tmp_path: Path) -> None:
    config = SERVED["Phi3"]()
    config.original_max_position_embeddings = 32
    config.rope_parameters = {
        "rope_type": "longrope",
        "rope_theta": 10_000.0,
        "partial_rotary_factor": 1.0,
        "short_factor": [1.0] * 4,
        "long_factor": [4.0] * 4,
    }
    folder = save(tmp_path, config)
    assert json.loads((folder / "config.json").read_text())["rope_parameters"]["rope_type"] == "longrope"
    assert load_model(folder, SMALL).max_model_len == 32
    assert "beyond 32 positions phi3 models change their rotary factors" in failure(folder, max_model_len=64)

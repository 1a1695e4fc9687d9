"""Where a setting's value comes from, and what is said when it is wrong."""

from pathlib import Path
from typing import Any

import pytest

from kvtop.engine.config import POLICIES, PREEMPT_MODES, VICTIM_RULES
from kvtop.parsing import integer, power_of_two, share, size, truth
from kvtop.settings import SETTINGS, EngineSettings, gather


def with_file(folder: Path, text: str) -> dict[str, str]:
    (folder / "config.toml").write_text(text)
    return {"KVTOP_CONFIG": str(folder / "config.toml")}


def test_a_flag_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    environ = with_file(tmp_path, "[engine]\nblock_size = 2\nmax_num_seqs = 2\nmax_model_len = 2\n")
    environ |= {"KVTOP_BLOCK_SIZE": "4", "KVTOP_MAX_NUM_SEQS": "4"}
    settings = gather({"block_size": 8}, environ)
    assert settings.warnings == ()
    values = {name: settings.values[name] for name in ("block_size", "max_num_seqs", "max_model_len", "watermark")}
    assert {name: (value.value, value.origin) for name, value in values.items()} == {
        "block_size": (8, "flag"),
        "max_num_seqs": (4, "environment"),
        "max_model_len": (2, "config"),
        "watermark": (0.0, "default"),
    }
    assert settings.engine == EngineSettings(block_size=8, max_num_seqs=4, max_model_len=2)


def test_every_engine_setting_can_be_set_and_the_rest_keep_their_default(tmp_path: Path) -> None:
    assert gather({}, with_file(tmp_path, "")).engine == EngineSettings()
    assert set(EngineSettings.__struct_fields__) == {s.name for s in SETTINGS if s.section in ("engine", "model")}
    environ = {
        "KVTOP_CONFIG": str(tmp_path / "none"), "KVTOP_MODEL": "org/name", "KVTOP_DEVICE": "cpu",
        "KVTOP_DTYPE": "float32", "KVTOP_KV_MEMORY": "2GiB", "KVTOP_MAX_NUM_BATCHED_TOKENS": "7",
        "KVTOP_POLICY": "reserve-max-model-len", "KVTOP_PREEMPT": "swap", "KVTOP_VICTIM": "most-blocks",
        "KVTOP_SWAP_MEMORY": "64M", "KVTOP_WATERMARK": "5%", "KVTOP_PREFIX_CACHE": "no", "KVTOP_MODEL_DIR": "/m",
        "KVTOP_MODEL_SOURCE": "package",
    }  # fmt: skip
    settings = gather({}, environ)
    assert settings.warnings == ()
    assert settings.engine == EngineSettings(
        model="org/name", device="cpu", dtype="float32", kv_memory=2 << 30, max_num_batched_tokens=7,
        policy="reserve-max-model-len", preempt="swap", victim="most-blocks", swap_memory=64 << 20, watermark=0.05,
        prefix_cache=False, model_dir="/m", model_source="package",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("[engine]\nblock_size = 24\n", "engine.block_size is 24, expected a power of two from 1 to 256; ignored"),
        ("[engine]\nblock_size = [16]\n", "engine.block_size is [16], expected a power of two from 1 to 256; ignored"),
        ("[engine]\nprefix_cache = 'maybe'\n", "engine.prefix_cache is 'maybe', expected true or false; ignored"),
        (
            "[engine]\nbloc_size = 16\n",
            "unknown key engine.bloc_size, expected one of model, device, dtype, block_size",
        ),
        ("[engin]\na = 1\n", "unknown section 'engin', expected attach, engine, keys, model, screen, vllm; ignored"),
        (
            "block_size = 1\n",
            "unknown section 'block_size', expected attach, engine, keys, model, screen, vllm; ignored",
        ),
        ("[attach]\nslo = 'fast'\n", "attach.slo is 'fast', expected limits such as 'ttft<1 inter_token<0.1'"),
        ("[engine\n", "cannot be read as TOML"),
        ("[engine]\nnum_blocks = 4\nkv_memory = '1GiB'\n", "num_blocks and kv_memory exclude each other"),
    ],
)
def test_a_bad_config_value_is_a_warning_with_file_key_and_what_is_allowed(
    text: str, warning: str, tmp_path: Path
) -> None:
    settings = gather({}, with_file(tmp_path, text))
    (said,) = settings.warnings
    assert said.startswith(f"{tmp_path / 'config.toml'}: ")
    assert warning in said
    assert settings["block_size"] == 16


def test_keys_are_taken_over_as_they_are_written(tmp_path: Path) -> None:
    settings = gather({}, with_file(tmp_path, '[keys]\npause = "f5"\nstep = [".", "n"]\n'))
    assert settings.keys == {"pause": ("f5",), "step": (".", "n")} and settings.warnings == ()


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("[keys]\npause = 5\n", "keys.pause is 5, expected a key"),
        ("[keys]\npause = []\n", "keys.pause is [], expected a key"),
        ("[keys]\npause = ['f5', 5]\n", "keys.pause is ['f5', 5], expected a key"),
        ("[keys]\npause = ''\n", "keys.pause is '', expected a key"),
        ("keys = 'vim'\n", "keys is 'vim', expected a section [keys]"),
    ],
)
def test_what_is_no_key_is_a_warning(text: str, warning: str, tmp_path: Path) -> None:
    settings = gather({}, with_file(tmp_path, text))
    (said,) = settings.warnings
    assert said.startswith(f"{tmp_path / 'config.toml'}: {warning}") and settings.keys == {}


def test_a_config_file_that_is_not_text_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_bytes(b"\xff\xfe\x00")
    (said,) = gather({}, {"KVTOP_CONFIG": str(tmp_path / "config.toml")}).warnings
    assert "cannot be read as TOML" in said
    (said,) = gather({}, {"KVTOP_CONFIG": str(tmp_path)}).warnings
    assert "cannot be read as TOML" in said


def test_a_bad_variable_is_a_warning_and_the_file_s_value_counts(tmp_path: Path) -> None:
    environ = with_file(tmp_path, "[engine]\nblock_size = 32\n") | {"KVTOP_BLOCK_SIZE": "many"}
    settings = gather({}, environ)
    assert settings.warnings == ("KVTOP_BLOCK_SIZE: is 'many', expected a power of two from 1 to 256; ignored",)
    assert settings["block_size"] == 32


def test_the_pool_s_size_is_that_of_the_highest_source_in_either_unit(tmp_path: Path) -> None:
    environ = with_file(tmp_path, "[engine]\nnum_blocks = 100\n")
    assert (gather({"kv_memory": 1 << 30}, environ).engine.num_blocks) is None
    by_variable = gather({}, environ | {"KVTOP_KV_MEMORY": "1GiB"})
    assert (by_variable.engine.num_blocks, by_variable.engine.kv_memory) == (None, 1 << 30)
    assert by_variable.warnings == ()
    assert gather({}, environ).engine.num_blocks == 100


def test_choices_are_those_of_the_scheduler() -> None:
    choices = {setting.name: setting.metavar.split("|") for setting in SETTINGS}
    assert sorted(choices["policy"]) == sorted(POLICIES)
    assert sorted(choices["victim"]) == sorted(VICTIM_RULES)
    assert sorted(choices["preempt"]) == sorted(PREEMPT_MODES)
    for setting in SETTINGS:
        if "|" in setting.metavar:
            assert [setting.parse(text) for text in setting.metavar.split("|")]


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (size, "2GiB", 2 << 30), (size, "1.5GB", 1_500_000_000), (size, "64M", 64 << 20), (size, "512 mib", 512 << 20),
        (size, "4096", 4096), (size, "0", 0), (share, "5%", 0.05), (share, "0", 0.0), (share, "0.999", 0.999),
        (truth, "ON", True), (truth, "0", False), (power_of_two, "1", 1), (power_of_two, "256", 256),
        (integer(1), "7", 7),
    ],
)  # fmt: skip
def test_text_becomes_a_value(parse: Any, text: str, value: object) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (size, "-1"), (size, "2 apples"), (size, ""), (size, "GiB"), (size, "nan"), (size, "inf"), (size, "1e30TiB"),
        (share, "1"), (share, "-0.1"), (share, "nan"), (share, "100%"), (share, "%"), (truth, "2"), (power_of_two, "0"),
        (power_of_two, "512"), (power_of_two, "-2"), (power_of_two, "1e1"), (power_of_two, "²"), (integer(1), "0"),
        (integer(1), "1.5"), (integer(1, 5), "6"),
    ],
)  # fmt: skip
def test_text_out_of_range_is_refused_with_what_was_expected(parse: Any, text: str) -> None:
    with pytest.raises(ValueError, match=r"^(a |true)"):
        parse(text)

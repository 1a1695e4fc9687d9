"""The default model in fp32 on one thread, put on pools of any size: what the equality tests run on."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvtop.engine.check import check, check_drained
from kvtop.engine.config import SchedulerConfig
from kvtop.engine.control import Inject
from kvtop.engine.engine import Engine
from kvtop.engine.events import Advanced, Batch, Completed, Counters, Forked, Freed, Queued, from_runs
from kvtop.engine.kv_cache import KVCache
from kvtop.engine.loading import LoadedModel, load_model
from kvtop.engine.requests import Request
from kvtop.engine.runner import ModelRunner
from kvtop.engine.sampler import Sampler
from kvtop.models.resolve import resolve_model
from kvtop.settings import DEFAULT_MODEL, EngineSettings
from tests.engine.harness import fake_info

TIE = 1e-3
"""Where the oracle's two best logits are closer than this, a different token is a tie and not a fault."""


def model_folder() -> Path:
    """Where the default model lies; it is pulled when it is not there."""
    return Path(resolve_model(DEFAULT_MODEL, model_dir="", source="auto"))


def load() -> LoadedModel:
    """The default model, fp32, on a pool that is replaced by ``run``."""
    return load_model(model_folder(), EngineSettings(dtype="float32", num_blocks=8, device="cpu"))


@dataclass(slots=True)
class Run:
    """``tokens[request id][sample]`` and, beside each token, the gap between the two likeliest ones."""

    tokens: dict[str, dict[int, list[int]]] = field(default_factory=dict)
    margins: dict[str, dict[int, list[float]]] = field(default_factory=dict)
    answers: dict[str, list[int]] = field(default_factory=dict)
    counters: Counters = field(default_factory=Counters)


def run(loaded: LoadedModel, requests: list[Request], **config: Any) -> Run:
    """Everything the requests generate under this configuration; every rule of the pool checked after every step."""
    config.setdefault("max_model_len", 2048)
    settings = SchedulerConfig(**config)
    cache = _poisoned_cache(loaded, settings)
    engine = Engine(
        fake_info(settings),
        settings,
        ModelRunner(loaded.parts.forward, cache, Sampler(), loaded.parts.device),
        loaded.codec,
        eos_token_ids=loaded.eos_token_ids,
        vocab_size=loaded.vocab_size,
        inspect=check,
    )
    reply = engine.apply(Inject(requests=requests))
    assert not reply.error, reply.error
    outcome = Run()
    names: dict[int, tuple[str, int]] = {}
    while engine.has_work:
        batch = engine.step()
        assert batch is not None
        _read(batch, outcome, names)
        _poison_freed(engine, cache, batch)
    check_drained(engine.scheduler)
    outcome.counters = engine.scheduler.counters
    return outcome


def _poisoned_cache(loaded: LoadedModel, settings: SchedulerConfig) -> KVCache:
    """A pool of its own for the loaded model; it starts as NaN, so that reading what was never written shows."""
    cache = loaded.parts.new_cache(settings.num_blocks, settings.block_size, settings.swap_blocks)
    for pool in (*cache.layers, *cache.swap):
        pool.key.fill_(float("nan"))
        pool.value.fill_(float("nan"))
    return cache


def _poison_freed(engine: Engine, cache: KVCache, batch: Batch) -> None:
    """What a block held is gone with its last holder: whoever reads it after that reads NaN."""
    index = engine.scheduler.kv.pool.index
    pool = engine.scheduler.kv.pool
    for event in batch.events:
        if isinstance(event, Freed) and event.space == "pool":
            blocks = [b for b in from_runs(event.runs) if not pool.ref_count(b) and index.key_of(b) is None]
            for layer in cache.layers:
                layer.key[blocks] = layer.value[blocks] = float("nan")


def _read(batch: Batch, outcome: Run, names: dict[int, tuple[str, int]]) -> None:
    for event in batch.events:
        match event:
            case Queued():
                names[event.seq] = (event.request_id, 0)
            case Forked():
                names[event.seq] = (event.request_id, event.index)
            case Completed():
                outcome.answers[event.request_id] = event.answer
            case Advanced():
                for row, seq in enumerate(event.seqs):
                    if event.sampled[row] >= 0:
                        request_id, index = names[seq]
                        outcome.tokens.setdefault(request_id, {}).setdefault(index, []).append(event.sampled[row])
                        if event.tops and event.tops[row]:
                            (_, best), (_, second) = event.tops[row][:2]
                            margins = outcome.margins.setdefault(request_id, {}).setdefault(index, [])
                            margins.append(best - second)


def assert_equal(oracle: Run, other: Run, ids: list[str] | None = None) -> list[str]:
    """Token for token, or a near-tie of the oracle at the first difference; the ties are returned."""
    ties = []
    for request_id in ids or list(oracle.tokens):
        for index, expected in oracle.tokens[request_id].items():
            got = other.tokens[request_id][index]
            first = next((i for i, pair in enumerate(zip(expected, got, strict=False)) if pair[0] != pair[1]), None)
            if first is None:
                assert len(got) == len(expected), f"{request_id}/{index}: {len(got)} tokens, expected {len(expected)}"
                continue
            margin = oracle.margins[request_id][index][first]
            assert margin < TIE, f"{request_id}/{index} differs at token {first}; the oracle's margin there: {margin:g}"
            ties.append(f"{request_id}/{index} at {first} ({margin:.1e})")
    return ties

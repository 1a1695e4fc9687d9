"""Decodes through fixed buffers and captured graphs give the logits of the plain forward.

No GPU is here: a capture is a function that computes again from the same buffers, which is what a graph does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from kvtop.engine.graph_forward import SIZES, Compute, GraphForward
from kvtop.engine.kv_cache import KVCache
from kvtop.engine.runner import HookedForward
from kvtop.engine.sequences import Sequence
from kvtop.engine.step_inputs import StepTables
from kvtop.kernels import reference
from kvtop.kernels.dispatch import Attend, ReferenceKernels
from kvtop.kernels.paged import AttentionRule, LayerPool, PagedBatch
from tests.engine.plan_maker import PlanMaker
from tests.engine.tiny_models import SERVED, install_hook, layer_places, make_cache, make_model

CPU = torch.device("cpu")
MAX_MODEL_LEN = 64


class DeviceKernels(ReferenceKernels):
    """The plain definition, reading the batch from the device when it attends, and padding rows as Triton's do."""

    def begin(self, batch: PagedBatch) -> Attend:
        def attend(query: torch.Tensor, pool: LayerPool, rule: AttentionRule) -> torch.Tensor:
            contexts = batch.context_lens.tolist()
            used = sum(context > 0 for context in contexts)
            real = replace(
                batch, host_context_lens=contexts[:used], host_query_starts=batch.query_starts[: used + 1].tolist()
            )
            tokens = real.host_query_starts[-1]
            out = torch.zeros(query.shape[0], query.shape[1], pool.value.shape[3])
            out[:tokens] = reference.attend(query[:tokens], pool.key, pool.value, real, rule)
            return out

        return attend

    def store(self, key: torch.Tensor, value: torch.Tensor, pool: LayerPool, slots: torch.Tensor) -> None:
        kept = slots >= 0
        reference.store_kv(key[kept], value[kept], pool.key, pool.value, slots[kept])


class Recompute:
    """Stands in for a capture; counts captures and replays."""

    def __init__(self) -> None:
        self.captures = 0
        self.replays = 0

    def __call__(self, compute: Compute) -> Compute:
        self.captures += 1
        compute()

        def replay() -> torch.Tensor:
            self.replays += 1
            return compute()

        return replay


class Bench:
    """A tiny Llama twice on the same paged KV: as it is, and through graphs."""

    def __init__(self, capture: Any = None, max_num_seqs: int = 6) -> None:
        model = make_model(SERVED["Llama"]())
        layers = install_hook(model)
        self.capture = capture or Recompute()
        self.plain = HookedForward(model, layer_places(layers))
        self.graphs = GraphForward(self.plain, max_num_seqs, MAX_MODEL_LEN, CPU, self.capture)
        self.caches = [make_cache(layers, 60, 4, kernels=DeviceKernels()) for _ in range(2)]
        self.maker = PlanMaker(60, 4)
        self.tables = StepTables(4, CPU)

    @torch.inference_mode()
    def step(self, *sequences: Sequence, cache: KVCache | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """The logits of each sequence's next token, by the plain forward and through graphs."""
        inputs = self.tables.lay_out(self.maker.plan(*(self.maker.schedule(sequence) for sequence in sequences)))
        rows = torch.tensor(inputs.batch.host_query_starts[1:]) - 1
        expected = self.plain(inputs, self.caches[0], rows)
        got = self.graphs(inputs, cache or self.caches[1], rows)
        for sequence in sequences:
            sequence.tokens.append(sequence.seq)
        return expected, got

    def sequences(self, count: int) -> list[Sequence]:
        """Sequences of 3, 4, ... tokens whose prompts are computed in both caches."""
        made = [self.maker.sequence([7 + index] * (3 + index)) for index in range(count)]
        torch.testing.assert_close(*self.step(*made))
        return made


@pytest.mark.parametrize("count", [1, 2, 3, 5, 6])
def test_a_batch_padded_to_its_size_has_the_logits_of_the_plain_forward(count: int) -> None:
    bench = Bench()
    sequences = bench.sequences(count)
    for _ in range(6):
        torch.testing.assert_close(*bench.step(*sequences))
    assert (bench.capture.captures, bench.capture.replays) == (1, 6)


def test_a_batch_that_shrinks_and_grows_leaves_no_trace_in_the_buffers() -> None:
    bench = Bench()
    sequences = bench.sequences(6)
    for batch in (sequences, sequences[:2], sequences[1:6], sequences[3:4], sequences):
        torch.testing.assert_close(*bench.step(*batch))


def test_padding_writes_no_kv() -> None:
    bench = Bench()
    sequences = bench.sequences(3)
    for _ in range(3):
        bench.step(*sequences)
    for plain, captured in zip(bench.caches[0].layers, bench.caches[1].layers, strict=True):
        torch.testing.assert_close(captured.key, plain.key, equal_nan=True)
        torch.testing.assert_close(captured.value, plain.value, equal_nan=True)


def test_a_step_with_a_prompt_in_it_runs_as_it_is() -> None:
    bench = Bench()
    decoding = bench.sequences(2)
    torch.testing.assert_close(*bench.step(*decoding, bench.maker.sequence([9, 8, 7])))
    assert bench.capture.captures == 0


def test_a_batch_beyond_the_largest_size_runs_as_it_is() -> None:
    bench = Bench(max_num_seqs=2)
    torch.testing.assert_close(*bench.step(*bench.sequences(3)))
    assert bench.capture.captures == 0


def test_each_cache_is_captured_anew() -> None:
    bench = Bench()
    sequences = bench.sequences(2)
    bench.step(*sequences)
    bench.step(*sequences, cache=bench.caches[0])
    assert bench.capture.captures == 2


def test_a_model_that_cannot_be_captured_runs_as_it_is_and_the_reason_is_kept() -> None:
    def refuse(compute: Compute) -> Compute:
        raise RuntimeError("operation not permitted when stream is capturing\nmore of it")

    bench = Bench(refuse)
    sequences = bench.sequences(2)
    for _ in range(2):
        torch.testing.assert_close(*bench.step(*sequences))
    assert bench.graphs.refusal == "operation not permitted when stream is capturing"


def test_sizes_rise() -> None:
    assert list(SIZES) == sorted(set(SIZES))

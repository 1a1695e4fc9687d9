"""A forward never outruns the blocks it needs: moves that take place as late as a stream allows change no answer.

No GPU is here. ``LateStream`` holds what was submitted to it until somebody waits for it, which is the latest a side
stream may be; a forward that forgets to wait reads NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch

from kvtop.engine.graph_forward import GraphForward
from kvtop.engine.kv_cache import KVCache
from kvtop.engine.plan import Transfer
from kvtop.engine.runner import Forward, HookedForward, ModelRunner
from kvtop.engine.sampler import Sampler, SamplingError
from kvtop.kernels.paged import LayerPool
from tests.engine.plan_maker import PlanMaker
from tests.engine.test_graph_forward import CPU, MAX_MODEL_LEN, DeviceKernels, Recompute
from tests.engine.tiny_models import SERVED, install_hook, layer_places, make_cache, make_model

PROMPT = [5, 17, 3, 88, 41, 2, 9, 60, 11]


class LateStream:
    """Implements MoveStream: copies wait here, by layer, until the forward waits for them."""

    def __init__(self) -> None:
        self._submitted: list[Callable[[], None]] = []
        self._of_layer: dict[int, list[Callable[[], None]]] = {}

    def defer(self, copy: Callable[[], None]) -> None:
        self._submitted.append(copy)

    @contextmanager
    def moving(self) -> Iterator[None]:
        yield

    def moved(self, layer: int) -> None:
        self._of_layer.setdefault(layer, []).extend(self._submitted)
        self._submitted.clear()

    def wait_for(self, layer: int) -> None:
        for copy in self._of_layer.pop(layer, []):
            copy()

    def wait_for_all(self) -> None:
        for layer in list(self._of_layer):
            self.wait_for(layer)


class LateKernels(DeviceKernels):
    def __init__(self, stream: LateStream) -> None:
        self._stream = stream

    def copy_blocks(self, source: LayerPool, target: LayerPool, pairs: torch.Tensor) -> None:
        copy = super().copy_blocks
        self._stream.defer(lambda: copy(source, target, pairs))


class Swapping:
    """One sequence on a tiny Llama, swapped out and in between its tokens."""

    def __init__(self, stream: LateStream, wrap: Callable[[Forward], Forward]) -> None:
        model = make_model(SERVED["Llama"]())
        layers = install_hook(model)
        self.cache: KVCache = make_cache(layers, 40, 4, swap_blocks=4, kernels=LateKernels(stream))
        self.cache.moves = stream
        forward = wrap(HookedForward(model, layer_places(layers)))
        self.runner = ModelRunner(forward, self.cache, Sampler(), CPU)
        self.maker = PlanMaker(40, 4)

    def answer(self, swaps: bool) -> list[int]:
        sequence = self.maker.sequence(PROMPT)
        for step in range(6):
            transfers = []
            if swaps and step in (2, 4):
                held = sequence.table.block_ids
                out = [Transfer("swap_out", block, place) for place, block in enumerate(held)]
                if step == 2:  # else out and in again within one step
                    self.runner.run(self.maker.plan(transfers=out))
                    out = []
                sequence.table.block_ids = [self.maker.free.pop() for _ in held]
                back = [Transfer("swap_in", place, block) for place, block in enumerate(sequence.table.block_ids)]
                transfers = out + back
            plan = self.maker.plan(self.maker.schedule(sequence, draws=1), transfers=transfers)
            sequence.tokens.append(self.runner.run(plan).sampled[0][0].token)
        return sequence.tokens[len(PROMPT) :]


def by_graphs(forward: Forward) -> Forward:
    return GraphForward(forward, max_num_seqs=4, max_model_len=MAX_MODEL_LEN, device=CPU, capture=Recompute())


@pytest.mark.parametrize("wrap", [lambda forward: forward, by_graphs], ids=["hooked", "graphs"])
def test_blocks_that_arrive_as_late_as_they_may_change_no_token(wrap: Callable[[Forward], Forward]) -> None:
    assert Swapping(LateStream(), wrap).answer(swaps=True) == Swapping(LateStream(), wrap).answer(swaps=False)


def test_a_forward_that_does_not_wait_for_moves_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LateStream, "wait_for", lambda self, layer: None)
    with pytest.raises(SamplingError):
        Swapping(LateStream(), lambda forward: forward).answer(swaps=True)

"""Decode steps as CUDA graphs: one replay in place of a thousand launches from Python.

One idea: all that changes from step to step lies in one set of buffers that never move. A batch of decodes is copied
into them, padded to the next of a few sizes, and the graph captured for that size runs; the rows that pad have no
context and no slot, so they read and write no KV. Steps with prompts, or larger batches, run as they are. A model that
cannot be captured (experts chosen on the CPU, say) runs as it is ever after, and ``refusal`` says why.

It needs kernels that read a batch from the device alone, as the Triton ones do.
"""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

import torch

from kvtop.engine.kv_cache import KVCache
from kvtop.engine.runner import Forward
from kvtop.engine.step_inputs import StepInputs
from kvtop.engine.tables import blocks_for
from kvtop.kernels.paged import PagedBatch

SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Batches that are captured: padding costs little where steps are bound by reading the weights."""

Compute = Callable[[], torch.Tensor]
Capture = Callable[[Compute], Compute]
"""Turns a computation over fixed buffers into one that repeats it; what it returns is overwritten by the next."""


class CudaCapture:
    """Captures on the current device; all graphs share one pool of memory, since one runs at a time."""

    def __init__(self) -> None:
        self._memory = torch.cuda.graph_pool_handle()

    def __call__(self, compute: Compute) -> Compute:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # kernels are compiled and workspaces made before anything is recorded
            compute()
            compute()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._memory, capture_error_mode="thread_local"):
            result = compute()

        def replay() -> torch.Tensor:
            graph.replay()
            return result

        return replay


class GraphForward:
    """Implements :class:`kvtop.engine.runner.Forward` around another."""

    def __init__(
        self, forward: Forward, max_num_seqs: int, max_model_len: int, device: torch.device, capture: Capture
    ) -> None:
        """Batches of up to ``max_num_seqs`` sequences of at most ``max_model_len`` tokens are captured."""
        self.refusal = ""
        self._forward = forward
        self._max_model_len = max_model_len
        self._device = device
        self._capture = capture
        self._sizes = [size for size in SIZES if size < max_num_seqs]
        self._sizes.append(min(max_num_seqs, SIZES[-1]))
        self._decoders: WeakKeyDictionary[KVCache, _Decoder] = WeakKeyDictionary()
        """A graph holds the addresses of the pools it was captured with."""

    def __call__(self, inputs: StepInputs, cache: KVCache, logit_rows: torch.Tensor) -> torch.Tensor:
        count = len(inputs.batch.host_context_lens)
        if self.refusal or count > self._sizes[-1] or inputs.batch.num_decodes < count:
            return self._forward(inputs, cache, logit_rows)
        decoder = self._decoders.get(cache)
        if decoder is None:
            decoder = self._decoders[cache] = _Decoder(cache, self._sizes[-1], self._max_model_len, self._device)
        size = next(size for size in self._sizes if size >= count)
        decoder.load(inputs, size)
        cache.moves.wait_for_all()  # a graph cannot wait within for what is not part of it
        replay = decoder.replays.get(size)
        if replay is None:
            try:
                replay = decoder.replays[size] = self._capture(decoder.computation(self._forward, cache, size))
            except RuntimeError as error:
                self.refusal = str(error).splitlines()[0]
                return self._forward(inputs, cache, logit_rows)
        return replay()[logit_rows]


class _Decoder:
    """The buffers of one cache, and a graph a size."""

    def __init__(self, cache: KVCache, most: int, max_model_len: int, device: torch.device) -> None:
        width = min(cache.num_blocks, blocks_for(max_model_len, cache.block_size))
        self.replays: dict[int, Compute] = {}
        self._block_size = cache.block_size
        self._token_ids = torch.zeros(1, most, dtype=torch.int64, device=device)
        self._positions = torch.zeros(1, most, dtype=torch.int64, device=device)
        self._rows = torch.arange(most, device=device)
        self._slots = torch.full((most,), -1, dtype=torch.int64, device=device)
        self._block_tables = torch.zeros(most, width, dtype=torch.int32, device=device)
        self._context_lens = torch.zeros(most, dtype=torch.int32, device=device)
        self._query_starts = torch.arange(most + 1, dtype=torch.int32, device=device)

    def load(self, inputs: StepInputs, size: int) -> None:
        """Copy a batch of decodes in; rows up to ``size`` become padding. Nobody reads beyond a row's context."""
        batch = inputs.batch
        count, columns = batch.block_tables.shape
        self._token_ids[:, :count] = inputs.token_ids
        self._positions[:, :count] = inputs.positions
        self._slots[:count] = batch.slots
        self._slots[count:size] = -1
        self._block_tables[:count, :columns] = batch.block_tables
        self._context_lens[:count] = batch.context_lens
        self._context_lens[count:size] = 0

    def computation(self, forward: Forward, cache: KVCache, size: int) -> Compute:
        """The forward of ``size`` rows of the buffers; returns the logits [size, vocabulary]."""
        inputs = StepInputs(
            entries=[],
            token_ids=self._token_ids[:, :size],
            positions=self._positions[:, :size],
            batch=PagedBatch(
                block_size=self._block_size,
                num_decodes=size,
                slots=self._slots[:size],
                block_tables=self._block_tables[:size],
                context_lens=self._context_lens[:size],
                query_starts=self._query_starts[: size + 1],
                host_block_tables=torch.empty(0, dtype=torch.int32),
                host_context_lens=[],
                host_query_starts=[],
            ),
        )
        return lambda: forward(inputs, cache, self._rows[:size])

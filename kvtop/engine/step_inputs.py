"""A plan as arrays: the tokens of a step laid end to end, with their positions, slots and block tables.

One idea: every sequence owns a row of one persistent table that mirrors its block table; a row is rewritten only
when the block table differs from what was mirrored, so a decode step costs a comparison a sequence and no Python
loop over tokens. Sequences that compute one token come first, short contexts before long ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from kvtop.engine.plan import Scheduled, StepPlan
from kvtop.engine.sequences import Sequence
from kvtop.kernels.paged import PagedBatch

Int64Array = npt.NDArray[np.int64]


@dataclass(slots=True, frozen=True)
class StepInputs:
    """The step on the model's device."""

    entries: list[int]
    """entries[i]: which entry of ``plan.scheduled`` is sequence i of the batch."""
    token_ids: torch.Tensor
    """int64 [1, tokens]"""
    positions: torch.Tensor
    """int64 [1, tokens]"""
    batch: PagedBatch


class StepTables:
    """Block tables of the sequences that run, as one int32 array: a row a sequence."""

    def __init__(self, block_size: int, device: torch.device) -> None:
        self._block_size = block_size
        self._device = device
        self._tables = np.zeros((8, 8), dtype=np.int32)
        self._row_of: dict[Sequence, int] = {}
        self._mirrored: list[list[int]] = [[] for _ in range(8)]
        self._free_rows = list(range(8))

    def release(self, sequence: Sequence) -> None:
        """Forget a sequence that ended; unknown ones are fine."""
        row = self._row_of.pop(sequence, None)
        if row is not None:
            self._free_rows.append(row)

    def lay_out(self, plan: StepPlan) -> StepInputs:
        """The arrays of ``plan``, which schedules at least one token."""
        scheduled = plan.scheduled
        entries = sorted(range(len(scheduled)), key=lambda index: (scheduled[index].count > 1, scheduled[index].start))
        ordered = [scheduled[index] for index in entries]
        rows = np.array([self._row(entry.sequence) for entry in ordered])
        starts = np.array([entry.start for entry in ordered])
        counts = np.array([entry.count for entry in ordered])
        query_starts = np.zeros(len(ordered) + 1, dtype=np.int32)
        np.cumsum(counts, out=query_starts[1:])
        context_lens = (starts + counts).astype(np.int32)
        num_tokens = int(query_starts[-1])
        num_decodes = int(np.count_nonzero(counts == 1))
        if num_decodes == len(ordered):
            positions, token_rows = starts, rows
        else:
            positions = np.arange(num_tokens) + np.repeat(starts - query_starts[:-1], counts)
            token_rows = np.repeat(rows, counts)
        size = self._block_size
        slots = self._tables[token_rows, positions // size].astype(np.int64) * size + positions % size
        width = -(-int(context_lens.max()) // size)
        tables = torch.from_numpy(self._tables[rows, :width])
        return StepInputs(
            entries=entries,
            token_ids=self._send(_token_ids(ordered, num_tokens)).unsqueeze(0),
            positions=self._send(positions).unsqueeze(0),
            batch=PagedBatch(
                block_size=size,
                num_decodes=num_decodes,
                slots=self._send(slots),
                block_tables=tables.to(self._device),
                context_lens=self._send(context_lens),
                query_starts=self._send(query_starts),
                host_block_tables=tables,
                host_context_lens=context_lens.tolist(),
                host_query_starts=query_starts.tolist(),
            ),
        )

    def _send(self, array: npt.NDArray[np.integer]) -> torch.Tensor:
        return torch.from_numpy(array).to(self._device)

    def _row(self, sequence: Sequence) -> int:
        """The sequence's row, brought up to date."""
        row = self._row_of.get(sequence)
        if row is None:
            if not self._free_rows:
                self._add_rows()
            row = self._row_of[sequence] = self._free_rows.pop()
            self._mirrored[row] = []
        block_ids = sequence.table.block_ids
        if self._mirrored[row] != block_ids:
            if len(block_ids) > self._tables.shape[1]:
                self._widen(len(block_ids))
            self._tables[row, : len(block_ids)] = block_ids
            self._tables[row, len(block_ids) :] = 0
            self._mirrored[row] = list(block_ids)
        return row

    def _add_rows(self) -> None:
        count = len(self._tables)
        self._tables = np.concatenate([self._tables, np.zeros_like(self._tables)])
        self._mirrored += [[] for _ in range(count)]
        self._free_rows = list(range(count, 2 * count))

    def _widen(self, width: int) -> None:
        count, old = self._tables.shape
        self._tables = np.concatenate(
            [self._tables, np.zeros((count, max(width, 2 * old) - old), dtype=np.int32)], axis=1
        )


def _token_ids(ordered: list[Scheduled], num_tokens: int) -> Int64Array:
    token_ids: list[int] = []
    for entry in ordered:
        if entry.count == 1:
            token_ids.append(entry.sequence.tokens[entry.start])
        else:
            token_ids += entry.sequence.tokens[entry.start : entry.start + entry.count]
    if len(token_ids) != num_tokens:
        raise ValueError(f"the plan schedules {num_tokens} tokens, its sequences hold {len(token_ids)} of them")
    return np.array(token_ids, dtype=np.int64)

"""Run one kernel on one small problem and say how wrong it is. Made for the interpreter, which only subprocesses use.

The kernels come as an argument, so that a planted fault can stand in for the real one. What a kernel reads or writes
lies inside larger buffers of NaN (of block 0, for tables): one that strays does so there, where it is seen and breaks
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

import torch

from kvtop.kernels.agreement import Case, Problem, difference, make_problem

CPU = torch.device("cpu")
NAN = float("nan")


@dataclass(frozen=True, slots=True)
class TritonModules:
    """The kernels' modules, the real ones or a copy with a fault."""

    store: ModuleType
    decode: ModuleType
    splits: ModuleType
    prefill: ModuleType
    copy: ModuleType

    @classmethod
    def of(cls, package: str) -> TritonModules:
        names = ("store", "decode", "splits", "prefill", "copy")
        return cls(*(import_module(f"{package}.triton_{name}") for name in names))


def guarded(*shape: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    """A tensor of NaN in the middle of a buffer five times its size, and the buffer."""
    size = torch.Size(shape).numel()
    buffer = torch.full((5 * size,), NAN, dtype=dtype)
    return buffer[2 * size : 3 * size].view(shape), buffer


def fenced(tensor: torch.Tensor, fence: float = NAN) -> torch.Tensor:
    """The same numbers in the middle of a larger buffer."""
    room, buffer = guarded(*tensor.shape, dtype=tensor.dtype)
    buffer.fill_(fence)
    return room.copy_(tensor)


def fenced_tables(tables: torch.Tensor) -> torch.Tensor:
    """The same block tables with rows and columns of zeros around them."""
    rows, columns = tables.shape
    room = torch.zeros(rows + 2, columns + 8, dtype=tables.dtype)
    room[1:-1, 4:-4] = tables
    return room[1:-1, 4:-4]


def pools(problem: Problem) -> tuple[torch.Tensor, torch.Tensor]:
    """K and V with different strides, filled in the used slots, NaN elsewhere."""
    case = problem.case
    blocks, size, heads = problem.num_blocks, case.block_size, case.kv_heads
    key_pool = guarded(blocks, size, heads, case.key_dim + 8, dtype=case.dtype)[0][..., : case.key_dim]
    value_pool = guarded(blocks, heads, size, case.value_dim, dtype=case.dtype)[0].transpose(1, 2)
    block, offset = problem.slots // size, problem.slots % size
    key_pool[block, offset] = problem.keys
    value_pool[block, offset] = problem.values
    return key_pool, value_pool


def decode_error(modules: TritonModules, case: Case, spare_items: int) -> float:
    """The decode kernel's largest error, its work cut into at most ``spare_items`` extra items (0: not at all)."""
    problem = make_problem(case, CPU)
    key_pool, value_pool = pools(problem)
    seqs, heads, _ = problem.query.shape
    workspace = None
    if spare_items:
        items = seqs + spare_items
        values, stats = guarded(items, heads, case.value_dim)[0], guarded(items, heads, 2)[0]
        workspace = modules.splits.SplitWorkspace(values, stats, spare_items)
    batch = problem.batch
    out = modules.decode.decode_attention(
        fenced(problem.query),
        key_pool,
        value_pool,
        fenced_tables(batch.block_tables),
        batch.context_lens,
        problem.rule,
        out=guarded(seqs, heads, case.value_dim, dtype=case.dtype)[0],
        workspace=workspace,
    )
    return difference(out, problem.expected)


def padding_row_error(modules: TritonModules, case: Case, spare_items: int) -> float:
    """The largest number in the output of a row without context, which must be 0."""
    problem = make_problem(case, CPU)
    key_pool, value_pool = pools(problem)
    seqs, heads, _ = problem.query.shape
    values, stats = guarded(seqs + spare_items, heads, case.value_dim)[0], guarded(seqs + spare_items, heads, 2)[0]
    context_lens = problem.batch.context_lens.clone()
    context_lens[1] = 0
    out = modules.decode.decode_attention(
        fenced(problem.query),
        key_pool,
        value_pool,
        fenced_tables(problem.batch.block_tables),
        context_lens,
        problem.rule,
        workspace=modules.splits.SplitWorkspace(values, stats, spare_items),
    )
    expected = problem.expected.clone()
    expected[1] = 0
    return difference(out, expected)


def prefill_error(modules: TritonModules, case: Case) -> float:
    """The prefill kernel's largest error."""
    problem = make_problem(case, CPU)
    key_pool, value_pool = pools(problem)
    tokens, heads, _ = problem.query.shape
    batch = problem.batch
    out = modules.prefill.prefill_attention(
        fenced(problem.query),
        key_pool,
        value_pool,
        fenced_tables(batch.block_tables),
        batch.query_starts,
        batch.context_lens,
        problem.rule,
        out=guarded(tokens, heads, case.value_dim, dtype=case.dtype)[0],
    )
    return difference(out, problem.expected)


def store_error(modules: TritonModules, case: Case) -> float:
    """How many numbers of the pools and of what lies around them are not as they must be after a store."""
    problem = make_problem(case, CPU)
    blocks, size, heads = problem.num_blocks, case.block_size, case.kv_heads
    key_room, key_buffer = guarded(blocks, size, heads, case.key_dim + 8, dtype=case.dtype)
    value_room, value_buffer = guarded(blocks, heads, size, case.value_dim, dtype=case.dtype)
    key_pool, value_pool = key_room[..., : case.key_dim], value_room.transpose(1, 2)
    slots = problem.slots.clone()
    slots[::5] = -1
    # As a model hands them over: heads before tokens, so that neither is a plain run of memory.
    # Numbers around them, since a stray NaN would not show in the pool.
    key = fenced(problem.keys.transpose(0, 1), fence=7.0).transpose(0, 1)
    modules.store.store_kv(key, fenced(problem.values, fence=7.0), key_pool, value_pool, slots)
    stored_keys, stored_values = key_buffer.clone(), value_buffer.clone()
    key_buffer.fill_(NAN)
    value_buffer.fill_(NAN)
    kept = slots >= 0
    key_pool[slots[kept] // size, slots[kept] % size] = problem.keys[kept]
    value_pool[slots[kept] // size, slots[kept] % size] = problem.values[kept]
    return _unequal(stored_keys, key_buffer) + _unequal(stored_values, value_buffer)


def copy_error(modules: TritonModules, case: Case) -> float:
    """How many numbers of a pool and of what lies around it are not as they must be after a copy from another."""
    problem = make_problem(case, CPU)
    blocks, size, heads, dim = problem.num_blocks, case.block_size, case.kv_heads, case.key_dim
    source = guarded(blocks, heads, size, dim, dtype=case.dtype)[0].transpose(1, 2)
    source.copy_(torch.randn(source.shape, generator=torch.Generator().manual_seed(1)))
    room, buffer = guarded(blocks + 2, size, heads, dim + 8, dtype=case.dtype)
    target = room[..., :dim]
    pairs = torch.tensor([[0, 3], [2, 0], [1, blocks + 1]])
    modules.copy.copy_blocks(source, target, pairs)
    copied = buffer.clone()
    buffer.fill_(NAN)
    target[pairs[:, 1]] = source[pairs[:, 0]]
    return _unequal(copied, buffer)


def _unequal(actual: torch.Tensor, expected: torch.Tensor) -> float:
    same = (actual == expected) | (actual.isnan() & expected.isnan())
    return float((~same).sum().item())

"""How fast the kernels move memory on this card: the decode sweep, prefill, store, copies within and off the card."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.gpu import attention
from benchmarks.gpu.scale import Scale
from benchmarks.gpu.timing import seconds_per_launch
from kvtop.kernels.triton_copy import copy_blocks
from kvtop.kernels.triton_store import store_kv
from kvtop.kernels.triton_tuning import DecodeTuning, PrefillTuning

PAGE = 16


def copy_bandwidth(scale: Scale, device: torch.device) -> float:
    """Bytes a second of a plain copy within the card, read and written bytes together: what there is to reach."""
    size = max(scale.cold_bytes, 1 << 16)
    source = torch.empty(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size / seconds_per_launch([lambda: target.copy_(source)], device, scale.timing_seconds)


def decode_sweep(
    scale: Scale, storage: attention.Storage, tuning: DecodeTuning, enough_time: Callable[[], bool]
) -> list[dict[str, object]]:
    """A row a batch, context and page: time and bytes a second. Those the time does not reach are left out."""
    rows: list[dict[str, object]] = []
    for context in scale.contexts:
        for batch in scale.batches:
            for page in scale.pages:
                if not enough_time() or batch * context > storage.key.shape[0]:
                    continue
                measured = attention.decode(storage, batch, context, page, tuning, scale.cold_bytes)
                seconds = seconds_per_launch(measured.launches, storage.device, scale.timing_seconds)
                rows.append(
                    {
                        "batch": batch,
                        "context": context,
                        "page": page,
                        "microseconds": 1e6 * seconds,
                        "bytes_a_second": measured.moved_bytes / seconds,
                    }
                )
    return rows


def prefill_beside_torch(scale: Scale, storage: attention.Storage, tuning: PrefillTuning) -> dict[str, object]:
    """One whole prompt: our kernel over pages, torch's own attention over the same tokens in one run of memory."""
    new = scale.prefill_tokens[0]
    measured = attention.prefill(storage, new, 0, PAGE, tuning)
    ours = seconds_per_launch(measured.launches, storage.device, scale.timing_seconds)
    shape = scale.model
    query = torch.randn(1, shape.heads, new, shape.head_dim, device=storage.device).to(shape.dtype)
    key, value = (kv[:new].transpose(0, 1)[None].contiguous() for kv in (storage.key, storage.value))

    def dense() -> Any:
        return scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)

    theirs = seconds_per_launch([dense], storage.device, scale.timing_seconds)
    return {
        "tokens": new,
        "microseconds": 1e6 * ours,
        "operations_a_second": measured.operations / ours,
        "torch_microseconds": 1e6 * theirs,
    }


def movement(scale: Scale, storage: attention.Storage) -> list[dict[str, object]]:
    """Storing a step's tokens, copying blocks on the card, and swapping blocks out and in over the bus."""
    device, shape = storage.device, scale.model
    key_pool, value_pool = storage.pages(PAGE)
    tokens = min(8192, storage.key.shape[0])
    new = torch.randn(tokens, shape.kv_heads, shape.head_dim, device=device).to(shape.dtype)
    slots = torch.randperm(storage.key.shape[0], device=device)[:tokens]
    count = min(scale.copied_blocks, key_pool.shape[0] // 2)
    order = torch.randperm(key_pool.shape[0], device=device)
    within = torch.stack([order[:count], order[count : 2 * count]], 1).contiguous()
    bus = torch.empty(count, *key_pool.shape[1:], dtype=shape.dtype, pin_memory=device.type == "cuda")
    places = torch.arange(count, device=device)
    out_pairs = torch.stack([order[:count], places], 1).contiguous()
    in_pairs = torch.stack([places, order[:count]], 1).contiguous()
    block_bytes = key_pool[0].numel() * key_pool.element_size()
    work: list[tuple[str, Callable[[], Any], int]] = [
        ("store", lambda: store_kv(new, new, key_pool, value_pool, slots), 4 * new.numel() * new.element_size()),
        ("copy", lambda: copy_blocks(key_pool, key_pool, within), 2 * count * block_bytes),
        ("swap out", lambda: copy_blocks(key_pool, bus, out_pairs), count * block_bytes),
        ("swap in", lambda: copy_blocks(bus, key_pool, in_pairs), count * block_bytes),
    ]
    rows: list[dict[str, object]] = []
    for name, launch, moved in work:
        seconds = seconds_per_launch([launch], device, scale.timing_seconds)
        rows.append({"what": name, "microseconds": 1e6 * seconds, "bytes_a_second": moved / seconds})
    swapped_back = torch.equal(bus.to(device), key_pool[order[:count]])
    rows.append({"what": "swapped blocks are equal", "holds": swapped_back})
    return rows

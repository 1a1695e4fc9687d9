"""Faults to plant in the kernels, each with the problems that must show it.

A fault is one exact piece of a kernel's source and what stands there instead.
"""

from __future__ import annotations

from dataclasses import dataclass

DECODE_PLAIN = ("decode", "group 3, three KV heads", 3)
DECODE_SPLIT = ("decode", "one long among short", 4)
DECODE_MANY = ("many splits", "a join in several steps", 40)
DECODE_WINDOW = ("decode", "window across pages", 3)
PREFILL_PLAIN = ("prefill", "decodes and prompts together", 0)
PREFILL_WINDOW = ("prefill", "window across pages", 0)

Trial = tuple[str, str, int]
"""(which trial, name of the case, spare items)."""


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    module: str
    sound: str
    faulty: str
    trials: tuple[Trial, ...]


STORE = [
    Fault(
        "store: V written with K's block stride",
        "store",
        "value_pool + block * value_block_stride",
        "value_pool + block * key_block_stride",
        (("store", "three heads", 0),),
    ),
    Fault(
        "store: V read with K's token stride",
        "store",
        "value + token * value_token_stride",
        "value + token * key_token_stride",
        (("store", "three heads", 0),),
    ),
    Fault(
        "store: K and V swapped",
        "store",
        "row = tl.load(value + token * value_token_stride + heads * value_head_stride + dims, mask=inside)",
        "row = tl.load(key + token * key_token_stride + heads * key_head_stride + dims, mask=inside)",
        (("store", "three heads", 0),),
    ),
    Fault(
        "store: one page too far",
        "store",
        "block = (slot // BLOCK_SIZE)",
        "block = (slot // BLOCK_SIZE + 1)",
        (("store", "three heads", 0),),
    ),
    Fault(
        "store: no mask over the heads",
        "store",
        "(heads < KV_HEADS) & (dims < KEY_DIM)",
        "(dims < KEY_DIM)",
        (("store", "three heads", 0),),
    ),
    Fault(
        "store: no mask over a head's numbers",
        "store",
        "(heads < KV_HEADS) & (dims < VALUE_DIM)",
        "(heads < KV_HEADS)",
        (("store", "head_dim 80", 0),),
    ),
    Fault(
        "store: padding slots written",
        "store",
        "if slot < 0:",
        "if slot < -1:",
        (("store", "three heads", 0),),
    ),
]

COPY = [
    Fault(
        "copy: target addressed with the source's block stride",
        "copy",
        "target * target_block_stride",
        "target * source_block_stride",
        (("copy", "three heads", 0),),
    ),
    Fault(
        "copy: target addressed with the source's slot stride",
        "copy",
        "target_head + slots * target_slot_stride",
        "target_head + slots * source_slot_stride",
        (("copy", "three heads", 0),),
    ),
    Fault(
        "copy: source and target block swapped",
        "copy",
        "source = tl.load(pair).to(tl.int64)\n    target = tl.load(pair + 1).to(tl.int64)",
        "target = tl.load(pair).to(tl.int64)\n    source = tl.load(pair + 1).to(tl.int64)",
        (("copy", "three heads", 0),),
    ),
    Fault(
        "copy: one page too far",
        "copy",
        "target = tl.load(pair + 1)",
        "target = 1 + tl.load(pair + 1)",
        (("copy", "three heads", 0),),
    ),
    Fault(
        "copy: no mask over the slots",
        "copy",
        "(slots < BLOCK_SIZE) & (dims < DIM)",
        "(dims < DIM)",
        (("copy", "block of 24, no power of two", 0),),
    ),
    Fault(
        "copy: only a block's first slots",
        "copy",
        "first_slot = tl.program_id(2) * SLOTS",
        "first_slot = 0",
        (("copy", "block of 256", 0),),
    ),
]

DECODE = [
    Fault(
        "decode: V read with K's block stride",
        "decode",
        "(page * value_block_stride",
        "(page * key_block_stride",
        (DECODE_PLAIN,),
    ),
    Fault(
        "decode: V read with K's slot stride",
        "decode",
        "slots * value_slot_stride",
        "slots * key_slot_stride",
        (DECODE_PLAIN,),
    ),
    Fault(
        "decode: K and V swapped",
        "decode",
        "key_head = key_pool + kv_head.to(tl.int64) * key_head_stride",
        "key_head = value_pool + kv_head.to(tl.int64) * key_head_stride",
        (DECODE_PLAIN,),
    ),
    Fault(
        "decode: one page too far on the way",
        "decode",
        "pages = tl.load(table + ahead // BLOCK_SIZE,",
        "pages = tl.load(table + ahead // BLOCK_SIZE + 1,",
        (DECODE_PLAIN,),
    ),
    Fault(
        "decode: the page changes a slot late",
        "decode",
        "pages = tl.load(table + keys // BLOCK_SIZE,",
        "pages = tl.load(table + (keys - 1) // BLOCK_SIZE,",
        (("decode", "block of 8, smaller than a tile", 3),),
    ),
    Fault(
        "decode: no mask over the keys",
        "decode",
        "visible = keys < end\n",
        "visible = keys < end + TILE\n",
        (DECODE_PLAIN,),
    ),
    Fault(
        "decode: one key too few",
        "decode",
        "visible = keys < end\n",
        "visible = keys < tl.maximum(end - 1, 1)\n",
        (DECODE_PLAIN,),
    ),
    Fault(
        "decode: another group's query heads",
        "decode",
        "heads = kv_head * GROUP + rows",
        "heads = kv_head * ROWS + rows",
        (DECODE_PLAIN,),
    ),
    Fault(
        "decode: no mask over a head's numbers",
        "decode",
        "mask=visible[:, None] & (key_dims < KEY_DIM)[None, :]",
        "mask=visible[:, None]",
        (("decode", "head_dim 80", 0),),
    ),
    Fault(
        "decode: splits overlap by a key",
        "decode",
        "end = tl.minimum(begin + split_keys, context)",
        "end = tl.minimum(begin + split_keys + 1, context)",
        (DECODE_SPLIT,),
    ),
    Fault(
        "decode: a sequence's splits all start at its first key",
        "decode",
        "split = item - tl.sum(tl.where(mine, ends - items, 0), 0)",
        "split = 0 * item",
        (DECODE_SPLIT,),
    ),
    Fault(
        "decode: sinks forgotten",
        "decode",
        "        if HAS_SINKS:",
        "        if HAS_SINKS and GROUP < 0:",
        (("decode", "sinks", 0),),
    ),
    Fault(
        "decode: a padding row divides by zero",
        "decode",
        "tl.where(total > 0.0, total, 1.0)",
        "total",
        (("padding row", "group 4, one KV head", 4),),
    ),
    Fault(
        "join: sums not brought to one maximum",
        "splits",
        "tl.sum(sums * weights, 0)",
        "tl.sum(sums, 0)",
        (DECODE_SPLIT,),
    ),
    Fault(
        "join: what was joined before not brought to the new maximum",
        "splits",
        "accumulated = accumulated * shrink + tl.sum(values",
        "accumulated = accumulated + tl.sum(values",
        (DECODE_MANY,),
    ),
    Fault(
        "join: the last part forgotten",
        "splits",
        "used = item < last",
        "used = item < last - 1",
        (DECODE_SPLIT,),
    ),
    Fault(
        "join: another head's parts",
        "splits",
        "tl.num_programs(0) + head",
        "tl.num_programs(0)",
        (DECODE_SPLIT,),
    ),
    Fault(
        "join: sinks forgotten",
        "splits",
        "    if HAS_SINKS:",
        "    if HAS_SINKS and VALUE_DIM < 0:",
        (("decode", "sinks", 40),),
    ),
    Fault(
        "join: a sequence of one split read from the workspace",
        "splits",
        "if num_splits == 1:",
        "if num_splits == 0:",
        (DECODE_SPLIT,),
    ),
]

PREFILL = [
    Fault(
        "prefill: V read with K's block stride",
        "prefill",
        "(page * value_block_stride",
        "(page * key_block_stride",
        (PREFILL_PLAIN,),
    ),
    Fault(
        "prefill: output written with the query's head stride",
        "prefill",
        "heads * output_head_stride",
        "heads * query_token_stride",
        (PREFILL_PLAIN,),
    ),
    Fault(
        "prefill: K and V swapped",
        "prefill",
        "value_head = value_pool + kv_head.to(tl.int64) * value_head_stride",
        "value_head = key_pool + kv_head.to(tl.int64) * value_head_stride",
        (PREFILL_PLAIN,),
    ),
    Fault(
        "prefill: one page too far on the way",
        "prefill",
        "pages = tl.load(table + ahead // BLOCK_SIZE,",
        "pages = tl.load(table + ahead // BLOCK_SIZE + 1,",
        (PREFILL_PLAIN,),
    ),
    Fault(
        "prefill: not causal",
        "prefill",
        "(keys[None, :] <= positions[:, None]) & (keys < end)[None, :]",
        "(keys < end)[None, :] & (positions >= 0)[:, None]",
        (PREFILL_PLAIN,),
    ),
    Fault(
        "prefill: a query does not see itself",
        "prefill",
        "keys[None, :] <= positions[:, None]",
        "keys[None, :] < tl.maximum(positions, 1)[:, None]",
        (PREFILL_PLAIN,),
    ),
    Fault(
        "prefill: the context before the chunk forgotten",
        "prefill",
        "first_position = context - query_len + first_token",
        "first_position = first_token",
        (PREFILL_PLAIN,),
    ),
    Fault(
        "prefill: the diagonal taken without a mask",
        "prefill",
        "whole_end = tl.maximum((first_position + 1) // TILE * TILE, whole_begin)",
        "whole_end = tl.maximum(tl.cdiv(first_position + 1, TILE) * TILE, whole_begin)",
        (PREFILL_PLAIN,),
    ),
    Fault(
        "prefill: no mask at a window's edge",
        "prefill",
        "seen = seen & (keys[None, :] >= first_visible(positions, WINDOW, CHUNK)[:, None])",
        "seen = seen & (keys[None, :] >= 0)",
        (PREFILL_WINDOW,),
    ),
    Fault(
        "prefill: a window's edge taken without a mask",
        "prefill",
        "tl.cdiv(first_visible(last_position, WINDOW, CHUNK), TILE) * TILE",
        "first_visible(last_position, WINDOW, CHUNK) // TILE * TILE",
        (PREFILL_WINDOW,),
    ),
    Fault(
        "prefill: another row's position",
        "prefill",
        "tl.where(used, first_position + rows // GROUP, last_position)",
        "tl.where(used, first_position + rows % TOKENS, last_position)",
        (PREFILL_PLAIN,),
    ),
    Fault(
        "prefill: tiles of a sequence begin a tile late",
        "prefill",
        "tile_in_seq = tl.sum(tl.where(seqs == seq, ends, 0), 0) - 1 - tile",
        "tile_in_seq = tl.sum(tl.where(seqs == seq, ends, 0), 0) - tile",
        (PREFILL_PLAIN,),
    ),
    Fault(
        "prefill: sinks forgotten",
        "prefill",
        "    if HAS_SINKS:",
        "    if HAS_SINKS and GROUP < 0:",
        (("prefill", "sinks", 0),),
    ),
]

SHARED = [
    Fault(
        "both: window one key too wide",
        "tiles",
        "position - (WINDOW - 1)",
        "position - WINDOW",
        (DECODE_WINDOW, PREFILL_WINDOW),
    ),
    Fault(
        "both: chunks one position late",
        "tiles",
        "position // CHUNK * CHUNK",
        "(position - 1) // CHUNK * CHUNK",
        (("decode", "chunks", 0), ("prefill", "chunks", 0)),
    ),
    Fault(
        "both: soft-cap before scaling",
        "tiles",
        "grown = tl.exp2(products * (scale * (2.0 * LOG2_E / SOFTCAP)))",
        "grown = tl.exp2(products * (2.0 * LOG2_E / SOFTCAP)) * (scale / scale)",
        (("decode", "soft-cap", 0), ("prefill", "soft-cap", 0)),
    ),
    Fault(
        "both: scale forgotten",
        "tiles",
        "return products * (scale * LOG2_E)",
        "return products * (scale / scale * LOG2_E)",
        (DECODE_PLAIN, PREFILL_PLAIN),
    ),
    Fault(
        "both: sums not brought to the new maximum",
        "tiles",
        "total = total * shrink + tl.sum(weights, 1)",
        "total = total + tl.sum(weights, 1)",
        (DECODE_PLAIN, PREFILL_PLAIN),
    ),
    Fault(
        "both: values not brought to the new maximum",
        "tiles",
        "accumulated = accumulated * shrink[:, None]\n",
        "accumulated = accumulated * 1.0\n",
        (DECODE_PLAIN, PREFILL_PLAIN),
    ),
    Fault(
        "both: sinks scaled like scores",
        "tiles",
        "sink = sink.to(tl.float32) * LOG2_E",
        "sink = sink.to(tl.float32) * LOG2_E * 0.125",
        (("decode", "sinks", 0), ("prefill", "sinks", 0)),
    ),
]

FAULTS = [*STORE, *COPY, *DECODE, *PREFILL, *SHARED]

"""The shapes at which kernels are compared with the formula: small, and each with a reason to fail."""

import torch

from kvtop.kernels.agreement import Case

MIXED = ((1, 1), (1, 17), (1, 40), (1, 64))

DECODE = [
    Case("group 1", MIXED, group=1),
    Case("group 3, three KV heads", MIXED, group=3, kv_heads=3),
    Case("group 4, one KV head", MIXED, group=4, kv_heads=1),
    Case("group 7", MIXED, group=7),
    Case("group 8", MIXED, group=8),
    Case("group 24, more than the least rows", MIXED, group=24, kv_heads=1),
    Case("block of 1", MIXED, block_size=1),
    Case("block of 2", MIXED, block_size=2),
    Case("block of 8, smaller than a tile", MIXED, block_size=8),
    Case("block of 64, larger than a tile", MIXED, block_size=64),
    Case("block of 256", ((1, 5), (1, 300)), block_size=256),
    Case("head_dim 80", MIXED, key_dim=80, value_dim=80),
    Case("head_dim 96", MIXED, key_dim=96, value_dim=96),
    Case("head_dim 128", MIXED, key_dim=128, value_dim=128),
    Case("head_dim 256", MIXED, key_dim=256, value_dim=256, kv_heads=1),
    Case("keys of 192, values of 128", MIXED, key_dim=192, value_dim=128, kv_heads=1),
    Case("window inside a tile", MIXED, window=5),
    Case("window across pages", MIXED, window=33, block_size=8),
    Case("window of 1", MIXED, window=1),
    Case("window longer than any context", MIXED, window=1000),
    Case("chunks", ((1, 1), (1, 24), (1, 25), (1, 47)), chunk=24),
    Case("window and chunks", ((1, 24), (1, 25), (1, 47)), window=9, chunk=24),
    Case("soft-cap", MIXED, softcap=1.5),
    Case("sinks", MIXED, sinks=True),
    Case("sinks, window, soft-cap", MIXED, sinks=True, window=19, softcap=2.0),
    Case("float16", MIXED, dtype=torch.float16),
    Case("bfloat16", MIXED, dtype=torch.bfloat16),
    Case("one long among short", ((1, 3), (1, 150), (1, 2), (1, 1))),
]

MANY_SPLITS = [
    *(case for case in DECODE if case.block_size >= 64 or case.sinks),
    Case("a join in several steps", ((1, 500),), kv_heads=1, group=8, block_size=64),
]

PREFILL = [
    Case("whole prompts", ((7, 7), (16, 16), (33, 33))),
    Case("chunk behind a context", ((5, 40), (17, 33))),
    Case("decodes and prompts together", ((1, 19), (1, 1), (9, 9), (4, 50))),
    Case("group 1", ((3, 9), (20, 37)), group=1),
    Case("group 3", ((3, 9), (20, 37)), group=3),
    Case("group 7", ((3, 9), (12, 37)), group=7),
    Case("group 8", ((3, 9), (12, 37)), group=8),
    Case("group 24, more than a tile's rows", ((3, 9), (6, 37)), group=24, kv_heads=1),
    Case("block of 1", ((6, 37),), block_size=1),
    Case("block of 2", ((6, 37),), block_size=2),
    Case("block of 64", ((6, 80),), block_size=64),
    Case("block of 256", ((4, 270),), block_size=256),
    Case("head_dim 80", ((6, 37),), key_dim=80, value_dim=80),
    Case("head_dim 128", ((6, 37),), key_dim=128, value_dim=128),
    Case("head_dim 256", ((6, 37),), key_dim=256, value_dim=256),
    Case("keys of 192, values of 128", ((6, 37),), key_dim=192, value_dim=128),
    Case("window inside a tile", ((30, 45),), window=5),
    Case("window across pages", ((30, 90),), window=37, block_size=8),
    Case("window of 1", ((20, 20),), window=1),
    Case("window longer than any context", ((20, 30),), window=1000),
    Case("chunks", ((40, 60),), chunk=24),
    Case("chunk smaller than a tile", ((20, 40),), chunk=5),
    Case("window and chunks", ((30, 60),), window=9, chunk=24),
    Case("soft-cap", ((6, 37),), softcap=1.5),
    Case("sinks", ((6, 37), (3, 3)), sinks=True),
    Case("sinks, window, soft-cap", ((20, 37),), sinks=True, window=7, softcap=2.0),
    Case("float16", ((6, 37),), dtype=torch.float16),
    Case("bfloat16", ((6, 37),), dtype=torch.bfloat16),
]

MOVES = [
    Case("one head", ((1, 20),), kv_heads=1),
    Case("three heads", ((1, 9), (1, 4)), kv_heads=3),
    Case("block of 1", ((1, 6),), block_size=1),
    Case("block of 8", ((1, 19),), block_size=8),
    Case("block of 24, no power of two", ((1, 30),), block_size=24),
    Case("block of 256", ((1, 3),), block_size=256),
    Case("head_dim 80", ((1, 9),), key_dim=80, value_dim=80),
    Case("keys of 96, values of 64", ((1, 9),), key_dim=96, value_dim=64),
    Case("bfloat16", ((1, 9),), dtype=torch.bfloat16),
]
"""For storing tokens and copying blocks."""

TOGETHER = [
    Case("decodes only", ((1, 5), (1, 40)), group=3, kv_heads=3),
    Case("prompts only", ((9, 9), (3, 40))),
    Case("decodes and prompts", ((1, 19), (1, 1), (9, 9), (4, 50)), block_size=8, window=20),
]
"""For a device's kernels as one object: store, then attend."""

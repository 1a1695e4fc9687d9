"""Which kernels a model would get here, and whether they are right here and now.

Attention is asked the questions of ``kvtop.kernels.agreement``, whose answers are the formula in float64; copied blocks
must be equal to the last bit. On a GPU this also compiles the kernels, as a first start does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtop.doctor.finding import Finding, first_line

if TYPE_CHECKING:
    import torch

    from kvtop.kernels.agreement import Case
    from kvtop.kernels.dispatch import Kernels

_WRONG = "do not trust its answers; report it with the output of kvtop doctor --json"


def kernels_finding(device: torch.device, max_num_seqs: int) -> Finding:
    """The kernels that a model on ``device`` gets, put to the test."""
    from kvtop.kernels import dispatch

    return agreement_finding(dispatch.choose(device, max_num_seqs), device)


def agreement_finding(kernels: Kernels, device: torch.device) -> Finding:
    """Whether ``kernels`` attend as the formula says and copy what they are told to."""
    from kvtop.kernels.agreement import TOLERANCE, worst_difference

    try:
        shares = {case.name: worst_difference(kernels, case, device) / TOLERANCE[case.dtype] for case in cases()}
        copied = _copies_blocks(kernels, device)
    except Exception as error:  # a compiler, a driver or a missing operator: all of them end a first step
        return Finding("kernels", "fail", f"{kernels.name}: do not run here: {first_line(error)}", _instead(device))
    wrong = [name for name, share in shares.items() if not share <= 1] + ([] if copied else ["copied blocks"])
    worst = max(shares.values())
    figures = {"cases": float(len(shares)), "worst_share_of_tolerance": worst}
    if wrong:
        value = f"{kernels.name}: do not agree with the reference: {', '.join(wrong)}"
        return Finding("kernels", "fail", value, _WRONG, figures)
    value = (
        f"{kernels.name}: agree with the reference in {len(shares)} cases, "
        f"off by at most {worst:.0%} of what rounding allows"
    )
    return Finding("kernels", "ok", value, figures=figures)


def linears_finding(device: torch.device) -> Finding:
    """How a model's linear layers are computed."""
    import torch

    from kvtop.kernels.linear import packing_works

    if device.type != "cpu":
        return Finding("linears", "ok", "torch's own")
    packed = [name for name in ("bfloat16", "float32") if packing_works(getattr(torch, name))]
    if packed:
        return Finding("linears", "ok", f"packed by oneDNN ({', '.join(packed)}), tried against torch's own")
    slower = "torch's own: its oneDNN does not pack weights here, so decode is slower"
    return Finding("linears", "warn", slower, "another torch of the supported versions may; the answers are the same")


def cases() -> list[Case]:
    """Small batches, each with a reason to fail; among them the default model's heads."""
    import torch

    from kvtop.kernels.agreement import Case

    return [
        Case("decodes", ((1, 1), (1, 17), (1, 40), (1, 64)), kv_heads=3, group=3),
        Case("prompts and decodes", ((1, 19), (5, 40), (33, 33)), block_size=8),
        Case("a window", ((1, 64), (30, 45)), window=9),
        Case("soft-cap and sinks", ((1, 40), (6, 37)), softcap=1.5, sinks=True),
        Case("bfloat16", ((1, 40), (12, 30)), kv_heads=3, group=3, dtype=torch.bfloat16),
    ]


def _copies_blocks(kernels: Kernels, device: torch.device) -> bool:
    """Copy two of six blocks, as copy-on-write does, and compare the whole pool."""
    import torch

    from kvtop.kernels.paged import LayerPool

    pool = LayerPool.allocate(6, 16, 3, 64, 64, dtype=torch.float32, device=device, head_major=kernels.head_major)
    for place, rows in enumerate((pool.key, pool.value)):
        rows.copy_(torch.randn(rows.shape, generator=torch.Generator().manual_seed(place)))
    wanted = pool.key.clone(), pool.value.clone()
    for rows in wanted:
        rows[[4, 1]] = rows[[0, 5]]
    kernels.copy_blocks(pool, pool, torch.tensor([[0, 4], [5, 1]], device=device))
    return torch.equal(pool.key, wanted[0]) and torch.equal(pool.value, wanted[1])


def _instead(device: torch.device) -> str:
    return _WRONG if device.type == "cpu" else f"--device cpu runs without them; {_WRONG.partition('; ')[2]}"

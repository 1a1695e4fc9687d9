"""The kernels' self-test: right ones pass, each kind of wrong one is named."""

import pytest
import torch

from kvtop.doctor import kernels as check
from kvtop.kernels import dispatch, linear, reference
from kvtop.kernels.dispatch import Attend, ReferenceKernels
from kvtop.kernels.paged import AttentionRule, LayerPool, PagedBatch

CPU = torch.device("cpu")


class WindowForgotten(ReferenceKernels):
    name = "forgetful"

    def begin(self, batch: PagedBatch) -> Attend:
        return lambda query, pool, rule: reference.attend(
            query, pool.key, pool.value, batch, AttentionRule(rule.scaling)
        )


class KeysCopiedOnly(ReferenceKernels):
    name = "half"

    def copy_blocks(self, source: LayerPool, target: LayerPool, pairs: torch.Tensor) -> None:
        reference.copy_blocks(source.key, target.key, pairs)


class Uncompiled(ReferenceKernels):
    name = "broken"

    def begin(self, batch: PagedBatch) -> Attend:
        raise RuntimeError("no compiler\nat line 3")


def test_the_kernels_of_a_cpu_agree_with_the_reference() -> None:
    finding = check.kernels_finding(CPU, 64)
    assert (finding.state, finding.advice) == ("ok", "")
    assert finding.value.startswith(f"{dispatch.choose(CPU, 64).name}: agree with the reference in 5 cases")
    assert 0 < finding.figures["worst_share_of_tolerance"] <= 1


def test_kernels_that_forget_the_window_are_named_with_the_cases_that_showed_it() -> None:
    finding = check.agreement_finding(WindowForgotten(), CPU)
    assert finding.state == "fail" and finding.advice
    assert finding.value == "forgetful: do not agree with the reference: a window, soft-cap and sinks"
    assert finding.figures["worst_share_of_tolerance"] > 1


def test_blocks_that_are_copied_in_part_are_found() -> None:
    finding = check.agreement_finding(KeysCopiedOnly(), CPU)
    assert (finding.state, finding.value) == ("fail", "half: do not agree with the reference: copied blocks")


@pytest.mark.parametrize(("device", "way_out"), [("cpu", "report it"), ("cuda", "--device cpu")])
def test_kernels_that_do_not_run_are_a_finding_and_no_end(
    device: str, way_out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "cases", list)
    monkeypatch.setattr(check, "_copies_blocks", lambda kernels, device: Uncompiled().begin(None))  # type: ignore[arg-type]
    finding = check.agreement_finding(Uncompiled(), torch.device(device))
    assert (finding.state, finding.value) == ("fail", "broken: do not run here: RuntimeError: no compiler")
    assert way_out in finding.advice


def test_linears_say_whether_they_are_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "packing_works", lambda dtype: dtype == torch.float32)
    assert check.linears_finding(CPU).value.startswith("packed by oneDNN (float32)")
    monkeypatch.setattr(linear, "packing_works", lambda dtype: False)
    assert check.linears_finding(CPU).state == "warn"
    assert check.linears_finding(torch.device("cuda")).state == "ok"

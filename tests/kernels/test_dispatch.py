import importlib.util
from typing import Any

import pytest
import torch

from kvtop.kernels.dispatch import can_be_captured, choose


@pytest.mark.parametrize(
    ("capability", "installed", "name"),
    [((9, 0), True, "triton"), ((8, 0), True, "triton"), ((7, 5), True, "reference"), ((9, 0), False, "reference")],
)
def test_a_gpu_gets_triton_where_it_is_installed_and_the_card_can(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], installed: bool, name: str
) -> None:
    find: Any = importlib.util.find_spec
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: find(package) if installed else None)
    assert choose(torch.device("cuda"), 8).name == name


def test_a_cpu_gets_the_cpus_kernels() -> None:
    assert choose(torch.device("cpu"), 8).name == "cpu"


def test_only_triton_launches_go_into_a_cuda_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    assert can_be_captured(choose(torch.device("cuda"), 8))
    assert not can_be_captured(choose(torch.device("cpu"), 8))

"""Which kernels run on this device: chosen once, when a model is loaded.

One idea: a runner sees a single ``Kernels`` object and never asks for a device again. ``begin`` is called once a
step and may plan for all layers; what it returns is called once a layer. No kernel is imported before it is chosen.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Protocol

import torch

from kvtop.kernels import reference
from kvtop.kernels.paged import AttentionRule, LayerPool, PagedBatch

Attend = Callable[[torch.Tensor, LayerPool, AttentionRule], torch.Tensor]
"""(query [tokens, query_heads, key_dim], pool, rule) → [tokens, query_heads, value_dim]."""


class Kernels(Protocol):
    """Paged attention and KV movement on one device."""

    name: str
    """What the screen calls them."""
    head_major: bool
    """How they want pools to lie in memory."""

    def begin(self, batch: PagedBatch) -> Attend:
        """Plan the step's attention."""
        ...

    def store(self, key: torch.Tensor, value: torch.Tensor, pool: LayerPool, slots: torch.Tensor) -> None:
        """Write the new tokens' ``key`` and ``value``, [tokens, kv_heads, dim], into ``slots``."""
        ...

    def copy_blocks(self, source: LayerPool, target: LayerPool, pairs: torch.Tensor) -> None:
        """Copy blocks ``pairs[:, 0]`` of ``source`` onto blocks ``pairs[:, 1]`` of ``target``; ``pairs`` is int64
        [n, 2] on the device. The pairs do not depend on one another."""
        ...


class ReferenceKernels:
    """The plain definition, on any device."""

    name = "reference"
    head_major = False

    def begin(self, batch: PagedBatch) -> Attend:
        return partial(_attend_by_reference, batch)

    def store(self, key: torch.Tensor, value: torch.Tensor, pool: LayerPool, slots: torch.Tensor) -> None:
        reference.store_kv(key, value, pool.key, pool.value, slots)

    def copy_blocks(self, source: LayerPool, target: LayerPool, pairs: torch.Tensor) -> None:
        reference.copy_blocks(source.key, target.key, pairs)
        reference.copy_blocks(source.value, target.value, pairs)


def _attend_by_reference(batch: PagedBatch, query: torch.Tensor, pool: LayerPool, rule: AttentionRule) -> torch.Tensor:
    return reference.attend(query, pool.key, pool.value, batch, rule)


def choose(device: torch.device, max_num_seqs: int) -> Kernels:
    """The kernels for a device and batches of up to ``max_num_seqs`` sequences (more are allowed, and slower)."""
    if device.type == "cpu":
        from kvtop.kernels.cpu import CpuKernels

        return CpuKernels()
    if _triton_serves(device):
        from kvtop.kernels.triton_kernels import TritonKernels

        return TritonKernels(device, max_num_seqs)
    return ReferenceKernels()


def can_be_captured(kernels: Kernels) -> bool:
    """Whether a CUDA graph may hold their launches: they read a batch from the device alone."""
    return kernels.name == "triton"


def _triton_serves(device: torch.device) -> bool:
    """Triton is installed, and the GPU is an AMD one or an NVIDIA one since Ampere."""
    if importlib.util.find_spec("triton") is None:
        return False
    return torch.version.hip is not None or torch.cuda.get_device_capability(device) >= (8, 0)

"""What a step costs on a card, in seconds: a model of few numbers, each of which can be looked up or measured.

A step reads all weights and the KV of every running sequence once, at the card's bandwidth; what it prefills costs
arithmetic on top (added, not overlapped, so mixed steps come out a little slow). Lost KV is computed again at the
prefill rate, or moved out to CPU memory and back over PCIe. Used by the simulated runner for its step times and by the
policy lab for its prices; it decides nothing. Sources and assumptions stand beside the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

LLAMA_3_8B_WEIGHTS_BYTES = 16.06e9
"""8.03 billion parameters (Llama 3 model card) of 2 bytes."""
LLAMA_3_8B_KV_BYTES_PER_TOKEN = 131_072
"""bf16: 2 (K, V) * 32 layers * 8 KV heads * 128 dims * 2 bytes."""
FLOP_PER_TOKEN = LLAMA_3_8B_WEIGHTS_BYTES
"""2 a parameter, attention left out: as many as the weights have bytes."""
BANDWIDTH_ATTAINED = 0.8
"""Assumption: the share of a card's peak bandwidth that a decode step attains."""
ARITHMETIC_ATTAINED = 0.5
"""Assumption: the share of a card's peak dense bf16 arithmetic that prefill attains."""
PCIE_ATTAINED = 0.8
"""Assumption: the share of a PCIe link's raw rate that a copy from pinned memory attains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """All rates are attained ones, not peaks."""

    card: str
    bandwidth_bytes_per_s: float
    prefill_tokens_per_s: float
    pcie_bytes_per_s: float
    """One way."""
    weights_bytes: float = LLAMA_3_8B_WEIGHTS_BYTES
    kv_bytes_per_token: float = LLAMA_3_8B_KV_BYTES_PER_TOKEN
    overhead_seconds: float = 0.001
    """A step's fixed part: scheduling, launches, sampling. Assumption."""

    def step_seconds(self, prefill_tokens: int, context_tokens: int) -> float:
        """A step that prefills so many tokens, while the running sequences have so many with KV."""
        read_bytes = self.weights_bytes + context_tokens * self.kv_bytes_per_token
        return (
            self.overhead_seconds + read_bytes / self.bandwidth_bytes_per_s + prefill_tokens / self.prefill_tokens_per_s
        )

    def recompute_seconds(self, tokens: int) -> float:
        """Computing the KV of ``tokens`` tokens again."""
        return tokens / self.prefill_tokens_per_s

    def swap_seconds(self, tokens: int) -> float:
        """Moving the KV of ``tokens`` tokens to CPU memory and back, with nothing else going on meanwhile."""
        return 2 * tokens * self.kv_bytes_per_token / self.pcie_bytes_per_s


def _card(name: str, peak_bandwidth: float, peak_flop_per_s: float, pcie_raw: float) -> CostModel:
    return CostModel(
        card=name,
        bandwidth_bytes_per_s=BANDWIDTH_ATTAINED * peak_bandwidth,
        prefill_tokens_per_s=ARITHMETIC_ATTAINED * peak_flop_per_s / FLOP_PER_TOKEN,
        pcie_bytes_per_s=PCIE_ATTAINED * pcie_raw,
    )


CARDS: Mapping[str, CostModel] = MappingProxyType(
    {
        # NVIDIA A100 80GB SXM data sheet: 2,039 GB/s, 312 TFLOP/s dense bf16, PCIe gen 4 x16 (32 GB/s one way)
        "80gb": _card("80gb", 2.039e12, 312e12, 32e9),
        # NVIDIA H200 SXM data sheet: 4.8 TB/s, 989 TFLOP/s dense bf16, PCIe gen 5 x16 (64 GB/s one way)
        "h200": _card("h200", 4.8e12, 989e12, 64e9),
    }
)
"""Llama-3-8B in bf16 on a card, by name."""
DEFAULT_CARD = "80gb"

"""Uniform numbers without a generator's state: a pure function of a seed and a position.

One idea: a draw depends on (seed, position) and nothing else, so a sequence's text is the same whoever its
neighbours are, and a preempted sequence draws again what it drew before. The function is SplitMix64 (Steele, Lea,
Flood 2014) with the state for a position computed directly.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MASK = (1 << 64) - 1


def uniforms(seeds: list[int], positions: list[int]) -> npt.NDArray[np.float64]:
    """float64 in [0, 1), one for each pair; 53 random bits each. Seeds are taken modulo 2**64."""
    state = _mix(np.array([seed & _MASK for seed in seeds], dtype=np.uint64))
    state += (np.array(positions, dtype=np.uint64) + np.uint64(1)) * _GOLDEN
    return (_mix(state) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def seed_of(nonce: bytes, request_id: str) -> int:
    """A 64-bit seed for a request that brought none: fixed for its life, new with every ``nonce``."""
    digest = hashlib.blake2b(request_id.encode("utf-8", "surrogatepass"), key=nonce, digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _mix(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64's output function; 64-bit wrap-around is meant."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))

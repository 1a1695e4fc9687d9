"""Random numbers without a generator's state: a pure function of a seed, a position and a token.

One idea: a draw depends on (seed, position) and nothing else, so a sequence's text is the same whoever its
neighbours are, and a preempted sequence draws again what it drew before. The function is SplitMix64 (Steele, Lea,
Flood 2014) with the state for a place computed directly.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def uniforms(seed: int, position: int, tokens: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """float64 strictly between 0 and 1, one for each token id; 53 random bits each. ``seed`` is taken modulo 2**64."""
    state = _mix(np.array([seed & _MASK], dtype=np.uint64)) + np.uint64((position + 1) * _GOLDEN & _MASK)
    places = _mix(state) + (tokens.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN)
    return ((_mix(places) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def gumbels(seed: int, position: int, tokens: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Standard Gumbel noise for each token id: the token whose logit plus noise is highest is a draw from the softmax
    of the logits (Gumbel 1954; Maddison et al. 2014, arXiv:1411.0030)."""
    noise: npt.NDArray[np.float64] = -np.log(-np.log(uniforms(seed, position, tokens)))
    return noise


def seed_of(nonce: bytes, request_id: str) -> int:
    """A 64-bit seed for a request that brought none: fixed for its life, new with every ``nonce``."""
    digest = hashlib.blake2b(request_id.encode("utf-8", "surrogatepass"), key=nonce, digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _mix(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64's output function; 64-bit wrap-around is meant."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))

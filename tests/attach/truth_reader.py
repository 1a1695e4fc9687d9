"""The recorded truth of a real vLLM as a scheduler that the exporter can read: one recorded state at a time.

The truth tells that a block has a hash, not which; so hashes are made up here, a new one whenever a block is given new
content. Blocks that are taken in the order of the queue's head were handed out, others were found in the prefix cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any

from kvtop.engine.events import EngineInfo
from kvtop.exporter.reader import RequestEnd, RequestFacts, RunningRow

BLOCK_SIZE = 32


class TruthReader:
    """``show`` a state, then read. Blocks are numbered from vLLM's block 1 on."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.index: object = object()
        self._contents = [0] * (len(state["ref"]) - 1)
        self._last_content = 0
        self._known: dict[str, list[Any]] = {}
        """Request id → what was last recorded of it."""
        self._computed: dict[str, int] = {}
        self._state: dict[str, Any] = {}
        self._free: list[int] = []
        self._alive: dict[str, list[Any]] = {}
        self._order: list[str] = []
        self.show(state)

    def show(self, state: dict[str, Any]) -> None:
        """Go to the next recorded state."""
        before, queue = self._alive, self._free
        self._state = state
        self._alive = {request[0]: request for request in state["reqs"]}
        self._order += [request_id for request_id in self._alive if request_id not in self._known]
        self._free = [block - 1 for block in state["free"]]
        self._note_contents(before, queue)
        for request_id, request in self._alive.items():
            lost = request[6] != self._known.get(request_id, request)[6]
            if state["phase"] == "update" or lost or request_id not in self._computed:
                self._computed[request_id] = request[5] if state["phase"] == "update" else 0
        self._known |= self._alive

    def _note_contents(self, before: dict[str, list[Any]], queue: list[int]) -> None:
        handed_out = set()
        left = list(queue)
        for request_id, request in self._alive.items():
            held = len(before[request_id][7][0]) if request_id in before and before[request_id][7] else 0
            for block in request[7][0][held:] if request[7] else []:
                if block - 1 in left:
                    if left[0] == block - 1:
                        handed_out.add(block - 1)
                    left.remove(block - 1)
        for block, hashed in enumerate(self._state["hashed"][1:]):
            if not hashed:
                self._contents[block] = 0
            elif not self._contents[block] or block in handed_out:
                self._last_content += 1
                self._contents[block] = self._last_content

    # --- what the exporter asks ---------------------------------------------------------------------------------------

    @property
    def num_idle(self) -> int:
        return len(self._free)

    @property
    def num_alive(self) -> int:
        return len(self._alive)

    def newest_first(self) -> Iterator[str]:
        return (request_id for request_id in reversed(self._order) if request_id in self._alive)

    def is_alive(self, request_id: str) -> bool:
        return request_id in self._alive

    def running(self) -> list[RunningRow]:
        return [
            (request_id, request[4], self._computed[request_id], request[6], len(request[7][0]), 7)
            for request_id, request in self._alive.items()
            if not request[2]
        ]

    def grown(self, known: Mapping[str, Sized]) -> list[RunningRow]:
        return [row for row in self.running() if row[4] != len(known.get(row[0], ()))]

    def facts(self, request_id: str) -> RequestFacts:
        return RequestFacts(self._known[request_id][3], max_tokens=0, priority=0)

    def end(self, request_id: str) -> RequestEnd:
        """Every recorded request ended at its limit, with the token that the last update gave it."""
        tokens = self._known[request_id][4] + 1
        return RequestEnd(request_id, "length", tokens, tokens - 1, None)

    def forget(self, request_id: str) -> None:
        del self._known[request_id], self._computed[request_id]

    def tokens(self, request_id: str) -> int:
        return int(self._alive[request_id][4])

    def new_tokens(self, request_id: str, count: int) -> Iterable[int]:
        return [7] * count

    def table(self, request_id: str, start: int) -> list[int]:
        tables = self._alive[request_id][7]
        return [block - 1 for block in tables[0][start:]] if tables else []

    def ref_counts(self) -> Iterable[int]:
        return list(self._state["ref"][1:])

    def block_hashes(self) -> Iterable[int]:
        return self._contents

    def block_hash(self, block: int) -> int:
        return self._contents[block]

    def queue(self) -> Iterator[int]:
        return iter(self._free)

    def queue_backwards(self) -> Iterator[int]:
        return reversed(self._free)


def after_preemptions(before: dict[str, Any], state: dict[str, Any]) -> list[dict[str, Any]]:
    """The states between ``before`` and ``state`` in which a request had just been preempted and nobody had taken its
    blocks yet. The recording lacks them (the exporter observes there): they follow from vLLM's rule for freed blocks,
    which puts those without a hash in front of its queue and the others at its end, the last of the table first."""
    states = []
    for request_id, computed, _ in state["preempted"]:
        request = next(request for request in before["reqs"] if request[0] == request_id)
        refs = bytearray(before["ref"])
        gone = [block for block in reversed(request[7][0]) if refs[block] == 1]
        for block in request[7][0]:
            refs[block] -= 1
        front = [block for block in gone if not before["hashed"][block]]
        back = [block for block in gone if before["hashed"][block]]
        victim = [request_id, "PREEMPTED", 1, request[3], request[4], 0, request[6] + 1, []]
        before = {
            **before,
            "phase": "preempt",
            "reqs": [victim if other[0] == request_id else other for other in before["reqs"]],
            "ref": bytes(refs),
            "free": [*front, *before["free"], *back],
        }
        assert computed == request[5]
        states.append(before)
    return states


def info_of(state: dict[str, Any]) -> EngineInfo:
    """What the recorded server was, as far as the view needs it."""
    return EngineInfo(
        model="SmolLM2-135M-Instruct",
        device="cpu",
        dtype="bfloat16",
        kernel="vLLM 0.32.0",
        block_size=BLOCK_SIZE,
        num_blocks=len(state["ref"]) - 1,
        swap_blocks=0,
        kv_bytes_per_token=23_040,
        max_model_len=2048,
        max_num_seqs=256,
        max_num_batched_tokens=2048,
        policy="paged",
        preempt="recompute",
        victim="newest",
        watermark=0.0,
        prefix_cache=True,
        first_block=1,
    )

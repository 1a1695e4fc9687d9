"""Facts: what a lesson may ask about, as numbers, read from the view and kept for requests that have ended.

Counts of what happened (preemptions, copies, …) begin with the lesson. A fact of a request that never came is 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import msgspec
import numpy as np

from kvtop.engine import events as e
from kvtop.view.pool_view import PoolView

_OF_THE_INFO = ("kv_bytes_per_token", "block_size", "num_blocks", "max_model_len")
_COUNTED = (
    *("preemptions", "recomputed_tokens", "swapped_blocks", "copy_on_write", "prefix_hit_tokens", "evicted_blocks"),
    *("generated_tokens", "completed", "rejected"),
)
_NOW: dict[str, Callable[[PoolView], float]] = {
    "free_blocks": lambda view: view.blocks.free,
    "cached_blocks": lambda view: view.blocks.cached,
    "active_blocks": lambda view: view.blocks.active,
    "shared_blocks": lambda view: int(np.count_nonzero(view.blocks.ref_counts > 1)),
    "running": lambda view: len(view.with_status("running")),
    "waiting": lambda view: len(view.with_status("waiting")),
    "swapped": lambda view: len(view.with_status("swapped")),
    "empty_slots": lambda view: (
        view.blocks.active * view.block_size - int(view.blocks.fills[view.blocks.ref_counts > 0].sum())
    ),
}
_OF_A_REQUEST = ("prompt_tokens", "tokens", "blocks", "most_blocks", "preemptions", "sequences")

FACTS = frozenset((*_OF_THE_INFO, *_COUNTED, *_NOW, "block_bytes", "pool_bytes", "shared_away_blocks"))
FACTS_OF_A_REQUEST = frozenset(_OF_A_REQUEST)


class Facts:
    """``take`` every batch once the view has applied it."""

    def __init__(self, view: PoolView) -> None:
        self._view = view
        self._start = msgspec.structs.replace(view.counters)
        self._of_request: defaultdict[str, dict[str, float]] = defaultdict(dict)
        self._request_of: dict[int, str] = {}
        """By sequence."""
        self._held: dict[str, set[int]] = {}
        """Blocks of each request after the last batch."""

    def take(self, batch: e.Batch) -> None:
        """Note what happened within the batch, and how the requests stand after it."""
        for event in batch.events:
            self._note(event)
        held: defaultdict[str, set[int]] = defaultdict(set)
        lines: defaultdict[str, list[tuple[int, int, int]]] = defaultdict(list)
        for sequence in self._view.sequences.values():
            held[sequence.request_id].update(sequence.table)
            lines[sequence.request_id].append((sequence.prompt_tokens, sequence.tokens, sequence.preemptions))
        for request_id, known in self._of_request.items():
            if request_id not in lines:
                known["blocks"] = 0
        for request_id, sequences in lines.items():
            known = self._of_request[request_id]
            known["prompt_tokens"] = sequences[0][0]
            known["tokens"] = max(tokens for _, tokens, _ in sequences)
            known["preemptions"] = sum(preemptions for _, _, preemptions in sequences)
            known["blocks"] = len(held[request_id])
            known["most_blocks"] = max(known.get("most_blocks", 0), known["blocks"])
            known["sequences"] = max(known.get("sequences", 0), len(sequences))
        self._held = dict(held)
        self._request_of = {sequence.seq: sequence.request_id for sequence in self._view.sequences.values()}

    def _note(self, event: e.AnyEvent) -> None:
        """What the view does not show after the batch: what a sequence had that ended in it."""
        if isinstance(event, e.Completed):
            self._of_request[event.request_id]["preemptions"] = event.preemptions
        elif isinstance(event, e.Finished):
            known = self._of_request[event.request_id]
            tokens = known.get("prompt_tokens", 0) + event.generated
            known["tokens"] = max(known.get("tokens", 0), tokens)
        elif isinstance(event, e.Queued):
            self._request_of[event.seq] = event.request_id
        elif isinstance(event, e.Allocated | e.Copied) and (request_id := self._request_of.get(event.seq)):
            held = self._held.setdefault(request_id, set())
            held.update(e.from_runs(event.runs) if isinstance(event, e.Allocated) else [event.dst])
            known = self._of_request[request_id]
            known["most_blocks"] = max(known.get("most_blocks", 0), len(held))
        elif isinstance(event, e.Preempted):
            self._held.pop(self._request_of.get(event.seq, ""), None)

    def knows(self, request_id: str) -> bool:
        """The request has come."""
        return request_id in self._of_request

    def fact(self, name: str) -> float:
        """A fact of FACTS; 0 before the engine is there."""
        info = self._view.info
        if info is None:
            return 0
        if name in _OF_THE_INFO:
            return float(getattr(info, name))
        if name in _COUNTED:
            return float(getattr(self._view.counters, name) - getattr(self._start, name))
        if name in _NOW:
            return _NOW[name](self._view)
        block_bytes = info.kv_bytes_per_token * info.block_size
        if name == "shared_away_blocks":
            return float(np.maximum(self._view.blocks.ref_counts - 1, 0).sum())
        return block_bytes if name == "block_bytes" else block_bytes * info.num_blocks

    def fact_of(self, name: str, request_id: str) -> float:
        """A fact of FACTS_OF_A_REQUEST."""
        return self._of_request[request_id].get(name, 0)

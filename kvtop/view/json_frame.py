"""One frame as plain data for programs: everything the dashboard's figures, rows and log say, by name and unrounded.

What is not known is None, never 0. Texts are the callers' and the model's own, uncleaned: whoever prints the JSON
escapes what is not ASCII (``json.dumps`` does by default).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import msgspec
import numpy as np

from kvtop.engine.events import Waits, to_runs
from kvtop.view import figures
from kvtop.view.event_log import LogEntry
from kvtop.view.finding import Finding
from kvtop.view.pool_view import PoolView
from kvtop.view.preemptions import Preemption, is_out
from kvtop.view.prefix_tree import prefix_tree
from kvtop.view.sequence_view import EndedRequest, SequenceView
from kvtop.view.sequence_words import state_of
from kvtop.view.turns import head_of
from kvtop.view.wait_now import wait_now
from kvtop.view.waste import measure_waste

RECENT = 50
"""Events and ended requests that are told, the latest."""


def frame_as_json(view: PoolView, now_s: float, state: str, findings: Sequence[Finding] = ()) -> dict[str, Any]:
    """The view at wall time ``now_s``; ``state`` says what the engine is doing, ``findings`` stand. Before the first
    snapshot ``engine`` and ``pool`` are None."""
    return {
        "state": state,
        "step": view.step,
        "wall_s": view.wall_s or None,
        "paused": view.paused,
        "incomplete_since_event": view.incomplete_since,
        "engine": msgspec.to_builtins(view.info) | {"settings": view.settings} if view.info else None,
        "pool": _pool(view),
        "figures": _figures(view, now_s),
        "counters": msgspec.to_builtins(view.counters),
        "sequences": _sequences(view, now_s),
        "ended": [_ended(ended) for ended in islice(reversed(view.ended), RECENT)],
        "prefix": _prefix(view),
        "findings": [_finding(finding) for finding in findings],
        "preemptions": [_preemption(view, preemption) for preemption in view.preemptions],
        "events": [_event(entry) for entry in list(view.log.entries)[-RECENT:]],
    }


def _pool(view: PoolView) -> dict[str, Any] | None:
    waste = measure_waste(view)
    if waste is None:
        return None
    blocks = view.blocks
    return {
        "num_blocks": blocks.num_blocks,
        "active": blocks.active,
        "cached": blocks.cached,
        "free": blocks.free,
        "shared": int(np.count_nonzero(blocks.ref_counts > 1)),
        "cached_runs": to_runs(blocks.cached_order().tolist()),
        "swap_blocks": view.swap.num_blocks,
        "swap_active": view.swap.active,
        "slots": {
            "total": waste.total,
            "held": waste.held,
            "live": waste.live,
            "reserved_unfilled": waste.reserved_unfilled,
            "internal": waste.internal,
            "external": waste.external,
            "slot_bytes": waste.slot_bytes,
            "wasted_share": waste.wasted_share,
        },
    }


def _figures(view: PoolView, now_s: float) -> dict[str, float | None]:
    """Each with its time scale in its name, where it has one."""
    return {
        "tokens_per_s_10s": figures.tokens_per_second(view, now_s),
        "preemptions_per_min_60s": figures.preemptions_per_minute(view, now_s),
        "recompute_share_60s": figures.recompute_share(view, now_s),
        "prefix_hit_rate": figures.hit_rate(view),
        "seconds_until_full": figures.seconds_until_full(view, now_s),
    }


def _sequences(view: PoolView, now_s: float) -> list[dict[str, Any]]:
    heads = [head for head in (head_of(view, "waiting"), head_of(view, "swapped")) if head is not None]
    waits = {head.seq: wait_now(view, head.wait) for head in heads if head.wait is not None}
    return [_sequence(view, sequence, waits.get(sequence.seq), now_s) for sequence in view.sequences.values()]


def _sequence(view: PoolView, sequence: SequenceView, wait: Waits | None, now_s: float) -> dict[str, Any]:
    """``wait``: what it lacks now; None for whoever is not the head of a queue."""
    refs = view.blocks.ref_counts[sequence.table]
    return {
        "seq": sequence.seq,
        "request_id": sequence.request_id,
        "index": sequence.index,
        "n": sequence.n,
        "beam_width": sequence.beam_width,
        "priority": sequence.priority,
        "status": sequence.status,
        "state": state_of(sequence),
        "wait": msgspec.to_builtins(wait) if wait else None,
        "prompt_tokens": sequence.prompt_tokens,
        "generated_tokens": sequence.generated,
        "max_tokens": sequence.max_tokens,
        "computed_tokens": sequence.computed,
        "cached_tokens": sequence.cached_tokens,
        "blocks": len(sequence.table),
        "shared_blocks": int(np.count_nonzero(refs > 1)),
        "table_runs": to_runs(sequence.table),
        "swap_runs": to_runs(sequence.swap_table),
        "preemptions": sequence.preemptions,
        "recomputed_tokens": sequence.recomputed_tokens,
        "queued_s": sequence.queued_s,
        "first_token_s": sequence.first_token_s,
        "longest_gap_s": sequence.longest_gap_s(now_s, view.pauses) if sequence.last_token_s is not None else None,
        "prompt": sequence.prompt,
        "text": sequence.raw_text,
    }


def _prefix(view: PoolView) -> dict[str, Any] | None:
    """The tree as a list, parents first; a branch names its parent by its place in the list. ``depth`` is in blocks,
    None where what comes before is not in the index any more."""
    if view.info is None:
        return None
    tree = prefix_tree(view)
    branches = [branch for branch, _ in tree.rows()] if view.caches_prefixes else None
    place_of = {id(branch): place for place, branch in enumerate(branches or ())}
    parent_of = {id(below): place_of[id(branch)] for branch in branches or () for below in branch.branches}
    return {
        "indexed_blocks": tree.indexed_blocks if branches is not None else None,
        "saved_blocks": tree.saved_blocks,
        "queried_tokens": view.counters.prefix_queried_tokens,
        "hit_tokens": view.counters.prefix_hit_tokens,
        "branches": None
        if branches is None
        else [
            {
                "parent": parent_of.get(id(branch)),
                "depth": None if branch.is_cut else branch.depth,
                "block_runs": to_runs(branch.blocks),
                "ref_count": branch.ref_count,
                "hits": branch.hits,
                "saved_blocks": branch.saved,
                "seqs": branch.seqs,
            }
            for branch in branches
        ],
    }


def _ended(ended: EndedRequest) -> dict[str, Any]:
    whole: dict[str, Any] = msgspec.to_builtins(ended)
    del whole["name"]
    return whole


def _finding(finding: Finding) -> dict[str, Any]:
    case = finding.case
    return {
        "key": finding.key,
        "weight": case.weight,
        "headline": case.headline,
        "evidence": case.evidence,
        "advice": case.advice,
        "seq": case.seq or None,
        "since_s": finding.since_s,
        "since_step": finding.since_step,
        "seen_step": finding.seen_step,
    }


def _preemption(view: PoolView, preemption: Preemption) -> dict[str, Any]:
    event = preemption.event
    return {
        "step": preemption.step,
        "wall_s": preemption.wall_s,
        "seq": event.seq,
        "name": preemption.name,
        "rule": event.rule,
        "mode": event.mode,
        "needed_by": event.needed_by or None,
        "held_blocks": event.held,
        "freed_blocks": event.freed,
        "tokens_to_recompute_at_most": event.tokens if event.mode == "recompute" else 0,
        "swapped_blocks": preemption.swapped_blocks,
        "out": is_out(view, preemption),
        "back_step": preemption.back_step,
        "ended_step": preemption.ended_step,
    }


def _event(entry: LogEntry) -> dict[str, Any]:
    return {"step": entry.step, "wall_s": entry.wall_s, "event": msgspec.to_builtins(entry.event)}

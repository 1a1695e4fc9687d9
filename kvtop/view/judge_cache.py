"""Rules about the prefix cache: it never helps, or it loses blocks before they can."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from kvtop.engine.events import Cached, Evicted, from_runs
from kvtop.view.finding import Case, Rule
from kvtop.view.series import BIN_SECONDS, BINS, Column
from kvtop.view.words import count, duration, share

if TYPE_CHECKING:
    from kvtop.view.pool_view import PoolView

LOOK_BACK_SECONDS = BINS * BIN_SECONDS
LEAST_SEEN_SECONDS = 20.0
LEAST_QUERIED_BLOCKS = 100
"""Prompts of that many blocks must have been looked up before a miss is telling."""
LEAST_COMPLETED = 10
THRASH_SECONDS = 60.0
LEAST_LOST_BLOCKS = 16


def cache_never_hits(view: PoolView, now_s: float, held: bool) -> Case | None:
    """Many prompts were looked up in the prefix cache, and next to nothing was found."""
    if not view.caches_prefixes or view.counters.completed < LEAST_COMPLETED:
        return None
    queried = view.series.gained(Column.QUERIED, now_s, LOOK_BACK_SECONDS)
    hit = view.series.gained(Column.HIT, now_s, LOOK_BACK_SECONDS)
    if not queried or not hit or queried[0] < LEAST_QUERIED_BLOCKS * view.block_size:
        return None
    if (queried[1] < LEAST_SEEN_SECONDS and not held) or len(lost_blocks(view, now_s)) >= LEAST_LOST_BLOCKS:
        return None  # too early, or it would have helped, had it kept what it held
    if hit[0] > (0.03 if held else 0.01) * queried[0]:
        return None
    return Case(
        "note",
        "the prefix cache does not help this traffic",
        f"{hit[0]:,} of {queried[0]:,} prompt tokens were found in it over the last {duration(queried[1])}; "
        f"{count(view.blocks.cached, 'block')} hold cached prefixes",
        f"put what prompts have in common at their beginning, {view.block_size} tokens or more: only whole blocks from "
        "the first token on are found. It costs little; --no-prefix-cache switches it off",
    )


def cache_thrashes(view: PoolView, now_s: float, held: bool) -> Case | None:
    """Blocks that the cache held and evicted are computed again for others soon after."""
    if not view.caches_prefixes:
        return None
    gone = lost_blocks(view, now_s)
    if len(gone) < max(LEAST_LOST_BLOCKS, (0.05 if held else 0.1) * view.blocks.num_blocks):
        return None
    queried = view.series.gained(Column.QUERIED, now_s, THRASH_SECONDS)
    hit = view.series.gained(Column.HIT, now_s, THRASH_SECONDS)
    found = f"; {share(hit[0], queried[0])} of looked-up prompt tokens were found" if queried and hit else ""
    return Case(
        "warning",
        "the prefix cache is evicted before it can help",
        f"{count(len(gone), 'block')} computed again in the last {duration(THRASH_SECONDS)} that the cache had held, "
        f"half of them within {duration(median(gone))} of their eviction{found}",
        "give the pool more memory (--kv-memory), admit fewer at once (max_num_seqs), or send requests with the same "
        "beginning close together",
    )


def lost_blocks(view: PoolView, now_s: float) -> list[float]:
    """For every block computed in the last THRASH_SECONDS whose content another sequence had put into the cache, and
    which was evicted since: the seconds from its eviction. As far as the log reaches back."""
    content: dict[int, tuple[int, int]] = {}
    evicted: dict[int, tuple[int, float]] = {}
    lost: list[float] = []
    for entry in view.log.entries:
        event = entry.event
        if isinstance(event, Cached):
            for block, digest in zip(from_runs(event.runs), event.hashes, strict=True):
                content[block] = digest, event.seq
                seq, since = evicted.pop(digest, (event.seq, 0.0))
                if seq != event.seq and entry.wall_s >= now_s - THRASH_SECONDS:
                    lost.append(entry.wall_s - since)
        elif isinstance(event, Evicted):
            for block in from_runs(event.runs):
                if block in content:
                    digest, seq = content.pop(block)
                    evicted[digest] = seq, entry.wall_s
    return lost


RULES = (Rule("cache-misses", cache_never_hits), Rule("cache-thrash", cache_thrashes))

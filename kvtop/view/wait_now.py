"""What the one who waits lacks at this moment. A Waits event tells what there was when the wait began or its need
changed; whatever speaks of the present reads it through here, with free and cached blocks as the pool has them now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kvtop.engine.events import Waits
from kvtop.view.describe import wait_words
from kvtop.view.waste import largest_hole

if TYPE_CHECKING:
    from kvtop.view.pool_view import PoolView


def wait_now(view: PoolView, wait: Waits) -> Waits:
    """``wait`` with what is free, cached, promised and running now; reason and need are those of the event, which the
    engine tells anew when they change."""
    return msgspec.structs.replace(
        wait,
        free=view.blocks.free,
        cached=view.blocks.cached,
        promised=min(wait.promised, _promised(view)),
        running=len(view.with_status("running")),
    )


def is_met(view: PoolView, wait: Waits) -> bool:
    """Whether what it waited for is there by now: the next step looks again."""
    now = wait_now(view, wait)
    if wait.reason == "seats":
        return now.running < wait.running
    if wait.reason != "blocks":
        return False
    if view.info is not None and view.info.policy != "paged":  # a reservation wants one piece
        return largest_hole(view.blocks.ref_counts == 0) >= wait.needed
    return now.free + now.cached >= wait.needed + now.promised


def wait_words_now(view: PoolView, wait: Waits) -> str:
    """Why the head of the queue waits, as it is now: ``needs 7 blocks, 3 free``."""
    now = wait_now(view, wait)
    if not is_met(view, wait):
        return wait_words(now)
    if wait.reason == "seats":
        return f"a seat is free now, {now.running:,} run: the next step looks again"
    return f"needs {wait.needed:,}, {now.free + now.cached:,} to be had now: the next step looks again"


def _promised(view: PoolView) -> int:
    """Blocks that running sequences will still take for the tokens they have."""
    size = view.block_size
    prefilling = (s for s in view.with_status("running") if s.in_prefill)
    return sum(max(0, -(-s.tokens // size) - len(s.table)) for s in prefilling)

"""A view put together by hand and a log that watches it: what tests of findings set up in a few words."""

from __future__ import annotations

from collections.abc import Callable

from kvtop.engine.events import EngineInfo, Event, PreemptMode, WaitReason, Waits
from kvtop.view.blocks_view import BlocksView
from kvtop.view.finding import Finding
from kvtop.view.findings import FindingsLog
from kvtop.view.pool_view import PoolView
from kvtop.view.sequence_view import EndedRequest, SequenceView

START_S = 1_000_000.0


class MadeView:
    """``run(seconds)`` lets time pass, half a second at a time, and observes."""

    def __init__(
        self,
        num_blocks: int = 100,
        block_size: int = 16,
        policy: str = "paged",
        preempt: PreemptMode = "recompute",
        swap_blocks: int = 0,
    ) -> None:
        view = self.view = PoolView()
        view.info = EngineInfo(
            model="made", device="none", dtype="none", kernel="none", block_size=block_size, num_blocks=num_blocks,
            swap_blocks=swap_blocks, kv_bytes_per_token=1024, max_model_len=4096, max_num_seqs=64,
            max_num_batched_tokens=2048, policy=policy, preempt=preempt, victim="newest", watermark=0.0,
            prefix_cache=True,
        )  # fmt: skip
        view.settings = {"preempt": preempt, "watermark": "0.0", "max_num_seqs": "64"}
        view.blocks = BlocksView(num_blocks)
        view.swap = BlocksView(swap_blocks)
        view.wall_s = START_S
        view.number = view.step = 1
        self.log = FindingsLog()
        self._free = 0
        self._made = 0

    def sequence(
        self,
        blocks: int = 0,
        tokens: int | None = None,
        wait: WaitReason | None = None,
        request_id: str = "",
        preemptions: int = 0,
    ) -> SequenceView:
        """A running one with ``blocks`` full blocks (or ``tokens`` in them), or one that waits at the head."""
        view = self.view
        self._made += 1
        seq = self._made
        table = list(range(self._free, self._free + blocks))
        self._free += blocks
        filled = blocks * view.block_size if tokens is None else tokens
        made = SequenceView(
            seq=seq,
            request_id=request_id or f"req-{seq}",
            name=request_id or f"req-{seq}",
            index=0,
            n=1,
            beam_width=0,
            priority=0,
            prompt_tokens=max(1, filled // 2),
            max_tokens=4 * max(1, filled),
            prompt="",
            status="waiting" if wait else "running",
            tokens=max(1, filled),
            computed=filled,
            table=table,
            swap_table=[],
            preemptions=preemptions,
            queued_s=view.wall_s,
        )
        view.sequences[seq] = made
        if table:
            view.blocks.take([(table[0], blocks)], seq, view.step)
            view.blocks.write(table, made.fills(view.block_size, blocks), view.step)
        if wait is not None:
            made.wait = Waits(
                id=self.next_id(), seq=seq, reason=wait, needed=9, free=view.blocks.free, cached=0, running=3
            )
            self.tell(made.wait)
        return made

    def ended(self, tokens: int, times: int = 1) -> None:
        """Requests that ended with so many tokens."""
        self.view.counters.completed += times
        for number in range(times):
            self.view.ended.append(
                EndedRequest(
                    request_id=f"e{number}", name=f"e{number}", reasons=["length"], prompt_tokens=tokens // 2,
                    generated=tokens - tokens // 2, ended_s=self.view.wall_s, ended_step=1,
                )
            )  # fmt: skip

    def cache(self, blocks: int) -> None:
        """Blocks that nobody holds and the prefix index does."""
        first = self._free
        self._free += blocks
        self.view.blocks.take([(first, blocks)], 999, self.view.step)
        self.view.blocks.index([(first, blocks)], list(range(1, blocks + 1)), 0, self.view.step)
        self.view.blocks.release([(first, blocks)], self.view.step)

    def drop(self, sequence: SequenceView) -> None:
        """It ends."""
        if sequence.table:
            self.view.blocks.release([(sequence.table[0], len(sequence.table))], self.view.step)
        del self.view.sequences[sequence.seq]

    def next_id(self) -> int:
        self.view.last_event_id += 1
        return self.view.last_event_id

    def tell(self, event: Event) -> None:
        self.view.log.add(self.view.step, self.view.wall_s, event)  # type: ignore[arg-type]

    def run(self, seconds: float, each: Callable[[], object] = lambda: None) -> list[Finding]:
        """What stands afterwards; ``each`` happens every half second."""
        for _ in range(round(seconds * 2)):
            view = self.view
            view.wall_s += 0.5
            view.number += 1
            view.step += 1
            each()
            view.series.add(view)
            self.log.observe(view)
        return self.log.standing

    @property
    def standing(self) -> list[str]:
        """Keys of what stands."""
        return [finding.key for finding in self.log.standing]

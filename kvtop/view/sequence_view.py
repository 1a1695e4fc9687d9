"""What is known of one sequence, as rows, panels and findings read it.

Kept by PoolView from events alone. Times are wall-clock seconds of the batch that brought the news; None means that
it has not happened, or happened before watching began. ``request_id`` is the caller's own string, for commands only:
whatever is shown comes from ``name``, ``prompt`` and ``text``, which are clean.
"""

from __future__ import annotations

import msgspec

from kvtop.engine.events import FinishReason, PreemptMode, SequenceState, SequenceStatus, Waits, from_runs
from kvtop.view.clean import clean_line, clean_text
from kvtop.view.life import Life, Phase
from kvtop.view.pauses import Pauses

TEXT_TAIL = 2_000
"""Characters of generated text kept for each sequence."""


def display_name(request_id: str, index: int, several: bool) -> str:
    """``req-18``, or ``req-18/2`` for the second of several samples or beams."""
    name = clean_line(request_id, 40)
    return f"{name}/{index + 1}" if several else name


class SequenceView(msgspec.Struct, kw_only=True):
    """One sequence; ``table[i]`` is the physical block of logical block i."""

    seq: int
    request_id: str
    name: str
    index: int
    n: int
    beam_width: int
    priority: int
    prompt_tokens: int
    max_tokens: int
    prompt: str
    status: SequenceStatus = "waiting"
    tokens: int
    """Prompt and generated tokens."""
    computed: int = 0
    """Tokens whose KV is in the table's blocks (or, swapped, in the swap table's)."""
    high_water: int = 0
    """The largest ``computed`` ever lost: computing below it again is recompute."""
    table: list[int]
    swap_table: list[int]
    cached_tokens: int = 0
    """Prompt tokens taken from the prefix cache at the first admission."""
    preemptions: int = 0
    recomputed_tokens: int = 0
    preempt_mode: PreemptMode | None = None
    """How it was last preempted, until it runs again."""
    wait: Waits | None = None
    """Why it could not be admitted when it last was the head of the queue."""
    admitted_order: int = 0
    """Rises with every admission; 0 while it never ran."""
    arrival: int = 0
    """Rises with every request; 0: not told, ``seq`` serves."""
    queued_step: int = 0
    """Step at which it last joined a queue."""
    admitted_step: int | None = None
    """Step at which it last began to run."""
    queued_s: float | None = None
    first_token_s: float | None = None
    last_token_s: float | None = None
    last_token_step: int | None = None
    closed_gap_s: float = msgspec.field(default=0.0, name="longest_gap_s")
    """The longest time between two of its tokens so far, but for what the engine was paused."""
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None
    """The stop string (untrusted) or token id that ended it."""
    raw_text: str = ""
    """The end of what it generated, as it came: never show this, show ``text``."""
    life: Life = msgspec.field(default_factory=Life)

    @property
    def generated(self) -> int:
        return self.tokens - self.prompt_tokens

    @property
    def queue_order(self) -> tuple[int, int, int]:
        """Its place in a queue, as the scheduler sorts it: what is smaller goes first."""
        return self.priority, self.arrival or self.seq, self.index

    @property
    def text(self) -> str:
        """The end of what it generated, clean; may hold line breaks."""
        return clean_text(self.raw_text, TEXT_TAIL)

    @property
    def in_prefill(self) -> bool:
        """More than the newest token lacks KV, so the next step samples nothing or catches up first."""
        return self.tokens - self.computed > 1 or self.computed < self.prompt_tokens

    @property
    def phase(self) -> Phase:
        """What it goes through now."""
        if self.status == "swapped":
            return "swapped"
        if self.status == "waiting":
            return "preempted" if self.preemptions else "waits"
        if not self.in_prefill:
            return "decode"
        return "recompute" if self.preemptions else "prefill"

    @property
    def frozen(self) -> bool:
        """It has given out tokens and does not run now: whoever reads its stream sees it stand still."""
        return self.generated > 0 and self.status in ("waiting", "swapped")

    def frozen_steps(self, step: int) -> int | None:
        """Steps since its last token, at ``step``; None before the first one, or when unknown."""
        return None if self.last_token_step is None else step - self.last_token_step

    def frozen_seconds(self, now_s: float, pauses: Pauses) -> float | None:
        """Seconds since its last token, at wall time ``now_s``, in which the engine was not paused; None before the
        first one, or when unknown."""
        return None if self.last_token_s is None else pauses.outside(self.last_token_s, now_s)

    def longest_gap_s(self, now_s: float, pauses: Pauses) -> float:
        """The longest time that its reader saw no token come after another, with the one that goes on at wall time
        ``now_s``; 0 before its first token."""
        goes_on = self.frozen_seconds(now_s, pauses) if self.status != "finished" else None
        return max(self.closed_gap_s, goes_on or 0.0)

    def add_token(self, text: str, step: int, wall_s: float, pauses: Pauses) -> None:
        """It gained a token, and ``text`` became final with it."""
        self.tokens += 1
        if text:
            self.raw_text = (self.raw_text + text)[-TEXT_TAIL:]
        if self.last_token_s is None:
            self.first_token_s = self.first_token_s or wall_s
        else:
            self.closed_gap_s = self.longest_gap_s(wall_s, pauses)
        self.last_token_s = wall_s
        self.last_token_step = step
        self.life.enter("decode", step + 1, wall_s)

    def keep_times_of(self, before: SequenceView) -> None:
        """Take over what a snapshot doesn't tell from what was known of the same sequence before it."""
        self.prompt = self.prompt or before.prompt
        self.preempt_mode = before.preempt_mode if self.status in ("waiting", "swapped") else None
        self.admitted_step = before.admitted_step
        self.queued_s = before.queued_s
        self.first_token_s = before.first_token_s
        self.last_token_s = before.last_token_s
        self.last_token_step = before.last_token_step
        self.closed_gap_s = before.closed_gap_s
        self.life = before.life

    def fills(self, block_size: int, blocks: int) -> list[int]:
        """Computed slots in each of its first ``blocks`` blocks."""
        return [max(0, min(block_size, self.computed - i * block_size)) for i in range(blocks)]


class EndedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that completed or was rejected, for the list of what is over."""

    request_id: str
    name: str
    reasons: list[FinishReason]
    prompt_tokens: int
    generated: int = 0
    cached_tokens: int = 0
    preemptions: int = 0
    recomputed_tokens: int = 0
    swapped_blocks: int = 0
    queued_s: float | None = None
    first_token_s: float | None = None
    ended_s: float
    ended_step: int
    longest_gap_s: float = 0.0
    life: Life = msgspec.field(default_factory=Life)
    """Of its first sequence."""
    text: str = ""
    """The end of its first sequence's text, clean and on one line; for a rejected one the reason."""


def from_state(state: SequenceState) -> SequenceView:
    """A sequence as a snapshot tells it; what a snapshot doesn't tell (times) stays unknown."""
    return SequenceView(
        seq=state.seq,
        request_id=state.request_id,
        name=display_name(state.request_id, state.index, state.n > 1 or state.beam_width > 1),
        index=state.index,
        n=state.n,
        beam_width=state.beam_width,
        priority=state.priority,
        prompt_tokens=state.prompt_tokens,
        max_tokens=state.max_tokens,
        prompt=clean_line(state.prompt, 300),
        status=state.status,
        tokens=state.tokens,
        computed=state.computed,
        high_water=state.high_water,
        table=from_runs(state.runs),
        swap_table=from_runs(state.swap_runs),
        cached_tokens=state.cached_tokens,
        preemptions=state.preemptions,
        recomputed_tokens=state.recomputed_tokens,
        wait=state.wait,
        admitted_order=state.admitted_order,
        arrival=state.arrival,
        queued_step=state.queued_step,
        life=Life(is_cut=True),
        raw_text=state.text[-TEXT_TAIL:],
    )

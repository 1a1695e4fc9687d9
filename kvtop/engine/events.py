"""What the engine tells the world: typed events, batches and snapshots.

Everything a watcher can know is here. An event says what changed, *why* (the rule and its numbers) and which
earlier event made it necessary (``cause``), so that a watcher explains by reading along causes and computes
no reasons of its own. Applying every batch in order, or one snapshot and what follows it, rebuilds the exact
state of the pool. The structs are immutable and travel as MessagePack; nothing here does IO or reads a clock.

Block ids travel as *runs*: ``[(first, count), ...]`` in table order, each run ascending.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

Run = tuple[int, int]
Space = Literal["pool", "swap"]
PreemptMode = Literal["recompute", "swap"]
FinishReason = Literal["stop", "length", "abort", "rejected", "pool_exhausted", "error", "pruned"]
"""How a sequence ended. ``pruned``: a beam that fell behind; never the end of a whole request."""

WaitReason = Literal["seats", "token_budget", "blocks", "watermark", "swapped_first", "siblings", "preemption_bound"]
"""Why the head of the queue is not admitted: no seat under max_num_seqs; the step's tokens are spent; too few
blocks; the watermark; swapped-out sequences come back first; a sibling is about to compute what it will share; it
was preempted as often as allowed, and another such sequence runs (at most one does, so that it cannot be a victim
again)."""

SequenceStatus = Literal["waiting", "running", "swapped", "finished"]


def to_runs(blocks: Iterable[int]) -> list[Run]:
    """Block ids in order → ascending runs in the same order: ``[5, 6, 7, 2] → [(5, 3), (2, 1)]``."""
    runs: list[Run] = []
    start = previous = -2
    for block in blocks:
        if block != previous + 1:
            if start >= 0:
                runs.append((start, previous - start + 1))
            start = block
        previous = block
    if start >= 0:
        runs.append((start, previous - start + 1))
    return runs


def from_runs(runs: Sequence[Run]) -> list[int]:
    """The inverse of :func:`to_runs`."""
    return [block for first, count in runs for block in range(first, first + count)]


def _snake(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="type", tag=_snake, omit_defaults=True):
    """Base of all events. ``id`` rises by one for every event; ``cause`` is the id of the event that made this one
    necessary, 0 when it came from outside."""

    id: int
    cause: int = 0


# --- requests and sequences -------------------------------------------------------------------------------------------


class Queued(Event, frozen=True):
    """A request was accepted and its first sequence waits."""

    seq: int
    request_id: str
    prompt_tokens: int
    max_tokens: int
    n: int = 1
    beam_width: int = 0
    priority: int = 0
    prompt: str = ""
    """The prompt as text, cut to a few hundred characters; empty when it was given as token ids. Untrusted."""


class Rejected(Event, frozen=True):
    """A request can never run and was refused when it was added. Terminal for the request."""

    request_id: str
    reason: str
    needed_blocks: int
    num_blocks: int
    prompt_tokens: int


class Forked(Event, frozen=True):
    """``seq`` was made from ``parent``: a parallel sample or a beam. When it runs at once a Shared event follows;
    when it must wait (no seat, no block) it holds nothing and will share when it is admitted. ``tokens`` are those
    it starts with; the token that sets it apart comes in the step's Advanced (with a count of 0)."""

    seq: int
    parent: int
    request_id: str
    index: int
    tokens: int
    runs_now: bool
    needed: int
    """Blocks it will need for its next token."""
    free: int
    cached: int


class Waits(Event, frozen=True):
    """The head of the queue cannot be admitted; sent when the reason or the need changes, not every step."""

    seq: int
    reason: WaitReason
    needed: int
    """Blocks it needs, cached ones it would revive included."""
    free: int
    cached: int
    promised: int = 0
    """Blocks already promised to sequences that are still in prefill."""
    watermark_blocks: float = 0.0
    running: int = 0


class Admitted(Event, frozen=True):
    """A waiting sequence starts to run for the first time."""

    seq: int
    tokens: int
    """Tokens known so far, all of which need KV before the next token can be sampled."""
    cached_tokens: int
    needed: int
    free: int
    cached: int
    promised: int
    watermark_blocks: float
    running: int
    """Running sequences after this admission."""
    waited_steps: int
    shared: int = 0
    """Blocks it takes beside the needed ones because others hold them already: its table will hold both."""


class Resumed(Event, frozen=True):
    """A preempted sequence runs again. ``mode`` says how it had been preempted."""

    seq: int
    mode: PreemptMode
    tokens: int
    cached_tokens: int
    needed: int
    free: int
    cached: int
    running: int
    waited_steps: int
    shared: int = 0


class Preempted(Event, frozen=True):
    """A running sequence lost its blocks. ``cause`` is the shortage (or the command) that made it necessary."""

    seq: int
    rule: str
    """The victim rule that chose it: ``newest``, ``lowest-priority``, ``most-blocks``, or ``operator``."""
    mode: PreemptMode
    needed_by: int
    """The sequence that needed a block; 0 when the operator asked, or when a watched server does not say."""
    held: int
    freed: int
    """Blocks that nobody holds any more because of this (shared ones stay held)."""
    tokens: int
    """Tokens whose KV must be copied back before it goes on, or recomputed: at most, for it may find a prefix then."""
    preemptions: int
    """How often this sequence was preempted, this time included."""
    swap_full: bool = False
    """Swap was asked for but the swap space had too little room, so it recomputes."""


class Finished(Event, frozen=True):
    """A sequence ended; if it held blocks, a Freed event that names this one as cause follows."""

    seq: int
    request_id: str
    reason: FinishReason
    generated: int
    stop_reason: str | int | None = None
    """The stop string or stop token id that ended it."""
    message: str = ""


class Completed(Event, frozen=True):
    """All sequences of a request ended. Exactly one Completed or Rejected is sent for each request."""

    request_id: str
    reasons: list[FinishReason]
    """One an output, in sample order."""
    prompt_tokens: int
    cached_tokens: int
    generated: int
    preemptions: int
    recomputed_tokens: int
    swapped_blocks: int
    answer: list[int] = []
    """Beam search only: the tokens of the best hypothesis."""
    answer_text: str = ""


class Warned(Event, frozen=True):
    """Something an operator should know, said once: for instance a request preempted again and again."""

    message: str
    seq: int = 0


# --- blocks -----------------------------------------------------------------------------------------------------------


class Shortage(Event, frozen=True):
    """A sequence needs more blocks than are free; evictions and preemptions that follow name this as their cause."""

    seq: int
    needed: int
    free: int
    cached: int
    tokens: int
    """Tokens its table must hold after this step."""
    held: int


class Allocated(Event, frozen=True):
    """``seq``'s table grew at its end by these blocks. ``free``/``cached`` are the counts just before (evictions that
    made room come earlier and are already counted)."""

    seq: int
    runs: list[Run]
    tokens: int
    """Tokens the table must hold now (for a reservation: all it may ever hold)."""
    held: int
    """Blocks in the table after this."""
    free: int
    cached: int


class Shared(Event, frozen=True):
    """``seq``'s table took these blocks, which ``source`` holds too; their ref counts rise by one."""

    seq: int
    source: int
    runs: list[Run]
    tokens: int
    """Computed tokens it took over with them."""


class Hit(Event, frozen=True):
    """``seq``'s table took these blocks from the prefix cache; ref counts rise by one, evictable blocks come back."""

    seq: int
    runs: list[Run]
    tokens: int
    queried: int
    """Tokens looked up."""
    resumed: bool = False
    """The lookup of a preempted sequence; kept out of the hit rate."""


class Copied(Event, frozen=True):
    """Copy-on-write: ``seq`` was about to write into ``src``, which others hold too. ``dst`` (free until now) takes its
    place in the table at ``logical``; ``src`` loses one reference."""

    seq: int
    src: int
    dst: int
    logical: int
    tokens: int
    """Filled slots that were copied."""
    free: int
    cached: int


class Cached(Event, frozen=True):
    """Full, computed blocks of ``seq`` entered the prefix index; ``hashes`` chain from ``parent`` (0: the root)."""

    seq: int
    logical: int
    """Table index of the first of them."""
    runs: list[Run]
    hashes: list[int]
    parent: int
    token_ids: list[int] = []
    """The tokens in them; empty where an engine does not tell (a watched server)."""


class Evicted(Event, frozen=True):
    """Cached blocks with ref count 0 left the prefix index and are free, oldest first."""

    runs: list[Run]


class Freed(Event, frozen=True):
    """``seq`` gave up its whole table (listed in table order, released last block first). Blocks whose ref count
    fell to 0 are cached if they are in the prefix index, else free."""

    seq: int
    runs: list[Run]
    to_free: int
    to_cached: int
    space: Space = "pool"
    reserved_slots: int = 0
    """Slots held ahead by a reservation when the sequence let go: never filled (internal fragmentation)."""
    filled_slots: int = 0


class SwappedOut(Event, frozen=True):
    """KV of ``seq`` was copied from its table to these blocks of the swap space; Freed follows for the pool."""

    seq: int
    swap_runs: list[Run]
    tokens: int


class SwappedIn(Event, frozen=True):
    """KV of ``seq`` was copied back into its newly allocated table; the swap blocks are free again."""

    seq: int
    swap_runs: list[Run]
    tokens: int


class CacheCleared(Event, frozen=True):
    """The prefix index was emptied. ``runs`` are the cached blocks that became free; active ones lost their hash."""

    runs: list[Run]
    unindexed: int


class Requeued(Event, frozen=True):
    """Blocks that nobody holds took other places in the order they are handed out in: ``front`` goes next, in this
    order, ``back`` last. Told of servers that keep free and evictable blocks in one queue; never of this engine."""

    front: list[Run]
    back: list[Run] = []


# --- the step and the operator ----------------------------------------------------------------------------------------


class Advanced(Event, frozen=True):
    """What a step computed, one column an attribute: ``seqs[i]`` had ``counts[i]`` tokens computed; ``sampled[i]`` is
    the token it then gained, or -1; ``texts[i]`` the text that became final with it (untrusted, often empty)."""

    seqs: list[int]
    counts: list[int]
    sampled: list[int]
    texts: list[str]
    recomputed: int = 0
    """Tokens among ``counts`` that had been computed before and were lost."""
    logprobs: list[float] = []
    """Log-probability of each sampled token (0.0 where none was sampled); empty unless a request asked for them."""
    tops: list[list[tuple[int, float]]] = []
    """The likeliest tokens of each row; empty unless a request asked for them."""


class StepTimed(Event, frozen=True):
    """Where a step's time went, in seconds."""

    schedule_s: float
    run_s: float
    update_s: float
    prefill_tokens: int
    decode_tokens: int


class Commanded(Event, frozen=True):
    """The operator (or a script) asked for something; what follows from it names this as cause."""

    command: str
    detail: str = ""


class Changed(Event, frozen=True):
    """A setting has a new value from this step on. ``seq`` or ``request_id`` narrows it, if it is not the engine's."""

    name: str
    old: str
    new: str
    request_id: str = ""


AnyEvent = (
    Queued | Rejected | Forked | Waits | Admitted | Resumed | Preempted | Finished | Completed | Warned
    | Shortage | Allocated | Shared | Hit | Copied | Cached | Evicted | Freed | SwappedOut | SwappedIn | CacheCleared
    | Requeued | Advanced | StepTimed | Commanded | Changed
)  # fmt: skip


# --- whole states -----------------------------------------------------------------------------------------------------


class EngineInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What does not change while an engine runs, and the settings it started with (changes come as Changed events)."""

    model: str
    device: str
    dtype: str
    kernel: str
    block_size: int
    num_blocks: int
    swap_blocks: int
    kv_bytes_per_token: int
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    policy: str
    preempt: PreemptMode
    victim: str
    watermark: float
    prefix_cache: bool
    simulated: bool = False
    chat_template: bool = False
    """Whether a prompt can be put into the model's chat template."""
    first_block: int = 0
    """The number that the engine itself gives to block 0: a watched vLLM keeps its own block 0 out of use, so 1."""


class SequenceState(msgspec.Struct, frozen=True, kw_only=True):
    """One unfinished sequence, whole."""

    seq: int
    request_id: str
    index: int
    n: int
    beam_width: int
    priority: int
    status: SequenceStatus
    prompt_tokens: int
    max_tokens: int
    tokens: int
    computed: int
    high_water: int = 0
    """The largest ``computed`` it ever lost to a preemption: computing below it again is recompute."""
    runs: list[Run]
    swap_runs: list[Run]
    cached_tokens: int
    preemptions: int
    recomputed_tokens: int
    admitted_order: int
    """Rises with every admission; 0 while it never ran."""
    queued_step: int
    arrival: int = 0
    """Rises with every request: of equal priority, the smaller one's turn comes first; 0: not told, ``seq`` serves."""
    prompt: str = ""
    text: str = ""
    """The end of what it has generated."""
    wait: Waits | None = None


class Counters(msgspec.Struct, kw_only=True):
    """Totals since the engine started."""

    steps: int = 0
    requests: int = 0
    completed: int = 0
    rejected: int = 0
    prompt_tokens: int = 0
    """Prompt tokens of admitted requests."""
    computed_tokens: int = 0
    generated_tokens: int = 0
    preemptions: int = 0
    recomputed_tokens: int = 0
    swapped_blocks: int = 0
    """Blocks copied to the swap space."""
    copy_on_write: int = 0
    prefix_queried_tokens: int = 0
    prefix_hit_tokens: int = 0
    resumed_queried_tokens: int = 0
    resumed_hit_tokens: int = 0
    evicted_blocks: int = 0
    peak_active_blocks: int = 0


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The whole state after a step. Arrays are little-endian bytes, one entry a block."""

    info: EngineInfo
    counters: Counters
    ref_counts: bytes
    """uint32[num_blocks]"""
    hashes: bytes
    """uint64[num_blocks]; 0 where a block is not in the prefix index."""
    parents: bytes = b""
    """uint64[num_blocks]: the hash that each block's own hash chains from, 0 where it begins a prompt or is not in the
    index; empty: not told (a watched server)."""
    owners: bytes
    """int64[num_blocks]: the sequence the block was last handed out to (allocated, copied, or revived from the prefix
    cache while nobody held it); 0: nobody yet. Sharing does not change it."""
    fills: bytes
    """uint16[num_blocks]: computed slots in the block."""
    free: bytes
    """int32[]: free blocks in the order they will be handed out."""
    cached: bytes
    """int32[]: evictable blocks, least recently used first."""
    swap_free: bytes
    """int32[]: free blocks of the swap space, in order."""
    queue: bytes = b""
    """int32[]: free and evictable blocks in one order, where the engine keeps one queue; else empty, and free blocks go
    before evictable ones."""
    sequences: list[SequenceState]
    settings: dict[str, str]
    """Settings that can change while running, as they are now."""
    paused: bool
    last_event_id: int


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """All events of one step, or a snapshot that replaces everything before it. ``number`` rises by one with every
    batch; a reader that misses one asks for a snapshot."""

    number: int
    step: int
    monotonic_s: float
    wall_s: float
    events: list[AnyEvent] = []
    snapshot: Snapshot | None = None

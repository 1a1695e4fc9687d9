"""Batches of an exporter get our names, prompts and texts; what is not ours passes; nothing waits for ever."""

from __future__ import annotations

from kvtop.engine import events as e
from kvtop.engine.requests import Request
from kvtop.sources.narration import WAIT_SECONDS, Narration
from kvtop.sources.openai_client import Said, StreamEnded

SERVER_ID = "cmpl-req-1-0-0123abcd"


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def batch(*events: e.AnyEvent) -> e.Batch:
    return e.Batch(number=1, step=1, monotonic_s=0.0, wall_s=0.0, events=list(events))


def queued(seq: int = 1, request_id: str = SERVER_ID) -> e.Queued:
    return e.Queued(id=1, seq=seq, request_id=request_id, prompt_tokens=3, max_tokens=9)


def gained(*rows: tuple[int, int]) -> e.Advanced:
    """Rows of (sequence, token)."""
    seqs, sampled = [seq for seq, _ in rows], [token for _, token in rows]
    return e.Advanced(id=2, seqs=seqs, counts=[1] * len(rows), sampled=sampled, texts=[""] * len(rows))


def finished(seq: int = 1, request_id: str = SERVER_ID) -> tuple[e.Finished, e.Completed]:
    return (
        e.Finished(id=3, seq=seq, request_id=request_id, reason="length", generated=3),
        e.Completed(
            id=4, request_id=request_id, reasons=["length"], prompt_tokens=3, cached_tokens=0, generated=3,
            preemptions=0, recomputed_tokens=0, swapped_blocks=0,
        ),
    )  # fmt: skip


def narration(*requests: Request) -> tuple[Narration, Clock]:
    clock = Clock()
    narration = Narration(clock)
    narration.ask(requests or [Request(id="req-1", prompt="Why?")])
    return narration, clock


def texts(batches: list[e.Batch]) -> list[str]:
    return ["|".join(event.texts) for batch in batches for event in batch.events if isinstance(event, e.Advanced)]


def test_a_request_of_ours_is_told_under_our_name_with_its_prompt() -> None:
    told, _ = narration()
    told.put(batch(queued(), *finished()))
    (out,) = told.take()
    assert isinstance(out.events[0], e.Queued)
    assert (out.events[0].request_id, out.events[0].prompt) == ("req-1", "Why?")
    assert [getattr(event, "request_id", "") for event in out.events[1:]] == ["req-1", "req-1"]


def test_names_as_vllm_makes_them_are_read_whatever_ours_look_like() -> None:
    asked = ["req-1", "a-0", "x-0-0badcafe", "b"]
    told, _ = narration(*(Request(id=name, prompt="?", n=2 if name == "b" else 1) for name in asked))
    ids = ["chatcmpl-req-1-0123abcd", "cmpl-a-0-0-0123abcd", "cmpl-x-0-0badcafe-0-0123abcd", "1_cmpl-b-0-0123abcd"]
    others = ["cmpl-nobody-0-0123abcd", "req-1", "embd-req-1-0123abcd", "2_cmpl-b-0-0123abcd"]
    told.put(batch(*(queued(seq, request_id) for seq, request_id in enumerate(ids + others))))
    (out,) = told.take()
    names = [event.request_id for event in out.events if isinstance(event, e.Queued)]
    assert names == ["req-1", "a-0", "x-0-0badcafe", "b/1", *others]
    assert told.request_of("b/1") == "b" and told.request_of("a-0") == "a-0" and told.request_of("other") == "other"


def test_a_batch_waits_until_the_text_of_its_tokens_was_heard_and_those_behind_it_wait_too() -> None:
    told, _ = narration()
    told.put(batch(queued()))
    told.put(batch(gained((1, 50))))
    told.put(batch(gained((1, 51), (9, 7))))
    assert len(told.take()) == 1
    told.hear(Said("req-1", 0, "Be", 1))
    assert texts(told.take()) == ["Be"]
    assert told.take() == []
    told.hear(Said("req-1", 0, "cause", 1))
    assert texts(told.take()) == ["cause|"]


def test_nothing_waits_longer_than_a_moment_and_late_text_comes_with_the_next_token() -> None:
    told, clock = narration()
    told.put(batch(queued(), gained((1, 50))))
    assert told.take() == []
    clock.now_s += WAIT_SECONDS
    assert texts(told.take()) == [""]
    told.hear(Said("req-1", 0, "late ", 1))
    told.hear(Said("req-1", 0, "word", 1))
    told.put(batch(gained((1, 51))))
    assert texts(told.take()) == ["late word"]


def test_text_that_is_heard_ahead_of_its_tokens_is_told_with_them() -> None:
    told, _ = narration()
    for word in ("one ", "two ", "three"):
        told.hear(Said("req-1", 0, word, 1))
    told.put(batch(queued()))
    told.put(batch(gained((1, 50))))
    told.put(batch(gained((1, 51), (1, 52))))
    assert texts(told.take()) == ["one ", "two |three"]


def test_the_last_batch_takes_all_the_text_and_an_ended_stream_is_waited_for_no_more() -> None:
    told, _ = narration()
    told.put(batch(queued()))
    told.hear(Said("req-1", 0, "whole answer in one piece", 1))
    told.hear(Said("req-1", 0, ", and a rest", 0))
    told.hear(StreamEnded("req-1"))
    told.put(batch(gained((1, 50)), *finished()))
    assert texts(told.take()) == ["whole answer in one piece, and a rest"]
    told.put(batch(queued(2), gained((2, 50))))
    (out,) = told.take()
    assert isinstance(out.events[0], e.Queued) and out.events[0].request_id == SERVER_ID, "that name is over"


def test_a_whole_state_is_told_with_names_and_what_was_said_so_far() -> None:
    told, _ = narration()
    told.put(batch(queued()))
    told.hear(Said("req-1", 0, "Be", 1))
    told.put(batch(gained((1, 50))))
    told.take()
    state = e.SequenceState(
        seq=1, request_id=SERVER_ID, index=0, n=1, beam_width=0, priority=0, status="running", prompt_tokens=3,
        max_tokens=9, tokens=4, computed=3, runs=[], swap_runs=[], cached_tokens=0, preemptions=0,
        recomputed_tokens=0, admitted_order=1, queued_step=0,
    )  # fmt: skip
    info = e.EngineInfo(
        model="m", device="cpu", dtype="bfloat16", kernel="k", block_size=4, num_blocks=0, swap_blocks=0,
        kv_bytes_per_token=1, max_model_len=9, max_num_seqs=1, max_num_batched_tokens=9, policy="paged",
        preempt="recompute", victim="newest", watermark=0.0, prefix_cache=True,
    )  # fmt: skip
    snapshot = e.Snapshot(
        info=info, counters=e.Counters(), ref_counts=b"", hashes=b"", owners=b"", fills=b"", free=b"", cached=b"",
        swap_free=b"", sequences=[state], settings={}, paused=False, last_event_id=3,
    )  # fmt: skip
    told.put(e.Batch(number=5, step=2, monotonic_s=0.0, wall_s=0.0, snapshot=snapshot))
    (out,) = told.take()
    assert out.snapshot is not None
    (known,) = out.snapshot.sequences
    assert (known.request_id, known.prompt, known.text) == ("req-1", "Why?", "Be")


def test_requests_that_never_reached_the_server_are_forgotten() -> None:
    told, _ = narration()
    for number in range(5):
        told.ask([Request(id=f"refused-{number}", prompt="x")])
        told.hear(StreamEnded(f"refused-{number}", "HTTP 400"))
    told.ask([Request(id="last", prompt="x")])
    assert {request_id for request_id, _ in told._asked} == {"req-1", "last"}

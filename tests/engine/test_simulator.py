from __future__ import annotations

from kvtop.engine.control import Inject, Spell
from kvtop.engine.events import Advanced, Cached, Completed, Event, Hit, Queued
from kvtop.engine.requests import Request, Turn
from kvtop.engine.simulator import WORDS, WordCodec
from tests.sources.traffic import SLOW_CARD, VirtualClock, simulated_engine


def run(*requests: Request, **settings: int) -> tuple[list[Event], VirtualClock]:
    clock = VirtualClock()
    engine = simulated_engine(clock, **{"num_blocks": 50, **settings})
    reply = engine.apply(Inject(requests=list(requests)))
    assert not reply.error
    events: list[Event] = []
    while engine.has_work:
        batch = engine.step()
        assert batch is not None
        events += batch.events
    return events, clock


def texts(events: list[Event]) -> str:
    return "".join(text for event in events if isinstance(event, Advanced) for text in event.texts)


def test_the_same_requests_give_the_same_words_whatever_the_pool() -> None:
    request = Request(id="req-1", prompt="the block table maps pages", max_tokens=40)
    ample, _ = run(request)
    tight, _ = run(request, num_blocks=12, max_num_batched_tokens=3)
    assert texts(ample) == texts(tight) != ""
    assert set(texts(ample).split()) <= set(WORDS)


def test_answers_end_by_themselves_or_at_the_limit_when_asked_to_go_on() -> None:
    events, _ = run(
        *(Request(id=f"req-{i}", prompt="a page", max_tokens=60) for i in range(20)),
        Request(id="on", prompt="a page", max_tokens=60, ignore_eos=True),
    )
    ended = {event.request_id: event for event in events if isinstance(event, Completed)}
    assert ended["on"].generated == 60
    assert {reason for event in ended.values() for reason in event.reasons} == {"stop", "length"}
    assert len({event.generated for event in ended.values()}) > 8


def test_equal_beginnings_share_cached_blocks() -> None:
    beginning = " ".join(WORDS[i % len(WORDS)] for i in range(40))
    events, _ = run(Request(id="req-1", prompt=beginning, max_tokens=2))
    again, _ = run(
        Request(id="req-1", prompt=beginning, max_tokens=2),
        Request(id="req-2", prompt=beginning + " tail", max_tokens=2, arrival_step=5),
    )
    assert not any(isinstance(event, Hit) for event in events)
    assert [event.tokens for event in again if isinstance(event, Hit)] == [32]


def test_time_passes_as_the_cost_model_says() -> None:
    _, clock = run(Request(id="req-1", prompt="one two three four", max_tokens=1, ignore_eos=True))
    expected = SLOW_CARD.step_seconds(prefill_tokens=4, context_tokens=4)
    assert abs(clock.now - 1_000.0 - expected) < 1e-9


def test_samples_and_beams_run_too() -> None:
    events, _ = run(
        Request(id="samples", prompt="a page", max_tokens=8, n=3, ignore_eos=True, temperature=1.0),
        Request(id="beams", prompt="a page", max_tokens=8, beam_width=3),
    )
    ended = {event.request_id: event for event in events if isinstance(event, Completed)}
    assert ended["samples"].reasons == ["length"] * 3
    assert len(ended["beams"].answer) >= 1


def test_a_stop_string_ends_an_answer() -> None:
    free, _ = run(Request(id="req-1", prompt="a page", max_tokens=30, ignore_eos=True))
    word = texts(free).split()[4]
    events, _ = run(Request(id="req-1", prompt="a page", max_tokens=30, ignore_eos=True, stop=[word]))
    assert texts(events).split()[-1] == word
    assert WordCodec().decode([0, 1]) == WORDS[0] + " "


def test_a_chat_turn_is_the_prompt_between_two_words_the_same_every_time() -> None:
    codec = WordCodec()
    plain, turn = codec.encode("block table"), codec.encode("block table", chat=True)
    assert turn[1:-1] == plain
    assert codec.encode("page", chat=True)[0] == turn[0] and codec.encode("page", chat=True)[-1] == turn[-1]


def test_a_conversation_is_tokenized_turn_by_turn_and_shown_by_its_last_one() -> None:
    turns = [Turn("system", "page table"), Turn("user", "walk the map")]
    events, _ = run(Request(id="a", messages=turns, max_tokens=3), Request(id="b", messages=turns[:1], max_tokens=3))
    first, second = (event for event in events if isinstance(event, Queued))
    assert (first.prompt, first.prompt_tokens) == ("walk the map", 3 + 4 + 1)
    assert (second.prompt, second.prompt_tokens) == ("page table", 3 + 1)
    assert WordCodec().encode_turns([Turn("user", "a page")]) == WordCodec().encode("a page", chat=True)


def test_blocks_that_enter_the_prefix_index_tell_their_tokens() -> None:
    prompt = "the block table maps pages of the pool to slots and so on and on and on"
    events, _ = run(Request(id="a", prompt=prompt, max_tokens=20, ignore_eos=True), block_size=4)
    told = [token for event in events if isinstance(event, Cached) for token in event.token_ids]
    drawn = [token for event in events if isinstance(event, Advanced) for token in event.sampled if token >= 0]
    whole = WordCodec().encode(prompt) + drawn
    assert len(told) >= 32 and told == whole[: len(told)]


def test_single_tokens_are_spelled_on_request() -> None:
    engine = simulated_engine(VirtualClock(), num_blocks=4)
    reply = engine.apply(Spell(ticket=7, token_ids=[1, 2, 0]))
    assert (reply.ticket, reply.texts) == (7, [f"{WORDS[0]} ", f"{WORDS[1]} ", ""])
    assert engine.flush() is not None and engine.flush() is None, "nothing happened but the first snapshot"

"""The pipe between engine and watcher: whole frames, and an engine that never waits for its reader."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from kvtop.engine.control import BatchMessage, Reply, Status
from kvtop.engine.events import AnyEvent, Batch, Warned
from kvtop.engine.publisher import MAX_BATCHES, Publisher
from kvtop.engine.wire import MAX_FRAME_BYTES, decode_message, receive_frame, send_frame

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def batch(number: int, padding: int = 0) -> BatchMessage:
    events: list[AnyEvent] = [Warned(id=number, message="x" * padding)]
    return BatchMessage(batch=Batch(number=number, step=number, monotonic_s=0.0, wall_s=0.0, events=events))


def test_frames_arrive_whole_and_in_order(pair: Pair) -> None:
    payloads = [b"", b"one", b"x" * 10_000]
    for payload in payloads:
        send_frame(pair[0], payload)
    assert [receive_frame(pair[1]) for _ in payloads] == payloads


@pytest.mark.parametrize("cut", [1, 3, 4, 6])
def test_an_end_in_the_middle_of_a_frame_reads_like_an_end(pair: Pair, cut: int) -> None:
    pair[0].sendall(b"\x05\0\0\0hello"[:cut])
    pair[0].close()
    assert receive_frame(pair[1]) is None


def test_a_stream_that_is_not_ours_is_refused(pair: Pair) -> None:
    pair[0].sendall(b"\xff\xff\xff\xff")
    with pytest.raises(ValueError, match=f"at most {MAX_FRAME_BYTES} are allowed"):
        receive_frame(pair[1])


def test_the_engine_never_waits_for_a_reader_that_does_not_read(pair: Pair) -> None:
    publisher = Publisher(pair[0])
    started = time.perf_counter()
    for number in range(1, 4 * MAX_BATCHES):
        publisher.publish(batch(number, padding=4_000))
    assert time.perf_counter() - started < 1
    assert publisher.dropped > MAX_BATCHES


def test_batches_are_dropped_whole_and_the_gap_shows_while_replies_always_arrive(pair: Pair) -> None:
    publisher = Publisher(pair[0])
    last = 4 * MAX_BATCHES
    for number in range(1, last + 1):
        publisher.publish(batch(number, padding=4_000))
        if number % 100 == 0:
            publisher.publish(Reply(ticket=number))
    publisher.publish(Status(state="idle"))
    numbers, tickets = [], []
    while not isinstance(message := decode_message(receive_frame(pair[1]) or b""), Status):
        if isinstance(message, BatchMessage):
            numbers.append(message.batch.number)
        else:
            tickets.append(message.ticket)
    assert tickets == list(range(100, last + 1, 100))
    assert numbers == sorted(numbers)
    assert numbers[-1] == last
    assert len(numbers) + publisher.dropped == last
    assert len(numbers) < last


def test_what_waits_is_delivered_before_the_end(pair: Pair) -> None:
    publisher = Publisher(pair[0])
    for number in range(1, 101):
        publisher.publish(batch(number))
    publisher.close(timeout_s=5)
    pair[0].close()
    received = 0
    while receive_frame(pair[1]) is not None:
        received += 1
    assert received == 100


def test_a_reader_that_is_gone_does_not_stop_the_engine(pair: Pair) -> None:
    publisher = Publisher(pair[0])
    pair[1].close()
    for number in range(1, 50):
        publisher.publish(batch(number))
    publisher.close(timeout_s=5)

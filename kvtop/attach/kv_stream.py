"""Puts one publisher's messages in order: notices gaps and restarts, says what to replay, knows what is missing.

A gap holds back what follows it until the replay has filled it, since a removal that overtakes its store would leave a
ghost. When it cannot be filled the stream goes on, and ``incomplete_since`` stays: whoever shows what came of it must
say so. Pure: time and messages come from the caller, who also talks to the sockets.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

REPLAY_SECONDS = 3.0
"""How long a replay may take before the stream goes on without it."""
MAX_HELD = 20_000
"""Messages held back behind a gap."""


@dataclass(frozen=True, slots=True)
class Restarted:
    """The publisher began anew: everything said before is void."""

    why: str


@dataclass(frozen=True, slots=True)
class Ordered:
    """The next message in order."""

    number: int
    payload: bytes


Step = Restarted | Ordered


class KvStream:
    """``take_live``, ``take_replayed``, ``end_replay`` and ``tick`` give the steps to apply, in order."""

    def __init__(self, can_replay: bool) -> None:
        self.can_replay = can_replay
        self.next: int | None = None
        """The number expected next; None before the first message."""
        self.restarts = 0
        self.restarted_s: float | None = None
        """When the last of them was noticed."""
        self.received = 0
        self.refilled = 0
        """Messages that came by replay."""
        self.lost = 0
        """Messages that never came."""
        self.last_live_s: float | None = None
        self._lost_since: int | None = None
        self._held: deque[Ordered] = deque()
        """Live messages behind a gap that begins at ``next``."""
        self._replay_due = False
        self._replays = 0
        """Replays that were asked for and have not ended."""
        self._deadline_s = 0.0

    @property
    def incomplete_since(self) -> int | None:
        """The first message that is missing; None: nothing is, as far as numbers tell."""
        if self._lost_since is not None:
            return self._lost_since
        return self.next if self._held else None

    @property
    def waiting(self) -> bool:
        """Messages are held back behind a gap."""
        return bool(self._held)

    def take_live(self, number: int, payload: bytes, now_s: float) -> list[Step]:
        """A message from the subscription, where numbers only rise while a publisher lives."""
        self.received += 1
        self.last_live_s = now_s
        newest = self._held[-1].number if self._held else (self.next or 0) - 1
        steps: list[Step] = []
        if number <= newest:
            steps += self.restart(f"its sequence number fell from {newest:,} to {number:,}", now_s)
        message = Ordered(number, payload)
        if self.next is None:
            self.next = 0
        if not self._held and number == self.next:
            self.next += 1
            return [*steps, message]
        self._held.append(message)
        if not self.can_replay or len(self._held) > MAX_HELD:
            return steps + self.give_up()
        if len(self._held) == 1:
            self._want_replay()
        return steps

    def ask_replay(self) -> int | None:
        """The number to ask the replay socket for, once for each gap; None when nothing is to be asked."""
        due, self._replay_due = self._replay_due, False
        self._replays += due
        return self.next if due else None

    def take_replayed(self, number: int, payload: bytes) -> list[Step]:
        """A message from the replay; those that are known already are passed over."""
        if not self._held or self.next is None or not self.next <= number < self._held[0].number:
            return []
        self._lose_until(number)
        self.refilled += 1
        self.next = number + 1
        return [Ordered(number, payload), *self._release()]

    def end_replay(self) -> list[Step]:
        """A replay has said all it had; if it was the last one asked for, nothing more will come."""
        self._replays = max(0, self._replays - 1)
        return [] if self._replay_due or self._replays else self.give_up()

    def tick(self, now_s: float) -> list[Step]:
        """Go on without a replay that takes too long."""
        return self.give_up() if self._held and now_s >= self._deadline_s else []

    def give_up(self) -> list[Step]:
        """Go on behind the gap; what lies in it is lost."""
        if not self._held:
            return []
        self._lose_until(self._held[0].number)
        return self._release()

    def restart(self, why: str, now_s: float) -> list[Step]:
        """The publisher began anew, as its numbers or somebody else tell."""
        self.restarts += 1
        self.restarted_s = now_s
        self.next = self._lost_since = None
        self._replay_due = False
        self._held.clear()
        return [Restarted(why)]

    def all_cleared(self) -> None:
        """The publisher said that nothing is cached any more: what was lost before no longer matters."""
        self._lost_since = None

    def _lose_until(self, number: int) -> None:
        assert self.next is not None, "a gap lies behind a number"
        if number > self.next:
            self.lost += number - self.next
            if self._lost_since is None:
                self._lost_since = self.next
            self.next = number

    def _release(self) -> list[Step]:
        """What was held back, up to the next gap."""
        steps: list[Step] = []
        while self._held and self._held[0].number == self.next:
            message = self._held.popleft()
            steps.append(message)
            self.next = message.number + 1
        if self._held:
            self._want_replay()
        return steps

    def _want_replay(self) -> None:
        assert self.last_live_s is not None, "held messages came live"
        self._replay_due = True
        self._deadline_s = self.last_live_s + REPLAY_SECONDS

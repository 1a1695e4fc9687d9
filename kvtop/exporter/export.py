"""Watches one scheduler: observes it when its calls return, sends what changed, and never lets a fault of ours out.

A difference that cannot be told leads to a new start from the whole state, at most one a second; faults that keep
coming switch the exporter off, with one line in the server's log. The server goes on in any case.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from kvtop.engine.events import AnyEvent, Batch, Changed, EngineInfo, StepTimed, Warned
from kvtop.exporter.differ import Differ
from kvtop.exporter.door import Door
from kvtop.exporter.hold import Hold
from kvtop.exporter.outlet import Outlet
from kvtop.exporter.reader import PoolReader
from kvtop.exporter.teller import OutOfStep
from kvtop.exporter.wire import Speaker

MAX_FAULTS = 3
RESTART_SECONDS = 1.0


class Exporter:
    """``begin``, then ``before_schedule``, ``preempted``, ``after_schedule`` and ``after_update`` are called by the
    scheduler's thread; the outlet's thread asks for whole states in between, and ``hold`` may be set from any.

    Raises:
        zmq.ZMQError: the address cannot be bound.
    """

    def __init__(
        self, reader: PoolReader, info: EngineInfo, address: str, speaker: Speaker, log: logging.Logger
    ) -> None:
        self.faults = 0
        self.new_starts = 0
        """Times the whole state was taken anew since the first."""
        self._log = log
        self._lock = threading.Lock()  # never taken by who holds a lock of ``hold``
        self._differ = Differ(reader, info)
        self._number = 1
        self._void_until: float | None = 0.0
        """Not None: nothing can be told until a new start, which is due at that time."""
        self._void_why = ""
        self._told_dropped = 0
        self._schedule_s = 0.0
        self._scheduled_s = 0.0
        self._off = False
        self.hold = Hold(self._tell_held)
        """What lets the scheduler go on or not; nobody holds it unless there is a door for controllers."""
        self.door: Door | None = None
        self.outlet = Outlet(address, speaker, self._whole)

    def begin(self) -> None:
        """The scheduler is there, and idle: take its state over."""
        self._guarded(lambda: None)

    def before_schedule(self) -> None:
        """Requests may have been aborted or added, and the prefix cache reset, since the last step."""
        self._guarded(self._observe_if_news)

    def may_schedule(self) -> bool:
        """Whether the scheduler may plan a step now; when not, a moment has passed."""
        if not self.hold.held:
            return True
        try:
            return self.hold.may_schedule()
        except Exception:
            self.hold.held = False
            self._log.exception("kvtop: holding failed, so it runs on; the server is not affected")
            return True

    def preempted(self) -> None:
        """A request has just been preempted; nobody took its blocks yet."""
        self._guarded(self._observe)

    def after_schedule(self, seconds: float, is_step: bool) -> None:
        """Scheduling took ``seconds``; what has nothing to compute is no step. Where it moved no block, nothing is told
        before the update: most steps of pure decode then cost one observation, and a block that became full is known a
        moment later."""
        if is_step:
            self._differ.step += 1
        else:
            self.hold.give_back()
        self._schedule_s = seconds
        self._scheduled_s = time.monotonic()
        self._guarded(self._observe_growth)

    def after_update(self, seconds: float, is_step: bool) -> None:
        """A step's output was taken over, in ``seconds``; it may be no step, but requests ended."""
        run_s = max(0.0, time.monotonic() - seconds - self._scheduled_s)
        times = StepTimes(self._schedule_s, run_s, seconds) if is_step else None
        self._guarded(lambda: self._observe(times))

    def _tell_held(self, held: bool) -> None:
        """Said at once, and not by the scheduler's thread: an idle one would not come by to say it."""
        with self._lock:
            self._differ.mirror.paused = held
            if self._void_until is None:
                old, new = str(not held).lower(), str(held).lower()
                self._send([Changed(id=self._differ.teller.next_id(), name="paused", old=old, new=new)])

    def close(self) -> None:
        """Watch no more."""
        self._off = True
        if self.door is not None:
            self.door.close()
        self.outlet.close()

    def _guarded(self, work: Callable[[], None]) -> None:
        if self._off:
            return
        began_s = time.perf_counter()
        try:
            with self._lock:
                if self._void_until is not None:
                    self._start_anew()
                else:
                    work()
        except OutOfStep as error:
            self._void(str(error))
        except Exception:
            self.faults += 1
            self._void("a fault of the exporter")
            if self.faults >= MAX_FAULTS:
                self._off = True
                self._log.exception(
                    "kvtop: the exporter failed %d times and is off; the server is not affected", MAX_FAULTS
                )
            else:
                self._log.exception("kvtop: the exporter failed and starts anew; the server is not affected")
        self.outlet.spent_s += time.perf_counter() - began_s

    def _void(self, why: str) -> None:
        self._differ.teller.take()
        self._void_why = why
        self._void_until = time.monotonic() + RESTART_SECONDS

    def _start_anew(self) -> None:
        """Take the whole state over and send it. Its number leaves a gap, so that watchers take it for what it is."""
        assert self._void_until is not None
        if time.monotonic() < self._void_until:
            return
        self._differ.begin()
        self._void_until = None
        if self._void_why:
            self.new_starts += 1
            self._number += 2
            event = Warned(id=self._differ.teller.next_id(), message=f"the exporter began anew: {self._void_why}")
            self.outlet.put(self._batch([event], whole=True))

    def _observe_if_news(self) -> None:
        if self._differ.has_news():
            self._send(self._differ.observe())

    def _observe_growth(self) -> None:
        if self._differ.has_news():
            self._send(self._differ.observe_growth())

    def _observe(self, times: StepTimes | None = None) -> None:
        events = self._differ.observe()
        if times is not None:
            events.append(times.event(self._differ))
        self._send(events)

    def _send(self, events: list[AnyEvent]) -> None:
        if events:
            self._number += 1
            self.outlet.put(self._batch(events))
            self.hold.saw(events)

    def _batch(self, events: list[AnyEvent], whole: bool = False) -> Batch:
        differ = self._differ
        return Batch(
            number=self._number,
            step=differ.step,
            monotonic_s=time.monotonic(),
            wall_s=time.time(),
            events=events,
            snapshot=differ.mirror.snapshot(differ.teller.last_id) if whole else None,
        )

    def _whole(self) -> Batch | None:
        """The state after the last batch, under its number; None when it is not known. For the outlet's thread."""
        with self._lock:
            if self._void_until is not None:
                return None
            events: list[AnyEvent] = []
            dropped = self.outlet.dropped - self._told_dropped
            if dropped:
                self._told_dropped += dropped
                message = f"the exporter dropped {dropped:,} batches: they came faster than they could be sent"
                events.append(Warned(id=self._differ.teller.last_id, message=message))
            return self._batch(events, whole=True)


class StepTimes:
    """Where a step's time went, in seconds."""

    def __init__(self, schedule_s: float, run_s: float, update_s: float) -> None:
        self._times = (schedule_s, run_s, update_s)

    def event(self, differ: Differ) -> StepTimed:
        schedule_s, run_s, update_s = self._times
        prefill_tokens, decode_tokens = differ.step_tokens
        differ.mirror.counters.steps += 1
        return StepTimed(
            id=differ.teller.next_id(),
            schedule_s=schedule_s,
            run_s=run_s,
            update_s=update_s,
            prefill_tokens=prefill_tokens,
            decode_tokens=decode_tokens,
        )

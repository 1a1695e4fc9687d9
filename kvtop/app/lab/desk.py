"""How fast the lab runs, and what is on its table: presets, pause, steps, speed, the way back.

It runs within a share of every frame, so that keys stay quick: what does not fit is done in the next one. The past is
not kept; the lab is deterministic, so one step back is the same run again up to there. It draws nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvtop.lab.presets import Preset
    from kvtop.lab.side_by_side import SideBySide

AS_FAST_AS_IT_GOES = 1e9
SPEEDS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0, AS_FAST_AS_IT_GOES)
"""Steps a second."""
FRAME_BUDGET_S = 0.05
"""What a frame may spend on steps, and twice that on the way to somewhere: the rest is for drawing and keys."""
LONGEST_FRAME_S = 0.5
"""A frame that comes later than this makes up for no more."""


class LabDesk:
    """``presets``: None for the lab's own. ``shown`` is what lies there, None until it is opened."""

    def __init__(self, presets: Sequence[Preset] | None = None, clock: Callable[[], float] = time.perf_counter) -> None:
        self._given = presets
        self.hear: Callable[[], Preset] | None = None
        """Makes a preset of what has run on the engine so far; may take seconds. None: there is no engine."""
        self._clock = clock
        self.presets: list[Preset] = []
        self.at = 0
        self.shown: SideBySide | None = None
        self.running = False
        self.steps_per_second = SPEEDS[0]
        self._due = 0.0
        self._ticked_s = clock()
        self._goal: Callable[[SideBySide], bool] | None = None
        """Runs as fast as it can until this is so, then stands."""
        self._sought_after: int | None = None
        """The step after which a preemption was asked for last."""

    @property
    def preset(self) -> Preset:
        return self.presets[self.at]

    @property
    def winding(self) -> bool:
        """On its way to a step or an event, as fast as it can."""
        return self._goal is not None

    @property
    def moves(self) -> bool:
        return self.running or self.winding

    @property
    def no_preemption_after(self) -> int | None:
        """The step after which a preemption was asked for, when the run has ended without one."""
        here = self._sought_after
        return here if here is not None and self._run.ended and self._run.preempted_at[-1:] <= [here] else None

    # --- what is on the table -------------------------------------------------------------------------------------

    def open(self) -> None:
        """Lay out the first preset, unless something lies there already."""
        if self.shown is None:
            if not self.presets:
                from kvtop.lab.presets import PRESETS  # not before somebody looks: it brings scheduler and pool

                self.presets = list(PRESETS if self._given is None else self._given)
            self.lay_out(0)

    def lay_out(self, at: int) -> None:
        """Put another preset on the table, at its first step, paused."""
        self.at = at
        self.steps_per_second = self.preset.steps_per_second
        self.begin_again()

    def put(self, preset: Preset) -> None:
        """Lay out a preset that was not there, in place of one with its title."""
        self.presets = [*(known for known in self.presets if known.title != preset.title), preset]
        self.lay_out(len(self.presets) - 1)

    def begin_again(self) -> None:
        from kvtop.lab.side_by_side import SideBySide

        self.shown = SideBySide(self.preset.build())
        self.running, self._goal, self._due = False, None, 0.0
        self._sought_after = None

    # --- time -----------------------------------------------------------------------------------------------------

    def toggle(self) -> None:
        """Run, or stand; at the end, run again from the start."""
        if self.moves:
            self.running, self._goal = False, None
            return
        if self._run.ended:
            self.begin_again()
        self.running, self._due, self._ticked_s = True, 0.0, self._clock()

    def step(self) -> None:
        self.running, self._goal = False, None
        self._run.advance()

    def step_back(self) -> None:
        wanted = self._run.step - (not self._run.ended)
        if wanted >= 1:
            self.begin_again()
            self._wind(lambda run: run.step >= wanted)

    def run_to_preemption(self) -> None:
        here = self._sought_after = self._run.step
        self._wind(lambda run: run.preempted_at[-1:] > [here])

    def back_to_preemption(self) -> None:
        """To the last step before this one in which somebody was preempted; the first step when nobody was."""
        here = self._run.step - (not self._run.ended)
        before = max((step for step in self._run.preempted_at if step <= here), default=1)
        self.begin_again()
        self._wind(lambda run: run.step >= before)

    def run_to_end(self) -> None:
        self._wind(lambda run: run.ended)

    def _wind(self, goal: Callable[[SideBySide], bool]) -> None:
        self.running, self._goal = False, goal
        self.tick()

    def change_speed(self, direction: int) -> None:
        at = SPEEDS.index(self.steps_per_second) + direction
        self.steps_per_second = SPEEDS[max(0, min(len(SPEEDS) - 1, at))]

    def tick(self) -> None:
        """A frame is due: run the steps that are, as far as the frame's share of time goes."""
        now = self._clock()
        passed, self._ticked_s = min(now - self._ticked_s, LONGEST_FRAME_S), now
        run, deadline = self._run, now + FRAME_BUDGET_S * (1 + self.winding)
        if self._goal is not None:
            while self._goal is not None and self._clock() < deadline:
                if run.ended or self._goal(run):
                    self._goal = None
                else:
                    run.advance()
        elif self.running:
            self._due += passed * self.steps_per_second
            while self._due >= 1 and not run.ended and self._clock() < deadline:
                run.advance()
                self._due -= 1
            self._due = min(self._due, 1.0)
            self.running = not run.ended

    @property
    def _run(self) -> SideBySide:
        assert self.shown is not None, "the lab was not opened"
        return self.shown

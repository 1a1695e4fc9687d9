"""Findings over time: which rules have something to say now, and what they said before.

``FindingsLog.observe(view, now_s)`` is called as often as one likes, with every frame for instance; rules are asked
twice a second of the view's time at most. It returns what stands now, the gravest first, and keeps what has passed in
``past``. A finding neither fires on one bad moment nor flickers: see Rule. While the engine stands paused time stands
still. When the view is wound back, or another engine's state comes, the log begins again. Whoever shows what stands
calls ``renew`` before, so that the evidence is of the moment that is shown.

The rules are plain functions of a view and its series, in judge_memory, judge_waste, judge_cache and judge_queue.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from kvtop.view import judge_cache, judge_memory, judge_queue, judge_waste
from kvtop.view.finding import WEIGHTS, Case, Finding, Rule
from kvtop.view.pool_view import PoolView

RULES: tuple[Rule, ...] = (*judge_memory.RULES, *judge_queue.RULES, *judge_cache.RULES, *judge_waste.RULES)
JUDGE_SECONDS = 0.5
PAST_FINDINGS = 100


@dataclass(slots=True)
class _Watch:
    """One rule's state."""

    rule: Rule
    finding: Finding | None = None
    true_since: float | None = None
    """Since when there has been a case, while the finding does not stand."""


class FindingsLog:
    """``past`` holds what has resolved, the latest last."""

    def __init__(self, rules: tuple[Rule, ...] = RULES) -> None:
        self.past: deque[Finding] = deque(maxlen=PAST_FINDINGS)
        self._rules = rules
        self._begin_again()

    def _begin_again(self) -> None:
        self.past.clear()
        self._watches = [_Watch(rule) for rule in self._rules]
        self._judged_s = -1.0
        self._number = 0
        """The batch that the evidence is of."""

    def observe(self, view: PoolView, now_s: float | None = None) -> list[Finding]:
        """What stands at wall time ``now_s`` (None: the view's own), the gravest first, then the oldest."""
        now = view.wall_s if now_s is None or view.paused else now_s
        if view.number < self._number or now < self._judged_s - JUDGE_SECONDS:
            self._begin_again()
        if view.info is not None and now - self._judged_s >= JUDGE_SECONDS:
            for watch in self._watches:
                self._ask(watch, view, now)
            self._judged_s = now
            self._number = view.number
        return self.standing

    def renew(self, view: PoolView, now_s: float | None = None) -> list[Finding]:
        """What stands, like ``observe``, with evidence of this very batch. Only the rules of what stands are asked for
        it; nothing fires or resolves between two times that all are."""
        self.observe(view, now_s)
        if view.number != self._number:
            now = view.wall_s if now_s is None or view.paused else now_s
            for watch in self._watches:
                case = watch.rule.judge(view, now, True) if watch.finding is not None else None
                if watch.finding is not None and case is not None:
                    watch.finding = _seen(watch.finding, case, view, now)
            self._number = view.number
        return self.standing

    @property
    def standing(self) -> list[Finding]:
        """What was found to stand when it was last looked."""
        found = [watch.finding for watch in self._watches if watch.finding is not None]
        return sorted(found, key=lambda finding: (WEIGHTS.index(finding.case.weight), finding.since_s))

    def _ask(self, watch: _Watch, view: PoolView, now: float) -> None:
        case = watch.rule.judge(view, now, watch.finding is not None)
        if watch.finding is not None:
            if case is not None:
                watch.finding = _seen(watch.finding, case, view, now)
            elif view.pauses.outside(watch.finding.seen_s, now) >= watch.rule.until_s:
                self.past.append(replace(watch.finding, resolved_s=now))
                watch.finding = None
            return
        if case is None:
            watch.true_since = None
            return
        if watch.true_since is None:
            watch.true_since = now
        if view.pauses.outside(watch.true_since, now) >= watch.rule.after_s:
            step = view.step
            watch.finding = Finding(watch.rule.key, case, since_s=now, since_step=step, seen_s=now, seen_step=step)
            watch.true_since = None


def _seen(finding: Finding, case: Case, view: PoolView, now: float) -> Finding:
    """It still stands, for this reason."""
    paused_s = now - finding.since_s - view.pauses.outside(finding.since_s, now)
    return replace(finding, case=case, seen_s=now, seen_step=view.step, paused_s=paused_s)

"""The log of findings: when one fires, stands and resolves. What each rule says is in test_judgements."""

from __future__ import annotations

from kvtop.view.finding import Case, Rule
from kvtop.view.findings import PAST_FINDINGS, FindingsLog
from kvtop.view.keyframe import copy_view
from kvtop.view.pool_view import PoolView
from tests.view.made_view import START_S, MadeView


class Switch:
    """A rule that holds while it is on."""

    def __init__(self, after_s: float = 0.0, until_s: float = 5.0) -> None:
        self.on = False
        self.asked_held: list[bool] = []
        self.rule = Rule("switch", self._judge, after_s, until_s)

    def _judge(self, view: PoolView, now_s: float, held: bool) -> Case | None:
        self.asked_held.append(held)
        return Case("warning", "on", f"step {view.step}", "switch it off") if self.on else None


def watched(switch: Switch) -> MadeView:
    made = MadeView()
    made.log = FindingsLog((switch.rule,))
    made.run(1)
    return made


def test_a_finding_fires_after_its_time_and_not_for_one_bad_moment() -> None:
    switch = Switch(after_s=3)
    made = watched(switch)
    switch.on = True
    assert made.run(2.5) == []
    switch.on = False
    made.run(0.5)
    switch.on = True
    assert made.run(2.5) == []
    (finding,) = made.run(1)
    assert (finding.key, finding.since_s, finding.since_step) == ("switch", START_S + 7.5, made.view.step)


def test_it_stands_through_short_calms_and_resolves_after_a_long_one() -> None:
    switch = Switch(until_s=4)
    made = watched(switch)
    switch.on = True
    made.run(1)
    for _ in range(5):
        switch.on = False
        assert len(made.run(3)) == 1
        switch.on = True
        assert len(made.run(1)) == 1
    switch.on = False
    assert made.run(4.5) == []
    (past,) = made.log.past
    assert past.resolved_s == made.view.wall_s - 0.5
    assert past.lasted_s == 20.5


def test_a_rule_is_told_whether_its_finding_stands_and_its_evidence_stays_fresh() -> None:
    switch = Switch()
    made = watched(switch)
    switch.on = True
    (finding,) = made.run(2)
    assert switch.asked_held == [False, False, False, True, True, True]
    assert finding.case.evidence == f"step {made.view.step}"
    assert finding.since_step < made.view.step


def test_rules_are_asked_twice_a_second_however_often_it_is_looked() -> None:
    switch = Switch()
    made = watched(switch)
    before = len(switch.asked_held)
    for number in range(100):
        made.log.observe(made.view, made.view.wall_s + number / 100)
    assert len(switch.asked_held) == before + 1


def test_time_stands_still_while_the_engine_is_paused() -> None:
    switch = Switch(until_s=5)
    made = watched(switch)
    switch.on = True
    made.run(1)
    switch.on, made.view.paused = False, True
    assert len(made.log.observe(made.view, made.view.wall_s + 3600)) == 1
    made.view.paused = False
    assert made.log.observe(made.view, made.view.wall_s + 3600) == []


def test_winding_back_begins_again() -> None:
    switch = Switch()
    made = watched(switch)
    switch.on = True
    made.run(2)
    before = copy_view(made.view)
    made.run(10)
    switch.on = False
    made.run(10)
    assert made.log.past
    switch.on = True
    (finding,) = made.log.observe(before)
    assert finding.since_step == before.step and not made.log.past


def test_nothing_is_said_before_the_first_snapshot() -> None:
    assert FindingsLog().observe(PoolView(), START_S) == []


def test_what_has_passed_is_kept_up_to_a_bound() -> None:
    switch = Switch(until_s=0)
    made = watched(switch)
    for _ in range(PAST_FINDINGS + 20):
        switch.on = True
        made.run(0.5)
        switch.on = False
        made.run(1)
    assert len(made.log.past) == PAST_FINDINGS

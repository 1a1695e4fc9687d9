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


def test_evidence_is_of_the_batch_that_is_shown_though_time_stands_still() -> None:
    switch = Switch()
    made = watched(switch)
    switch.on = True
    made.run(2)
    made.view.paused = True
    made.view.step += 1
    made.view.number += 1  # the pause itself, a moment after the rules were asked
    made.log.observe(made.view, made.view.wall_s + 3600)
    asked = len(switch.asked_held)
    for _ in range(3):
        (finding,) = made.log.renew(made.view, made.view.wall_s + 3600)
        assert finding.evidence_at(made.view.step) == f"step {made.view.step}"
    assert len(switch.asked_held) == asked + 1, "once for a batch, however often it is drawn"


def test_renewing_evidence_neither_fires_nor_resolves() -> None:
    switch = Switch(until_s=5)
    made = watched(switch)
    switch.on = True
    made.view.number += 1
    assert made.log.renew(made.view) == []
    made.run(1)
    switch.on = False
    made.view.step += 1
    made.view.number += 1
    (finding,) = made.log.renew(made.view)
    assert finding.seen_step == made.view.step - 1
    assert finding.evidence_at(made.view.step) == f"step {finding.seen_step} (at step {finding.seen_step}, not so now)"


def test_time_in_which_the_engine_stood_paused_neither_fires_nor_resolves_nor_lasts() -> None:
    switch = Switch(after_s=3, until_s=5)
    made = watched(switch)

    def stand_for_a_minute() -> None:
        made.view.pauses.note(True, made.view.wall_s)
        made.view.wall_s += 60
        made.view.pauses.note(False, made.view.wall_s)

    switch.on = True
    made.run(1)
    stand_for_a_minute()
    assert made.run(1) == []
    made.run(2)
    stand_for_a_minute()
    (finding,) = made.run(1)
    assert finding.lasted_s == 1.5
    switch.on = False
    made.run(1)
    stand_for_a_minute()
    assert len(made.run(1)) == 1

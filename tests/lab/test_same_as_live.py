"""Lab and live engine are one: the same requests take the same blocks, step by step."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvtop.engine.config import POLICIES, VICTIM_RULES
from kvtop.engine.control import Inject
from kvtop.engine.cost import CARDS, DEFAULT_CARD
from kvtop.engine.engine import Engine
from kvtop.engine.requests import Request
from kvtop.engine.roster import Roster
from kvtop.engine.simulator import SimulatedRunner, WordCodec
from kvtop.lab.experiment import NO_LIMIT, REGION_BLOCK_SIZE, Experiment
from kvtop.lab.trial import Trial
from kvtop.lab.workload import Work
from tests.engine.harness import Harness, fake_info


@dataclass(frozen=True)
class Arrival:
    step: int
    lengths: Work
    priority: int

    def request(self, name: str) -> Request:
        """For the live engine, which stops where the lab is told it does."""
        return Request(
            id=name,
            prompt_token_ids=[1 + i % 7 for i in range(self.lengths.prompt_tokens)],
            max_tokens=self.lengths.output_tokens,
            priority=self.priority,
            ignore_eos=True,
        )


@st.composite
def experiments(draw: st.DrawFn) -> Experiment:
    policy = draw(st.sampled_from([POLICIES[0], POLICIES[0], *POLICIES]))
    block_size = draw(st.sampled_from([1, 2, 4])) if policy == "paged" else REGION_BLOCK_SIZE
    return Experiment(
        policy=policy,
        placement="first-fit",
        block_size=block_size,
        pool_tokens=draw(st.integers(4, 12)) * block_size,
        watermark=draw(st.sampled_from([0.0, 0.0, 0.1, 0.3])),
        victim=draw(st.sampled_from(VICTIM_RULES)),
        preempted="resume",
        max_num_seqs=draw(st.integers(1, 8)),
        max_model_len=draw(st.sampled_from([9, 24, 40])),
        lookahead_slots=0,
    )


def arrivals(largest: int) -> st.SearchStrategy[list[Arrival]]:
    lengths = st.builds(Work, st.integers(1, largest), st.integers(1, 12))
    one = st.builds(Arrival, st.integers(0, 20), lengths, st.integers(0, 2))
    return st.lists(one, min_size=1, max_size=12)


State = tuple[list[tuple[str, list[int]]], list[str]]


def state(roster: Roster) -> State:
    """Who runs with which block table, in admission order, and who waits."""
    running = [(sequence.request.id, list(sequence.table.block_ids)) for sequence in roster.running]
    return running, [sequence.request.id for sequence in roster.waiting]


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(experiment=experiments(), data=st.data())
def test_lab_and_live_engine_give_the_same_block_tables_in_every_step(
    experiment: Experiment, data: st.DataObject
) -> None:
    asked = data.draw(arrivals(24 if experiment.reserves else experiment.pool_tokens + 1))
    fake = Harness(
        num_blocks=experiment.pool_tokens // experiment.block_size,
        block_size=experiment.block_size,
        max_num_seqs=experiment.max_num_seqs,
        max_num_batched_tokens=NO_LIMIT,
        max_model_len=experiment.max_model_len,
        policy=experiment.policy,
        victim=experiment.victim,
        watermark=experiment.watermark,
        prefix_cache=False,
        max_preemptions=NO_LIMIT,
    )
    runner = SimulatedRunner(CARDS[DEFAULT_CARD], lambda seconds: None)
    simulated = Engine(fake_info(fake.config), fake.config, runner, WordCodec())
    trial = Trial(experiment, [])
    for step in range(400):
        for number, arrival in enumerate(asked):
            if arrival.step == step:
                request = arrival.request(f"r{number}")
                fake.add(request)
                assert not simulated.apply(Inject(requests=[request])).error
                trial.add(request, arrival.lengths)
        assert trial.has_work == fake.engine.has_work == simulated.has_work
        if not trial.has_work:
            if step > 20:
                return
            continue
        fake.step()
        simulated.step()
        trial.step()
        assert state(trial.roster) == state(fake.scheduler.roster) == state(simulated.scheduler.roster), step
    raise AssertionError("unfinished after 400 steps")

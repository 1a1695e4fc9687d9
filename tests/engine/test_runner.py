"""The runner against a plain model, from hand-made plans: what is computed where, and what moves with it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kvtop.engine.kv_cache import KVCache
from kvtop.engine.plan import Transfer
from kvtop.engine.runner import HookedForward, ModelRunner
from kvtop.engine.sampler import Sampler
from kvtop.engine.sequences import Sequence
from kvtop.engine.step_inputs import StepTables
from tests.engine.plan_maker import PlanMaker
from tests.engine.tiny_models import SERVED, install_hook, layer_places, make_cache, make_model

CPU = torch.device("cpu")
PROMPT_A = [5, 17, 3, 88, 41, 2, 9, 60, 11]
PROMPT_B = [70, 4, 4, 31]
FORKED_A = [*PROMPT_A, 50]


@torch.inference_mode()
def greedy(model: Any, prompt: list[int], count: int) -> list[int]:
    """What the plain model answers, one whole forward a token."""
    tokens = list(prompt)
    for _ in range(count):
        logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1]
        tokens.append(int(logits.argmax()))
    return tokens[len(prompt) :]


class Bench:
    """A tiny Llama on paged KV, the answers of the plain model, and a maker of plans."""

    def __init__(self, num_blocks: int = 40, block_size: int = 4, swap_blocks: int = 0) -> None:
        self.model = make_model(SERVED["Llama"]())
        self.answers = {tuple(prompt): greedy(self.model, prompt, 8) for prompt in (PROMPT_A, PROMPT_B, FORKED_A)}
        layers = install_hook(self.model)
        self.cache: KVCache = make_cache(layers, num_blocks, block_size, swap_blocks)
        forward = HookedForward(self.model, layer_places(layers))
        self.runner = ModelRunner(forward, self.cache, Sampler(), CPU)
        self.maker = PlanMaker(num_blocks, block_size)

    def decode(self, sequences: list[Sequence], steps: int) -> None:
        """Prefill what is left of them, then a token a step."""
        for _ in range(steps):
            plan = self.maker.plan(*(self.maker.schedule(sequence, draws=1) for sequence in sequences))
            result = self.runner.run(plan)
            assert result.computed_tokens == plan.num_tokens
            for sequence, sampled in zip(sequences, result.sampled, strict=True):
                sequence.tokens.append(sampled[0].token)

    def answer(self, sequence: Sequence) -> list[int]:
        return sequence.tokens[sequence.prompt_len :]

    def expected(self, sequence: Sequence) -> list[int]:
        return self.answers[tuple(sequence.tokens[: sequence.prompt_len])][: sequence.generated]


def test_chunks_beside_decodes_give_the_answers_of_the_plain_model() -> None:
    bench = Bench()
    a, b = bench.maker.sequence(PROMPT_A), bench.maker.sequence(PROMPT_B)
    result = bench.runner.run(bench.maker.plan(bench.maker.schedule(a, 4), bench.maker.schedule(b, draws=1)))
    assert result.sampled[0] == []
    b.tokens.append(result.sampled[1][0].token)
    result = bench.runner.run(bench.maker.plan(bench.maker.schedule(a, 3), bench.maker.schedule(b, draws=1)))
    b.tokens.append(result.sampled[1][0].token)
    assert result.computed_tokens == 4
    bench.decode([a, b], 6)
    assert bench.answer(a) == bench.expected(a)
    assert bench.answer(b) == bench.expected(b)
    assert (a.generated, b.generated) == (6, 8)


def test_several_draws_of_one_row_are_the_same_greedy_token() -> None:
    bench = Bench()
    a = bench.maker.sequence(PROMPT_A)
    result = bench.runner.run(bench.maker.plan(bench.maker.schedule(a, draws=3)))
    assert [sampled.token for sampled in result.sampled[0]] == [bench.answers[tuple(PROMPT_A)][0]] * 3


def test_a_step_of_transfers_alone_moves_kv_and_computes_nothing() -> None:
    bench = Bench(swap_blocks=4)
    a = bench.maker.sequence(PROMPT_A)
    bench.decode([a], 3)
    held = a.table.block_ids
    out = [Transfer("swap_out", block, place) for place, block in enumerate(held)]
    assert bench.runner.run(bench.maker.plan(transfers=out)).computed_tokens == 0
    for pool in bench.cache.layers:
        pool.fill(torch.nan)
    new = [bench.maker.free.pop() for _ in held]
    a.table.block_ids = new
    back = [Transfer("swap_in", place, block) for place, block in enumerate(new)]
    plan = bench.maker.plan(bench.maker.schedule(a, draws=1), transfers=back)
    a.tokens.append(bench.runner.run(plan).sampled[0][0].token)
    bench.decode([a], 4)
    assert bench.answer(a) == bench.expected(a)


def test_copy_on_write_parts_two_sequences_that_shared_every_block() -> None:
    bench = Bench()
    a = bench.maker.sequence(PROMPT_A)
    bench.runner.run(bench.maker.plan(bench.maker.schedule(a)))
    fork = bench.maker.sequence(FORKED_A, prompt_len=len(FORKED_A))
    fork.computed = a.computed
    fork.table.block_ids = list(a.table.block_ids)
    a.tokens.append(bench.answers[tuple(PROMPT_A)][0])
    copy = bench.maker.free.pop()
    transfer = Transfer("copy", a.table.block_ids[-1], copy)
    fork.table.block_ids[-1] = copy
    plan = bench.maker.plan(bench.maker.schedule(a, draws=1), bench.maker.schedule(fork, draws=1), transfers=[transfer])
    result = bench.runner.run(plan)
    a.tokens.append(result.sampled[0][0].token)
    fork.tokens.append(result.sampled[1][0].token)
    bench.decode([a, fork], 3)
    assert bench.answer(a) == bench.expected(a)
    assert bench.answer(fork) == bench.expected(fork)


def test_blocks_moved_to_other_places_in_mid_run_change_no_answer() -> None:
    bench = Bench()
    a, b = bench.maker.sequence(PROMPT_A), bench.maker.sequence(PROMPT_B)
    bench.decode([a, b], 4)
    for sequence in (a, b):
        for logical, block in enumerate(sequence.table.block_ids):
            target = bench.maker.free.pop(0)
            for pool in bench.cache.layers:
                for part in (pool.key, pool.value):
                    part[target] = part[block]
                    part[block] = torch.nan
            sequence.table.block_ids[logical] = target
    bench.decode([a, b], 4)
    assert bench.answer(a) == bench.expected(a)
    assert bench.answer(b) == bench.expected(b)


def test_a_corrupted_block_changes_the_answers_of_its_owner_only() -> None:
    bench = Bench()
    a, b = bench.maker.sequence(PROMPT_A), bench.maker.sequence(PROMPT_B)
    bench.decode([a, b], 3)
    for pool in bench.cache.layers:
        pool.key[a.table.block_ids[0]] = 3.0
    bench.decode([a, b], 5)
    assert bench.answer(a) != bench.expected(a)
    assert bench.answer(b) == bench.expected(b)


def test_rows_of_ended_sequences_are_used_again_and_never_mixed_up() -> None:
    bench = Bench(num_blocks=60)
    for _ in range(12):
        a, b = bench.maker.sequence(PROMPT_A), bench.maker.sequence(PROMPT_B)
        bench.decode([b, a], 4)
        assert bench.answer(a) == bench.expected(a)
        assert bench.answer(b) == bench.expected(b)
        for sequence in (a, b):
            bench.runner.release(sequence)
            bench.runner.release(sequence)
            bench.maker.free += sequence.table.block_ids


def test_more_sequences_and_longer_tables_than_ever_before_still_find_their_rows() -> None:
    maker = PlanMaker(400, 1)
    tables = StepTables(1, CPU)
    sequences = [maker.sequence(list(range(length))) for length in (30, *range(1, 20))]
    for _ in range(2):
        scheduled = [maker.schedule(sequence, sequence.to_compute - 1 or 1) for sequence in sequences]
        inputs = tables.lay_out(maker.plan(*scheduled))
        for place, entry in enumerate(inputs.entries):
            item = scheduled[entry]
            begin = inputs.batch.host_query_starts[place]
            span = slice(begin, inputs.batch.host_query_starts[place + 1])
            assert inputs.positions[0, span].tolist() == list(range(item.start, item.start + item.count))
            assert inputs.token_ids[0, span].tolist() == item.sequence.tokens[item.start : item.start + item.count]
            assert inputs.batch.slots[span].tolist() == item.sequence.table.slots(item.start, item.start + item.count)
            row = inputs.batch.block_tables[place].tolist()
            held = item.sequence.table.block_ids
            assert row == held + [0] * (len(row) - len(held))
        for sequence in sequences:
            sequence.tokens += [7, 8]


def test_a_plan_for_tokens_that_do_not_exist_is_refused() -> None:
    bench = Bench()
    a = bench.maker.sequence(PROMPT_B)
    with pytest.raises(ValueError, match="schedules 6 tokens, its sequences hold 4"):
        bench.runner.run(bench.maker.plan(bench.maker.schedule(a, 6)))

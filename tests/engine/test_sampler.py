"""Drawing tokens: filters in their stated order, streams that know no neighbours, errors that name the request."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from kvtop.engine import token_choice
from kvtop.engine.plan import Scheduled
from kvtop.engine.random_streams import seed_of, uniforms
from kvtop.engine.sampler import Sampler, SamplingError
from kvtop.engine.token_choice import likeliest
from tests.engine.plan_maker import PlanMaker

VOCABULARY = 600
"""More than the first look at the likeliest tokens."""


def row(
    position: int = 0,
    index: int = 0,
    draws: int = 1,
    candidates: int = 0,
    prompt: tuple[int, ...] = (3, 5, 3),
    **request: Any,
) -> Scheduled:
    tokens = [*prompt, *range(10, 10 + position)]
    sequence = PlanMaker(1, 1).sequence(tokens, prompt_len=len(prompt), index=index, **request)
    return Scheduled(sequence, len(tokens) - 1, 1, draws, candidates)


def some_logits(rows: int = 1, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, VOCABULARY, generator=torch.Generator().manual_seed(seed)) * 3


def tokens(sampler: Sampler, logits: torch.Tensor, rows: list[Scheduled]) -> list[list[int]]:
    return [[sampled.token for sampled in drawn] for drawn in sampler.sample(logits.clone(), rows)]


def transformers_distribution(logits: torch.Tensor, entry: Scheduled) -> torch.Tensor:
    """Probabilities after the processors that ``generate`` builds, in its order."""
    request = entry.sequence.request
    processors = LogitsProcessorList([TemperatureLogitsWarper(request.temperature)])
    if request.repetition_penalty != 1:
        processors.insert(0, RepetitionPenaltyLogitsProcessor(request.repetition_penalty))
    if request.top_k:
        processors.append(TopKLogitsWarper(request.top_k))
    if request.top_p < 1:
        processors.append(TopPLogitsWarper(request.top_p))
    if request.min_p:
        processors.append(MinPLogitsWarper(request.min_p))
    return processors(torch.tensor([entry.sequence.tokens]), logits.double()).softmax(-1)[0]


def drawn_distribution(logits: torch.Tensor, entry: Scheduled, draws: int) -> torch.Tensor:
    entry.draws = draws
    drawn = tokens(Sampler(), logits, [entry])[0]
    return torch.bincount(torch.tensor(drawn), minlength=VOCABULARY) / draws


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": 1.0},
        {"temperature": 0.6, "top_k": 20},
        {"temperature": 1.0, "top_p": 0.7},
        {"temperature": 3.0, "top_p": 0.97},
        {"temperature": 1.3, "min_p": 0.05},
        {"temperature": 2.0, "top_k": 50, "top_p": 0.8, "min_p": 0.1, "repetition_penalty": 1.7},
    ],
    ids="-".join,
)
def test_draws_are_distributed_as_generate_would_draw(fields: dict[str, Any]) -> None:
    logits = some_logits(seed=4)
    entry = row(position=5, prompt=(1, 2, 3), seed=1, **fields)
    expected = transformers_distribution(logits, entry)
    drawn = drawn_distribution(logits, entry, draws=40_000)
    assert not drawn[expected == 0].any(), "a token was drawn that a filter excludes"
    allowed = 5 * (expected * (1 - expected) / 40_000).sqrt() + 1e-4
    assert ((drawn - expected).abs() <= allowed).all()


def test_a_sequence_draws_the_same_whoever_its_neighbours_are_and_wherever_it_stands_in_the_batch() -> None:
    logits = some_logits(rows=4, seed=1)
    rows = [
        row(position=7, temperature=0.9, seed=42),
        row(position=1, temperature=1.5, top_k=5, seed=1),
        row(position=2, temperature=0.0),
        row(position=9, temperature=0.7, top_p=0.8, min_p=0.02, seed=42),
    ]
    together = tokens(Sampler(), logits, rows)
    for place in range(4):
        assert tokens(Sampler(), logits[place : place + 1], [rows[place]]) == [together[place]]
    assert tokens(Sampler(), logits.flip(0), rows[::-1]) == together[::-1]


def test_sample_i_of_a_seeded_request_draws_what_a_single_request_with_seed_plus_i_draws() -> None:
    logits = some_logits(seed=2)
    at_the_fork = tokens(Sampler(), logits, [row(draws=4, temperature=1.2, seed=10)])[0]
    single = [tokens(Sampler(), logits, [row(temperature=1.2, seed=10 + i)])[0][0] for i in range(4)]
    later = [tokens(Sampler(), logits, [row(index=i, temperature=1.2, seed=10)])[0][0] for i in range(4)]
    assert at_the_fork == single == later
    assert len(set(at_the_fork)) > 1


def test_a_request_without_a_seed_keeps_one_for_its_life_and_gets_another_in_another_engine() -> None:
    logits = some_logits(seed=3)
    entries = [row(position=position, id="a", temperature=1.5) for position in range(12)]
    sampler, other = Sampler(), Sampler()

    def answer(by: Sampler) -> list[int]:
        return [tokens(by, logits, [entry])[0][0] for entry in entries]

    assert answer(sampler) == answer(sampler)
    assert answer(sampler) != answer(other)
    assert seed_of(b"nonce", "a") != seed_of(b"nonce", "b")


def test_greedy_takes_the_highest_logit_after_the_repetition_penalty() -> None:
    logits = torch.full((2, VOCABULARY), -1.0)
    logits[:, 3], logits[:, 8], logits[:, 9] = 4.0, 3.0, 2.0
    rows = [row(), row(repetition_penalty=2.0)]
    assert tokens(Sampler(), logits, rows) == [[3], [8]]
    assert float(logits[1, 3]) == 4.0


def test_a_penalised_greedy_row_leaves_the_logits_of_its_neighbours_and_its_logprobs_alone() -> None:
    logits = some_logits(rows=2)
    sampled = Sampler().sample(logits, [row(repetition_penalty=5.0, logprobs=0), row(logprobs=0)])
    for place in range(2):
        token = sampled[place][0].token
        assert sampled[place][0].logprob == pytest.approx(float(logits[place].log_softmax(-1)[token]))


def test_logprobs_come_from_the_model_before_temperature_and_filters() -> None:
    logits = some_logits()
    drawn = Sampler().sample(logits.clone(), [row(temperature=0.3, top_k=2, seed=1, logprobs=5)])[0][0]
    reference = logits[0].log_softmax(-1)
    assert drawn.logprob == pytest.approx(float(reference[drawn.token]))
    assert [token for token, _ in drawn.top] == reference.topk(5).indices.tolist()
    assert [value for _, value in drawn.top] == pytest.approx(reference.topk(5).values.tolist())


def test_a_beam_gets_its_likeliest_continuations_in_falling_order() -> None:
    logits = some_logits()
    candidates = Sampler().sample(logits, [row(draws=0, candidates=6, beam_width=3)])[0]
    reference = logits[0].log_softmax(-1).topk(6)
    assert [item.token for item in candidates] == reference.indices.tolist()
    assert [item.logprob for item in candidates] == pytest.approx(reference.values.tolist())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("request_fields", [{}, {"temperature": 1.0, "seed": 1}, {"beam_width": 2}])
def test_logits_that_are_not_numbers_name_the_request(request_fields: dict[str, Any], dtype: torch.dtype) -> None:
    logits = some_logits(rows=2).to(dtype)
    logits[1, 77] = math.nan
    wanted: dict[str, Any] = {"draws": 0, "candidates": 4} if request_fields.get("beam_width") else {}
    rows = [row(id="good", **wanted, **request_fields), row(id="bad", **wanted, **request_fields)]
    with pytest.raises(SamplingError, match="request 'bad' at position 3 are not numbers"):
        Sampler().sample(logits, rows)


@pytest.mark.parametrize("vocabulary", [1, 255, 256, 257, 1000])
def test_the_likeliest_token_is_found_at_any_size_and_is_the_first_of_equals(vocabulary: int) -> None:
    scores = torch.randn(50, vocabulary, generator=torch.Generator().manual_seed(vocabulary)).mul_(3).round_()
    highest, tokens_found = likeliest(scores)
    assert torch.equal(highest, scores.amax(dim=-1))
    assert tokens_found.tolist() == [row.tolist().index(max(row.tolist())) for row in scores]
    scores[7, vocabulary // 2] = math.nan
    assert likeliest(scores)[0].isnan().nonzero().flatten().tolist() == [7]


def test_how_many_tokens_are_looked_at_changes_no_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = some_logits(rows=3, seed=9)
    rows = [
        row(position=1, draws=50, temperature=1.0, top_p=0.9, seed=1),
        row(position=2, draws=50, temperature=1.0, top_k=40, seed=2),
        row(position=3, draws=50, temperature=4.0, top_p=0.99, top_k=500, min_p=0.01, seed=3),
    ]
    outcomes = []
    for looks in ((), (1,), (30, 100), (599,)):
        monkeypatch.setattr(token_choice, "_LOOKS", looks)
        outcomes.append(tokens(Sampler(), logits, rows))
    assert all(outcome == outcomes[0] for outcome in outcomes)


def test_a_tiny_temperature_is_greedy_and_does_not_overflow() -> None:
    logits = some_logits() * 100
    assert tokens(Sampler(), logits, [row(temperature=1e-30, seed=5)]) == [[int(logits.argmax())]]


@given(st.integers(-(2**70), 2**70), st.integers(0, 10_000), st.integers(0, 200_000))
@settings(max_examples=100, deadline=None)
def test_a_tokens_number_depends_on_seed_position_and_token_only(seed: int, position: int, token: int) -> None:
    alone = uniforms(seed, position, np.array([token]))[0]
    assert 0 < alone < 1
    assert uniforms(seed, position, np.array([3, token, 7]))[1] == alone


def test_numbers_of_neighbouring_seeds_positions_and_tokens_are_independent() -> None:
    tokens = np.arange(256)
    for grid in (
        np.array([uniforms(seed, 3, tokens) for seed in range(256)]),
        np.array([uniforms(3, position, tokens) for position in range(256)]),
    ):
        histogram, _ = np.histogram(grid, bins=16, range=(0, 1))
        assert abs(grid.mean() - 0.5) < 0.005
        assert np.abs(histogram / grid.size - 1 / 16).max() < 0.004
        for other in (np.roll(grid, 1, axis=0), np.roll(grid, 1, axis=1)):
            assert abs(np.corrcoef(grid.ravel(), other.ravel())[0, 1]) < 0.02


def test_rounding_of_the_logits_changes_no_draw() -> None:
    logits = some_logits(rows=1, seed=4)
    noisy = logits + 1e-5 * torch.randn(logits.shape, generator=torch.Generator().manual_seed(1))
    rows = [row(draws=400, temperature=1.0, seed=8)]
    assert tokens(Sampler(), logits, rows) == tokens(Sampler(), noisy, rows)

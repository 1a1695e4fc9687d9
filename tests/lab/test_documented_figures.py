"""The figures in docs/policy-lab.md are what its commands print."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvtop.engine.cost import CARDS
from kvtop.lab.combinations import combinations
from kvtop.lab.presets import IN_REGIONS
from kvtop.lab.runs import Outcome, Pricing, run_all

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "policy-lab.md").read_text(encoding="utf-8")
SHARES = [0.0, 0.005, 0.01, 0.02, 0.05]


def table_row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def priced(**values: object) -> list[Outcome]:
    return run_all(combinations(values), pricing=Pricing(CARDS["80gb"], charge_recompute=True))  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_rows_of_the_sound_rule_are_in_the_document() -> None:
    for outcome in run_all(combinations({})):
        figures = outcome.figures
        shown = f"{figures['mean_running']:.0f}", f"{figures['kv_utilization']:.1%}"
        assert table_row(*shown, f"{figures['steps']:,}", f"{figures['preemptions']:,}")[2:] in DOCUMENT


@pytest.mark.slow
def test_the_watermark_s_rows_are_in_the_document() -> None:
    figures = [o.figures for o in run_all(combinations({"policy": ["paged"], "block_size": [16], "watermark": SHARES}))]
    assert table_row("mean running", *(f"{row['mean_running']:.1f}" for row in figures)) in DOCUMENT
    assert table_row("preemptions", *(f"{row['preemptions']:,}" for row in figures)) in DOCUMENT
    assert table_row("steps", *(f"{row['steps']:,}" for row in figures)) in DOCUMENT


@pytest.mark.slow
def test_the_block_sizes_and_the_holes_are_in_the_document() -> None:
    sizes = run_all(combinations({"policy": ["paged"], "block_size": [1, 4, 16, 32, 64, 128, 256]}))
    assert table_row("mean running", *(f"{o.figures['mean_running']:.0f}" for o in sizes)) in DOCUMENT
    uses = (f"{o.figures['kv_utilization']:.1%}" for o in sizes)
    assert table_row("held memory that holds tokens", *uses) in DOCUMENT
    holes = run_all(combinations({"policy": ["reserve-prompt-max-tokens"], "placement": ["counted", "first-fit"]}))
    running = (f"{o.figures['mean_running']:.1f}" for o in holes)
    assert table_row("reserve prompt + max_tokens, mean running", *running) in DOCUMENT


@pytest.mark.slow
def test_the_share_of_the_pool_that_holes_take_is_in_the_document() -> None:
    lane = IN_REGIONS.build()[1]
    while not lane.ended:
        lane.advance()
    sums = lane.figures().sums
    assert f"{sums.external / sums.pool:.1%} of the pool is free and of no use" in DOCUMENT


@pytest.mark.slow
def test_the_longer_answers_are_in_the_document() -> None:
    rows = priced(output_median=[800.0])
    rows += priced(output_median=[800.0], policy=["paged"], block_size=[16], watermark=[0.05, 0.1, 0.2])
    for outcome in rows:
        figures, price = outcome.figures, outcome.price
        assert price is not None
        shown = f"{figures['mean_running']:.0f}", f"{figures['steps']:,}", f"{figures['preemptions']:,}"
        assert table_row(*shown, f"{price.seconds:,.0f}", f"{price.goodput_tokens_per_s:,.0f}")[1:-1] in DOCUMENT

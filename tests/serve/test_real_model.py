"""The real model served to several clients under preemption: the short form of ``benchmarks/serve_clients.py``."""

from __future__ import annotations

import pytest

from benchmarks import serve_clients


@pytest.mark.slow
def test_answers_of_a_real_model_under_preemption_are_those_of_kvtop_run_and_nothing_is_left_behind() -> None:
    figures = serve_clients.run(clients=6, minutes=0.5, num_blocks=20)
    assert figures["faults"] == []
    assert figures["right"] >= 6
    assert figures["preemptions"] > 0, "the pool was meant to be too small"

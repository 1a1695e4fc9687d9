"""The exporter in a real vLLM under pressure; takes minutes. See conftest.py for what it needs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.vllm_exporter import vllm_server, watch_under_pressure


@pytest.mark.slow
def test_true_tables_agree_with_kv_events_and_the_counter_of_a_real_server(model_folder: Path) -> None:
    with vllm_server(Path(os.environ["VLLM_PYTHON"]), model_folder, blocks=40) as ports:
        found = watch_under_pressure(ports)
    assert found.faults() == []
    assert all(counted >= told for told, counted in zip(found.told, found.counted, strict=True)), "the counter lags"
    assert found.spent_s < 0.01 * found.step_s

"""The exporter in a real vLLM, and a real vLLM under the dashboard's source; takes minutes.

VLLM_PYTHON names the Python of an environment with vLLM and kvtop: a real vLLM is no dependency of ours.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from benchmarks import vllm_live
from benchmarks.vllm_exporter import vllm_server, watch_under_pressure

TOP = Path(__file__).parent.parent.parent


pytestmark = [pytest.mark.slow, pytest.mark.vllm]


def test_real_schedulers_under_random_traffic_are_told_exactly(model_folder: Path) -> None:
    command = [os.environ["VLLM_PYTHON"], "-m", "tests.attach.drive_real_scheduler", str(model_folder), "5"]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1].startswith("ok: 20 schedulers")


def test_true_tables_agree_with_kv_events_and_the_counter_of_a_server_under_pressure(model_folder: Path) -> None:
    with vllm_server(Path(os.environ["VLLM_PYTHON"]), model_folder, blocks=40) as ports:
        found = watch_under_pressure(ports)
    assert found.faults() == []
    assert all(counted >= told for told, counted in zip(found.told, found.counted, strict=True)), "the counter lags"
    assert found.spent_s < 0.01 * found.step_s


def test_a_server_is_started_preempts_is_paused_stepped_and_let_go_and_leaves_no_process(model_folder: Path) -> None:
    found = vllm_live.prove(os.environ["VLLM_PYTHON"], model_folder, blocks=40)
    assert found.faults == []
    assert found.processes >= 3, "the keeper, the API server, the engine core"
    assert found.texts >= 0.8 * found.gained > 0, "words come with their steps"

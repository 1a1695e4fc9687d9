import json
import os
import subprocess
import sys

import pytest

from kvtop.kernels.agreement import TOLERANCE, Case
from tests.kernels.cases import DECODE, MANY_SPLITS, MOVES, PREFILL, TOGETHER


@pytest.fixture(scope="module")
def errors() -> dict[str, dict[str, float]]:
    """What the interpreter said, once for all tests of this module."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.interpreted"],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def named(case: Case) -> str:
    return case.name


@pytest.mark.parametrize("case", DECODE, ids=named)
def test_decode_agrees_with_float64(errors, case):
    assert errors["decode"][case.name] < TOLERANCE[case.dtype]


@pytest.mark.parametrize("case", DECODE, ids=named)
def test_decode_in_splits_agrees_with_float64(errors, case):
    assert errors["decode, split"][case.name] < TOLERANCE[case.dtype]


@pytest.mark.parametrize("case", MANY_SPLITS, ids=named)
def test_decode_with_more_splits_than_pages_agrees_with_float64(errors, case):
    assert errors["decode, more splits than pages"][case.name] < TOLERANCE[case.dtype]


def test_a_padding_row_of_a_decode_batch_yields_zeros(errors):
    assert all(error < 1e-5 for error in errors["decode, padding row"].values())


@pytest.mark.parametrize("case", PREFILL, ids=named)
def test_prefill_agrees_with_float64(errors, case):
    assert errors["prefill"][case.name] < TOLERANCE[case.dtype]


@pytest.mark.parametrize("case", MOVES, ids=named)
def test_store_writes_the_slots_and_nothing_else(errors, case):
    assert errors["store"][case.name] == 0


@pytest.mark.parametrize("case", MOVES, ids=named)
def test_copy_writes_the_target_blocks_and_nothing_else(errors, case):
    assert errors["copy"][case.name] == 0


@pytest.mark.parametrize("case", TOGETHER, ids=named)
def test_storing_and_attending_as_a_device_does_agrees_with_float64(errors, case):
    assert errors["together"][case.name] < TOLERANCE[case.dtype]

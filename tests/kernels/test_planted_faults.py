"""The tests of the kernels can fail: every fault listed in ``faults.py``, planted in a kernel, is caught.

Between them they hold a wrong stride, a missing mask, a page off by one and swapped K and V for each kernel.
"""

import json
import os
import subprocess
import sys

import pytest

from kvtop.kernels.agreement import TOLERANCE
from tests.kernels.faults import FAULTS, Fault
from tests.kernels.mutants import SOUND


@pytest.fixture(scope="module")
def errors() -> dict[str, list[float]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.mutants"],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_copy_of_the_kernels_without_a_fault_passes(errors):
    assert max(errors[SOUND.name]) < min(TOLERANCE.values())


def named(fault: Fault) -> str:
    return fault.name


@pytest.mark.parametrize("fault", FAULTS, ids=named)
def test_the_fault_is_caught(errors, fault):
    assert len(errors[fault.name]) == len(fault.trials)
    assert min(errors[fault.name]) > 100 * min(TOLERANCE.values())

"""What is set up around torch before it is imported."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

BUILD = """
import sys
from pathlib import Path
from kvtop.engine import assembly
from kvtop.failure import Failure
from kvtop.settings import EngineSettings
assembly.resolve_model = lambda *names, **more: Path("no such folder")
assert "torch" not in sys.modules
try:
    assembly.build_engine(EngineSettings(device="cpu"))
except Failure as failure:
    assert "torch" in sys.modules and "no such folder" in str(failure)
"""

RAGGED = """
import psutil, torch
from kvtop.kernels.linear import make_linear
torch.set_num_threads(1)
linear = make_linear(torch.randn(960, 576, dtype=torch.bfloat16))
x = torch.randn(500, 576, dtype=torch.bfloat16)
for tokens in range(1, 501):
    if tokens == 100:
        before = psutil.Process().memory_info().rss
    linear(x[:tokens])
print((psutil.Process().memory_info().rss - before) >> 20)
"""


def test_steps_of_ever_other_sizes_take_no_ever_more_memory() -> None:
    done = subprocess.run([sys.executable, "-c", BUILD + RAGGED], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 200, "MiB that 400 numbers of tokens took: 17 to 56 with a bound, 730 without"


@pytest.mark.parametrize(
    ("own", "turns"),
    [({}, 1000), ({"GOMP_SPINCOUNT": "7000"}, 7000), ({"OMP_WAIT_POLICY": "passive"}, 0)],
)
def test_an_engine_s_threads_spin_only_briefly_unless_the_user_says_otherwise(own: dict[str, str], turns: int) -> None:
    environ = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    # OpenMP itself says what it has read
    environ |= {"OMP_DISPLAY_ENV": "verbose"} | own
    done = subprocess.run([sys.executable, "-c", BUILD], capture_output=True, text=True, timeout=300, env=environ)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"GOMP_SPINCOUNT\s*=\s*'(\w+)'", done.stderr) == [str(turns)]

from __future__ import annotations

import subprocess
import sys

import pytest

EVERYTHING = "from kvtop.view import decision, describe, figures, keyframe, pool_view, waste, why"


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        (EVERYTHING, ("textual", "torch", "transformers")),
        ("from kvtop.sources import embedded, recorder, replay", ("textual", "torch", "transformers")),
        ("from kvtop.engine import process, simulator", ("textual", "torch", "transformers", "numpy")),
    ],
)
def test_a_watcher_loads_neither_torch_nor_a_screen(statement: str, unwanted: tuple[str, ...]) -> None:
    code = f"{statement}; import sys; print(*set({unwanted!r}) & sys.modules.keys())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert found == []

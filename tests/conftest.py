"""What every test stands on: one pinned terminal, no settings but the test's own, and the default model."""

import os
import signal
from pathlib import Path

import pytest

for name in [name for name in os.environ if name.startswith("KVTOP_") and name != "KVTOP_MODEL_DIR"]:
    del os.environ[name]
os.environ["KVTOP_CONFIG"] = os.devnull

# Rich and Textual choose colours by these when they are imported, and snapshots hold colours.
os.environ["TERM"] = "xterm-256color"
os.environ["COLORTERM"] = "truecolor"
os.environ.pop("NO_COLOR", None)
os.environ.pop("FORCE_COLOR", None)
os.environ["COLUMNS"] = "120"
os.environ["LINES"] = "36"

# Torch on one thread: the models of the tests are tiny, and two processes whose threads wait for each other by spinning
# slow one another down tenfold.
os.environ["OMP_NUM_THREADS"] = "1"


# A shell starts background jobs with SIGINT ignored, and children inherit that; tests that send it need the default.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def model_folder() -> Path:
    """The default model's folder; the first test that asks on a fresh machine pulls it."""
    from kvtop.models.resolve import resolve_model
    from kvtop.settings import DEFAULT_MODEL

    return resolve_model(DEFAULT_MODEL)

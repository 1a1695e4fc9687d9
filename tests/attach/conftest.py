"""Nobody's exporter is found by chance in these tests, and the clock on their screens shows UTC."""

import os
import time

import pytest

os.environ["TZ"] = "UTC"
time.tzset()


@pytest.fixture(autouse=True)
def no_exporter_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual port is one at which nobody listens."""
    monkeypatch.setattr("kvtop.attach.tables_probe.DEFAULT_PORT", 9)

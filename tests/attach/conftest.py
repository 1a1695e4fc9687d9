"""Nobody's exporter is found by chance in these tests: the usual port is one at which nobody listens."""

import pytest


@pytest.fixture(autouse=True)
def no_exporter_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvtop.attach.tables_probe.DEFAULT_PORT", 9)

"""Tables are cut on a terminal only."""

from __future__ import annotations

import pytest

from kvtop.cli import main


def test_a_table_in_a_pipe_is_whole_and_columns_cut_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert main(["config", "--keys"]) == 0
    whole = capsys.readouterr().out
    (line,) = (line for line in whole.splitlines() if line.startswith("findings_page_down"))
    assert line.rstrip().endswith("Read on, ten lines.")
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["config", "--keys"]) == 0
    folded = capsys.readouterr().out.splitlines()
    assert len(folded) > len(whole.splitlines()) and max(map(len, folded)) <= 60

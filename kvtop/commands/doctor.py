"""See what this machine can do, and what to fix.

  kvtop doctor                  a line a finding; what is not well says what to do
  kvtop doctor --device cuda    as kvtop live --device cuda would find it
  kvtop doctor --json           for programs, and for reports

Looks at the engine's packages and their versions, the device, memory bandwidth (measured: about a second), the kernels
(run, and compared with the reference), the model and its folder, the terminal, and the settings. Ends with 0 if an
engine can run here, 1 if not.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from typing import TYPE_CHECKING

from kvtop.commands.engine_flags import add_flag, settings_from
from kvtop.settings import SETTINGS
from kvtop.view.clean import clean_line

if TYPE_CHECKING:
    from kvtop.doctor.finding import Finding

_FLAGS = ("model", "device", "dtype", "model_dir")
_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    for setting in SETTINGS:
        if setting.name in _FLAGS:
            add_flag(parser, setting)


def run(args: argparse.Namespace) -> int:
    from kvtop.commands.bars import stage_bar
    from kvtop.doctor.examination import engine_can_run, examine

    settings = settings_from(args)
    with stage_bar() as report:
        findings = list(examine(settings, os.environ, report))
    can_run = engine_can_run(findings)
    if args.json:
        shown = [dataclasses.asdict(finding) for finding in findings]
        print(json.dumps({"engine_can_run": can_run, "findings": shown}, indent=2))
    else:
        _print_table(findings)
        _print_verdict(findings, can_run)
    return 0 if can_run else 1


def _print_table(findings: list[Finding]) -> None:
    from rich.table import Table
    from rich.text import Text

    from kvtop.commands.table_output import table_console

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        table.add_row(
            Text(finding.state, style=_STYLES[finding.state]), finding.name, Text(clean_line(finding.value, limit=500))
        )
        if finding.advice:
            table.add_row("", "", Text(f"→ {clean_line(finding.advice, limit=500)}", style="bold"))
    table_console().print(table)


def _print_verdict(findings: list[Finding], can_run: bool) -> None:
    broken = [finding.name for finding in findings if finding.state == "fail"]
    print("\nAn engine can run here." if can_run else f"\nNo engine can run here: see {', '.join(broken)}.")

"""Everything that needs a GPU, in one run of under eight minutes: agreement, tuning, bandwidth, whole models.

    python -m benchmarks.gpu_check --out gpu.json     on a card: tables on stdout, everything in the JSON
    python -m benchmarks.gpu_check --dry-run          the same lines at toy sizes on a CPU, kernels interpreted

A part that fails is reported and the others go on; what the time does not reach is said to be missing. Ends with 1 if
a part failed, a kernel disagreed or a token changed. Needs torch 2.11 and Triton 3.6 or newer; the parts with a whole
model need transformers 5.19 or newer.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

MOST_SECONDS = 460.0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="gpu_check", description="Everything that needs a GPU, in one run.")
    parser.add_argument("--out", type=Path, help="where the JSON goes")
    parser.add_argument("--seconds", type=float, default=MOST_SECONDS, help="stop starting new work after this long")
    parser.add_argument("--dry-run", action="store_true", help="toy sizes on a CPU")
    args = parser.parse_args(arguments)
    if args.dry_run:
        os.environ["TRITON_INTERPRET"] = "1"  # read when a kernel is defined, so before the parts are imported
    import torch

    if not args.dry_run and not torch.cuda.is_available():
        print("gpu_check: no GPU: torch sees none; run it on a machine with one, or with --dry-run", file=sys.stderr)
        return 1
    from benchmarks.gpu.parts import Check

    check = Check(torch.device("cpu" if args.dry_run else "cuda"), dry=args.dry_run, seconds=args.seconds)
    run_parts(check.parts(), check.report)
    check.print_tables()
    if args.out:
        args.out.write_text(json.dumps(check.report, indent=1), encoding="utf-8")
    return 1 if check.failures() else 0


def run_parts(parts: dict[str, Callable[[], Any]], report: dict[str, Any]) -> None:
    """Run the parts in order; each result, or what went wrong, goes into ``report``."""
    report["seconds"] = {}
    report["errors"] = {}
    for name, part in parts.items():
        print(f"gpu_check: {name}", file=sys.stderr)
        started = time.monotonic()
        try:
            report[name] = part()
        except Exception as error:  # the next part may still tell something, and a card is not at hand every day
            report["errors"][name] = f"{type(error).__name__}: {error}"
            traceback.print_exc()
        report["seconds"][name] = round(time.monotonic() - started, 1)


if __name__ == "__main__":
    sys.exit(main())

"""Plant every fault, one at a time, and try it: ``TRITON_INTERPRET=1 python -m tests.kernels.mutants``.

The Triton modules are copied, the copy is altered and imported under a name of its own. Prints one JSON object: for
each fault, the errors of its trials. The first entry is a copy without a fault, which must show none.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import torch

import kvtop
from tests.kernels import trials
from tests.kernels.cases import DECODE, MANY_SPLITS, MOVES, PREFILL
from tests.kernels.faults import DECODE_PLAIN, DECODE_SPLIT, DECODE_WINDOW, FAULTS, PREFILL_PLAIN, PREFILL_WINDOW, Fault

SOUND = Fault("no fault", "tiles", "", "", (DECODE_PLAIN, DECODE_SPLIT, DECODE_WINDOW, PREFILL_PLAIN, PREFILL_WINDOW))
KERNELS = Path(kvtop.__file__).parent / "kernels"


def plant(fault: Fault, package: Path) -> trials.TritonModules:
    """A copy of the Triton modules in the new folder ``package``, with the fault in it."""
    package.mkdir()
    for source in KERNELS.glob("triton_*.py"):
        text = source.read_text(encoding="utf-8")
        if source.stem == f"triton_{fault.module}":
            assert fault.sound in text, f"{fault.name}: the source no longer holds {fault.sound!r}"
            text = text.replace(fault.sound, fault.faulty) if fault.sound else text
        text = text.replace("kvtop.kernels.triton_", f"{package.name}.triton_")
        (package / source.name).write_text(text, encoding="utf-8")
    return trials.TritonModules.of(package.name)


def error(modules: trials.TritonModules, kind: str, case_name: str, spare_items: int) -> float:
    cases = {"decode": DECODE, "many splits": MANY_SPLITS, "padding row": DECODE, "prefill": PREFILL}.get(kind, MOVES)
    case = next(case for case in cases if case.name == case_name)
    match kind:
        case "decode" | "many splits":
            return trials.decode_error(modules, case, spare_items)
        case "padding row":
            return trials.padding_row_error(modules, case, spare_items)
        case "prefill":
            return trials.prefill_error(modules, case)
        case "store":
            return trials.store_error(modules, case)
    return trials.copy_error(modules, case)


def main() -> None:
    torch.set_num_threads(1)
    errors: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, folder)
        for index, fault in enumerate([SOUND, *FAULTS]):
            modules = plant(fault, Path(folder) / f"mutant_{index}")
            errors[fault.name] = [error(modules, *trial) for trial in fault.trials]
    print(json.dumps(errors))


if __name__ == "__main__":
    main()

"""Every kernel on every small problem, interpreted: ``TRITON_INTERPRET=1 python -m tests.kernels.interpreted``.

A process of its own, because Triton reads that variable when a kernel is defined. Prints one JSON object: how wrong
each kernel was on each problem.
"""

import json

import torch

from kvtop.kernels.agreement import worst_difference
from kvtop.kernels.triton_kernels import TritonKernels
from tests.kernels import trials
from tests.kernels.cases import DECODE, MANY_SPLITS, MOVES, PREFILL, TOGETHER


def main() -> None:
    torch.set_num_threads(1)
    real = trials.TritonModules.of("kvtop.kernels")
    kernels = TritonKernels(trials.CPU, max_num_seqs=8)
    padded = DECODE[2]
    errors = {
        "decode": {case.name: trials.decode_error(real, case, 0) for case in DECODE},
        "decode, split": {case.name: trials.decode_error(real, case, 4) for case in DECODE},
        "decode, more splits than pages": {case.name: trials.decode_error(real, case, 40) for case in MANY_SPLITS},
        "decode, padding row": {padded.name: trials.padding_row_error(real, padded, 4)},
        "prefill": {case.name: trials.prefill_error(real, case) for case in PREFILL},
        "store": {case.name: trials.store_error(real, case) for case in MOVES},
        "copy": {case.name: trials.copy_error(real, case) for case in MOVES},
        "together": {case.name: worst_difference(kernels, case, trials.CPU) for case in TOGETHER},
    }
    print(json.dumps(errors))


if __name__ == "__main__":
    main()

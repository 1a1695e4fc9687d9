"""vLLM as a contestant: runs under the Python of vLLM's own environment, which is not ours.

    PYTHON vllm_worker.py MODEL_FOLDER LENGTH eager|compiled

A line of JSON in, ``[[prompt token ids, tokens to generate], …]``; a line out, ``{"seconds", "answers"}``. It says
``{"ready": version}`` first. What vLLM prints goes to stderr. Imports nothing of ours.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB
os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", f"0-{(os.cpu_count() or 1) - 1}")


def main(folder: str, length: int, mode: str) -> None:
    answers_out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import vllm

    model: Any = vllm.LLM(
        folder,
        dtype="bfloat16",
        max_model_len=length,
        max_num_seqs=64,
        enable_prefix_caching=False,
        enforce_eager=mode == "eager",
    )

    def say(answer: dict[str, object]) -> None:
        answers_out.write(json.dumps(answer) + "\n")
        answers_out.flush()

    say({"ready": vllm.__version__})
    for line in sys.stdin:
        jobs = json.loads(line)
        prompts = [{"prompt_token_ids": prompt} for prompt, _ in jobs]
        limits = [
            vllm.SamplingParams(temperature=0, max_tokens=count, ignore_eos=True, detokenize=False) for _, count in jobs
        ]
        started = time.perf_counter()
        outputs = model.generate(prompts, limits, use_tqdm=False)
        seconds = time.perf_counter() - started
        say({"seconds": seconds, "answers": [list(output.outputs[0].token_ids) for output in outputs]})


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])

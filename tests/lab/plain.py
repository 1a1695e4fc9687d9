"""The published experiment, transcribed from its description line by line: the lab is compared with this.

It shares no line with the program: it keeps lists, visits everybody in every step, and counts held slots anew whenever
it asks for them.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any


@dataclass(eq=False)
class Asked:
    prompt: int
    output: int
    generated: int = 0
    held: int = 0


def asked(requests: int, seed: int, max_tokens: int = 2048, output_mu: float = 4.8) -> list[Asked]:
    draw = random.Random(seed)
    waiting = []
    for _ in range(requests):
        prompt = int(math.exp(draw.gauss(6.5, 1.0)))
        output = int(math.exp(draw.gauss(output_mu, 1.0)))
        waiting.append(Asked(min(max(prompt, 16), 6000), min(max(output, 1), max_tokens)))
    return waiting


def plain(
    policy: str,
    block_size: int = 16,
    *,
    requests: int = 4000,
    seed: int = 3,
    pool_tokens: int = 52 * 10**9 // 131072,
    max_num_seqs: int = 1024,
    max_model_len: int = 8192,
    max_tokens: int = 2048,
    output_mu: float = 4.8,
    preempted_go_on_asking: bool = True,
) -> dict[str, Any]:
    """A row of the table. ``preempted_go_on_asking`` is the fault of the published program."""

    def slots_needed(one: Asked) -> int:
        if policy == "reserve-max-model-len":
            return max_model_len
        if policy == "reserve-prompt-max-tokens":
            return one.prompt + max_tokens
        return math.ceil((one.prompt + one.generated + 1) / block_size) * block_size

    def free() -> int:
        return pool - sum(one.held for one in running)

    pool = pool_tokens // block_size * block_size if policy == "paged" else pool_tokens
    waiting = asked(requests, seed, max_tokens, output_mu)
    running: list[Asked] = []
    steps = preemptions = recomputed = prefilled = decoded = live = held = 0
    first_prompts = sum(one.prompt for one in waiting)
    while waiting or running:
        for one in list(running):
            if one not in running and not preempted_go_on_asking:
                continue
            while slots_needed(one) - one.held > free() and len(running) > 1:
                newest = running.pop()
                preemptions += 1
                recomputed += newest.prompt + newest.generated
                newest.generated = newest.held = 0
                waiting.insert(0, newest)
                if newest is one:
                    break
            if one in running:
                one.held = slots_needed(one)
        while waiting and len(running) < max_num_seqs and slots_needed(waiting[0]) <= free():
            one = waiting.pop(0)
            one.held = slots_needed(one)
            running.append(one)
            prefilled += one.prompt
        steps += 1
        decoded += len(running)
        live += sum(one.prompt + one.generated for one in running)
        held += sum(one.held for one in running)
        for one in running:
            one.generated += 1
        running = [one for one in running if one.generated < one.output]
    return {
        "policy": policy,
        "block_size": block_size if policy == "paged" else None,
        "pool_tokens": pool_tokens,
        "requests": requests,
        "steps": steps,
        "mean_running": decoded / steps,
        "kv_utilization": live / held,
        "preemptions": preemptions,
        "recomputed_tokens": recomputed,
        "prefilled_tokens": prefilled,
        "decoded_tokens": decoded,
        "total_work_tokens": first_prompts + decoded + recomputed,
    }

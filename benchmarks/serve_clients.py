"""Many clients of a served model at once, for as long as asked: every answer must be the one that `kvtop run` gives.

  python -m benchmarks.serve_clients                       16 clients for 10 minutes
  python -m benchmarks.serve_clients --minutes 0.5 --clients 6

The model runs in float32, greedily, on a pool too small for all clients, so that requests are preempted again and
again. Every tenth call is left in the middle of its stream. At the end no block and no request may be held, and
memory may not have grown. Prints the figures; ends with 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import openai
import psutil

TOPICS = ("a page table", "the heap", "a queue", "paging", "a block", "swap space", "a cache line", "a mutex")
QUESTIONS = (
    "What is {}?",
    "Write two sentences about {}.",
    "You are a teacher of operating systems who explains with everyday things. Explain {} to a student who has never "
    "programmed, and give an example from a library with shelves and books.",
    "List three facts about {}, then three more",
)
ENGINE = ("--dtype", "float32", "--max-num-seqs", "16")
LEAVE_EVERY = 10
MAX_GROWTH_BYTES = 200 << 20
PATIENCE_SECONDS = 120.0


@dataclass(slots=True)
class Task:
    """One thing that is asked again and again."""

    request: dict[str, Any]
    """As in a workload file."""
    text: str = ""
    """What `kvtop run` answers."""
    tokens: int = 0


@dataclass(slots=True)
class Tally:
    """What the clients met."""

    right: int = 0
    left: int = 0
    tokens: int = 0
    wrong: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


def make_tasks() -> list[Task]:
    tasks = []
    for number, (topic, question) in enumerate((t, q) for t in TOPICS for q in QUESTIONS):
        text = question.format(topic)
        request: dict[str, Any] = {"id": f"task-{number}", "max_tokens": 24 + 17 * (number % 5)}
        if number % 3:
            request["messages"] = [{"role": "user", "content": text}]
        else:
            request["prompt"] = text
        tasks.append(Task(request))
    return tasks


def answer_alone(tasks: list[Task]) -> None:
    """Let `kvtop run` answer every task, with memory for all."""
    with tempfile.TemporaryDirectory() as folder:
        workload = Path(folder) / "tasks.json"
        workload.write_text(json.dumps({"requests": [task.request for task in tasks]}))
        command = [sys.executable, "-m", "kvtop", "run", str(workload), "--json", "--num-blocks", "1000", *ENGINE]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    for task, told in zip(tasks, json.loads(done.stdout)["requests"], strict=True):
        (output,) = told["outputs"]
        task.text, task.tokens = output["text"], len(output["token_ids"])


class Server:
    """`kvtop serve` on a small pool."""

    def __init__(self, num_blocks: int) -> None:
        command = [sys.executable, "-m", "kvtop", "serve", "--port", "0", "--num-blocks", str(num_blocks), *ENGINE]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if "watch it with" in line:
                self.url = line.split()[-1]
                break
        else:
            sys.exit("the server did not start")
        self.http = httpx2.Client(base_url=self.url, timeout=PATIENCE_SECONDS, trust_env=False)
        self.processes = [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children()]

    def metrics(self) -> dict[str, float]:
        """Metric → the sum of its series."""
        found: Counter[str] = Counter()
        for line in self.http.get("/metrics").text.splitlines():
            if line.startswith("vllm:"):
                name, _, value = line.rpartition(" ")
                found[name.partition("{")[0]] += float(value)  # type: ignore[assignment]
        return dict(found)

    def memory_bytes(self) -> list[int]:
        """Of the server and of its engine."""
        return [process.memory_info().rss for process in self.processes]

    def end(self) -> int:
        self.http.close()
        self.process.terminate()
        return self.process.wait(60)


def be_a_client(number: int, url: str, tasks: list[Task], until_s: float, tally: Tally) -> None:
    """Ask one task after another, whole or as a stream; leave some of them."""
    pick = random.Random(number)
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=PATIENCE_SECONDS) as client:
        model = client.models.list().data[0].id
        for call in range(1, sys.maxsize):
            if time.monotonic() >= until_s:
                return
            task = pick.choice(tasks)
            try:
                text = _ask(client, model, task, pick, leaves=call % LEAVE_EVERY == 0)
            except openai.OpenAIError as error:
                tally.wrong.append(f"{task.request['id']}: {error!r}")
                continue
            with tally.lock:
                if text is None:
                    tally.left += 1
                elif text == task.text:
                    tally.right += 1
                    tally.tokens += task.tokens
                else:
                    tally.wrong.append(f"{task.request['id']}: {text!r}, expected {task.text!r}")


def _ask(client: openai.OpenAI, model: str, task: Task, pick: random.Random, leaves: bool) -> str | None:
    """The answer's text; None where the call was left."""
    fields: dict[str, Any] = {"model": model, "max_tokens": task.request["max_tokens"], "temperature": 0}
    streams = leaves or pick.random() < 0.5
    if "prompt" in task.request:
        answer: Any = client.completions.create(prompt=task.request["prompt"], stream=streams, **fields)
    else:
        answer = client.chat.completions.create(messages=task.request["messages"], stream=streams, **fields)
    if not streams:
        choice = answer.choices[0]
        text: str = choice.text if "prompt" in task.request else choice.message.content
        return text
    parts: list[str] = []
    for chunk in answer:
        choice = chunk.choices[0]
        parts.append(choice.text if "prompt" in task.request else choice.delta.content or "")
        if leaves and len(parts) > 5:
            answer.close()
            return None
    return None if leaves else "".join(parts)


def run(clients: int, minutes: float, num_blocks: int) -> dict[str, Any]:
    """The figures of a run, and under ``faults`` what was wrong."""
    tasks = make_tasks()
    answer_alone(tasks)
    server = Server(num_blocks)
    try:
        tally = Tally()
        began_s = time.monotonic()
        threads = [
            threading.Thread(target=be_a_client, args=(number, server.url, tasks, began_s + 60 * minutes, tally))
            for number in range(clients)
        ]
        for thread in threads:
            thread.start()
        time.sleep(min(30.0, 20 * minutes))  # by then everything that is needed once is there
        settled = server.memory_bytes()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - began_s
        faults = tally.wrong + _what_is_held(server)
        memory = server.memory_bytes()
        metrics = server.metrics()
    finally:
        code = server.end()
    if code != 0:
        faults.append(f"the server ended with {code}")
    for name, before, after in zip(("server", "engine"), settled, memory, strict=True):
        if after - before > MAX_GROWTH_BYTES:
            faults.append(f"the {name}'s memory grew from {before >> 20} to {after >> 20} MiB")
    return {
        "clients": clients,
        "seconds": round(seconds, 1),
        "right": tally.right,
        "left": tally.left,
        "tokens_per_s": round(tally.tokens / seconds, 1),
        "preemptions": int(metrics["vllm:num_preemptions_total"]),
        "server_mib": [settled[0] >> 20, memory[0] >> 20],
        "engine_mib": [settled[1] >> 20, memory[1] >> 20],
        "faults": faults,
    }


def _what_is_held(server: Server) -> list[str]:
    """What is not given back though nobody asks any more."""
    end_s = time.monotonic() + 10
    while time.monotonic() < end_s:
        metrics = server.metrics()
        held = {
            name: metrics[f"vllm:{name}"]
            for name in ("kv_cache_usage_perc", "num_requests_running", "num_requests_waiting")
            if metrics[f"vllm:{name}"]
        }
        if not held:
            return []
        time.sleep(0.1)
    return [f"after all clients have gone: {held}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--num-blocks", type=int, default=60, help="of 16 tokens")
    args = parser.parse_args()
    figures = run(args.clients, args.minutes, args.num_blocks)
    print(json.dumps({**figures, "faults": figures["faults"][:5]}, indent=1))
    print(f"{figures['right']:,} answers right, {len(figures['faults'])} faults", file=sys.stderr)
    return 1 if figures["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())

"""The exporter in a real vLLM under pressure: what it tells against what vLLM counts and sends, and what it costs.

    python -m benchmarks.vllm_exporter --python VENV/bin/python --model FOLDER [--blocks 40]

The environment of --python has a vLLM of a known version and kvtop-live, installed side by side. A server is started
there with KVTOP_EXPORT=1 and KV events; this process watches it at all three depths at once while more requests run
than its pool holds. Ends with 1 if true tables and KV events disagree, or told preemptions and counted ones.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from kvtop.attach.kv_watch import KvWatch
from kvtop.attach.scraper import Scraper
from kvtop.attach.server import ServerWatch
from kvtop.attach.targets import parse_target
from kvtop.engine.control import BatchMessage, TakeSnapshot
from kvtop.engine.events import Preempted, StepTimed, Warned
from kvtop.sources.exported import ExportedSource
from kvtop.view.pool_view import PoolView

START_SECONDS = 400
REQUESTS = 10
PROMPT_TOKENS = 96
NEW_TOKENS = 160


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Ports:
    http: int = field(default_factory=free_port)
    events: int = field(default_factory=free_port)
    replay: int = field(default_factory=free_port)
    tables: int = field(default_factory=free_port)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http}"


@contextmanager
def vllm_server(python: Path, model: Path, blocks: int) -> Iterator[Ports]:
    """A server that answers; its whole process group ends with the block."""
    ports = Ports()
    events = {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": f"tcp://*:{ports.events}",
        "replay_endpoint": f"tcp://*:{ports.replay}",
        "topic": "kv",
    }
    command = [
        *(str(python), "-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1", "--port", str(ports.http)),
        *("--model", str(model), "--served-model-name", "m", "--dtype", "bfloat16", "--enforce-eager"),
        *("--block-size", "32", "--num-gpu-blocks-override", str(blocks), "--max-model-len", "1024"),
        *("--kv-events-config", json.dumps(events)),
    ]
    environment = os.environ | {
        "KVTOP_EXPORT": f"tcp://127.0.0.1:{ports.tables}",
        "VLLM_CPU_OMP_THREADS_BIND": "0-1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "HF_HUB_OFFLINE": "1",
    }
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            wait_for(server, ports.url)
            yield ports
        except BaseException:
            log.seek(0)
            print(log.read()[-3000:].decode("utf-8", "replace"), file=sys.stderr)
            raise
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()


def wait_for(server: subprocess.Popen[bytes], url: str) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if server.poll() is not None:
            raise RuntimeError(f"vLLM ended with exit status {server.returncode}")
        try:
            if httpx2.get(f"{url}/health", timeout=2, trust_env=False).status_code == 200:
                return
        except httpx2.HTTPError:
            time.sleep(1)
    raise RuntimeError(f"vLLM did not answer within {START_SECONDS} s")


@dataclass
class Found:
    """What one run showed. Times are Unix seconds."""

    steps: int = 0
    step_s: float = 0.0
    """Sum of all steps: schedule, run, update."""
    spent_s: float = 0.0
    """What the exporter took of them."""
    told: list[float] = field(default_factory=list)
    """Preemptions, when the exporter told them."""
    counted: list[float] = field(default_factory=list)
    """Preemptions, when vLLM's counter showed them."""
    new_starts: int = 0
    dropped: int = 0
    batches: int = 0
    hashed_blocks: int = 0
    """Blocks with a hash at the end, in the true tables."""
    bounds: tuple[int, int] = (0, 0)
    """Such blocks by KV events: at least, at most."""
    true_hashes: set[int] = field(default_factory=set)
    event_hashes: set[int] = field(default_factory=set)
    active_at_end: int = 0

    def faults(self) -> list[str]:
        """What does not fit."""
        faults = []
        if self.new_starts or self.dropped:
            faults.append(f"the exporter began anew {self.new_starts} times and dropped {self.dropped} batches")
        if len(self.told) != len(self.counted):
            faults.append(f"{len(self.told)} preemptions were told, {len(self.counted)} counted")
        if not self.told:
            faults.append("nothing was preempted: the pool was not under pressure")
        if self.true_hashes != self.event_hashes:
            faults.append(f"{len(self.true_hashes ^ self.event_hashes)} hashes differ between tables and KV events")
        if not self.bounds[0] <= self.hashed_blocks <= self.bounds[1]:
            faults.append(f"{self.hashed_blocks} blocks have a hash, KV events say {self.bounds}")
        if self.active_at_end:
            faults.append(f"{self.active_at_end} blocks are held after the last request")
        return faults


def watch_under_pressure(ports: Ports) -> Found:
    """Send the requests, watch at all three depths until they are done and everything has arrived."""
    target = parse_target(ports.url)
    metrics = ServerWatch(target, interval_s=0.25)
    scraper, events = Scraper([metrics]), KvWatch(target)
    tables, view, found = ExportedSource(f"tcp://127.0.0.1:{ports.tables}"), PoolView(), Found()
    for part in (scraper, events, tables):
        part.start()
    clients = [threading.Thread(target=ask, args=(ports.url, i), daemon=True) for i in range(REQUESTS)]

    def poll() -> None:
        scraper.poll()
        events.poll()
        count_preemptions(metrics, found)
        for message in tables.poll():
            if isinstance(message, BatchMessage):
                view.apply(message.batch)
                note(view, message, found)
        if view.incomplete_since is not None:
            tables.send(TakeSnapshot())
        time.sleep(0.01)

    try:
        first_second = time.monotonic() + 1
        while time.monotonic() < first_second:  # all three are listening
            poll()
        for client in clients:
            client.start()
        while any(client.is_alive() for client in clients):
            poll()
        last_seconds = time.monotonic() + 4
        while time.monotonic() < last_seconds:
            poll()
    finally:
        for part in (scraper, events, tables):
            part.close()
    speaker = tables.speaker
    assert speaker is not None and view.info is not None, "the exporter never spoke"
    hashes = [int(content) for content in view.blocks.hashes if content]
    found.spent_s, found.dropped = speaker.spent_s, speaker.dropped
    found.hashed_blocks, found.true_hashes = len(hashes), set(hashes)
    residency = events.residency
    found.bounds = residency.at_least(0), residency.at_most(0)
    found.event_hashes = {int(h) for tier in residency.tiers.values() for h in tier.copies if isinstance(h, int)}
    found.active_at_end = view.blocks.active
    return found


def ask(url: str, number: int) -> None:
    """One request that runs to its limit."""
    body = {
        "model": "m",
        "prompt": [100 + number] * 32 + [7] * (PROMPT_TOKENS - 32),
        "max_tokens": NEW_TOKENS,
        "ignore_eos": True,
        "temperature": 0,
    }
    httpx2.post(f"{url}/v1/completions", json=body, timeout=600, trust_env=False).raise_for_status()


def count_preemptions(metrics: ServerWatch, found: Found) -> None:
    history = metrics.ranks.get("0")
    if history is not None and history.last is not None:
        counted = int(history.last.counters.get("preemptions", 0))
        found.counted += [time.time()] * (counted - len(found.counted))


def note(view: PoolView, message: BatchMessage, found: Found) -> None:
    found.batches += 1
    for event in message.batch.events:
        if isinstance(event, Preempted):
            found.told.append(message.batch.wall_s)
        elif isinstance(event, StepTimed):
            found.steps += 1
            found.step_s += event.schedule_s + event.run_s + event.update_s
        elif isinstance(event, Warned):
            found.new_starts += "began anew" in event.message


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--blocks", type=int, default=40)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the server must not outlive us
    with vllm_server(args.python, args.model, args.blocks) as ports:
        found = watch_under_pressure(ports)
    print(f"steps        {found.steps:,}, {1000 * found.step_s / max(1, found.steps):.1f} ms each")
    share = found.spent_s / found.step_s if found.step_s else 0.0
    print(f"exporter     {1000 * found.spent_s / max(1, found.steps):.3f} ms a step, {share:.2%} of it")
    print(f"preemptions  {len(found.told)} told, {len(found.counted)} counted by vLLM")
    for told_s, counted_s in zip(found.told, found.counted, strict=False):
        print(f"             told at {told_s:.2f}, counted {counted_s - told_s:+.1f} s later")
    least, most = found.bounds
    print(f"cached       {found.hashed_blocks} blocks by the tables, {least} to {most} by KV events")
    for fault in found.faults():
        print(f"FAULT        {fault}")
    return 1 if found.faults() else 0


if __name__ == "__main__":
    sys.exit(main())

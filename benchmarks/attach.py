"""What watching costs: pages scraped from many servers, KV events taken in, and the exporter in a large pool.

    python -m benchmarks.attach [--chart FILE.svg]

CPU seconds of this process, with servers and publishers in processes of their own. Pages are recorded ones of a real
vLLM; events are made up (16-token blocks, a hash each); the exporter runs on stand-ins shaped like vLLM's objects.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import statistics
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from benchmarks.chart import BUDGETS, Bar, budget_bar, draw
from kvtop.attach.kv_sources import KvSource
from kvtop.attach.kv_watch import KvWatch
from kvtop.attach.scraper import Scraper
from kvtop.attach.server import ServerWatch
from kvtop.attach.targets import parse_target
from kvtop.exporter import plugin
from kvtop.view.fleet import fleet_rows, fleet_total
from tests.attach.fake_server import FakeEvents, FakeHttp
from tests.attach.recorded import pages
from tests.attach.stand_in_vllm import Request, Scheduler

TARGETS = 64
SCRAPE_SECONDS = 12.0
MESSAGES = 4_000
EVENTS_A_MESSAGE = 50
STEPS = 100
MOST_CORE_SHARE = 0.25
LEAST_EVENTS_PER_SECOND = 200_000
SMALL_STEP_MS, LARGE_STEP_MS = 15, 25
"""What a step takes at least in a server with 12 and with 256 running; the exporter may take 1% and 2% of it."""


def serve_pages(pipe: Connection) -> None:
    """One server that answers for all targets, under as many paths."""
    server = FakeHttp(keep_alive=True)
    body = pages("tight")[130].body
    for i in range(TARGETS):
        server.set_page(body, f"/{i}/metrics")
    pipe.send(server.url)
    pipe.recv()
    server.close()


def scrape_many() -> Bar:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve_pages, args=(theirs,), daemon=True)
    process.start()
    url = ours.recv()
    watches = [ServerWatch(parse_target(f"{url}/{i}")) for i in range(TARGETS)]
    scraper = Scraper(watches)
    scraper.start()
    end_s = time.monotonic() + 3
    while time.monotonic() < end_s:  # every page is known by then
        scraper.poll()
        time.sleep(0.02)
    began_s, began_cpu_s, scrapes = time.monotonic(), time.process_time(), 0
    while time.monotonic() < began_s + SCRAPE_SECONDS:
        scrapes += scraper.poll()
        fleet_total(fleet_rows(watches, time.monotonic()))
        time.sleep(0.1)
    cpu_s, wall_s = time.process_time() - began_cpu_s, time.monotonic() - began_s
    scraper.close()
    ours.send(None)
    process.join(5)
    print(f"scraping      {TARGETS} targets, {scrapes / wall_s:.0f} pages/s: {cpu_s / wall_s:.0%} of a core, "
          f"{1000 * cpu_s / scrapes:.2f} ms a page; the fleet summed 10 times a second")  # fmt: skip
    name = f"{TARGETS} targets, each scraped every second"
    return budget_bar(name, cpu_s / wall_s, MOST_CORE_SHARE, f"{cpu_s / wall_s:.0%} of a core, 25% allowed")


def made_up_messages() -> list[bytes]:
    chance = random.Random(1)
    alive: list[int] = []
    messages = []
    for _ in range(MESSAGES):
        events: list[dict[str, object]] = []
        for _ in range(EVENTS_A_MESSAGE):
            if len(alive) > 50_000 and chance.random() < 0.5:
                gone = alive.pop(chance.randrange(len(alive)))
                events.append({"type": "BlockRemoved", "block_hashes": [gone], "medium": "GPU", "group_idx": 0})
                continue
            parent = alive[-1] if alive and chance.random() < 0.9 else None
            alive.append(chance.getrandbits(63))
            events.append(
                {
                    "type": "BlockStored",
                    "block_hashes": [alive[-1]],
                    "parent_block_hash": parent,
                    "token_ids": [chance.randrange(50_000) for _ in range(16)],
                    "block_size": 16,
                    "lora_id": None,
                    "medium": "GPU",
                    "lora_name": None,
                    "group_idx": 0,
                }
            )
        messages.append(msgspec.msgpack.encode([1.0, events, 0]))
    return messages


def publish_events(pipe: Connection) -> None:
    events = FakeEvents()
    pipe.send((events.port, events.replay_port))
    messages = made_up_messages()
    pipe.send("made")
    pipe.recv()
    for message in messages:
        events.publish(message)
    pipe.recv()
    events.close()


def take_events_in() -> Bar:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=publish_events, args=(theirs,), daemon=True)
    process.start()
    port, replay = ours.recv()
    source = KvSource(0, f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{replay}", "kv", f"tcp://*:{port}")
    watch = KvWatch(parse_target("127.0.0.1"), [source])
    watch.start()
    ours.recv()
    time.sleep(0.5)  # the subscription is there
    ours.send("go")
    began_s, began_cpu_s, taken = time.monotonic(), time.process_time(), 0
    while taken < MESSAGES and time.monotonic() < began_s + 60:
        taken += watch.poll()
        time.sleep(0.02)
    cpu_s, wall_s = time.process_time() - began_cpu_s, time.monotonic() - began_s
    ours.send("done")
    watch.close()
    process.join(5)
    events, lost = taken * EVENTS_A_MESSAGE, watch.listeners[0].stream.lost
    print(f"KV events     {events:,} over a socket, {lost} lost: {events / wall_s:,.0f}/s, "
          f"{events / cpu_s:,.0f} a CPU second")  # fmt: skip
    a_second = events / cpu_s
    return budget_bar("KV events", LEAST_EVENTS_PER_SECOND / a_second, 1, f"{a_second:,.0f} a CPU second")


def observe_a_pool(num_blocks: int, running: int, prompt: int, most_ms: float) -> Bar:
    """Pure decode. CPU time of the scheduler's thread in the exporter, the median of the steps."""
    scheduler = Scheduler(num_blocks, 16, max_running=running, budget=1 << 20)
    for i in range(running):
        scheduler.add(Request(f"r{i}", [i] * prompt, 100_000))
    exporter = plugin._exporter_of(scheduler, "tcp://127.0.0.1:0", "0.32.0")
    spent: list[float] = []
    for _ in range(STEPS):
        before_s = time.thread_time()
        exporter.before_schedule()
        spent.append(time.thread_time() - before_s)
        scheduled = scheduler.schedule()
        before_s = time.thread_time()
        exporter.after_schedule(0.0, is_step=True)
        spent[-1] += time.thread_time() - before_s
        scheduler.update_from_output(scheduled, 1)
        before_s = time.thread_time()
        exporter.after_update(0.0, is_step=True)
        spent[-1] += time.thread_time() - before_s
    before_s = time.thread_time()
    exporter._whole()
    whole_s = time.thread_time() - before_s
    exporter.close()
    assert not exporter.faults and not exporter.new_starts
    step_ms = 1000 * statistics.median(spent)
    print(f"exporter      {num_blocks:,} blocks, {running} running: {step_ms:.3f} ms a step, "
          f"{1000 * whole_s:.1f} ms a whole state")  # fmt: skip
    return budget_bar(f"exporter, {num_blocks:,} blocks", step_ms, most_ms, f"{step_ms:.3f} of {most_ms:g} ms a step")


def main() -> int:
    parser = argparse.ArgumentParser(description="what watching costs")
    parser.add_argument("--chart", type=Path)
    chart = parser.parse_args().chart
    bars = [
        observe_a_pool(600, running=12, prompt=100, most_ms=0.01 * SMALL_STEP_MS),
        observe_a_pool(100_000, running=256, prompt=2_000, most_ms=0.02 * LARGE_STEP_MS),
        take_events_in(),
        scrape_many(),
    ]
    if chart:
        draw(chart, "Watching other servers", "recorded pages of vLLM 0.32, made-up events", bars, BUDGETS)
    return 0


if __name__ == "__main__":
    sys.exit(main())

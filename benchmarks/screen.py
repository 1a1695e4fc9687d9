"""The screen's own figures: what a frame costs, and how long a key takes, also over a slow link.

    python -m benchmarks.screen [--json] [--chart FILE.svg]

Frames: a simulated pool of 100,000 blocks on a 200x50 screen, CPU time of polling, drawing and composing. Keys: the
real program on a pseudo-terminal, its engine simulated and busy (about 1,000 events a second); a key is answered when
the block it moved to is named. The slow link is the same terminal, read at 250 KB/s.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCKS = 100_000
FRAMES = 60
FRAMES_PER_SECOND = 10
KEYS = 40
SLOW_BYTES_PER_SECOND = 250_000
MOST_CORE_SHARE, MOST_KEY_MS, MOST_SLOW_KEY_MS = 0.15, 60, 150


def frame_cost() -> dict[str, float]:
    """CPU milliseconds a frame, and the share of a core at 10 frames a second."""
    from kvtop.engine.requests import Request
    from kvtop.settings import EngineSettings
    from tests.app.feed import SteppedSource
    from tests.app.stage import make_app

    async def measure() -> float:
        settings = EngineSettings(
            num_blocks=BLOCKS, max_num_seqs=60, max_num_batched_tokens=500_000, prefix_cache=False
        )
        source = SteppedSource(settings)
        prompts = [[1 + (i * 7 + j) % 80 for j in range(6_000)] for i in range(60)]
        source.inject(
            *(
                Request(id=f"r{i}", prompt_token_ids=prompt, max_tokens=1_500, ignore_eos=True)
                for i, prompt in enumerate(prompts)
            )
        )
        source.run(3)
        app = make_app(source)
        spent = 0.0
        async with app.run_test(size=(200, 50)) as pilot:
            await pilot.pause()
            for _ in range(FRAMES):
                source.run(4)
                started = time.process_time()
                app.feed.poll()
                app.live.redraw()
                await asyncio.sleep(0.01)
                update = app.screen._compositor.render_update()
                if update is not None:
                    update.render_segments(app.console)  # type: ignore[union-attr]
                spent += time.process_time() - started
        return spent / FRAMES

    seconds = asyncio.run(measure())
    return {"frame_ms": 1_000 * seconds, "core_share": seconds * FRAMES_PER_SECOND}


def key_latency(bytes_per_second: float | None) -> dict[str, float]:
    """Milliseconds from a key to its answer: median and 95th percentile."""
    master, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.screen", "--program"],
        stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT, start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    output = ""

    def read(seconds: float) -> None:
        nonlocal output
        if select.select([master], [], [], seconds)[0]:
            with contextlib.suppress(OSError):
                chunk = os.read(master, 4_096)
                output += chunk.decode("utf-8", "replace")
                if bytes_per_second:
                    time.sleep(len(chunk) / bytes_per_second)

    waits = []
    try:
        until = time.monotonic() + 30
        while "running" not in output and time.monotonic() < until:
            read(0.1)
        settled = time.monotonic() + 4
        while time.monotonic() < settled:
            read(0.05)
        for key in range(KEYS):
            output = ""
            answer = re.compile(rf"block {key:,} ")
            started = time.monotonic()
            os.write(master, b"\x1b[C")
            while not answer.search(output) and time.monotonic() < started + 10:
                read(0.01)
            waits.append(1_000 * (time.monotonic() - started))
            pause = time.monotonic() + 0.15
            while time.monotonic() < pause:
                read(0.02)
        os.write(master, b"q")
        ended = time.monotonic() + 5
        while process.poll() is None and time.monotonic() < ended:
            read(0.05)
    finally:
        process.kill()
        process.wait()
        os.close(master)
        os.close(theirs)
    waits.sort()
    return {"p50_ms": waits[len(waits) // 2], "p95_ms": waits[int(len(waits) * 0.95)]}


def program() -> int:
    """The program that is typed at: a simulated engine with much to do."""
    from kvtop.app.app import AppSettings
    from kvtop.app.run import run_app
    from kvtop.engine.control import Inject
    from kvtop.engine.requests import Request
    from kvtop.settings import EngineSettings
    from kvtop.sources.embedded import SIMULATOR_COMMAND, EmbeddedSource

    requests = [
        Request(id=f"r{i}", prompt_token_ids=[1 + (i + j) % 80 for j in range(60)], max_tokens=4_000, ignore_eos=True)
        for i in range(400)
    ]
    settings = EngineSettings(num_blocks=4_000, block_size=4, max_num_seqs=200, max_num_batched_tokens=8_192)
    app_settings = AppSettings(first_commands=(Inject(requests=requests),))
    return run_app(EmbeddedSource(settings, SIMULATOR_COMMAND), app_settings)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--chart", type=Path)
    parser.add_argument("--program", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.program:
        return program()
    frame, key, slow = frame_cost(), key_latency(None), key_latency(SLOW_BYTES_PER_SECOND)
    figures = {"frame of 100,000 blocks": frame, "key under load": key, "key at 250 KB/s": slow}
    if args.json:
        print(json.dumps(figures))
    else:
        for name, values in figures.items():
            print(f"{name:<26}" + "  ".join(f"{unit} {value:.3g}" for unit, value in values.items()))
    if args.chart:
        from benchmarks.chart import BUDGETS, budget_bar, draw

        bars = [
            budget_bar("100,000 blocks at 10 frames a second", frame["core_share"], MOST_CORE_SHARE,
                       f"{frame['core_share']:.1%} of a core"),
            budget_bar("key beside 1,000 events a second, p95", key["p95_ms"], MOST_KEY_MS, f"{key['p95_ms']:.0f} ms"),
            budget_bar("key over a 250 KB/s link, p95", slow["p95_ms"], MOST_SLOW_KEY_MS, f"{slow['p95_ms']:.0f} ms"),
        ]  # fmt: skip
        setting = f"200 × 50, Textual {version('textual')}; allowed: 15% of a core, 60 ms, 150 ms"
        draw(args.chart, "The screen", setting, bars, BUDGETS)
    return 0


if __name__ == "__main__":
    sys.exit(main())

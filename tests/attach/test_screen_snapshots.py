"""The screens over watched servers as pictures, made of the recordings at set times; each is asked for its words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from textual.pilot import Pilot

from kvtop.app.shell import ShellSettings
from kvtop.app.watch.app import WatchApp
from kvtop.attach.fleet_recorder import FleetRecorder
from kvtop.attach.kv_hearing import Heard
from kvtop.attach.kv_sources import KvSource
from kvtop.attach.record_format import MAGIC
from kvtop.attach.replayed_fleet import ReplayedFleet
from kvtop.attach.server import Scrape
from kvtop.attach.targets import parse_target
from kvtop.sources.file_sink import FileSink
from tests.attach.recorded import messages, pages
from tests.attach.screens import LIMITS, shown

Compare = Callable[..., bool]
SIZES = pytest.mark.parametrize("size", [(200, 50), (120, 36), (80, 24), (60, 20)])
BEGIN_S = 1_000_000_000.0
SECONDS = 100


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded vLLM as two servers: one goes through all of ``tight``, one dies half way. A second a page."""
    path = tmp_path_factory.mktemp("pictures") / "two.kvrec"
    targets = [parse_target("gpu-1 = gpu-1:8000"), parse_target("gpu-2 = gpu-2:8000")]
    clock = [BEGIN_S]
    recorder = FleetRecorder(FileSink(path, magic=MAGIC), targets, wall=lambda: clock[0])
    source = KvSource(0, "tcp://gpu-1:5557", "tcp://gpu-1:5558", "kv", "tcp://*:5557")
    told = iter(messages("tight"))
    bodies = [page.body for page in pages("tight") if page.body]
    recorder.publisher(targets[0], source)
    for second in range(SECONDS):
        clock[0] = BEGIN_S + second
        body = bodies[second * (len(bodies) - 1) // SECONDS]
        recorder.page(Scrape(targets[0], clock[0] - 0.02, clock[0], 200, body))
        dead = second > SECONDS // 2
        recorder.page(
            Scrape(targets[1], clock[0] - 0.02, clock[0], 0, "", "connection refused")
            if dead
            else Scrape(targets[1], clock[0] - 0.02, clock[0], 200, bodies[0])
        )
        for message in [next(told, None)]:
            if message is not None:
                recorder.event(targets[0], source, Heard("live", message.number, message.payload))
    recorder.close()
    return path


@pytest.fixture
def app(recording: Path) -> Iterator[WatchApp]:
    fleet = ReplayedFleet(recording)
    fleet.playing = False
    fleet.wind_to(BEGIN_S + 80)
    app = WatchApp(fleet, LIMITS, ShellSettings())
    app._tick_s = 3600.0  # frames are drawn when the test says so
    app.scene.clock = fleet.now_s
    yield app
    fleet.close()


def prepared(app: WatchApp, words: tuple[str, ...], keys: tuple[str, ...]) -> Callable[[Pilot[None]], Awaitable[None]]:
    """Before the picture: keys pressed, everything drawn, words found."""

    async def run(pilot: Pilot[None]) -> None:
        await pilot.pause()
        if keys:
            await pilot.press(*keys)
        app.scene.look()
        app._front().redraw()
        await pilot.pause()
        app._front().redraw()
        await pilot.pause()
        for word in words:
            assert word in shown(app), f"{word}:\n{shown(app)}"

    return run


@SIZES
def test_fleet(app: WatchApp, size: tuple[int, int], snap_compare: Compare) -> None:
    words = ("kvtop", "gpu-1 · 0", "gpu-2 · 0", "stale 30 s", "Σ 1 rank", "q quit", "findings")
    assert snap_compare(app, terminal_size=size, run_before=prepared(app, words, ()))


@SIZES
def test_server(app: WatchApp, size: tuple[int, int], snap_compare: Compare) -> None:
    words = ("kvtop", "gpu-1", "metrics only", "latency", "first token", "q quit")
    assert snap_compare(app, terminal_size=size, run_before=prepared(app, words, ("enter",)))


@SIZES
def test_residency(app: WatchApp, size: tuple[int, int], snap_compare: Compare) -> None:
    words = ("kvtop", "logical residency", "GPU", "q quit")
    assert snap_compare(app, terminal_size=size, run_before=prepared(app, words, ("enter", "3")))


@SIZES
def test_findings(app: WatchApp, size: tuple[int, int], snap_compare: Compare) -> None:
    words = ("findings", "gpu-2 does not answer", "→")
    assert snap_compare(app, terminal_size=size, run_before=prepared(app, words, ("enter", "5")))


def test_help(app: WatchApp, snap_compare: Compare) -> None:
    words = ("A row a data-parallel rank", "Open the chosen rank")
    assert snap_compare(app, terminal_size=(120, 36), run_before=prepared(app, words, ("question_mark",)))

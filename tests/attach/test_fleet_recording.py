"""Watched servers recorded and played again: the same figures and the same residency at the same times."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from kvtop import cli
from kvtop.app.shell import ShellSettings
from kvtop.app.watch.app import WatchApp
from kvtop.attach.fleet import Fleet
from kvtop.attach.fleet_recorder import FleetRecorder
from kvtop.attach.record_format import MAGIC
from kvtop.attach.replayed_fleet import ReplayedFleet
from kvtop.attach.targets import parse_target
from kvtop.sources.file_sink import FileSink
from kvtop.sources.frames import RecordingError
from kvtop.view.fleet import FleetRow, fleet_rows
from kvtop.view.residency import Residency
from tests.attach.fake_server import fake_events, fake_http
from tests.attach.recorded import messages, pages
from tests.attach.screens import LIMITS, until_shown


def residency_of(fleet: Fleet | ReplayedFleet) -> Residency:
    events = fleet.servers[0].events
    assert events is not None
    return events.residency


def told(row: FleetRow) -> tuple[object, ...]:
    return row.state, row.usage, row.running, row.waiting, row.num_blocks, row.finished, row.hit_rate_since_start


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Fleet]:
    """A file, and the fleet it was recorded from as it stood at the end: pages change, events with a gap come in."""
    path = tmp_path_factory.mktemp("recording") / "servers.kvrec"
    quick = pytest.MonkeyPatch.context()
    with quick as patch, fake_http(pages("tight")[100].body) as server, fake_events() as events:
        patch.setattr("kvtop.attach.fleet_recorder.FLUSH_SECONDS", 0.1)
        server.set_json("/kv_event_sources", {"0": events.source})
        target = parse_target(f"prod = {server.url}")
        fleet = Fleet([target], 0.05, tables=False, recorder=FleetRecorder(FileSink(path, magic=MAGIC), [target]))
        fleet.start()
        watch = fleet.servers[0]
        poll_until(fleet, lambda: watch.events is not None and bool(watch.events.listeners))
        time.sleep(0.2)
        for number, message in enumerate(messages("tight")[:60]):
            events.publish(message.payload, lost=number in (20, 21))
            server.set_page(pages("tight")[100 + number].body)
            time.sleep(0.005)
        assert watch.events is not None
        stream = watch.events.listeners[0].stream
        poll_until(fleet, lambda: stream.next == 60 and not stream.waiting)
        asked = server.asked
        poll_until(fleet, lambda: server.asked > asked + 3)
        fleet.close()
    return path, fleet


def poll_until(fleet: Fleet, holds) -> None:
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end, "it never came about"
        fleet.poll()
        time.sleep(0.005)


def test_the_end_of_a_recording_is_what_was_seen_live(recorded: tuple[Path, Fleet]) -> None:
    path, live = recorded
    replayed = ReplayedFleet(path)
    replayed.wind_to(replayed.end_s)
    (before,), (after,) = fleet_rows(live.watches, live.now_s()), fleet_rows(replayed.watches, replayed.now_s())
    assert told(after) == told(before) and after.server == "prod"
    assert residency_of(replayed).tiers == residency_of(live).tiers
    streams = [fleet.servers[0].events.listeners[0].stream for fleet in (live, replayed)]  # type: ignore[union-attr]
    assert [stream.refilled for stream in streams] == [streams[0].refilled] * 2 and streams[0].refilled >= 2
    replayed.close()


def test_winding_back_and_forth_comes_to_the_same(recorded: tuple[Path, Fleet]) -> None:
    path, _ = recorded
    replayed = ReplayedFleet(path)
    middle = (replayed.first_s + replayed.end_s) / 2
    replayed.wind_to(middle)
    seen = told(fleet_rows(replayed.watches, middle)[0]), residency_of(replayed).at_most(0)
    replayed.wind_to(replayed.end_s)
    assert residency_of(replayed).at_most(0) != seen[1]
    replayed.wind_to(middle)
    assert (told(fleet_rows(replayed.watches, middle)[0]), residency_of(replayed).at_most(0)) == seen
    replayed.close()


def test_it_plays_at_its_own_pace_and_stands_while_paused(recorded: tuple[Path, Fleet]) -> None:
    clock = [0.0]
    replayed = ReplayedFleet(recorded[0], speed=2.0, clock=lambda: clock[0])
    replayed.start()
    clock[0] = 0.1
    replayed.poll()
    assert replayed.now_s() == pytest.approx(replayed.first_s + 0.2)
    replayed.pause_or_play()
    clock[0] = 50.0
    replayed.poll()
    assert replayed.now_s() == pytest.approx(replayed.first_s + 0.2)
    replayed.pause_or_play()
    clock[0] = 100.0
    replayed.poll()
    assert replayed.now_s() == replayed.end_s and not replayed.playing
    replayed.close()


def test_a_file_that_is_cut_off_plays_up_to_the_cut(recorded: tuple[Path, Fleet], tmp_path: Path) -> None:
    whole = recorded[0].read_bytes()
    cut = tmp_path / "cut.kvrec"
    cut.write_bytes(whole[:-10])
    replayed = ReplayedFleet(cut)
    assert replayed.lost_bytes
    replayed.wind_to(replayed.end_s)
    assert fleet_rows(replayed.watches, replayed.now_s())[0].usage is not None
    replayed.close()


def test_damage_ends_it_with_a_word(recorded: tuple[Path, Fleet], tmp_path: Path) -> None:
    broken = tmp_path / "broken.kvrec"
    data = bytearray(recorded[0].read_bytes())
    data[-20] ^= 0xFF
    broken.write_bytes(data)
    replayed = ReplayedFleet(broken)
    replayed.wind_to(replayed.end_s)
    assert "is damaged" in replayed.failure
    replayed.close()


@pytest.mark.parametrize("content", [b"", b"KVSRV\0", b"something else", b"KVSRV\0\xff\xff"])
def test_what_is_no_recording_of_servers_is_refused_in_words(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.kvrec"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=r"empty|cut off|not a kvtop recording|format version"):
        ReplayedFleet(path)


def test_replay_knows_the_file_and_prints_its_end(
    recorded: tuple[Path, Fleet], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["replay", str(recorded[0]), "--once", "--json"]) == 0
    (rank,) = json.loads(capsys.readouterr().out)["ranks"]
    assert rank["server"] == "prod" and rank["depth"] == "logical residency"
    assert rank["kv_events"]["at_most"] >= rank["kv_events"]["at_least"] > 0 and rank["tables"] is None
    with pytest.raises(SystemExit) as end:
        cli.main(["replay", str(recorded[0]), "--step", "3"])
    assert end.value.code == 2


def test_events_and_export_say_what_the_file_is(
    recorded: tuple[Path, Fleet], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["events", str(recorded[0])]) == 1
    assert "is a recording of watched servers, not of an engine" in capsys.readouterr().err


def test_attach_records_and_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new.kvrec"
    with fake_http(pages("tight")[133].body) as server:
        code = cli.main(["attach", server.url, "--once", "--interval", "0.05", "--record", str(path)])
        assert code == 0 and f"recorded in {path}" in capsys.readouterr().err
        assert cli.main(["attach", server.url, "--once", "--record", str(path)]) == 1
        assert "exists already" in capsys.readouterr().err
    assert cli.main(["replay", str(path), "--once", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ranks"][0]["running"] == 7


async def test_a_recording_is_paused_and_wound_on_the_screen(recorded: tuple[Path, Fleet]) -> None:
    fleet = ReplayedFleet(recorded[0])
    fleet.start()
    app = WatchApp(fleet, LIMITS, ShellSettings(frames_per_second=30))
    async with app.run_test(size=(120, 36), notifications=True) as pilot:
        await until_shown(app, "recording", "plays", "prod rank 0")
        await pilot.press("space")
        await until_shown(app, "‖ paused")
        await pilot.press("full_stop", "full_stop", "greater_than_sign", "3")
        await until_shown(app, "logical residency", "GPU", "stored")
        assert fleet.now_s() == fleet.end_s
        await pilot.press("i")
        await until_shown(app, "there is no server here to send")
        await pilot.press("comma")
        assert fleet.now_s() == fleet.first_s
    fleet.close()

"""The screens of ``kvtop attach``: the fleet, a server, both driven by keys over servers on real sockets."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator

import pytest

from kvtop.app.watch.fleet_screen import FleetScreen
from kvtop.app.watch.server_screen import ServerScreen
from kvtop.app.watch.tables_screen import TablesScreen
from kvtop.attach.tables_probe import TablesProbe, is_reachable, speaks_zmq
from kvtop.attach.targets import parse_target
from kvtop.exporter import plugin
from kvtop.exporter.export import Exporter
from tests.attach.fake_server import fake_events, fake_http
from tests.attach.recorded import messages, pages
from tests.attach.screens import line_with, shown, styles_of, until, until_shown, watching
from tests.attach.stand_in_vllm import Request, Scheduler
from tests.attach.test_metrics import page_of, two_ranks

JOIN_SECONDS = 0.3
"""What a subscription takes to be known to its publisher."""


def pressed() -> str:
    return pages("tight")[133].body


async def test_several_servers_are_a_fleet_with_a_row_a_rank_and_a_sum_that_says_how_it_was_made() -> None:
    with fake_http(two_ranks()) as both, fake_http(pressed()) as other:
        async with watching(f"a = {both.url}", f"b = {other.url}", size=(160, 40)) as (app, _):
            await until_shown(app, "a · 0", "a · 1", "b · 0", "Σ 3 ranks")
            assert isinstance(app.screen, FleetScreen)
            assert "10.0%" in line_with(app, "a · 0") and "90.0%" in line_with(app, "a · 1")
            assert "usage weighted by blocks" in shown(app)
            assert "2 servers · 3 ranks" in shown(app) and "load is spread unevenly" in shown(app)


async def test_row_1_a_figure_that_is_not_told_is_a_dash_on_the_screen() -> None:
    with fake_http(page_of('vllm:num_requests_running{engine="0"} 3')) as server, fake_http(pressed()) as other:
        async with watching(f"poor = {server.url}", f"b = {other.url}", size=(160, 40)) as (app, pilot):
            await until_shown(app, "poor · 0")
            row = line_with(app, "poor · 0")
            assert "–" in row and "0.0%" not in row and " 3 " in row
            await pilot.press("enter")
            await until_shown(app, "latency", "usage –")


async def test_one_server_is_opened_directly_and_says_at_which_depth_it_is_seen() -> None:
    with fake_http(pressed()) as server:
        async with watching(server.url) as (app, _):
            await until_shown(app, "metrics only", "95 blocks × 32 tok", "run 7", "wait 1", "(capacity 1)")
            assert isinstance(app.screen, ServerScreen)
            assert "max_model_len 2,048" in shown(app) and "3,072 tokens, 1.5 × max_model_len" in shown(app)


async def test_one_server_with_several_ranks_is_a_fleet_after_all() -> None:
    with fake_http(two_ranks()) as server:
        async with watching(server.url) as (app, _):
            await until_shown(app, "Σ 2 ranks")
            assert isinstance(app.screen, FleetScreen)


async def test_enter_opens_the_chosen_rank_and_esc_goes_back() -> None:
    with fake_http(two_ranks()) as server, fake_http(pressed()) as other:
        async with watching(f"a = {server.url}", f"b = {other.url}") as (app, pilot):
            await until_shown(app, "Σ 3 ranks")
            await pilot.press("down", "enter")
            await until_shown(app, "a rank 1", "usage 90.0%")
            await pilot.press("right_square_bracket")
            await until_shown(app, "b rank 0", "95 blocks")
            await pilot.press("5")
            await until_shown(app, "findings", "→")
            await pilot.press("escape", "escape")
            await until_shown(app, "Σ 3 ranks")


async def test_row_3_what_is_no_metrics_page_is_never_connected() -> None:
    with fake_http("<html>Welcome to nginx") as server, fake_http(pressed()) as other:
        async with watching(f"web = {server.url}", f"b = {other.url}") as (app, _):
            words = ("refused", "not a metrics page; it begins '<html>Welcome to nginx'", "1 of 2 live")
            await until_shown(app, *words)
            assert "live" not in line_with(app, "web ")


async def test_row_4_a_server_that_dies_is_greyed_with_its_age_and_comes_back_by_itself() -> None:
    with fake_http(pressed()) as server, fake_http(pressed()) as other:
        async with watching(f"mortal = {server.url}", f"b = {other.url}") as (app, _):
            await until_shown(app, "mortal · 0", "Σ 2 ranks")
            before = styles_of(app, "mortal")
            server.down()
            await until(app, lambda: "stale" in line_with(app, "mortal · 0"))
            assert styles_of(app, "mortal") != before, "it is grey"
            assert "7" in line_with(app, "mortal · 0"), "the last values stay"
            assert "1 stale or silent" in shown(app) and "Σ 1 rank " in shown(app)
            server.up()
            await until(app, lambda: "live" in line_with(app, "mortal · 0"))


async def test_row_5_a_server_that_hangs_holds_up_neither_the_screen_nor_q() -> None:
    with fake_http(pressed()) as hangs, fake_http(pressed()) as other:
        hangs.hangs = True
        async with watching(f"hung = {hangs.url}", f"b = {other.url}", timeout_s=20.0) as (app, pilot):
            await until_shown(app, "b · 0")
            assert "connecting" in line_with(app, "hung")
            await pilot.press("down", "up")
            began = time.monotonic()
            await pilot.press("q")
            await until(app, lambda: not app.is_running)
            app.fleet.close()
            assert time.monotonic() - began < 0.3


async def test_many_servers_with_events_are_left_as_quickly_as_one() -> None:
    with fake_http(pressed()) as server, fake_events() as events:
        server.set_json("/kv_event_sources", {str(rank): events.source for rank in range(12)})
        async with watching(server.url) as (app, pilot):
            watch = app.fleet.servers[0].events
            assert watch is not None
            await until(app, lambda: len(watch.listeners) == 12)
            await pilot.press("3")
            await until_shown(app, "No event has come yet")
            began = time.monotonic()
            app.fleet.close()
            assert time.monotonic() - began < 0.3


async def test_row_8_a_gap_of_events_is_badged_until_the_replay_has_filled_it() -> None:
    with fake_http(pressed()) as server, fake_events() as events:
        server.set_json("/kv_event_sources", {"0": events.source})
        async with watching(server.url) as (app, pilot):
            await until(app, lambda: app.scene.depth(app.scene.place) == "logical residency")
            await asyncio.sleep(JOIN_SECONDS)
            await pilot.press("3")
            told = messages("shared")
            for message in told[:4]:
                events.publish(message.payload)
            await until_shown(app, "logical residency", "GPU", "stored")
            kept, events.kept = events.kept, []
            events.publish(told[4].payload, lost=True)
            events.kept = []
            events.publish(told[5].payload)
            await until_shown(app, "incomplete since 4")
            events.kept = kept


async def test_row_7_a_restart_clears_the_tree_and_says_so() -> None:
    with fake_http(pressed()) as server, fake_events() as events:
        server.set_json("/kv_event_sources", {"0": events.source})
        async with watching(server.url) as (app, pilot):
            await until(app, lambda: app.scene.depth(app.scene.place) == "logical residency")
            await asyncio.sleep(JOIN_SECONDS)
            await pilot.press("3")
            for message in messages("shared")[:6]:
                events.publish(message.payload)
            await until_shown(app, "rank 0 · GPU · group 0")
            events.restart()
            events.publish(messages("shared")[0].payload)
            await until_shown(app, "restarted, what was cached before is gone")


async def test_residency_is_never_called_a_layout_and_names_what_it_cannot_know() -> None:
    with fake_http(pressed()) as server, fake_events() as events:
        server.set_json("/kv_event_sources", {"0": events.source})
        async with watching(server.url) as (app, pilot):
            await until(app, lambda: app.scene.depth(app.scene.place) == "logical residency")
            await asyncio.sleep(JOIN_SECONDS)
            for message in messages("shared"):
                events.publish(message.payload)
            await pilot.press("3")
            screen = await until_shown(app, "which content is cached, not where it lies", "├─")
            assert "unknown here: block ids, owners, ref counts" in screen
            residency = app.fleet.servers[0].events
            assert residency is not None
            await until(app, lambda: residency.residency.at_least(0) > 40)


async def test_events_that_are_off_are_said_where_the_tree_would_be() -> None:
    with fake_http(pressed()) as server:
        server.set_json("/kv_event_sources", {"0": {"enable_kv_cache_events": False}})
        async with watching(server.url) as (app, pilot):
            await pilot.press("3")
            await until_shown(app, "KV events are off: start the server with --kv-events-config")


@pytest.mark.parametrize("size", [(200, 50), (120, 36), (80, 24), (60, 20), (40, 10), (12, 4)])
async def test_every_size_shows_the_fleet_and_a_server(size: tuple[int, int]) -> None:
    with fake_http(two_ranks()) as server, fake_http(pressed()) as other:
        async with watching(f"a = {server.url}", f"b = {other.url}", size=size) as (app, pilot):
            await until(app, lambda: len(app.scene.rows) == 3)
            await pilot.pause()
            lines = shown(app).splitlines()
            assert len(lines) == size[1] and all(len(line) == size[0] for line in lines)
            if size[0] >= 60:
                await until_shown(app, "a · 1", "90.0%", "Σ 3 ranks", "q quit")
            await pilot.press("down", "enter")
            if size[0] >= 60:
                await until_shown(app, "a rank 1", "metrics only", "latency", "first token", "q quit")
            for tab in ("3", "5", "1"):
                await pilot.press(tab)
                await asyncio.sleep(0.05)


async def test_untrusted_names_do_not_reach_the_terminal_as_they_are() -> None:
    page = page_of('vllm:num_requests_running{engine="0",model_name="\x1b]52;c;x\x07[@click=x]evil"} 3')
    with fake_http(page) as server:
        async with watching(server.url) as (app, _):
            await until_shown(app, "evil")
            assert "\x1b" not in shown(app) and "[@click=x]evil" in shown(app)


# --- true tables ------------------------------------------------------------------------------------------------------


MATCHING = page_of(
    'vllm:num_requests_running{engine="0"} 1',
    'vllm:kv_cache_usage_perc{engine="0"} 0.1',
    'vllm:num_preemptions_total{engine="0"} 0',
    'vllm:cache_config_info{engine="0",block_size="4",num_gpu_blocks="40"} 1',
)
"""The metrics of the stand-in below."""


class Exporting:
    """A stand-in vLLM with the exporter inside, on a port of its own."""

    def __init__(self, address: str = "tcp://127.0.0.1:0") -> None:
        scheduler_class = type("Scheduler", (Scheduler,), {})
        plugin.wrap(scheduler_class, address, "0.32.0")
        self.scheduler = scheduler_class(40, 4)
        self.step()
        exporter = plugin._exporter_of(self.scheduler, address, "0.32.0")
        assert isinstance(exporter, Exporter)
        self.exporter = exporter

    @property
    def address(self) -> str:
        return self.exporter.outlet.address

    def step(self, steps: int = 1) -> None:
        for _ in range(steps):
            self.scheduler.update_from_output(self.scheduler.schedule(), 1)


@pytest.fixture
def exporting() -> Iterator[Exporting]:
    server = Exporting()
    server.scheduler.add(Request("req-a", [1] * 9, 20))
    server.step(3)
    yield server
    server.exporter.close()


async def test_a_lone_server_with_an_exporter_opens_at_its_true_tables_and_m_leads_to_its_metrics(
    exporting: Exporting,
) -> None:
    with fake_http(MATCHING) as server:
        async with watching(f"{server.url} tables={exporting.address}") as (app, pilot):
            await until_shown(app, "true tables", "pool", "req-a", "39 blocks")
            assert isinstance(app.screen, TablesScreen)
            exporting.step(2)
            await pilot.press("m")
            await until_shown(app, "metrics only", "m true tables", "latency")
            await pilot.press("m")
            await until_shown(app, "req-a", "sequences 1 run")
            await pilot.press("escape")
            await until_shown(app, "metrics only")


async def test_blocks_are_called_as_the_server_calls_them(exporting: Exporting) -> None:
    tables = exporting.scheduler.kv_cache_manager.coordinator.single_type_managers[0].req_to_blocks
    theirs = [block.block_id for block in tables["req-a"]]
    with fake_http(MATCHING) as server:
        async with watching(f"{server.url} tables={exporting.address}") as (app, pilot):
            await until_shown(app, "req-a")
            await pilot.press("tab", "down", "b")
            await until_shown(app, *(f"{index} → {block} " for index, block in enumerate(theirs)))
            await pilot.press("enter")
            await until_shown(app, f"block {theirs[0]} req-a")


async def test_tables_of_another_server_are_turned_away(exporting: Exporting) -> None:
    with fake_http(pressed()) as server:
        async with watching(f"{server.url} tables={exporting.address}") as (app, _):
            await until_shown(
                app, "that was found is another server's", "of 39 blocks, this server has 95", "metrics only"
            )
            assert app._tables is None and app.scene.depth(app.scene.place) == "metrics only"


async def test_preemptions_of_the_tables_stand_beside_the_counter_which_lags(exporting: Exporting) -> None:
    with fake_http(MATCHING) as server:
        async with watching(f"{server.url} tables={exporting.address}") as (app, pilot):
            await until_shown(app, "req-a")
            for number in range(12):
                exporting.scheduler.add(Request(f"req-{number}", [number] * 12, 40))
            exporting.step(40)
            assert app._tables is not None
            tables = app._tables
            await until(app, lambda: tables.feed.live.counters.preemptions > 0)
            await pilot.press("m")
            await until_shown(app, f"{tables.feed.live.counters.preemptions} in tables, late counter says 0")


async def test_commands_to_a_watched_scheduler_are_refused_in_words(exporting: Exporting) -> None:
    with fake_http(MATCHING) as server:
        async with watching(f"{server.url} tables={exporting.address}") as (app, pilot):
            await until_shown(app, "req-a")
            await pilot.press("space")
            await until_shown(app, "pause: this server cannot be paused")


async def test_an_exporter_that_falls_silent_is_said_and_its_last_state_stays(
    exporting: Exporting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvtop.sources.exported.SILENT_SECONDS", 0.3)
    with fake_http(MATCHING) as server:
        async with watching(f"{server.url} tables={exporting.address}") as (app, pilot):
            await until_shown(app, "req-a")
            exporting.exporter.close()
            await until_shown(app, "the server is silent", "what is shown is old", "req-a")
            await pilot.press("escape")
            await until_shown(app, "metrics only")


async def test_an_idle_exporter_is_no_stale_one(exporting: Exporting) -> None:
    with fake_http(MATCHING) as server:
        async with watching(f"{server.url} tables={exporting.address}") as (app, _):
            await until_shown(app, "req-a")
            assert app._tables is not None
            feed = app._tables.feed
            feed._heard_s -= 60
            assert feed.silence is None


def test_looking_for_tables_is_given_up_without_a_word(capfd: pytest.CaptureFixture[str]) -> None:
    with fake_http() as server:
        server.hangs = True
        probe = TablesProbe([parse_target(server.url)])
        probe.start()
        time.sleep(0.3)
        began = time.monotonic()
        probe.close()
        assert time.monotonic() - began < 0.3
        probe._thread.join(2)
        gc.collect()
    assert capfd.readouterr().err == ""


async def test_a_server_that_names_its_tables_is_asked_and_one_that_does_not_is_tried_at_the_usual_port(
    exporting: Exporting,
) -> None:
    with fake_http(pressed()) as server:
        server.set_json("/kvtop_sources", {"0": {"endpoint": exporting.address.replace("127.0.0.1", "*")}})
        probe = TablesProbe([parse_target(server.url)])
        probe.start()
        end = time.monotonic() + 5
        while not probe.endpoints and time.monotonic() < end:
            await asyncio.sleep(0.01)
        probe.close()
        assert list(probe.endpoints.values()) == [[exporting.address]]
        assert await speaks_zmq("127.0.0.1", int(exporting.address.rpartition(":")[2]))
        assert not await speaks_zmq("127.0.0.1", 9) and not await speaks_zmq("127.0.0.1", server.port)


async def test_tables_that_are_named_and_never_tell_a_word_give_way_to_metrics_until_they_do(
    exporting: Exporting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvtop.app.watch.app.WORDLESS_SECONDS", 0.3)
    exporting.exporter.close()
    with fake_http(MATCHING) as server:
        server.set_json("/kvtop_sources", {"0": {"endpoint": exporting.address}})
        async with watching(server.url) as (app, _):
            await until_shown(app, "no word from the exporter", "m true tables")
            assert isinstance(app.screen, ServerScreen)
            again = Exporting(exporting.address)
            again.scheduler.add(Request("req-b", [1] * 9, 20))
            again.step(3)
            await until_shown(app, "req-b")
            assert isinstance(app.screen, TablesScreen)
            again.exporter.close()


async def test_a_key_pressed_meanwhile_keeps_metrics_in_front(
    exporting: Exporting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvtop.app.watch.app.WORDLESS_SECONDS", 0.3)
    with fake_http(MATCHING) as server:
        async with watching(f"{server.url} tables=tcp://127.0.0.1:9") as (app, pilot):
            await until_shown(app, "no word from the exporter")
            await pilot.press("m")
            await until(app, lambda: isinstance(app.screen, TablesScreen))
            await until(app, lambda: isinstance(app.screen, ServerScreen))
            assert app._tables is not None and not app._tables.comes_back


@pytest.mark.parametrize("there", ["127.0.0.1", "localhost", "[::1]"])
async def test_an_exporter_on_the_loopback_of_another_host_counts_as_none(there: str) -> None:
    endpoint = f"tcp://{there}:5580"
    assert await is_reachable(endpoint, "127.0.0.1") and await is_reachable(endpoint, "localhost")
    assert await is_reachable("tcp://192.0.2.7:5580", "192.0.2.7")
    assert not await is_reachable(endpoint, "192.0.2.7"), "an address that no machine has"

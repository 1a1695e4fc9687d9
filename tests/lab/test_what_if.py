"""What-if: a recording simulated again is what was recorded; other settings change what they should."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kvtop import cli
from kvtop.commands.sim_what_if import what_if_live
from kvtop.engine.control import Abort, Inject
from kvtop.engine.cost import CARDS
from kvtop.engine.engine import Engine
from kvtop.engine.events import Batch, Completed
from kvtop.engine.requests import Request
from kvtop.lab.meter import Meter
from kvtop.lab.traffic import Traffic, TrafficReader
from kvtop.lab.what_if import changed, simulate
from kvtop.sources.file_sink import FileSink
from kvtop.sources.recorder import Recorder
from kvtop.view.pool_view import PoolView
from tests.sources.traffic import VirtualClock, requests, simulated_engine

BEGINNING = " ".join(["page table block slot"] * 12)


def busy_engine(num_blocks: int = 28) -> Engine:
    """Requests with samples, some with a common beginning, that arrive over time and do not all fit."""
    engine = simulated_engine(VirtualClock(), num_blocks=num_blocks, max_num_seqs=12)
    asked = [
        msgspec.structs.replace(request, arrival_step=3 * i, priority=i % 2)
        for i, request in enumerate(requests(40, seed=3))
    ]
    asked += [
        Request(id=f"like-{i}", prompt=f"{BEGINNING} {i}", max_tokens=20, ignore_eos=True, arrival_step=5 + 7 * i)
        for i in range(8)
    ]
    assert not engine.apply(Inject(requests=asked)).error
    return engine


def run(engine: Engine) -> list[Batch]:
    batches = []
    while engine.has_work:
        batch = engine.step()
        assert batch is not None
        batches.append(batch)
    return batches


def measured(batches: list[Batch]) -> tuple[dict[str, Any], Traffic]:
    meter = Meter(PoolView())
    reader = TrafficReader(PoolView())
    for batch in batches:
        meter.take(batch)
        reader.hear(batch, meter.view)
    return meter.figures(), reader.traffic()


@pytest.fixture(scope="module")
def recorded() -> tuple[dict[str, Any], Traffic]:
    return measured(run(busy_engine()))


def what_if(traffic: Traffic, **changes: Any) -> dict[str, Any]:
    assert traffic.info is not None
    return simulate(traffic, changed(traffic.info, changes), CARDS["h200"])


def test_simulated_under_its_own_settings_a_recording_comes_out_as_recorded(
    recorded: tuple[dict[str, Any], Traffic],
) -> None:
    figures, traffic = recorded
    again = what_if(traffic)
    assert figures["preemptions"] > 5
    assert figures["prefix_hit_tokens"] > 200
    assert again["requests"] == figures["requests"] == 48
    for name in ("steps", "mean_running", "kv_utilization", "preemptions", "prefix_hit_tokens", "wait_p95_steps"):
        assert again[name] == pytest.approx(figures[name], rel=0.1), name


def test_every_answer_is_as_long_as_it_was(recorded: tuple[dict[str, Any], Traffic]) -> None:
    batches = run(busy_engine())
    ended = {event.request_id: event for batch in batches for event in batch.events if isinstance(event, Completed)}
    _, traffic = recorded
    lengths: dict[str, int] = {}
    for (name, _), tokens in traffic.answers.items():
        lengths[name] = lengths.get(name, 0) + tokens
    assert lengths == {name: event.generated for name, event in ended.items()}


def test_other_settings_change_what_they_should(recorded: tuple[dict[str, Any], Traffic]) -> None:
    figures, traffic = recorded
    roomy = what_if(traffic, pool_tokens=16 * 400)
    assert (roomy["preemptions"], roomy["num_blocks"]) == (0, 400)
    cautious = what_if(traffic, watermark=0.5)
    assert cautious["preemptions"] < figures["preemptions"]
    assert cautious["wait_p95_steps"] > figures["wait_p95_steps"]
    fine = what_if(traffic, block_size=4)
    assert (fine["num_blocks"], fine["block_size"]) == (112, 4)
    assert fine["kv_utilization"] > figures["kv_utilization"]
    assert what_if(traffic, policy="reserve-prompt-max-tokens")["preemptions"] == 0
    with pytest.raises(ValueError, match="num_blocks is 0"):
        what_if(traffic, pool_tokens=3)


def test_a_recording_begun_in_the_midst_and_one_with_a_gap_are_taken_up_by_what_is_there() -> None:
    engine = busy_engine()
    batches = [batch for _ in range(30) if (batch := engine.step())]
    middle = Meter(PoolView())
    for batch in batches:
        middle.take(batch)
    running = {sequence.request_id for sequence in middle.view.sequences.values()}
    reader = TrafficReader(middle.view)
    assert {request.id for request in reader.traffic().requests} == running != set()
    engine.snapshot()  # a batch that this reader never gets
    for _ in range(10):
        engine.step()
    snapshot = engine.snapshot()
    middle.view.apply(snapshot)
    reader.hear(snapshot, middle.view)
    later = {sequence.request_id for sequence in middle.view.sequences.values()}
    assert {request.id for request in reader.traffic().requests} == running | later


def test_an_aborted_request_ends_where_it_was_aborted_and_a_name_used_again_is_told_apart() -> None:
    engine = simulated_engine(VirtualClock(), num_blocks=40)
    request = Request(id="again", prompt="a page", max_tokens=50, ignore_eos=True)
    engine.apply(Inject(requests=[request]))
    batches = [batch for _ in range(7) if (batch := engine.step())]
    engine.apply(Abort(request_id="again"))
    engine.apply(Inject(requests=[request]))
    batches += run(engine)
    _, traffic = measured(batches)
    assert traffic.answers == {("again", 0): 7, ("again#2", 0): 50}
    assert what_if(traffic)["requests"] == 2


def recorded_file(folder: Path) -> Path:
    path = folder / "busy.kvrec"
    recorder = Recorder([FileSink(path)])
    for batch in run(busy_engine()):
        recorder.add(batch)
    recorder.close()
    return path


def test_the_command_reads_recordings_and_workload_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = recorded_file(tmp_path)
    assert cli.main(["sim", "--from", str(recording), "--watermark", "0,50%", "--block-size", "8", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["run"] for row in rows] == ["recorded", "simulated", "what if", "what if"]
    assert rows[3]["changed"] == {"block_size": 8, "watermark": 0.5}
    assert rows[3]["preemptions"] < rows[2]["preemptions"]
    assert cli.main(["sim", "--from", str(recording), "--max-num-seqs", "2"]) == 0
    assert "max num seqs 2" in " ".join(capsys.readouterr().out.split())
    workload = tmp_path / "load.json"
    workload.write_text('{"requests": [{"id": "a", "prompt": "one two three", "max_tokens": 9, "ignore_eos": true}]}')
    assert cli.main(["sim", "--from", str(workload), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["run"], row["steps"], row["requests"]) == ("simulated", 9, 1)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--from", "none.kvrec"], 1, "none.kvrec: cannot be read"),
        (["--from", "none.json"], 1, "none.json: cannot be read"),
        (["--from", "x.kvrec", "--seed", "4"], 2, "--seed does not go with --from"),
        (["--from", "x.kvrec", "--published"], 2, "--published does not go with --from"),
        (["--from", "x.kvrec", "--card", "h200"], 2, "--card does not go with --from"),
        (["--preempt", "swap"], 2, "--preempt goes with --from"),
    ],
)
def test_what_does_not_go_together_is_said(
    arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        ended = cli.main(["sim", *arguments])
    except SystemExit as exit:
        assert isinstance(exit.code, int)
        ended = exit.code
    assert ended == code
    assert words in capsys.readouterr().err


def test_a_recording_can_be_watched_side_by_side_up_to_four_lanes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recorded_file(tmp_path)
    preset = what_if_live(path, {"watermark": [0.0, 0.05], "block_size": [32]})
    titles = [lane.title for lane in preset.build()]
    assert titles == ["simulated as it was", "watermark 0%, 32-token blocks", "watermark 5%, 32-token blocks"]
    assert len(what_if_live(path, {}).build()) == 4
    with pytest.raises(SystemExit):
        cli.main(["sim", "--from", str(path), "--live", "--watermark", "0,1%,2%,3%"])
    assert "up to 4 side by side, these flags make 5" in capsys.readouterr().err
    assert cli.main(["sim", "--from", str(path), "--live"]) == 1
    assert "draws on a terminal" in capsys.readouterr().err

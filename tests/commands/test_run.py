"""``kvtop run`` without a model: the real engine over the fake runner, through the real command line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvtop import cli
from kvtop.engine.config import SchedulerConfig
from kvtop.engine.engine import Engine
from kvtop.engine.plan import StepPlan, StepResult
from kvtop.engine.requests import Request
from kvtop.engine.scheduler import Scheduler
from kvtop.models.progress import Report
from kvtop.settings import EngineSettings
from tests.engine.fake_runner import FakeRunner, beam_oracle, oracle
from tests.engine.harness import NumberCodec, fake_info

Run = Callable[..., tuple[int, dict[str, Any], str]]


class FailingRunner(FakeRunner):
    """Fails in its third step."""

    def run(self, plan: StepPlan) -> StepResult:
        if plan.step == 3:
            raise RuntimeError("the device fell off\nthe bus")
        return super().run(plan)


@pytest.fixture
def runner_type() -> type[FakeRunner]:
    return FakeRunner


@pytest.fixture(autouse=True)
def fake_model(monkeypatch: pytest.MonkeyPatch, runner_type: type[FakeRunner]) -> None:
    def build(settings: EngineSettings, report: Report, inspect: Callable[[Scheduler], None] | None = None) -> Engine:
        config = SchedulerConfig(
            num_blocks=settings.num_blocks or 64,
            block_size=settings.block_size,
            max_model_len=settings.max_model_len or 512,
            max_num_batched_tokens=settings.max_num_batched_tokens,
        )
        runner = runner_type(config.num_blocks, config.block_size)
        return Engine(fake_info(config), config, runner, NumberCodec(), vocab_size=1000, inspect=inspect)

    monkeypatch.setattr("kvtop.engine.assembly.build_engine", build)


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs requests with flags; returns the exit code, the JSON and stderr."""

    def run_requests(requests: list[dict[str, Any]], *flags: str) -> tuple[int, dict[str, Any], str]:
        file = tmp_path / "load.json"
        file.write_text(json.dumps({"requests": requests}))
        code = cli.main(["run", str(file), "--json", *flags])
        out, err = capsys.readouterr()
        return code, json.loads(out) if out else {}, err

    return run_requests


def test_the_json_has_the_documented_keys_and_the_requests_in_file_order(run: Run) -> None:
    code, shown, _ = run([{"id": name, "prompt": "1 2 3", "max_tokens": 4} for name in ("z", "a", "m")])
    assert code == 0
    assert list(shown) == [
        "model", "dtype", "device", "block_size", "num_blocks", "kv_bytes_per_token", "requests", "totals",
    ]  # fmt: skip
    assert [request["id"] for request in shown["requests"]] == ["z", "a", "m"]
    assert list(shown["requests"][0]) == [
        "id", "prompt_tokens", "cached_tokens", "preemptions", "recomputed_tokens", "swapped_blocks", "outputs",
    ]  # fmt: skip
    assert list(shown["requests"][0]["outputs"][0]) == [
        "token_ids", "text", "finish_reason", "stop_reason", "ttft_s", "itl_s",
    ]  # fmt: skip
    assert list(shown["totals"]) == [
        "steps", "wall_s", "prompt_tokens", "generated_tokens", "tokens_per_s", "preemptions", "recomputed_tokens",
        "copy_on_write", "prefix_hit_tokens", "peak_active_blocks", "blocks_active_at_end",
    ]  # fmt: skip


def test_tokens_are_the_oracle_s_also_where_the_pool_preempts_and_the_figures_add_up(run: Run) -> None:
    requests: list[dict[str, Any]] = [
        {"id": f"r{i}", "prompt_token_ids": [10 * i + j for j in range(9)], "max_tokens": 20, "ignore_eos": True}
        for i in range(6)
    ]
    code, shown, _ = run(requests, "--num-blocks", "20", "--block-size", "4", "--check")
    assert code == 0
    for asked, got in zip(requests, shown["requests"], strict=True):
        (output,) = got["outputs"]
        expected = oracle(Request(**asked), asked["prompt_token_ids"], 512)
        assert output["token_ids"] == expected
        assert output["text"] == "".join(f"{token} " for token in expected)
        assert (output["finish_reason"], len(output["itl_s"])) == ("length", 19)
        assert output["ttft_s"] > 0
    totals = shown["totals"]
    assert totals["preemptions"] > 0
    for figure in ("preemptions", "recomputed_tokens"):
        assert totals[figure] == sum(request[figure] for request in shown["requests"]) > 0
    assert (totals["prompt_tokens"], totals["generated_tokens"]) == (54, 120)
    assert totals["tokens_per_s"] == pytest.approx(120 / totals["wall_s"])
    assert (totals["peak_active_blocks"], totals["blocks_active_at_end"]) == (20, 0)


def test_samples_and_beams_are_outputs_of_their_request(run: Run) -> None:
    sampled: dict[str, Any] = {"id": "s", "prompt": "1 2 3", "max_tokens": 5, "n": 3, "temperature": 1.0, "seed": 7}
    searched: dict[str, Any] = {"id": "b", "prompt": "4 5 6", "max_tokens": 6, "beam_width": 3}
    code, shown, _ = run([sampled, searched])
    assert code == 0
    samples, beams = shown["requests"]
    assert [output["token_ids"] for output in samples["outputs"]] == [
        oracle(Request(**sampled), [1, 2, 3], 512, index) for index in range(3)
    ]
    (answer,) = beams["outputs"]
    assert answer["token_ids"] == beam_oracle(Request(**searched), [4, 5, 6], 512)
    assert len(answer["itl_s"]) == len(answer["token_ids"]) - 1
    assert shown["totals"]["generated_tokens"] == 15 + len(answer["token_ids"])


def test_what_cannot_run_ends_with_exit_1_and_the_json_is_printed_all_the_same(run: Run) -> None:
    code, shown, err = run(
        [
            {"id": "ok", "prompt": "1 2", "max_tokens": 2},
            {"id": "huge", "prompt_token_ids": list(range(40)), "max_tokens": 4},
            {"id": "long", "prompt": "1 2 3", "max_tokens": 100},
        ],
        "--num-blocks", "4", "--block-size", "8",
    )  # fmt: skip
    assert code == 1
    ends = {request["id"]: request["outputs"][0]["finish_reason"] for request in shown["requests"]}
    assert ends == {"ok": "length", "huge": "rejected", "long": "pool_exhausted"}
    huge, long = shown["requests"][1:]
    assert (huge["prompt_tokens"], huge["outputs"][0]["token_ids"], huge["outputs"][0]["ttft_s"]) == (40, [], None)
    assert len(long["outputs"][0]["token_ids"]) > 0
    assert "kvtop: request 'huge': its 40 prompt tokens need 5 blocks" in err
    assert "kvtop: request 'long': " in err
    assert "kvtop: warning: the pool holds 32 tokens" in err


def test_a_request_the_engine_refuses_stops_everything_before_the_first_step(run: Run) -> None:
    code, shown, err = run([{"id": "a", "prompt": "1"}, {"id": "b", "prompt_token_ids": [5, 1000]}])
    assert (code, shown) == (1, {})
    assert "load.json: request 2 ('b'): prompt_token_ids: 1000 is outside the vocabulary of 1000 tokens" in err


def test_requests_arrive_by_the_clock_and_by_the_step(run: Run) -> None:
    code, shown, _ = run(
        [
            {"id": "first", "prompt": "1", "max_tokens": 2},
            {"id": "later", "prompt": "2", "max_tokens": 2, "arrival_s": 0.3},
            {"id": "stepped", "prompt": "3", "max_tokens": 2, "arrival_step": 2},
        ]
    )
    assert code == 0
    assert shown["totals"]["wall_s"] >= 0.25  # from the first schedule, a little after the clock of arrivals began
    assert all(request["outputs"][0]["ttft_s"] < 0.25 for request in shown["requests"])
    assert shown["totals"]["steps"] == 5  # step 3 ends the one that came at step 2; the late one takes two more


@pytest.mark.parametrize("runner_type", [FailingRunner])
def test_an_engine_that_fails_ends_what_was_unfinished_as_an_error(run: Run, runner_type: type[FakeRunner]) -> None:
    code, shown, err = run([{"id": "short", "prompt": "1", "max_tokens": 1}, {"id": "long", "prompt": "1 2"}])
    assert code == 1
    short, long = shown["requests"]
    assert short["outputs"][0]["finish_reason"] == "length"
    assert long["outputs"][0]["finish_reason"] == "error"
    assert len(long["outputs"][0]["token_ids"]) == 2
    assert long["preemptions"] is None
    assert err.endswith("kvtop: internal error: RuntimeError: the device fell off the bus (--debug shows where)\n")


def test_check_looks_at_the_pool_after_every_step(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Scheduler] = []
    monkeypatch.setattr("kvtop.engine.check.check", looked.append)
    requests = [{"id": "a", "prompt": "1", "max_tokens": 4}]
    run(requests)
    assert looked == []
    code, shown, _ = run(requests, "--check")
    assert code == 0
    assert len(looked) == shown["totals"]["steps"] == 4


def test_without_json_each_answer_and_the_figures_are_tables_that_no_id_can_disturb(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "load.json"
    requests = [
        {"id": "[red]x[/]\x1b[2J", "prompt": "1 2", "max_tokens": 3},
        {"id": "twice", "prompt": "7", "max_tokens": 2, "n": 2, "temperature": 1.0},
    ]
    file.write_text(json.dumps({"requests": requests}))
    assert cli.main(["run", str(file)]) == 0
    out, err = capsys.readouterr()
    assert "[red]x[/]␛[2J" in out
    assert "\x1b" not in out + err
    assert "twice/0" in out
    assert "twice/1" in out
    assert "3 in (0 from the prefix cache), 7 out" in out
    assert "pool: 64 blocks of 16 tokens" in err
    assert "at most 2 requests of max_model_len 512" in err


def test_logprobs_are_reported_for_the_requests_that_asked(run: Run) -> None:
    _, shown, _ = run(
        [
            {"id": "asked", "prompt": "1", "max_tokens": 2, "logprobs": 0},
            {"id": "not", "prompt": "1", "max_tokens": 2},
        ]
    )
    asked, plain = (request["outputs"][0] for request in shown["requests"])
    assert [list(entry) for entry in asked["logprobs"]] == [["logprob", "top"]] * 2
    assert "logprobs" not in plain

"""Times of a run, on batches whose clock is known."""

from typing import Any

from kvtop.commands.run_report import RunReport
from kvtop.engine.events import Advanced, Batch, Finished, Queued, StepTimed
from kvtop.engine.requests import Request


def batch(ended_s: float, *events: Any, step_s: float = 0.25) -> Batch:
    timed = StepTimed(id=99, schedule_s=0.05, run_s=step_s - 0.1, update_s=0.05, prefill_tokens=0, decode_tokens=1)
    return Batch(number=1, step=1, monotonic_s=ended_s, wall_s=0, events=[*events, timed])


def queued(seq: int, request_id: str) -> Queued:
    return Queued(id=1, seq=seq, request_id=request_id, prompt_tokens=3, max_tokens=9)


def advanced(seqs: list[int], sampled: list[int]) -> Advanced:
    return Advanced(id=2, seqs=seqs, counts=[1] * len(seqs), sampled=sampled, texts=["x"] * len(seqs))


def test_the_first_token_is_timed_from_the_arrival_and_the_others_from_each_other() -> None:
    requests = [
        Request(id="now", prompt="x"),
        Request(id="timed", prompt="x", arrival_s=0.5),
        Request(id="stepped", prompt="x", arrival_step=3),
    ]
    report = RunReport(requests, started=10.0)
    report.apply(batch(10.25, queued(1, "now"), advanced([1], [-1])))
    report.apply(batch(10.5, advanced([1], [5])))
    report.apply(batch(11.0, queued(2, "timed"), queued(3, "stepped"), advanced([1, 2, 3], [6, 7, 8])))
    report.apply(
        batch(11.75, advanced([1], [9]), Finished(id=3, seq=1, request_id="now", reason="length", generated=3))
    )

    def times(name: str) -> list[float]:
        request = report.requests[name]
        return [time - request.arrived for time in request.outputs[0].times()]

    assert times("now") == [0.5, 1.0, 1.75]
    assert times("timed") == [0.5]
    assert times("stepped") == [0.25]  # that step began a quarter of a second before its end
    assert report.requests["now"].outputs[0].token_ids == [5, 6, 9]
    assert report.generated_tokens == 5


def test_the_run_lasts_from_the_first_schedule_to_the_last_token() -> None:
    report = RunReport([Request(id="a", prompt="x")], started=1.0)
    assert report.wall_s is None
    report.apply(batch(5.0, queued(1, "a"), advanced([1], [-1]), step_s=0.5))
    assert report.wall_s is None
    report.apply(batch(7.0, advanced([1], [4])))
    report.apply(batch(9.0, advanced([1], [-1])))
    assert report.wall_s == 2.5

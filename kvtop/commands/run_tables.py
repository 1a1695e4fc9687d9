"""The outcome of a run as it is printed: JSON for programs, two tables for people.

The JSON is that of docs/architecture.md: requests in file order, times in seconds, null where something is not known.
"""

from __future__ import annotations

from array import array
from itertools import pairwise
from typing import Any

from rich.table import Table
from rich.text import Text

from kvtop.commands.run_report import Output, RequestReport, RunReport
from kvtop.commands.table_output import table_console
from kvtop.engine.events import Snapshot
from kvtop.view.clean import clean_line


def run_as_json(final: Snapshot, outcome: RunReport) -> dict[str, Any]:
    """``final`` is the engine's state after the run."""
    info = final.info
    return {
        "model": info.model,
        "dtype": info.dtype,
        "device": info.device,
        "block_size": info.block_size,
        "num_blocks": info.num_blocks,
        "kv_bytes_per_token": info.kv_bytes_per_token,
        "requests": [_request(report) for report in outcome.requests.values()],
        "totals": totals(final, outcome),
    }


def totals(final: Snapshot, outcome: RunReport) -> dict[str, Any]:
    """The run's figures."""
    counters, wall_s = final.counters, outcome.wall_s
    return {
        "steps": counters.steps,
        "wall_s": wall_s,
        "prompt_tokens": counters.prompt_tokens,
        "generated_tokens": outcome.generated_tokens,
        "tokens_per_s": outcome.generated_tokens / wall_s if wall_s else None,
        "preemptions": counters.preemptions,
        "recomputed_tokens": counters.recomputed_tokens,
        "copy_on_write": counters.copy_on_write,
        "prefix_hit_tokens": counters.prefix_hit_tokens,
        "peak_active_blocks": counters.peak_active_blocks,
        "blocks_active_at_end": active_blocks(final),
    }


def active_blocks(snapshot: Snapshot) -> int:
    """Blocks with a ref count above 0."""
    return sum(count > 0 for count in array("I", snapshot.ref_counts))


def _request(report: RequestReport) -> dict[str, Any]:
    completed = report.completed
    never_ran = completed is None and all(o.finish_reason == "rejected" for o in report.outputs.values())
    unknown = 0 if never_ran else None
    return {
        "id": report.request.id,
        "prompt_tokens": report.prompt_tokens,
        "cached_tokens": completed.cached_tokens if completed else unknown,
        "preemptions": completed.preemptions if completed else unknown,
        "recomputed_tokens": completed.recomputed_tokens if completed else unknown,
        "swapped_blocks": completed.swapped_blocks if completed else unknown,
        "outputs": [_output(report, report.outputs[index]) for index in sorted(report.outputs)],
    }


def _output(report: RequestReport, output: Output) -> dict[str, Any]:
    times = output.times()
    shown: dict[str, Any] = {
        "token_ids": output.token_ids,
        "text": output.text,
        "finish_reason": output.finish_reason,
        "stop_reason": output.stop_reason,
        "ttft_s": times[0] - report.arrived if times else None,
        "itl_s": [later - earlier for earlier, later in pairwise(times)],
    }
    if report.request.logprobs is not None:
        shown["logprobs"] = output.logprobs
    return shown


def print_run(final: Snapshot, outcome: RunReport) -> None:
    """Both tables, to stdout."""
    console = table_console()
    console.print(_requests_table(outcome))
    console.print(_figures_table(final, outcome))


def _requests_table(outcome: RunReport) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("request", "prompt", "cached", "tokens", "end", "first", "preempted"):
        table.add_column(title, no_wrap=True, justify="left" if title in ("request", "end") else "right")
    table.add_column("answer")  # the one that gives way when the terminal is narrow
    for report in outcome.requests.values():
        for index in sorted(report.outputs):
            output, completed, times = report.outputs[index], report.completed, report.outputs[index].times()
            sample = f"/{index}" if len(report.outputs) > 1 else ""
            table.add_row(
                Text(clean_line(report.request.id, limit=24) + sample),
                _count(report.prompt_tokens),
                _count(completed.cached_tokens if completed else None),
                _count(len(output.token_ids)),
                output.finish_reason or "–",
                f"{times[0] - report.arrived:.2f} s" if times else "–",
                _count(completed.preemptions if completed else None),
                Text(clean_line(output.text or report.message), no_wrap=True, overflow="ellipsis"),
            )
    return table


def _figures_table(final: Snapshot, outcome: RunReport) -> Table:
    figures, info = totals(final, outcome), final.info
    speed = figures["tokens_per_s"]
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim")
    table.add_column()
    table.add_row("", "")
    table.add_row("model", Text(f"{clean_line(info.model)} · {info.dtype} on {info.device}"))
    table.add_row(
        "tokens",
        f"{figures['prompt_tokens']:,} in ({figures['prefix_hit_tokens']:,} from the prefix cache), "
        f"{figures['generated_tokens']:,} out",
    )
    table.add_row(
        "speed",
        f"{speed:,.1f} tok/s over {figures['wall_s']:.2f} s, {figures['steps']:,} steps" if speed else "–",
    )
    table.add_row("preemptions", f"{figures['preemptions']:,}, {figures['recomputed_tokens']:,} tokens recomputed")
    table.add_row(
        "blocks",
        f"at most {figures['peak_active_blocks']:,} of {info.num_blocks:,} active, "
        f"{figures['blocks_active_at_end']:,} at the end, {figures['copy_on_write']:,} copied on write",
    )
    return table


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"

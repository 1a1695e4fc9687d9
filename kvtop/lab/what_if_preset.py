"""What was recorded, under several settings side by side: from a file, or from an engine that runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from kvtop.engine.cost import CARDS, DEFAULT_CARD
from kvtop.engine.events import EngineInfo
from kvtop.lab.engine_lane import EngineLane
from kvtop.lab.labels import policy_words
from kvtop.lab.lane import Lane
from kvtop.lab.meter import Meter
from kvtop.lab.presets import Preset
from kvtop.lab.traffic import Traffic, TrafficReader
from kvtop.lab.what_if import changed
from kvtop.sources.timeline import Timeline
from kvtop.view.pool_view import PoolView

Changes = dict[str, Any]
"""Settings and their new values; empty: as it was."""
AS_IT_WAS = "simulated as it was"
OTHER_WATERMARK, USUAL_BLOCK_SIZE, OTHER_BLOCK_SIZE = 0.05, 16, 32


def hear(timeline: Timeline) -> tuple[Traffic, Meter]:
    """The traffic that was recorded, and what was measured of it; of several engines the last one's.

    Raises:
        Failure: it cannot be read, or holds no request.
    """
    view = timeline.view_at(timeline.first)
    reader, meter = TrafficReader(view), Meter(view)
    for batch in timeline.batches(timeline.first):
        if batch.number <= meter.view.number:  # another engine begins
            meter = Meter(PoolView())
        meter.take(batch)
        reader.hear(batch, meter.view)
    return reader.traffic(), meter


def tries(values: Mapping[str, Sequence[Any]], with_unchanged: bool) -> Iterator[Changes]:
    """Every combination of ``values`` (lists, by setting), and before them no change at all."""
    if with_unchanged and values:
        yield {}
    for chosen in product(*values.values()):
        yield dict(zip(values, chosen, strict=True))


def usual_tries(info: EngineInfo) -> list[Changes]:
    """What one would try first beside what runs."""
    return [
        {},
        {"watermark": 0.0 if info.watermark else OTHER_WATERMARK},
        {"block_size": OTHER_BLOCK_SIZE if info.block_size == USUAL_BLOCK_SIZE else USUAL_BLOCK_SIZE},
        {"policy": "reserve-prompt-max-tokens" if info.policy == "paged" else "paged"},
    ]


def what_if_preset(title: str, traffic: Traffic, info: EngineInfo, wanted: Sequence[Changes]) -> Preset:
    """``traffic`` on the engine of ``info``, under each of the ``wanted`` changes.

    Raises:
        ValueError: a change is impossible.
    """
    infos = [changed(info, changes) for changes in wanted]

    def build() -> list[Lane]:
        return [
            EngineLane(in_words(changes), traffic, new, CARDS[DEFAULT_CARD])
            for changes, new in zip(wanted, infos, strict=True)
        ]

    slots = info.num_blocks * info.block_size
    return Preset(title, f"{slots:,} slots · {len(traffic.requests):,} requests, when they came", build, 20)


def in_words(changes: Changes) -> str:
    """``watermark 5%, 32-token blocks``."""
    return ", ".join(_change_in_words(name, value) for name, value in changes.items()) or AS_IT_WAS


def _change_in_words(name: str, value: Any) -> str:
    match name:
        case "watermark":
            return f"watermark {100 * value:g}%"
        case "block_size":
            return f"{value}-token blocks"
        case "policy":
            return policy_words(value)
        case _:
            return f"{name.replace('_', ' ')} {value}"

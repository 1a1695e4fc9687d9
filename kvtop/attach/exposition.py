"""One page of metrics as text → readings, one a data-parallel rank.

The Prometheus client's own parser reads every series once; what its name and labels mean for us is remembered by the
text before the value, so that the next page costs a look-up a line. Nothing here does IO or reads a clock.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from kvtop.attach import names
from kvtop.attach.histogram import Histogram
from kvtop.view.clean import clean_line

LARGEST = 1e18
"""No figure of a server is as large; what claims to be is not known."""
MAX_SERIES = 20_000
"""Series remembered for a page; one that keeps inventing new ones is forgotten and read anew."""


class NotMetrics(ValueError):
    """The page is not one of a server we know; the message says what it is instead."""


@dataclass(slots=True)
class Reading:
    """What one rank told at one moment. A figure that the page did not carry is absent, not 0."""

    family: str
    """``vllm`` or ``sglang``."""
    rank: str
    model: str = ""
    """As the server calls it. Untrusted."""
    gauges: dict[str, float] = field(default_factory=dict)
    counters: dict[str, float] = field(default_factory=dict)
    labelled: dict[str, dict[str, float]] = field(default_factory=dict)
    """Figure → label value (untrusted) → value."""
    histograms: dict[str, Histogram] = field(default_factory=dict)
    info: dict[str, str] = field(default_factory=dict)
    started_s: float | None = None
    """Unix time at which the server's process began."""

    def info_number(self, *keys: str) -> float | None:
        """The first of these settings that is a positive number."""
        for key in keys:
            try:
                value = float(self.info.get(key, ""))
            except ValueError:
                continue
            if value > 0 and math.isfinite(value):
                return value
        return None

    @property
    def num_blocks(self) -> float | None:
        """Blocks of its pool as it counts them: vLLM its placeholder too; SGLang counts tokens, so pages of them."""
        told = self.info_number("num_gpu_blocks")
        if told is None and self.block_size and "capacity_tokens" in self.gauges:
            return self.gauges["capacity_tokens"] / self.block_size
        return told

    @property
    def usable_blocks(self) -> float | None:
        """Blocks that requests can hold: without the placeholder that ``num_gpu_blocks`` counts."""
        told = self.info_number("num_gpu_blocks")
        return self.num_blocks if told is None else told - 1

    @property
    def block_size(self) -> float | None:
        return self.info_number("effective_attention_block_size", "block_size") or self.gauges.get("block_size")

    @property
    def capacity_tokens(self) -> float | None:
        told = self.info_number("kv_cache_size_tokens") or self.gauges.get("capacity_tokens")
        if told is None and self.usable_blocks and self.block_size:
            return self.usable_blocks * self.block_size
        return told


class _Place(NamedTuple):
    """What a series means: one value of one figure of one rank."""

    kind: str
    figure: str
    choice: int
    """Which of the figure's names it came under; the smallest counts."""
    rank: str
    key: str
    """Label value, bucket bound, ``sum`` or ``count``; else empty."""
    family: str
    model: str


_FIGURES: dict[str, tuple[str, str, int, str]] = {}
"""Sample name → kind, figure, choice, key (or the label that gives the key)."""
for _figure, _choices in names.GAUGES.items():
    _FIGURES |= {name: ("gauge", _figure, i, "") for i, name in enumerate(_choices)}
for _figure, _choices in names.COUNTERS.items():
    _FIGURES |= {name: ("counter", _figure, i, "") for i, name in enumerate(_choices)}
for _figure, _pairs in names.LABELLED.items():
    _FIGURES |= {name: ("labelled", _figure, i, label) for i, (name, label) in enumerate(_pairs)}
for _figure, _choices in names.HISTOGRAMS.items():
    for _i, _name in enumerate(_choices):
        _FIGURES[_name + "_bucket"] = ("histogram", _figure, _i, "le")
        _FIGURES[_name + "_sum"] = ("histogram", _figure, _i, "sum")

_Values = dict[str, float]


class PageReader:
    """Reads the pages of one server, one after another."""

    def __init__(self) -> None:
        self._places: dict[str, _Place | None] = {}
        self._info: dict[str, tuple[str, dict[str, str]]] = {}

    def read(self, page: str) -> list[Reading]:
        """The readings of a page, by rank.

        Raises:
            NotMetrics: it is empty, not metrics, or has no metrics of vLLM or SGLang.
        """
        if len(self._places) > MAX_SERIES:
            self._places.clear()
            self._info.clear()
        values: dict[tuple[str, str, str], dict[int, _Values]] = defaultdict(lambda: defaultdict(dict))
        whose: dict[str, _Place] = {}
        info: dict[str, dict[str, str]] = {}
        started: float | None = None
        for line in page.split("\n"):
            if not line.startswith(names.PREFIXES):
                continue
            head, _, number = line.rpartition(" ")
            place = self._places[head] if head in self._places else self._learn(head, line)
            if place is None:
                if head in self._info:
                    rank, labels = self._info[head]
                    info[rank] = labels
                continue
            try:
                value = float(number)
            except ValueError:
                raise NotMetrics(f"not a metrics page: {clean_line(line, 60)!r} has no value") from None
            if not 0 <= value <= LARGEST:  # NaN is a legal value, and means what it says; so is +Inf
                continue
            if place.kind == "start":
                started = value
                continue
            found = values[place.rank, place.kind, place.figure][place.choice]
            found[place.key] = value if place.kind == "gauge" else found.get(place.key, 0.0) + value
            whose.setdefault(place.rank, place)
        if not whose:
            raise NotMetrics(_what_else(page))
        readings = {
            rank: Reading(place.family, rank, place.model, info=info.get(rank, info.get("", {})), started_s=started)
            for rank, place in whose.items()
        }
        for (rank, kind, figure), choices in values.items():
            _fill(readings[rank], kind, figure, choices[min(choices)])
        return sorted(readings.values(), key=lambda reading: (len(reading.rank), reading.rank))

    def _learn(self, head: str, line: str) -> _Place | None:
        """Find out what the series of a line means, and remember it."""
        try:
            sample = next(iter(text_string_to_metric_families(line))).samples[0]
        except (ValueError, StopIteration, IndexError):
            raise NotMetrics(f"not a metrics page: cannot read {clean_line(line, 60)!r}") from None
        if sample.timestamp is not None:
            raise NotMetrics("values carry timestamps: this is the page of a proxy or a federation, not of a server")
        labels = sample.labels
        rank = next((labels[name] for name in names.RANK_LABELS if name in labels), "0")
        place = None
        if sample.name in names.INFO:
            shown = next((labels[name] for name in names.RANK_LABELS if name in labels), "")
            self._info[head] = (shown, labels)
        elif sample.name == names.START_TIME:
            place = _Place("start", "", 0, "", "", "", "")
        elif sample.name in _FIGURES and not any(labels.get(name, "0") != "0" for name in names.SHARD_LABELS):
            kind, figure, choice, key = _FIGURES[sample.name]
            family = sample.name.partition(":")[0]
            key = labels.get(key, key) if kind in ("labelled", "histogram") else ""
            if sample.name.endswith("_bucket") and not _is_bound(key):
                raise NotMetrics(f"not a metrics page: {clean_line(key, 30)!r} is no bound of a bucket")
            place = _Place(kind, figure, choice, rank, key, family, labels.get("model_name", ""))
        self._places[head] = place
        return place


def _fill(reading: Reading, kind: str, figure: str, found: _Values) -> None:
    if kind == "gauge":
        if figure != "usage" or found[""] <= 1:
            reading.gauges[figure] = found[""]
    elif kind == "counter":
        reading.counters[figure] = found[""]
    elif kind == "labelled":
        reading.labelled[figure] = found
    else:
        total = found.pop("sum", 0.0)
        buckets = sorted((float(bound), count) for bound, count in found.items())
        if buckets and math.isinf(buckets[-1][0]):
            bounds, counts = zip(*buckets, strict=True)
            reading.histograms[figure] = Histogram(bounds, counts, total)


def _is_bound(text: str) -> bool:
    try:
        return not math.isnan(float(text))
    except ValueError:
        return False


def _what_else(page: str) -> str:
    """What a page is that holds no metrics of ours."""
    first = page.strip()
    if not first:
        return "not a metrics page: it is empty"
    if any(line and not line.startswith(("#", "<")) and " " in line for line in first.split("\n", 50)[:50]):
        try:
            families = list(text_string_to_metric_families(first + "\n"))
        except ValueError:
            families = []
        if any(family.samples for family in families):
            return "metrics, but none of vLLM or SGLang (no vllm: or sglang: series)"
    return f"not a metrics page; it begins {clean_line(first, 60)!r}"

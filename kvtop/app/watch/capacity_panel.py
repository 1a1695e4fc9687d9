"""What a server's pool can hold and how it is used: tokens, prefix cache, life of blocks, the GPUs of this machine."""

from __future__ import annotations

from collections.abc import Sequence

from kvtop.app.lines import Line, Span, fitted
from kvtop.app.watch.scene import WatchScene
from kvtop.app.widgets.drawing import FramedDrawing
from kvtop.attach.exposition import Reading
from kvtop.view import fleet_words as words
from kvtop.view.server_facts import max_model_len
from kvtop.view.words import UNKNOWN, duration, size


class CapacityPanel(FramedDrawing):
    scene: WatchScene

    def title(self) -> Sequence[Span]:
        return [("capacity", self.scene.palette.named.title)]

    def content(self, width: int, height: int) -> Sequence[Line]:
        named, row = self.scene.palette.named, self.scene.row
        history = self.scene.history(self.scene.place)
        reading = history.last if history is not None else None
        ink = named.faint if row.is_stale else named.text
        lines = [
            *self._pool(reading),
            ("prefix hits", f"{words.share(row.hit_rate)} in {duration(row.span_s)}, "
                            f"{words.share(row.hit_rate_since_start)} since start"),
            ("preemptions", self._preemptions(reading)),
            ("a block lives", self._block_times()),
            *self._gpus(),
        ]  # fmt: skip
        return [fitted([(f" {name:<15}", named.muted), (text, ink)], width, self.blank) for name, text in lines]

    def _pool(self, reading: Reading | None) -> list[tuple[str, str]]:
        row = self.scene.row
        limit = max_model_len(reading) if reading is not None else None
        fitting = row.capacity_tokens / limit if row.capacity_tokens and limit else None
        held = row.usage * row.capacity_tokens if row.usage is not None and row.capacity_tokens else None
        return [
            (
                "holds",
                f"{words.number(row.capacity_tokens)} tokens, {words.number(fitting, 1)} × max_model_len",
            ),
            ("held now", f"{words.number(held)} tokens' blocks, {words.share(row.usage)}"),
        ]

    def _preemptions(self, reading: Reading | None) -> str:
        """By the server's counter, which rises when a victim resumes, so late; beside it what true tables told."""
        told = self.scene.true_preemptions
        if told is not None:
            counted = reading.counters.get("preemptions") if reading is not None else None
            return f"{told:,} in tables, late counter says {words.number(counted)}"
        return f"{words.number(self.scene.row.preemptions_per_min, 1)}/min, counted late"

    def _block_times(self) -> str:
        row = self.scene.row
        lifetime, idle = row.quantile("block_lifetime", 0.5), row.quantile("block_idle", 0.5)
        if lifetime is None and idle is None:
            return f"{UNKNOWN} (see --kv-cache-metrics)"
        return f"{words.time(lifetime)}, idle {words.time(idle)} before it is evicted (p50)"

    def _gpus(self) -> list[tuple[str, str]]:
        gpus = self.scene.gpus(self.scene.server)
        if not gpus:
            return [("GPU", UNKNOWN)]
        return [
            (f"GPU {gpu.index}", f"{size(gpu.used_bytes)} of {size(gpu.total_bytes)}, load {words.share(gpu.load)}")
            for gpu in gpus
        ]

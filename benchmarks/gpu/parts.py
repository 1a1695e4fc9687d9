"""The parts of the GPU check in the order they run, and the tables they end in.

Agreement comes first: figures of a kernel that is wrong are worth nothing. Tuning comes before the sweep, which uses
the best shape found.
"""

from __future__ import annotations

import datetime
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import triton
from rich.console import Console
from rich.table import Table

from benchmarks.gpu import attention, check_kernels, measure_kernels, tune_kernels
from benchmarks.gpu.scale import FULL, TINY, Scale
from kvtop.kernels.triton_kernels import TritonKernels
from kvtop.kernels.triton_tuning import (
    DecodeTuning,
    PrefillTuning,
    architecture,
    decode_tuning,
    prefill_tuning,
)

DATASHEET_BYTES_A_SECOND = {"NVIDIA H200": 4.8e12, "NVIDIA H100 80GB HBM3": 3.35e12, "NVIDIA A100-SXM4-80GB": 2.039e12}
_MODEL_SECONDS = 60.0
"""What the parts with a whole model should at least have left when they start a measurement."""


@dataclass
class Check:
    """One run on one device. ``report`` is the JSON."""

    device: torch.device
    dry: bool
    seconds: float
    report: dict[str, Any] = field(default_factory=dict)
    _started: float = field(default_factory=time.monotonic)

    @property
    def scale(self) -> Scale:
        return TINY if self.dry else FULL

    def left(self) -> float:
        return self.seconds - (time.monotonic() - self._started)

    def parts(self) -> dict[str, Callable[[], Any]]:
        return {
            "machine": self.machine,
            "agreement": self.agreement,
            "tuning": self.tuning,
            "kernels": self.kernels,
            "same tokens": self.same_tokens,
            "whole model": self.whole_model,
        }

    def machine(self) -> dict[str, object]:
        name = "CPU, interpreted" if self.dry else torch.cuda.get_device_name(self.device)
        return {
            "date": datetime.date.today().isoformat(),
            "card": name,
            "architecture": architecture(self.device),
            "torch": torch.__version__,
            "triton": triton.__version__,
            "python": platform.python_version(),
            "copy_bytes_a_second": measure_kernels.copy_bandwidth(self.scale, self.device),
            "datasheet_bytes_a_second": DATASHEET_BYTES_A_SECOND.get(name),
        }

    def agreement(self) -> list[dict[str, object]]:
        with check_kernels.workers(self.scale) as run:
            return check_kernels.agreement(self.scale, self.device, run)

    def tuning(self) -> dict[str, object]:
        storage = self._storage(max(batch * context for batch, context in self.scale.tuning_points))
        with check_kernels.workers(self.scale) as run:
            return {
                "decode": tune_kernels.tune_decode(self.scale, storage, run),
                "prefill": tune_kernels.tune_prefill(self.scale, storage, run),
            }

    def kernels(self) -> dict[str, object]:
        scale = self.scale
        largest = max(batch * context for batch in scale.batches for context in scale.contexts)
        storage = self._storage(largest)
        decode, prefill = self._best()
        return {
            "decode": measure_kernels.decode_sweep(scale, storage, decode, lambda: self.left() > 3 * _MODEL_SECONDS),
            "prefill": measure_kernels.prefill_beside_torch(scale, storage, prefill),
            "movement": measure_kernels.movement(scale, storage),
        }

    def same_tokens(self) -> list[dict[str, object]]:
        from benchmarks.gpu import random_models, same_tokens  # transformers, which the kernels' parts do without

        model = random_models.make_model(self.scale.small_model, self.device)
        loaded = random_models.put_on_pages(model, TritonKernels(self.device, max_num_seqs=64))
        graphed, graphs = random_models.with_graphs(loaded, 64)
        rows = same_tokens.same_tokens(self.scale, loaded, graphed)
        if graphs.refusal:
            raise RuntimeError(f"decode steps could not be captured: {graphs.refusal}")
        return rows

    def whole_model(self) -> dict[str, object]:
        from benchmarks.gpu import random_models, whole_steps

        model = random_models.make_model(self.scale.model, self.device)
        weights = random_models.weight_bytes(model)
        generate = whole_steps.by_generate(self.scale, model, lambda: self.left() > _MODEL_SECONDS)
        most = max(batch for batch, _ in self.scale.end_to_end)
        loaded = random_models.put_on_pages(model, TritonKernels(self.device, max_num_seqs=most))
        graphed, graphs = random_models.with_graphs(loaded, most)
        engine = whole_steps.by_engine(self.scale, graphed, lambda: self.left() > _MODEL_SECONDS / 2)
        without = whole_steps.by_engine(self.scale, loaded, lambda: self.left() > _MODEL_SECONDS / 3)
        if graphs.refusal:
            raise RuntimeError(f"decode steps could not be captured: {graphs.refusal}")
        return {
            "weight_bytes": weights,
            "kv_bytes_a_token": loaded.pool.kv_bytes_per_token,
            "generate": generate,
            "engine": engine,
            "engine without graphs": without,
        }

    def _storage(self, tokens: int) -> attention.Storage:
        """Room for ``tokens`` in whole pages, for reading them in turns, and for the prefill to be measured."""
        scale = self.scale
        per_token = 2 * scale.model.kv_heads * scale.model.head_dim * scale.model.dtype.itemsize
        slots = max(tokens, sum(scale.prefill_tokens), 2 * scale.cold_bytes // per_token)
        largest_page = max(scale.pages)
        pages = -(-slots // largest_page) + max(scale.batches)
        return attention.Storage.allocate(scale.model, pages * largest_page, self.device)

    def _best(self) -> tuple[DecodeTuning, PrefillTuning]:
        """The best shapes found, or the table's."""
        found = self.report.get("tuning")
        if found:
            return DecodeTuning(**found["decode"][0]["tuning"]), PrefillTuning(**found["prefill"][0]["tuning"])
        arch, model = architecture(self.device), self.scale.model
        return decode_tuning(arch, model.dtype, model.head_dim), prefill_tuning(arch, model.dtype, model.head_dim)

    def failures(self) -> list[str]:
        """What must not stay as it is."""
        wrong = [f"{name}: {error}" for name, error in self.report["errors"].items()]
        wrong += [
            f"{row['problem']} in {row['dtype']}: off by {row['error']}"
            for row in self.report.get("agreement", [])
            if not row["agrees"]
        ]
        wrong += [
            f"{row['configuration']}: {row['remarks']}"
            for row in self.report.get("same tokens", [])
            if not row["equal"]
        ]
        movement = self.report.get("kernels", {}).get("movement", [])
        return wrong + [f"{row['what']}: no" for row in movement if row.get("holds") is False]

    def print_tables(self) -> None:
        """What a person reads, to stdout."""
        console = Console(width=120)
        asked = self.report.get("agreement", [])
        console.print(f"{sum(row['agrees'] for row in asked)} of {len(asked)} problems agree with float64")
        for title, rows in self._tables().items():
            if rows:
                table = Table(*rows[0], title=title, title_justify="left")
                for row in rows:
                    table.add_row(*(_cell(value) for value in row.values()))
                console.print(table)
        for wrong in self.failures():
            console.print(f"FAILED {wrong}", markup=False)

    def _tables(self) -> dict[str, list[dict[str, Any]]]:
        report = self.report
        tuning, kernels = report.get("tuning", {}), report.get("kernels", {})
        return {
            "machine": [report["machine"]] if "machine" in report else [],
            "disagreement with float64": [row for row in report.get("agreement", []) if not row["agrees"]],
            "decode shapes, best first": tuning.get("decode", [])[:6],
            "prefill shapes, best first": tuning.get("prefill", [])[:6],
            "decode attention": [self._with_shares(row) for row in kernels.get("decode", [])],
            "prefill attention": [kernels["prefill"]] if "prefill" in kernels else [],
            "movement": [row for row in kernels.get("movement", []) if "bytes_a_second" in row],
            "same tokens": report.get("same tokens", []),
            "whole decode steps": self._whole_steps(),
            "whole prefill": self._whole_prefill(),
        }

    def _with_shares(self, row: dict[str, Any]) -> dict[str, Any]:
        machine = self.report["machine"]
        sheet = machine["datasheet_bytes_a_second"]
        return {
            **row,
            "of a copy's": row["bytes_a_second"] / machine["copy_bytes_a_second"],
            "of the datasheet's": row["bytes_a_second"] / sheet if sheet else None,
        }

    def _whole_steps(self) -> list[dict[str, Any]]:
        """Beside ``generate`` and beside the floor: weights and KV once through the card's memory."""
        whole = self.report.get("whole model")
        if not whole:
            return []
        machine = self.report["machine"]
        bandwidth = machine["datasheet_bytes_a_second"] or machine["copy_bytes_a_second"]
        rows = []
        for batch, context in self.scale.end_to_end:
            point = f"{batch} x {context}"
            ours = whole["engine"]["decode_step_s"].get(point)
            plain = whole["engine without graphs"]["decode_step_s"].get(point)
            theirs = whole["generate"]["decode_step_s"].get(point)
            floor = (whole["weight_bytes"] + batch * context * whole["kv_bytes_a_token"]) / bandwidth
            rows.append(
                {
                    "batch x context": point,
                    "engine, ms": ours and 1e3 * ours,
                    "without graphs, ms": plain and 1e3 * plain,
                    "generate, ms": theirs and 1e3 * theirs,
                    "generate / engine": theirs / ours if ours and theirs else None,
                    "engine / floor": ours / floor if ours else None,
                }
            )
        return rows

    def _whole_prefill(self) -> list[dict[str, Any]]:
        whole = self.report.get("whole model")
        if not whole:
            return []
        tokens = self.scale.prompt_tokens
        ours, theirs = whole["engine"]["prefill_s"], whole["generate"]["prefill_s"]
        return [{"tokens": tokens, "engine, tokens/s": tokens / ours, "generate, tokens/s": tokens / theirs}]


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{name}={_cell(part)}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(_cell(part) for part in value)
    return str(value)

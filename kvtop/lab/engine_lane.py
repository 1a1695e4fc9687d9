"""A lane that is a whole engine: known traffic under one set of settings, on the simulated runner.

Drawn and counted through the same view as the live screen's, after each step. How long answers will be is known from
the traffic, so what is reserved for them can be told from what will never be filled.
"""

from __future__ import annotations

import numpy as np

from kvtop.engine.cost import CostModel
from kvtop.engine.events import EngineInfo
from kvtop.lab.holding import Holding
from kvtop.lab.lane import LaneFigures, SlotSums
from kvtop.lab.meter import Meter
from kvtop.lab.pool_picture import PoolPicture, picture_of_tables
from kvtop.lab.traffic import Traffic
from kvtop.lab.what_if import VirtualClock, answer_tokens, simulated_engine
from kvtop.view.pool_view import PoolView
from kvtop.view.waste import measure_waste


class EngineLane:
    """``advance`` computes a step; times in which nothing is due are skipped.

    Raises:
        Failure: the requests cannot be taken in.
    """

    note = ""

    def __init__(self, title: str, traffic: Traffic, info: EngineInfo, cost: CostModel) -> None:
        self.title = title
        self.reserving = info.policy != "paged"
        self.caching = info.prefix_cache and not self.reserving
        self.block_size = info.block_size
        self.num_slots = info.num_blocks * info.block_size
        self.ended = False
        self._requests = {request.id: request for request in traffic.requests}
        self._traffic = traffic
        self._clock = VirtualClock()
        self._meter = Meter(PoolView())
        self._engine = simulated_engine(info, traffic, cost, self._clock)
        self._sums = SlotSums()
        self._compute()

    @property
    def preemptions(self) -> int:
        return self._meter.view.counters.preemptions

    def advance(self) -> None:
        if self._engine.has_work:
            self._compute()
        else:
            self.ended = True

    def _compute(self) -> None:
        while (batch := self._engine.step()) is None:
            self._clock.spend(self._engine.seconds_to_next_arrival() or 0.0)
        self._meter.take(batch)
        waste = measure_waste(self._meter.view)
        assert waste is not None, "the first batch carries a snapshot"
        reserved = min(waste.reserved_unfilled, self._to_come()) if self.reserving else 0
        self._sums.add(self.num_slots, waste.held, waste.live, reserved, waste.external)

    def _to_come(self) -> int:
        return sum(holding.final_tokens - holding.tokens for holding in self._holdings())

    def _holdings(self) -> list[Holding]:
        return [
            Holding(
                row.name,
                row.admitted_order,
                row.table,
                len(row.table) * self.block_size,
                row.computed,
                max(row.computed, row.prompt_tokens + self._answer(row.request_id, row.index)),
            )
            for row in self._meter.view.with_status("running")
        ]

    def _answer(self, request_id: str, index: int) -> int:
        return answer_tokens(self._traffic, self._requests[request_id], index)

    def figures(self) -> LaneFigures:
        view, figures = self._meter.view, self._meter.figures()
        return LaneFigures(
            steps=figures["steps"],
            running=len(view.with_status("running")),
            waiting=len(view.with_status("waiting")) + len(view.with_status("swapped")),
            finished=figures["requests"],
            requests=len(self._requests),
            preemptions=figures["preemptions"],
            mean_running=figures["mean_running"],
            sums=self._sums.copy(),
        )

    def picture(self) -> PoolPicture:
        blocks = self._meter.view.blocks
        return picture_of_tables(
            holdings := self._holdings(),
            [np.array(holding.blocks, np.int64) for holding in holdings],
            blocks.num_blocks,
            self.block_size,
            reserving=self.reserving,
            stuck=self._stuck,
            cached=np.flatnonzero((blocks.ref_counts == 0) & (blocks.hashes != 0)),
        )

    @property
    def _stuck(self) -> bool:
        waste = measure_waste(self._meter.view)
        return waste is not None and waste.external > 0

    def waiting_names(self, most: int) -> list[str]:
        return [row.name for row in self._meter.view.with_status("waiting")[:most]]

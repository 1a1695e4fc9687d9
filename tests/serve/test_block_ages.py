"""How long blocks live and lie idle, on a clock that is moved by hand."""

from __future__ import annotations

from kvtop.engine.control import Inject
from kvtop.engine.requests import Request
from kvtop.serve.block_ages import BlockAges
from tests.engine.harness import Harness


def test_a_block_lives_from_its_allocation_to_its_eviction_and_idles_from_its_last_use() -> None:
    harness = Harness(num_blocks=4, block_size=4)
    ages = BlockAges(4)
    told: list[tuple[float, float]] = []

    def run(request: Request, began_s: float, seconds_a_step: float) -> None:
        harness.clock.now = began_s
        assert not harness.engine.apply(Inject(requests=[request])).error
        while harness.engine.has_work:
            batch = harness.engine.step()
            assert batch is not None
            told.extend(ages.take(batch))
            harness.clock.now += seconds_a_step

    run(Request(id="a", prompt_token_ids=list(range(8)), max_tokens=2), 100.0, 1.0)
    run(Request(id="b", prompt_token_ids=[*range(4), 9], max_tokens=2), 200.0, 1.0)  # hits the first block
    assert told == []
    run(Request(id="c", prompt_token_ids=[40 + i for i in range(13)], max_tokens=1), 300.0, 1.0)
    lived = sorted(told)
    assert lived == [(200.0, 99.0), (200.0, 199.0)], (
        "one was used by b again, let go at 201; the other by a alone, at 101"
    )

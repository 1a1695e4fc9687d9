"""SGLang, by its public source (0.5.23): pages and frames made by hand after it, none recorded from a real server."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kvtop.attach.exposition import PageReader
from kvtop.attach.kv_events import KvDecoder
from kvtop.attach.kv_sources import NoSources, sglang_sources
from kvtop.attach.server import Scrape, ServerWatch
from kvtop.attach.targets import parse_target
from kvtop.view.fleet import fleet_rows
from kvtop.view.residency import Residency, Scope, Tier

HOST = parse_target("gpu-1:30000")


def page(retracted: int = 0, generated: float = 0.0) -> str:
    """Two data-parallel ranks; a second tensor-parallel shard of rank 0 tells the same pool again."""

    def rank(dp: int, tp: int, usage: float, running: int) -> list[str]:
        labels = f'dp_rank="{dp}",engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="{tp}"'
        return [
            f"sglang:token_usage{{{labels}}} {usage}",
            f"sglang:num_running_reqs{{{labels}}} {running}",
            f"sglang:num_queue_reqs{{{labels}}} 2",
            f"sglang:max_total_num_tokens{{{labels}}} 64000",
            f"sglang:page_size{{{labels}}} 64",
            f"sglang:cache_hit_rate{{{labels}}} 0.25",
            f"sglang:num_retracted_requests_total{{{labels}}} {retracted}",
            f"sglang:generation_tokens_total{{{labels}}} {generated}",
        ]

    return "\n".join([*rank(0, 0, 0.5, 3), *rank(0, 1, 0.5, 3), *rank(1, 0, 0.75, 4), ""])


def test_a_row_a_data_parallel_rank_and_no_shard_counted_twice() -> None:
    watch = ServerWatch(HOST)
    watch.take(Scrape(HOST, 0, 0, 200, page()))
    watch.take(Scrape(HOST, 60, 60, 200, page(retracted=3, generated=600)))
    rows = fleet_rows([watch], 60)
    assert [(row.rank, row.usage, row.running) for row in rows] == [("0", 0.5, 3), ("1", 0.75, 4)]
    assert rows[0].preemptions_per_min == 3, "SGLang says retracted"
    assert rows[0].generated_tokens_per_s == 10
    assert (rows[0].num_blocks, rows[0].capacity_tokens, rows[0].block_size) == (1000, 64000, 64)
    assert rows[0].hit_rate == 0.25, "its own rate: it counts no look-ups"


def test_the_oldest_form_without_ranks_is_one_row() -> None:
    (reading,) = PageReader().read('sglang:num_running_reqs{name="google/gemma-2-9b-it"} 177.0\n')
    assert (reading.family, reading.rank, reading.gauges) == ("sglang", "0", {"running": 177.0})


def test_events_carry_negative_hashes_and_other_media() -> None:
    stored: dict[str, Any] = {
        "type": "BlockStored",
        "block_hashes": [-7, 8],
        "parent_block_hash": None,
        "token_ids": [1] * 128,
    }
    stored |= {"block_size": 64, "lora_id": None, "medium": "GPU", "session_id": "s"}
    copied = stored | {"block_hashes": [-7], "medium": "CPU_PINNED", "token_ids": [1] * 64}
    removed = {"type": "BlockRemoved", "block_hashes": [-7], "medium": "GPU"}
    batch = KvDecoder().decode(msgspec.msgpack.encode([1.0, [stored, copied, removed], 1]))
    residency = Residency()
    for event in batch.events:
        residency.apply(batch.rank or 0, event)
    assert {tier: set(view.copies) for tier, view in residency.tiers.items()} == {
        Tier(1, "GPU", 0): {8},
        Tier(1, "CPU_PINNED", 0): {-7},
    }
    assert [(node.hash, node.depth, node.media) for node in residency.walk(Scope(1, 0))] == [
        (-7, 0, ("CPU_PINNED",)),
        (8, 1, ("GPU",)),
    ]


def test_server_info_names_a_host_a_port_and_a_number_of_ranks() -> None:
    told = {"publisher": "zmq", "endpoint_host": "*", "endpoint_port_base": 5557, "dp_size": 2, "topic": "kv"}
    sources = sglang_sources({"kv_events": told | {"replay_endpoint_port_base": 5600}}, HOST)
    assert [(source.rank, source.endpoint, source.replay_endpoint, source.topic) for source in sources] == [
        (0, "tcp://gpu-1:5557", "tcp://gpu-1:5600", "kv"),
        (1, "tcp://gpu-1:5558", "tcp://gpu-1:5601", "kv"),
    ]


@pytest.mark.parametrize("answer", [{}, {"kv_events": None}, [], {"kv_events": {"endpoint_host": 1}}])
def test_a_server_without_events_says_so(answer: Any) -> None:
    with pytest.raises(NoSources):
        sglang_sources(answer, HOST)

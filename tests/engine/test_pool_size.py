"""What an engine says of its pool at the start."""

from __future__ import annotations

from kvtop.engine.pool_size import PoolSize, format_bytes, no_swap_warning

SMOLLM2 = 23_040
"""Bytes of KV a token."""


def test_the_report_says_blocks_bytes_a_token_and_how_many_longest_requests_fit() -> None:
    assert PoolSize(1024, 16, SMOLLM2).report(max_model_len=2050) == [
        "pool: 1,024 blocks of 16 tokens, 360 MiB (22.5 KiB a token)",
        "room for 16,384 tokens: at most 7 requests of max_model_len 2,050",
        "in blocks of 32 tokens it would be 512 blocks, 16,384 tokens, at most 7 such requests",
    ]
    assert PoolSize(100, 64, SMOLLM2).report(max_model_len=100)[1:] == [
        "room for 6,400 tokens: at most 50 requests of max_model_len 100",
        "in blocks of 16 tokens it would be 400 blocks, 6,400 tokens, at most 57 such requests",
    ]


def test_the_report_of_a_pool_smaller_than_one_longest_request_says_what_it_would_need() -> None:
    assert PoolSize(64, 16, SMOLLM2).report(max_model_len=8192)[1:] == [
        "room for 1,024 tokens: a request of max_model_len 8,192 would need 512 blocks, shorter ones fit",
        "in blocks of 32 tokens it would be 32 blocks, 1,024 tokens",
    ]


def test_a_pool_smaller_than_one_longest_request_warns() -> None:
    assert PoolSize(128, 16, SMOLLM2).warning(2048) == ""
    assert "holds 2,032 tokens, less than one request of max_model_len 2,048" in PoolSize(127, 16, SMOLLM2).warning(
        2048
    )


def test_preemption_by_swap_without_swap_space_warns() -> None:
    assert "there is no swap space: what is preempted is recomputed; give --swap-memory" in no_swap_warning("swap", 0)
    assert no_swap_warning("swap", 1) == no_swap_warning("recompute", 0) == ""


def test_bytes_are_written_with_at_most_one_decimal() -> None:
    written = [format_bytes(count) for count in (0, 1023, 1024, 23_040, 3 << 19, 5 << 50)]
    assert written == ["0 B", "1023 B", "1 KiB", "22.5 KiB", "1.5 MiB", "5120 TiB"]

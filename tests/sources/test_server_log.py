"""What a waiting person is told of a vLLM's log."""

from kvtop.sources.server_log import first_fault, progress_of, telling

LOG = [
    "(APIServer pid=217) INFO 11-29 16:32:44 [api_utils.py:286] non-default args: {'host': '127.0.0.1'}",
    "(EngineCore pid=22) INFO 11-29 16:32:52 [core.py:133] Initializing a V1 engine (v0.32.0) with config: model='x'",
    "(Worker pid=23) INFO 11-29 16:33:00 [cpu_model_runner.py:68] Starting to load model \x1b]0;x\x07...",
    "(APIServer pid=217) INFO 11-29 16:33:02 [launcher.py:195] Route: /health, Methods: GET",
    "------------",
]


def test_lines_that_tell_something_are_told_without_prefix_and_clean() -> None:
    assert telling([*LOG, "INFO:     Application startup complete."]) == [
        "Starting to load model ␛]0;x␇...",
        "Application startup complete.",
    ]
    assert telling(LOG[:2]) == telling([]) == []


def test_a_bar_that_a_line_draws_is_read() -> None:
    assert progress_of("Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01]") == (50, 100)
    assert progress_of("Capturing CUDA graphs: 900% ") == (100, 100)
    assert progress_of("GPU memory utilisation 0.92") == (0, 0)


def test_of_a_failure_the_first_fault_is_told_not_what_came_of_it() -> None:
    log = [
        "(EngineCore pid=3) ERROR 11-29 17:32:50 [core.py:9] ValueError: no room for 41 blocks",
        "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above.",
        "resource_tracker: There appear to be 1 leaked shared_memory objects",
    ]
    assert first_fault(log) == "ValueError: no room for 41 blocks"
    assert first_fault(LOG) == ""

"""What a waiting person is told of a vLLM's log."""

from kvtop.sources.server_log import newest_words, progress_of

LOG = [
    "(APIServer pid=217) INFO 11-29 16:32:44 [api_utils.py:286] non-default args: {'host': '127.0.0.1'}",
    "(EngineCore pid=22) INFO 11-29 16:32:52 [core.py:133] Initializing a V1 engine (v0.32.0) with config: model='x'",
    "(Worker pid=23) INFO 11-29 16:33:00 [cpu_model_runner.py:68] Starting to load model \x1b]0;x\x07...",
    "(APIServer pid=217) INFO 11-29 16:33:02 [launcher.py:195] Route: /health, Methods: GET",
    "------------",
]


def test_the_newest_line_that_tells_something_is_told_without_prefix_and_clean() -> None:
    assert newest_words(LOG) == "Starting to load model ␛]0;x␇..."
    assert newest_words(LOG[:2]) == newest_words([]) == ""
    assert newest_words(["INFO:     Application startup complete."]) == "Application startup complete."


def test_a_bar_that_a_line_draws_is_read() -> None:
    assert progress_of("Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01]") == (50, 100)
    assert progress_of("Capturing CUDA graphs: 900% ") == (100, 100)
    assert progress_of("GPU memory utilisation 0.92") == (0, 0)

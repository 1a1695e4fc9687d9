"""Schemathesis on our own OpenAPI description: thousands of good and bad calls, and what is promised of each holds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.serve.served import Served
from tests.sources.test_embedded import ODD_ENGINE

SECONDS = os.environ.get("SCHEMATHESIS_SECONDS", "60")
CHECKS = (
    *("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance"),
    *("negative_data_rejection", "unsupported_method"),
)


@pytest.mark.slow
def test_no_call_that_a_fuzzer_makes_of_the_description_is_answered_otherwise_than_described(tmp_path: Path) -> None:
    with Served((sys.executable, ODD_ENGINE, "quick"), num_blocks=64, max_model_len=256) as served:
        flags = ("--max-time", SECONDS, "--request-timeout", "30", "--phases", "examples,coverage,fuzzing")
        done = subprocess.run(
            [
                *(os.environ["SCHEMATHESIS"], "run", f"{served.url}/openapi.json", "--no-color"),
                *("--checks", ",".join(CHECKS), "--continue-on-failure", *flags),
            ],
            capture_output=True,
            text=True,
            cwd=tmp_path,  # it leaves files where it runs
        )
        print(done.stdout[-6000:])
        assert done.returncode == 0, done.stdout[-6000:]
        assert served.http.get("/health").status_code == 200
        served.until(lambda: served.metric("vllm:num_requests_running") == 0, "a request was left behind")
        assert served.metric("vllm:kv_cache_usage_perc") == 0

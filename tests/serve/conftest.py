"""The schema fuzzer is no dependency: its test is there when SCHEMATHESIS names the program of an environment with it
(`pip install schemathesis` in one of its own; it loads a plug-in into every pytest beside it)."""

import os

collect_ignore = [] if os.environ.get("SCHEMATHESIS") else ["test_fuzzed.py"]

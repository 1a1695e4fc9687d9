"""A real vLLM is no dependency: its test is there when VLLM_PYTHON names the Python of an environment with one."""

import os

collect_ignore = [] if os.environ.get("VLLM_PYTHON") else ["test_real_vllm.py"]

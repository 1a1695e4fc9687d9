"""The layout holds: imports run one way, and what must not be a package is none."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

MODEL_SIDE = {
    *("assembly", "compatibility", "detokenizer", "hook", "kv_cache", "loading", "memory", "random_streams", "runner"),
    *(
        "checkpoint",
        "flat_decoder",
        "forward_choice",
        "graph_forward",
        "move_stream",
        "packing",
        "sampler",
        "step_inputs",
        "token_choice",
    ),
}
"""Modules of kvtop/engine that may need NumPy or torch. All others are the core and the process around it."""


def modules(package: str) -> list[str]:
    folder = ROOT / package.replace(".", "/")
    names = (path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".") for path in folder.rglob("*.py"))
    return sorted(name.removesuffix(".__init__") for name in names if not name.endswith("__main__"))


def loaded_by(names: list[str], watched: list[str]) -> list[str]:
    """Which of ``watched`` are imported when ``names`` are."""
    code = f"import sys, importlib, json\nfor name in {names!r}: importlib.import_module(name)\n"
    code += f"print(json.dumps([name for name in {watched!r} if name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)
    return found


def test_the_engine_s_core_imports_the_standard_library_and_msgspec_only() -> None:
    core = [name for name in modules("kvtop.engine") if name.rpartition(".")[2] not in MODEL_SIDE]
    assert "kvtop.engine.scheduler" in core
    assert loaded_by(core, ["torch", "transformers", "numpy", "textual", "rich", "psutil", "zmq"]) == []


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("kvtop.view", ["torch", "transformers", "textual"]),
        ("kvtop.sources", ["torch", "transformers", "textual"]),
        ("kvtop.commands", ["torch", "transformers", "textual"]),
        ("kvtop.doctor", ["torch", "transformers", "textual"]),
        ("kvtop.models", ["torch", "transformers", "textual", "numpy"]),
        ("kvtop.app", ["torch", "transformers"]),
        ("kvtop.serve", ["torch", "transformers", "textual"]),
    ],
)
def test_no_part_reaches_for_what_belongs_to_another(package: str, forbidden: list[str]) -> None:
    assert loaded_by(modules(package), forbidden) == []


def test_only_the_app_imports_textual() -> None:
    outside = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "kvtop").rglob("*.py")
        if re.search(r"^\s*(?:import|from) textual\b", path.read_text(), re.MULTILINE)
    ]
    assert outside
    assert all(path.startswith("kvtop/app/") for path in outside), outside


def test_only_the_server_of_pages_imports_what_a_page_needs() -> None:
    outside = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "kvtop").rglob("*.py")
        if re.search(r"^\s*(?:import|from) (?:textual_serve|aiohttp)\b", path.read_text(), re.MULTILINE)
    ]
    assert outside
    assert all(path.startswith("kvtop/web/") for path in outside), outside


def test_only_the_server_imports_what_serving_needs() -> None:
    outside = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "kvtop").rglob("*.py")
        if any(f"{verb} {name}" in path.read_text() for verb in ("import", "from") for name in ("starlette", "uvicorn"))
    ]
    assert outside
    assert all(path.startswith("kvtop/serve/") for path in outside), outside


def test_the_links_at_the_top_lead_into_the_package() -> None:
    for name in ("engine", "kernels", "themes"):
        assert (ROOT / name).is_symlink()
        assert (ROOT / name).readlink() == Path("kvtop") / name


def test_the_kernels_cannot_be_taken_for_the_package_transformers_imports() -> None:
    assert not (ROOT / "kvtop" / "kernels" / "__init__.py").exists()
    assert not any("__version__" in path.read_text() for path in (ROOT / "kvtop" / "kernels").rglob("*.py"))
    code = "from transformers.utils import is_kernels_available; print(is_kernels_available())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.stdout == "False\n", done.stderr

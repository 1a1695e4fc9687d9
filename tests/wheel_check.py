"""Builds the wheel and tries it where a watcher would install it: a clean environment without torch.

A package without __init__.py, a theme, a linked folder: each is easily lost or doubled on the way into a wheel, and a
checkout never shows it. Run as a program by `make test`; it takes half a minute, most of it pip's.
"""

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Runs inside the clean environment. Modules that need the extra may fail on its packages, and on nothing else.
TRY_IT = """
import importlib, importlib.resources, importlib.util, sys
assert importlib.util.find_spec("torch") is None, "torch was installed"
extra = set("accelerate filelock gguf huggingface_hub safetensors tokenizers torch transformers triton".split())
extra |= {"starlette", "uvicorn", "aiohttp", "textual_serve"}
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        assert (error.name or "").partition(".")[0] in extra, f"{name}: {error}"
for base in ("kvtop.engine.events", "kvtop.engine.requests", "kvtop.settings", "kvtop.models.resolve"):
    assert base in sys.modules, f"{base} needs the [engine] extra"
themes = [file.name for file in importlib.resources.files("kvtop.themes").iterdir() if file.name.endswith(".toml")]
assert {"dark.toml", "light.toml"} <= set(themes), themes
"""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="kvtop-wheel-") as folder:
        wheel = build_wheel(Path(folder))
        modules = check_contents(wheel)
        python = clean_environment(Path(folder) / "venv", wheel)
        # Not from the checkout, or its own files would be imported.
        run(python, "-c", TRY_IT, *modules, cwd=folder)
        text = run(python.parent / "kvtop", "--help", cwd=folder)
        assert "kvtop live" in text or "live" in text, text
        run(python, "-m", "kvtop", "--help", cwd=folder)
    print(f"wheel ok: {len(modules)} modules imported without torch")


def build_wheel(folder: Path) -> Path:
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
    (wheel,) = folder.glob("kvtop_live-*.whl")
    return wheel


def check_contents(wheel: Path) -> list[str]:
    """Every tracked or new file of kvtop/ is in the wheel, nothing else is; returns the names of its modules."""
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    there = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "kvtop").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert packed == there, f"lost: {sorted(there - packed)}; unexpected: {sorted(packed - there)}"
    assert "kvtop/kernels/__init__.py" not in packed, "kvtop/kernels must have no __init__.py (CONTRIBUTING.md)"
    modules = [name.removesuffix(".py").removesuffix("/__init__") for name in packed if name.endswith(".py")]
    return sorted(name.replace("/", ".") for name in modules if not name.endswith("__main__"))


def clean_environment(folder: Path, wheel: Path) -> Path:
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel)
    return python


def run(*command: str | Path, cwd: str | Path = ROOT) -> str:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=environ, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command[:4]))} ...: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()

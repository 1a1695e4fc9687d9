"""The engine's packages: what is missing, too old, too new or broken is said with what to install."""

import builtins
import importlib
from collections.abc import Callable
from importlib import metadata
from typing import Any

import pytest
from packaging.requirements import Requirement

from kvtop.doctor import libraries
from kvtop.doctor.finding import Finding

WANTED = ["torch>=2.11,<2.16", "transformers>=5.19", "triton>=3.6", "gguf>=0.17", "filelock>=3.16"]
GOOD = {"torch": "2.13.0+cpu", "transformers": "5.24.0", "triton": "3.9.0", "gguf": "0.19.0", "filelock": "4.3.1"}

Examine = Callable[..., dict[str, Finding]]


@pytest.fixture
def examine(monkeypatch: pytest.MonkeyPatch) -> Examine:
    """The findings by name where ``GOOD`` is installed but for what is given; an Exception breaks the import."""

    def with_versions(**others: str | Exception | None) -> dict[str, Finding]:
        def version(name: str) -> str:
            found = {**GOOD, **others}[name]
            if found is None:
                raise metadata.PackageNotFoundError(name)
            return found if isinstance(found, str) else GOOD[name]

        def import_module(name: str) -> Any:
            if isinstance(error := others.get(name), Exception):
                raise error
            return builtins

        monkeypatch.setattr(libraries, "engine_requirements", lambda: [Requirement(line) for line in WANTED])
        monkeypatch.setattr(metadata, "version", version)
        monkeypatch.setattr(importlib, "import_module", import_module)
        return {finding.name: finding for finding in libraries.library_findings()}

    return with_versions


def test_versions_in_their_ranges_are_well(examine: Examine) -> None:
    found = examine()
    assert {finding.state for finding in found.values()} == {"ok"}
    assert {finding.advice for finding in found.values()} == {""}
    assert found["torch"].value == "2.13.0+cpu (supported: <2.16,>=2.11)"
    assert found["engine extra"].value == "gguf 0.19.0, filelock 4.3.1"


@pytest.mark.parametrize("version", ["2.10.1", "2.16.0", "2.17.0.dev20260101"])
def test_a_torch_out_of_range_is_a_warning_that_says_which_would_do(version: str, examine: Examine) -> None:
    torch = examine(torch=version)["torch"]
    assert (torch.state, torch.advice) == ("warn", "pip install 'torch<2.16,>=2.11'")
    assert torch.value == f"{version} (supported: <2.16,>=2.11)"


def test_a_watcher_s_install_fails_on_torch_and_transformers_and_names_the_extra(examine: Examine) -> None:
    found = examine(torch=None, transformers=None, triton=None, gguf=None, filelock=None)
    assert {name: finding.state for name, finding in found.items()} == {
        "torch": "fail", "transformers": "fail", "triton": "warn", "engine extra": "warn",
    }  # fmt: skip
    assert {finding.advice for finding in found.values()} == {"pip install 'kvtop-live[engine]'"}
    assert found["torch"].value == "not installed (supported: <2.16,>=2.11)"
    assert found["engine extra"].value == "not installed: gguf, filelock"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError("libcudart.so.13: cannot open\nmore"), "cannot be imported: OSError: libcudart.so.13: cannot open"),
        (ModuleNotFoundError("No module named 'sympy'", name="sympy"), "cannot be imported: sympy is not installed"),
    ],
)
def test_a_torch_that_cannot_be_imported_fails_with_the_reason(error: Exception, words: str, examine: Examine) -> None:
    torch = examine(torch=error)["torch"]
    assert torch.state == "fail" and torch.value.endswith(words) and torch.advice.startswith("pip install")


def test_an_old_package_of_the_extra_is_named_with_its_range(examine: Examine) -> None:
    extra = examine(gguf="0.10")["engine extra"]
    assert (extra.state, extra.value) == ("warn", "gguf 0.10 (supported: >=0.17)")
    assert extra.advice == "pip install 'kvtop-live[engine]' --upgrade"


def test_the_ranges_are_those_of_the_project_s_own_extra() -> None:
    names = [need.name for need in libraries.engine_requirements()]
    assert set(libraries.NEEDED) <= set(names)
    assert "textual" not in names and "pytest" not in names


def test_a_checkout_that_is_not_installed_says_that_the_ranges_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)
    found = {finding.name: finding for finding in libraries.library_findings()}
    assert (found["versions"].state, found["torch"].state) == ("warn", "ok")
    assert found["torch"].value.startswith("2.")

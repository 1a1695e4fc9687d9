"""Are the engine's packages here, in versions kvtop supports, and can they be imported?

The supported ranges are those of the installed distribution, so they are written down once, in pyproject.toml. torch
and transformers are really imported: a package that is listed and broken is worse than none.
"""

from __future__ import annotations

import importlib
from importlib import metadata

from packaging.requirements import Requirement

from kvtop.doctor.finding import Finding, State, first_line

NEEDED = ("torch", "transformers")
"""What no model runs without."""
SHOWN = (*NEEDED, "triton")
INSTALL = "pip install 'kvtop-live[engine]'"


def engine_requirements() -> list[Requirement]:
    """What the extra ``[engine]`` asks for on this platform; empty when kvtop is not installed as a distribution."""
    try:
        lines = metadata.requires("kvtop-live") or []
    except metadata.PackageNotFoundError:
        return []
    wanted = [Requirement(line) for line in lines]
    return [need for need in wanted if need.marker and need.marker.evaluate({"extra": "engine"})]


def library_findings() -> list[Finding]:
    """A finding each for torch, transformers and Triton, and one for the rest of the extra."""
    wanted = engine_requirements()
    if not wanted:
        unknown = "kvtop is not installed as a package, so the supported versions are unknown"
        return [Finding("versions", "warn", unknown, INSTALL), *(_importable(name, "") for name in NEEDED)]
    shown = [_shown_library(need) for need in wanted if need.name in SHOWN]
    return [*shown, _other_libraries([need for need in wanted if need.name not in SHOWN])]


def _shown_library(need: Requirement) -> Finding:
    version = _version(need.name)
    if version is None:
        state: State = "fail" if need.name in NEEDED else "warn"
        return Finding(need.name, state, f"not installed (supported: {need.specifier})", INSTALL)
    known = f"{version} (supported: {need.specifier})"
    if not need.specifier.contains(version, prereleases=True):
        return Finding(need.name, "warn", known, f"pip install '{need.name}{need.specifier}'")
    return _importable(need.name, known) if need.name in NEEDED else Finding(need.name, "ok", known)


def _importable(name: str, known: str) -> Finding:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = "not installed" if error.name == name else f"cannot be imported: {error.name} is not installed"
        return Finding(name, "fail", f"{known} {missing}".strip(), INSTALL)
    except Exception as error:  # a broken installation fails in many ways: a missing library is an OSError
        broken = f"{known} cannot be imported: {first_line(error)}".strip()
        return Finding(name, "fail", broken, f"pip install --force-reinstall {name}")
    return Finding(name, "ok", known or str(getattr(module, "__version__", "–")))


def _other_libraries(needs: list[Requirement]) -> Finding:
    found = {need: _version(need.name) for need in needs}
    missing = [need.name for need, version in found.items() if version is None]
    if missing:
        return Finding("engine extra", "warn", f"not installed: {', '.join(missing)}", INSTALL)
    old = [
        f"{need.name} {version} (supported: {need.specifier})"
        for need, version in found.items()
        if version is not None and not need.specifier.contains(version, prereleases=True)
    ]
    if old:
        return Finding("engine extra", "warn", ", ".join(old), f"{INSTALL} --upgrade")
    return Finding("engine extra", "ok", ", ".join(f"{need.name} {version}" for need, version in found.items()))


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None

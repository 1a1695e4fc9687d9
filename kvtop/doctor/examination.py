"""The whole examination: every check in the order a person would go through them.

A check that needs torch is left out when torch cannot be imported; its line says so. Findings are yielded as they are
made, since some take a second.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping

from kvtop import __version__
from kvtop.doctor import bandwidth
from kvtop.doctor.device import chosen_device, device_finding
from kvtop.doctor.finding import Finding
from kvtop.doctor.kernels import kernels_finding, linears_finding
from kvtop.doctor.libraries import library_findings
from kvtop.doctor.models import missing_bytes, model_finding, store_finding
from kvtop.doctor.settings import settings_findings
from kvtop.doctor.terminal import colours_finding, size_finding, terminal_size
from kvtop.models.catalogue import KNOWN
from kvtop.models.progress import Report
from kvtop.models.resolve import model_store
from kvtop.settings import Settings


def examine(settings: Settings, environ: Mapping[str, str], report: Report) -> Iterator[Finding]:
    """Look at this machine as an engine with ``settings`` would find it. ``report`` is told what is being looked at."""
    yield Finding(
        "kvtop", "ok", f"{__version__}, Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    )
    report("importing torch and transformers", 0, 0)
    libraries = library_findings()
    yield from libraries
    has_torch = not any(finding.name == "torch" and finding.state == "fail" for finding in libraries)
    yield from _machine(settings, has_torch, report)
    store = model_store(settings["model_dir"])
    yield model_finding(settings["model"], store)
    yield store_finding(store, missing_bytes(settings["model"], store))
    yield colours_finding(environ)
    yield size_finding(terminal_size())
    yield from settings_findings(settings)


def engine_can_run(findings: list[Finding]) -> bool:
    """Whether nothing was found that keeps an engine from running."""
    return not any(finding.state == "fail" for finding in findings)


def _machine(settings: Settings, has_torch: bool, report: Report) -> Iterator[Finding]:
    known = KNOWN.get(settings["model"])
    weight_bytes = (known.weight_bytes if known else 0) * (2 if settings["dtype"] == "float32" else 1)
    if has_torch:
        yield device_finding(settings["device"])
        device = chosen_device(settings["device"])
        report("measuring memory bandwidth", 0, 0)
        measure = bandwidth.cpu_finding if device.type == "cpu" else bandwidth.gpu_finding
        yield measure(weight_bytes)
        report("testing the kernels", 0, 0)
        yield kernels_finding(device, settings["max_num_seqs"])
        yield linears_finding(device)
        return
    for name in ("device", "kernels", "linears"):
        yield Finding(name, "warn", "–", "needs torch, see above")
    report("measuring memory bandwidth", 0, 0)
    yield bandwidth.cpu_finding(weight_bytes)

"""The door into vLLM: an entry point of ``vllm.general_plugins``, which vLLM calls in every process it starts.

Does nothing and imports nothing of vLLM unless KVTOP_EXPORT is set: to 1, or to an address such as tcp://10.0.0.5:5580
(the rank is added to its port). Then the scheduler's calls are wrapped, so that the exporter looks when they return.
Whatever goes wrong is one line in the server's log; the server goes on.
"""

from __future__ import annotations

import functools
import logging
import os
import time
import uuid
from typing import Any

from kvtop.exporter.wire import DEFAULT_PORT, VERSION, Speaker

VARIABLE = "KVTOP_EXPORT"
_LOG = logging.getLogger("vllm.kvtop")
_ATTRIBUTE = "_kvtop_exporter"


def register() -> None:
    """What vLLM calls."""
    wanted = os.environ.get(VARIABLE, "").strip()
    if wanted in ("", "0", "off"):
        return
    try:
        from vllm.v1.core.sched.scheduler import Scheduler
        from vllm.version import __version__

        from kvtop.exporter.vllm_reader import check_version

        check_version(__version__)
        wrap(Scheduler, address_of(wanted), __version__)
    except Exception as error:
        _LOG.warning("kvtop: the exporter is off: %s", error)


def address_of(wanted: str) -> str:
    """The address for rank 0.

    Raises:
        ValueError: it is neither 1 nor an address with a port.
    """
    if wanted in ("1", "on"):
        return f"tcp://127.0.0.1:{DEFAULT_PORT}"
    host, _, port = wanted.removeprefix("tcp://").rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"{VARIABLE}={wanted!r}: expected 1, or an address such as tcp://127.0.0.1:{DEFAULT_PORT}")
    return f"tcp://{host}:{port}"


def wrap(scheduler_class: Any, address: str, version: str) -> None:
    """Let the exporter look whenever one of these calls of a scheduler returns. Wrapping twice is wrapping once."""
    if getattr(scheduler_class, _ATTRIBUTE, None) is not None:
        return
    schedule, update = scheduler_class.schedule, scheduler_class.update_from_output
    preempt_request = scheduler_class._preempt_request

    @functools.wraps(schedule)
    def schedule_and_look(self: Any, *args: Any, **kwargs: Any) -> Any:
        exporter = _exporter_of(self, address, version)
        if exporter is None:
            return schedule(self, *args, **kwargs)
        exporter.before_schedule()
        began_s = time.monotonic()
        result = schedule(self, *args, **kwargs)
        exporter.after_schedule(time.monotonic() - began_s)
        return result

    @functools.wraps(update)
    def update_and_look(self: Any, *args: Any, **kwargs: Any) -> Any:
        began_s = time.monotonic()
        result = update(self, *args, **kwargs)
        exporter = getattr(self, _ATTRIBUTE, None)
        if exporter:
            exporter.after_update(time.monotonic() - began_s)
        return result

    @functools.wraps(preempt_request)
    def preempt_and_look(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = preempt_request(self, *args, **kwargs)
        exporter = getattr(self, _ATTRIBUTE, None)
        if exporter:
            exporter.preempted()
        return result

    scheduler_class.schedule = schedule_and_look
    scheduler_class.update_from_output = update_and_look
    scheduler_class._preempt_request = preempt_and_look
    setattr(scheduler_class, _ATTRIBUTE, False)


def _exporter_of(scheduler: Any, address: str, version: str) -> Any:
    """The scheduler's exporter, made at its first step; None where it cannot be made."""
    exporter = scheduler.__dict__.get(_ATTRIBUTE)
    if exporter is None:
        try:
            exporter = _make(scheduler, address, version)
        except Exception as error:
            _LOG.warning("kvtop: the exporter is off: %s", error)
            exporter = False
        scheduler.__dict__[_ATTRIBUTE] = exporter
    return exporter or None


def _make(scheduler: Any, address: str, version: str) -> Any:
    from kvtop.exporter.export import Exporter
    from kvtop.exporter.vllm_reader import VllmReader, info_of

    rank = int(scheduler.vllm_config.parallel_config.data_parallel_index)
    host, _, port = address.rpartition(":")
    ours = f"{host}:{int(port) + rank if int(port) else 0}"
    speaker = Speaker(
        version=VERSION, session=uuid.uuid4().hex, rank=rank, server=f"vLLM {version}", dropped=0, spent_s=0.0
    )
    exporter = Exporter(VllmReader(scheduler), info_of(scheduler, version), ours, speaker, _LOG)
    _LOG.info("kvtop: true block tables of rank %d at %s", rank, exporter.outlet.address)
    return exporter

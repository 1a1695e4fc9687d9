"""The door into vLLM: an entry point of ``vllm.general_plugins``, which vLLM calls in every process it starts.

Does nothing and imports nothing of vLLM unless KVTOP_EXPORT is set: to 1, or to an address such as tcp://10.0.0.5:5580
(the rank is added to its port). Then the scheduler's calls are wrapped, so that the exporter looks when they return.
With KVTOP_CONTROL=1 too, this user's controllers may hold it between two steps. Whatever goes wrong is one line in the
server's log; the server goes on.
"""

from __future__ import annotations

import functools
import logging
import os
import time
import uuid
from typing import Any

from kvtop.exporter.vllm_reader import scheduled_tokens, scheduling_nothing
from kvtop.exporter.wire import DEFAULT_PORT, VERSION, Speaker

VARIABLE = "KVTOP_EXPORT"
CONTROL_VARIABLE = "KVTOP_CONTROL"
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
        ValueError: it is neither 1 nor an address with a port, nor a socket in the file system.
    """
    if wanted in ("1", "on"):
        return f"tcp://127.0.0.1:{DEFAULT_PORT}"
    if wanted.startswith("ipc:///"):
        return wanted
    host, _, port = wanted.removeprefix("tcp://").rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"{VARIABLE}={wanted!r}: expected 1, or an address such as tcp://127.0.0.1:{DEFAULT_PORT}")
    return f"tcp://{host}:{port}"


def wrap(scheduler_class: Any, address: str, version: str) -> None:
    """Let the exporter look whenever one of these calls of a scheduler returns. Wrapping twice is wrapping once."""
    if getattr(scheduler_class, _ATTRIBUTE, None) is not None:
        return
    init, schedule, update = scheduler_class.__init__, scheduler_class.schedule, scheduler_class.update_from_output
    preempt_request = scheduler_class._preempt_request

    @functools.wraps(init)
    def init_and_begin(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        exporter = _exporter_of(self, address, version)
        if exporter:
            exporter.begin()

    @functools.wraps(schedule)
    def schedule_and_look(self: Any, *args: Any, **kwargs: Any) -> Any:
        exporter = getattr(self, _ATTRIBUTE, None)
        if not exporter:
            return schedule(self, *args, **kwargs)
        exporter.before_schedule()
        if not exporter.may_schedule():
            with scheduling_nothing(self):
                return schedule(self, *args, **kwargs)
        began_s = time.monotonic()
        result = schedule(self, *args, **kwargs)
        exporter.after_schedule(time.monotonic() - began_s, scheduled_tokens(result) > 0)
        return result

    @functools.wraps(update)
    def update_and_look(self: Any, *args: Any, **kwargs: Any) -> Any:
        began_s = time.monotonic()
        result = update(self, *args, **kwargs)
        exporter = getattr(self, _ATTRIBUTE, None)
        if exporter:
            output = args[0] if args else kwargs.get("scheduler_output")
            exporter.after_update(time.monotonic() - began_s, scheduled_tokens(output) > 0)
        return result

    @functools.wraps(preempt_request)
    def preempt_and_look(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = preempt_request(self, *args, **kwargs)
        exporter = getattr(self, _ATTRIBUTE, None)
        if exporter:
            exporter.preempted()
        return result

    scheduler_class.__init__ = init_and_begin
    scheduler_class.schedule = schedule_and_look
    scheduler_class.update_from_output = update_and_look
    scheduler_class._preempt_request = preempt_and_look
    setattr(scheduler_class, _ATTRIBUTE, False)


def _exporter_of(scheduler: Any, address: str, version: str) -> Any:
    """The scheduler's exporter, made once it is asked for; None where it cannot be made."""
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
    ours = _of_rank(address, rank)
    speaker = Speaker(
        version=VERSION, session=uuid.uuid4().hex, rank=rank, server=f"vLLM {version}", dropped=0, spent_s=0.0
    )
    exporter = Exporter(VllmReader(scheduler), info_of(scheduler, version), ours, speaker, _LOG)
    _LOG.info("kvtop: true block tables of rank %d at %s", rank, exporter.outlet.address)
    if os.environ.get(CONTROL_VARIABLE, "").strip().lower() in ("1", "true", "yes", "on"):
        _open_door(scheduler, exporter, speaker.session)
    return exporter


def _of_rank(address: str, rank: int) -> str:
    """A rank has a port or a socket of its own; port 0 is any that is free."""
    if address.startswith("ipc://"):
        return f"{address}-{rank}"
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + rank if int(port) else 0}"


def _open_door(scheduler: Any, exporter: Any, session: str) -> None:
    """Let this user's controllers hold the scheduler. Where that cannot be, the exporter still tells."""
    from kvtop.exporter.door import Door
    from kvtop.exporter.private import control_path

    try:
        with scheduling_nothing(scheduler):
            pass  # it can be done
        door = exporter.door = Door(control_path(exporter.outlet.address), session, exporter.hold, _LOG)
    except (OSError, AttributeError) as error:
        _LOG.warning("kvtop: nobody can pause this server: %s", error)
    else:
        _LOG.info("kvtop: may be paused and stepped by this user at %s", door.path)

"""Watching a source without a screen: what a dashboard does, up to the moment one waits for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from kvtop.engine.control import AnyCommand, BatchMessage, Reply, Status, TakeSnapshot
from kvtop.failure import Failure
from kvtop.sources.source import Message, Source
from kvtop.view.pool_view import PoolView

POLL_SECONDS = 0.01


def watch_until(
    source: Source,
    commands: Sequence[AnyCommand],
    done: Callable[[PoolView], bool],
    report: Callable[[str, float, float], None],
    observe: Callable[[PoolView], object] = lambda view: None,
) -> PoolView:
    """Start ``source``, send ``commands`` and watch; the view as it is after the first batch for which ``done`` holds.

    ``report`` is told what loads, ``observe`` is called after every batch. The source is left running.

    Raises:
        Failure: the engine failed, ended, or refused a command.
    """
    source.start()
    for ticket, command in enumerate(commands, start=1):
        source.send(msgspec.structs.replace(command, ticket=ticket))
    view = PoolView()
    asked = False
    while True:
        messages = source.poll()
        for message in messages:
            if isinstance(message, BatchMessage):
                view.apply(message.batch)
                observe(view)
                if view.info is not None and done(view):
                    return view
            else:
                _take_word(message, report)
        missing = view.incomplete_since is not None
        if missing and not asked:
            source.send(TakeSnapshot())
        asked = missing
        if not messages:
            time.sleep(POLL_SECONDS)


def _take_word(message: Message, report: Callable[[str, float, float], None]) -> None:
    if isinstance(message, Reply) and message.error:
        raise Failure(message.error)
    if isinstance(message, Status):
        if message.state in ("failed", "stopped"):
            failure = Failure(message.detail or f"the engine has {message.state}")
            failure.add_note(message.traceback)  # seen under --debug
            raise failure
        if message.state == "loading":
            report(message.detail, message.done, message.total)

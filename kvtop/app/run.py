"""The way into the screen: start the source, run the app, leave the terminal as it was and nothing running.

Signals end the app the way ``q`` does, with the exit status a shell expects (128 + signal). When the terminal itself is
gone there is nothing to restore and writes may hang, so a watchdog ends the process in any case.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time

from textual.app import App

from kvtop.app.app import AppSettings, KvtopApp
from kvtop.sources.source import Source

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
LEAVE_WITHIN_S = 2.0
NICE = 5
"""How far the screen stands back behind the engine, so that a step of the engine is not kept waiting for a frame longer
than need be (`python -m benchmarks.dashboard_cost` says what the screen costs)."""


def run_app(source: Source, settings: AppSettings) -> int:
    """Show ``source`` until somebody quits; it is started here and closed here.

    Returns the exit status: 0, 130 when loading was cancelled, 128 + the number of the signal that ended it.
    """
    source.start()
    _stand_back()
    try:
        return run_to_the_end(KvtopApp(source, settings))
    finally:
        source.close()


def run_to_the_end(app: App[None]) -> int:
    """Run an app until somebody quits, or a signal ends it; the exit status."""
    asyncio.run(_run(app))
    return app.return_code or 0


def _stand_back() -> None:
    """Let the engine, which has started, go first where both want a core."""
    if hasattr(os, "nice"):  # not on Windows
        os.nice(NICE)


async def _run(app: App[None]) -> None:
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, _leave, app, number)
    try:
        await app.run_async()
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


def _leave(app: App[None], number: signal.Signals) -> None:
    threading.Thread(target=_end_anyway, args=(128 + number,), name="watchdog", daemon=True).start()
    app.exit(return_code=128 + number)


def _end_anyway(status: int) -> None:
    """End the process when leaving takes too long. The engine's process ends with the connection to this one."""
    time.sleep(LEAVE_WITHIN_S)
    os._exit(status)

"""The way into the screens over watched servers: start the fleet, run the app, leave nothing running."""

from __future__ import annotations

from kvtop.app.run import run_to_the_end
from kvtop.app.shell import ShellSettings
from kvtop.app.watch.app import WatchApp
from kvtop.attach.fleet import Fleet
from kvtop.attach.replayed_fleet import ReplayedFleet
from kvtop.view.slo import Slo


def run_watch(fleet: Fleet | ReplayedFleet, slo: Slo, settings: ShellSettings) -> int:
    """Show ``fleet`` until somebody quits; it is started here and closed here. Returns the exit status."""
    fleet.start()
    try:
        return run_to_the_end(WatchApp(fleet, slo, settings))
    finally:
        fleet.close()

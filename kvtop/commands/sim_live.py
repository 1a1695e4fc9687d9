"""kvtop sim --live: the lab's lanes on the terminal, without an engine."""

from __future__ import annotations

from collections.abc import Sequence

from kvtop.commands.screen import require_screen
from kvtop.failure import WrongUsage
from kvtop.lab.experiment import Experiment
from kvtop.lab.presets import MOST_LANES, PRESETS, Preset, experiments_preset


def presets_for(experiments: Sequence[Experiment], given: bool, published: bool) -> list[Preset]:
    """What is on the table: the lab's own, and before them what the flags ask for, if they ask for anything.

    Raises:
        WrongUsage: more than fits side by side, or something the published program has no rule for.
    """
    if not given and not published:
        return list(PRESETS)
    if len(experiments) > MOST_LANES:
        raise WrongUsage(
            f"--live shows up to {MOST_LANES} side by side, these flags make {len(experiments)}; leave some values out"
        )
    title = "the published program, its fault included" if published and not given else "your settings"
    own = experiments_preset(title, experiments, published)
    own.build()  # refuses here what cannot run, and not on the screen
    return [own, *PRESETS]


def show(presets: Sequence[Preset]) -> int:
    """Show the first of ``presets``, the others a key away, until somebody quits; the exit status.

    Raises:
        Failure: there is no terminal.
    """
    require_screen("kvtop sim --live", "without --live it prints a table")
    from kvtop.app.from_settings import shell_settings
    from kvtop.app.lab.desk import LabDesk
    from kvtop.app.lab.screen import LabApp
    from kvtop.app.run import run_to_the_end
    from kvtop.settings import gather

    return run_to_the_end(LabApp(LabDesk(presets), shell_settings(gather({}))))

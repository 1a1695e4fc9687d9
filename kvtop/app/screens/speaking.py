"""What every full screen can do whatever it shows: say a line for a while, and save itself as a picture."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from textual.screen import Screen

from kvtop.app.picture import with_exact_runs
from kvtop.view.clean import clean_line

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel

SAID_FOR_S: dict[str, float] = {"information": 4, "warning": 10, "error": 15}


class SpeakingScreen(Screen[None]):
    """``pictures`` is the folder that pictures go to, made when the first one does; ``clock`` gives the Unix time in
    their names."""

    def __init__(self, pictures: Path, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._pictures = pictures
        self._clock = clock

    def say(self, words: str, severity: SeverityLevel = "information") -> None:
        """Show a line for a while; the worse the news, the longer."""
        self.notify(clean_line(words, 300), severity=severity, markup=False, timeout=SAID_FOR_S[severity])

    def save_picture(self) -> None:
        try:
            self._pictures.mkdir(parents=True, exist_ok=True)
            path = self._pictures / time.strftime("kvtop-%Y-%m-%d-%H%M%S.svg", time.localtime(self._clock()))
            path.write_text(with_exact_runs(self.app.export_screenshot()), encoding="utf-8")
        except OSError as error:
            self.say(f"the picture could not be saved: {error}", "error")
        else:
            self.say(f"saved {path.absolute()}")

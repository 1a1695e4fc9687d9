"""The dashboard on a simulated engine, for the terminal tests: ``terminal_program.py PID_FILE [fail | hostile]``."""

from __future__ import annotations

import sys
from pathlib import Path

from kvtop.app.app import AppSettings
from kvtop.app.run import run_app
from kvtop.engine.control import Inject, Pause
from kvtop.engine.requests import Request
from kvtop.settings import EngineSettings
from kvtop.sources.embedded import SIMULATOR_COMMAND, EmbeddedSource
from kvtop.sources.source import Message


class Announced(EmbeddedSource):
    """Writes the engine's process id to a file; with ``fail`` the app's own code raises once the screen is up."""

    def start(self) -> None:
        super().start()
        Path(sys.argv[1]).write_text(str(self.pid))

    def poll(self, max_messages: int = 1000) -> list[Message]:
        messages = super().poll(max_messages)
        if messages and sys.argv[2:] == ["fail"]:
            raise RuntimeError("a fault of the app")
        return messages


HOSTILE = "a\x1b[2Jb\x1b]2;title\x07c\x1b]52;c;AAAA\x1b\\d\x9b31me\x00f\rg\u202eh\u200bi[/x][@click=app.quit]j"

if __name__ == "__main__":
    request = Request(id=HOSTILE, prompt=f"traffic yet {HOSTILE}", max_tokens=500, ignore_eos=True)
    settings = AppSettings(first_commands=(Pause(), Inject(requests=[request])) if sys.argv[2:] == ["hostile"] else ())
    sys.exit(run_app(Announced(EngineSettings(num_blocks=64), SIMULATOR_COMMAND), settings))

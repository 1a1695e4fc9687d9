"""Textual's driver for a page, with two things put right: pastes stay whole, and it ends when nobody is there any more.

The page's server starts the program with ``TEXTUAL_DRIVER`` naming this class and speaks with it over stdin and stdout.
"""

from __future__ import annotations

from textual import messages
from textual.drivers import web_driver
from textual.drivers.web_driver import WebDriver

from kvtop.app.paste import PasteParser


class PageDriver(WebDriver):
    def run_input_thread(self) -> None:
        vars(web_driver)["XTermParser"] = PasteParser  # Textual takes its parser from there
        super().run_input_thread()
        if not self.exit_event.is_set():  # the server has gone, and with it every page
            self._app.post_message(messages.ExitApp())

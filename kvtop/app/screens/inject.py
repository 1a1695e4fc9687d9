"""The inject form: what to send, what it will need, send. It keeps its last values; presets fill it in.

The form asks where the requests go how many tokens a prompt has (a reply, a moment after the last key) and never
guesses; until it knows, the need reads "–". A workload file is read where this program runs.
"""

from __future__ import annotations

from textual.binding import Binding
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Input

from kvtop.app.destination import Destination
from kvtop.app.injection import FIELDS, PRESETS, FormError, requests_from
from kvtop.app.screens.choose import Choose
from kvtop.app.screens.form import FieldForm
from kvtop.engine.control import Reply
from kvtop.engine.requests import Request
from kvtop.view.clean import clean_line
from kvtop.view.words import UNKNOWN, count

MEASURE_AFTER_S = 0.15
LOOK_AGAIN_S = 1.0
MOST_MEASURED = 1_000
"""Different prompts that are asked to be counted; the need of more stays unknown."""


class InjectForm(FieldForm[list[Request]]):
    """Result: what was sent."""

    BINDINGS = [Binding("f2", "presets", "presets", show=False)]

    def __init__(self, destination: Destination, values: dict[str, str]) -> None:
        self._destination = destination
        fields = [field for field in FIELDS if field.name != "chat" or destination.has_chat_template]
        super().__init__("inject requests", "F2 presets · ", fields, values)
        self._measured: dict[tuple[str, bool], int] = {}
        """Prompt, and whether it goes into the chat template → tokens, as they were counted there."""
        self._asked: set[tuple[str, bool]] = set()
        self._timer: Timer | None = None

    def on_mount(self) -> None:
        self.set_interval(LOOK_AGAIN_S, self._look_again)

    def _look_again(self) -> None:
        """The engine may have become ready, or fuller, while somebody types."""
        self._measure()
        self.show_outcome()

    def on_input_changed(self, event: Input.Changed) -> None:
        super().on_input_changed(event)
        if event.input.id in ("prompt", "chat", "file") and event.value:
            if self._timer is not None:
                self._timer.stop()
            self._timer = self.set_timer(MEASURE_AFTER_S, self._measure)

    def action_presets(self) -> None:
        def chosen(name: str | None) -> None:
            preset = PRESETS.get(name or "", {})
            for shown in self.query(Input):
                shown.value = preset.get(shown.id or "", shown.value)

        words = {name: _in_short(preset) for name, preset in PRESETS.items()}
        self.app.push_screen(Choose("presets", words, next(iter(PRESETS))), chosen)

    def _requests(self) -> list[Request]:
        there = self._destination
        return requests_from(self.filled(), there.first_number(), there.has_chat_template)

    def _measure(self) -> None:
        """Ask for the tokens of every prompt that is not counted yet."""
        if self._destination.not_ready:
            return
        try:
            prompts = {(request.prompt, request.chat) for request in self._requests() if request.prompt}
        except FormError:
            return
        if len(prompts) <= MOST_MEASURED:
            for prompt in prompts - self._asked:
                self._asked.add(prompt)
                self._measure_prompt(*prompt)

    def _measure_prompt(self, prompt: str, chat: bool) -> None:
        def counted(reply: Reply) -> None:
            if not reply.error:
                self._measured[prompt, chat] = reply.value
                if self.is_attached:
                    self.show_outcome()

        self._destination.measure(Request(id="measure", prompt=prompt, chat=chat), counted)

    def outcome(self) -> Content:
        try:
            requests = self._requests()
        except FormError as error:
            return Content.styled(clean_line(str(error)), "$error")
        return Content(self._need(requests))

    def _need(self, requests: list[Request]) -> str:
        if self._destination.not_ready:
            return self._destination.not_ready
        what = f"{count(len(requests), 'request')} from the file: " if self.filled()["file"].strip() else ""
        tokens = [len(request.prompt_token_ids or ()) or self._measured.get((request.prompt or "", request.chat), 0)
                  for request in requests]  # fmt: skip
        if not all(tokens):
            return f"{what}needs {UNKNOWN} blocks now, up to {UNKNOWN}: the tokens of its prompts are being counted"
        return what + self._destination.need(requests, tokens)

    def action_send(self) -> None:
        try:
            requests = self._requests()
            self._destination.send(requests, self._answered)
        except FormError:
            self.app.bell()
        except ValueError as error:
            self.app.notify(clean_line(str(error), 300), severity="error", markup=False)
        else:
            self.dismiss(requests)

    def _answered(self, reply: Reply) -> None:
        if reply.error:
            self.app.notify(clean_line(reply.error, 300), severity="error", markup=False)


def _in_short(preset: dict[str, str]) -> str:
    sent = f"{preset['count']} × {preset['length']} tokens, ≤{preset['max_tokens']} new"
    sent += "".join(f", {preset[name]} {word}" for name, word in (("shared", "shared"), ("n", "samples"))
                    if preset[name] not in ("0", "1"))  # fmt: skip
    return sent + (f", {preset['rate']}/s" if preset["rate"] != "0" else "")

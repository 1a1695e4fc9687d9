"""The inject form: what to send, what it will need, send. It keeps its last values.

The form asks the engine how many tokens a prompt has (a command's reply, a moment after the last key) and never
guesses; until it knows, the need reads "–".
"""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Grid, Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Input, Static

from kvtop.app.injection import FIELDS, FormError, need_of, requests_from
from kvtop.app.scene import Scene
from kvtop.app.screens.dialog import Dialog
from kvtop.engine.control import Inject, Measure, Reply
from kvtop.engine.requests import Request
from kvtop.view.clean import clean_line

MEASURE_AFTER_S = 0.15


class InjectForm(Dialog[list[Request]]):
    """``values`` is read and written, so that the next form starts with them. Result: what was sent."""

    DEFAULT_CSS = """
    InjectForm > .box { width: 72; }
    InjectForm Grid { grid-size: 2; grid-columns: 12 1fr; grid-rows: 1; height: auto; grid-gutter: 0 1; }
    InjectForm .label { color: $text-muted; text-align: right; }
    InjectForm Input { background: $raised; }
    InjectForm Input:focus { background: $raised; background-tint: $primary 14%; }
    InjectForm .hint { color: $text-muted; height: 1; margin-top: 1; }
    InjectForm .need { height: 2; margin-top: 1; }
    """
    BINDINGS = [
        Binding("enter", "send", "send", show=False, priority=True),
        Binding("down", "app.focus_next", "next", show=False),
        Binding("up", "app.focus_previous", "previous", show=False),
    ]

    def __init__(self, scene: Scene, values: dict[str, str]) -> None:
        super().__init__()
        self._scene = scene
        self._values = values
        self._measured: dict[str, int] = {}
        """Prompt → tokens, as the engine counted them."""
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = Content("inject requests")
            box.border_subtitle = Content("enter send · ↹ next field · esc back")
            with Grid():
                for field in FIELDS:
                    yield Static(field.label, classes="label", markup=False)
                    yield Input(self._values.get(field.name, field.default), id=field.name, compact=True)
            yield Static("", classes="hint", markup=False)
            yield Static("", classes="need", markup=False)

    def on_mount(self) -> None:
        self._show_need()

    def on_descendant_focus(self) -> None:
        focused = self.focused
        hint = next((field.hint for field in FIELDS if focused is not None and field.name == focused.id), "")
        self.query_one(".hint", Static).update(hint)

    def on_input_changed(self, event: Input.Changed) -> None:
        self._values[event.input.id or ""] = event.value
        if event.input.id == "prompt" and event.value and event.value not in self._measured:
            if self._timer is not None:
                self._timer.stop()
            self._timer = self.set_timer(MEASURE_AFTER_S, self._measure)
        self._show_need()

    def _requests(self) -> list[Request]:
        values = {field.name: self._values.get(field.name, field.default) for field in FIELDS}
        view = self._scene.feed.live
        taken = {row.request_id for row in view.sequences.values()} | {ended.request_id for ended in view.ended}
        number = view.counters.requests + 1
        while f"req-{number}" in taken:
            number += 1
        return requests_from(values, number)

    def _measure(self) -> None:
        prompt = self._values.get("prompt", "")

        def counted(reply: Reply) -> None:
            if not reply.error:
                self._measured[prompt] = reply.value
                if self.is_attached:
                    self._show_need()

        self._scene.feed.send(Measure(request=Request(id="measure", prompt=prompt)), counted)

    def _show_need(self) -> None:
        need = self.query_one(".need", Static)
        try:
            requests = self._requests()
        except FormError as error:
            need.update(Content.styled(clean_line(str(error)), "$error"))
            return
        need.update(Content(self._need_words(requests)))

    def _need_words(self, requests: list[Request]) -> str:
        view = self._scene.feed.live
        assert view.info is not None
        first = requests[0]
        prompt_tokens = len(first.prompt_token_ids or ()) or self._measured.get(first.prompt or "")
        if not prompt_tokens:
            return "needs – blocks now, up to –: the engine is counting the prompt's tokens"
        need = need_of(requests, prompt_tokens, view.block_size, view.info.max_model_len)
        blocks = view.blocks
        words = f"needs {need.at_once:,} blocks now, up to {need.at_most:,} later; {blocks.free:,} are free"
        if blocks.cached:
            words += f", {blocks.cached:,} cached can be taken back"
        if need.at_most > blocks.num_blocks:
            words += f". The pool has {blocks.num_blocks:,}: some will wait or be preempted"
        return words

    def action_send(self) -> None:
        try:
            requests = self._requests()
        except FormError:
            self.app.bell()
            return

        def answered(reply: Reply) -> None:
            if reply.error:
                self.app.notify(clean_line(reply.error, 300), severity="error", markup=False)

        self._scene.feed.send(Inject(requests=requests), answered)
        self.dismiss(requests)

"""Help: how to read the panel that has the keys, then every key there is. Made from the list of actions."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from kvtop.app.actions.action import Action, key_words
from kvtop.app.screens.analogy import Analogy
from kvtop.app.screens.dialog import Dialog

READING = {
    "grid": (
        "The pool. One cell is one block: a page of the KV cache that holds K and V of a fixed number of tokens. "
        "Colour and letter name the sequence that holds it. One that is only partly filled shows how far (▂▄▆), one "
        "that several sequences share shows how many (A² or ×2); where a block is a single character it is hollow, and "
        "underlined. A dim one is held by nobody but kept in the prefix cache, · is free. "
        "What has just changed hands lights up."
    ),
    "sequences": (
        "Every sequence that is not over. tok: tokens so far, prompt and the newest one included. The KV of the newest "
        "is written when the next is computed, so its blocks hold one token fewer. blk: blocks it holds, and a bar "
        "that compares it with the largest. sh: how many of them others hold too. out: how often it was preempted. "
        "One that waits says what it waits for."
    ),
    "log": (
        "What the scheduler did and why, newest below. Each line is one event: the step, what happened, to whom, and "
        "the numbers the decision rested on."
    ),
    "pressure": (
        "The last minute. The strong area is held by sequences, the soft one on top is cached and can be taken back at "
        "any time. The dashed line is the watermark: admission stops there. ▲ marks a preemption."
    ),
    "requests": (
        "Every request, also those that are over. waited: all its time in the queue, also while preempted. first in: "
        "from its arrival to its first token. pause: the longest time between two of its tokens. out: how often it was "
        "preempted. Beside it the chosen one's life: what it went through, and above the same steps the blocks it held."
    ),
    "prefix": (
        "The prefix index. A row is a run of full blocks that prompts have in common; what is indented follows it. "
        "ref: tables that hold these blocks. hits: prompts that found them since watching began. saves: blocks that "
        "the holders would need beside these if each had its own."
    ),
    "fleet": (
        "A row a data-parallel rank. usage: share of its blocks that requests hold (cached blocks nobody holds count "
        "as free). run, wait: requests. Rates, hit rate and quantiles are of the last minute. Σ is their sum; below "
        "there stands how it was made. A grey row is old: its values are the last ones, with their age. depth: metrics "
        "only; logical residency, by KV events; true tables, by our exporter inside the server."
    ),
    "latency": (
        "What its metrics tell, over the last minute: latencies by phase, what requests look like, what the pool "
        "holds. within: the share that kept the limit set with --slo. Preemptions by the counter come late: it "
        "rises when the victim resumes. What a server does not tell reads –."
    ),
    "lab": (
        "The same requests through several policies, in lock step, each with a pool of the same size. Solid: tokens. "
        "Dotted: reserved for tokens still to come. Dense: held and never filled, internal fragmentation. Slashes: "
        "free, but no hole is large enough for the next in line, external fragmentation. A cell of many slots is "
        "filled from below as far as they hold tokens. Percentages are means over all steps so far. "
        "Here space . , > and < move the lab, and > goes to the next preemption; the engine goes on by itself."
    ),
    "findings": (
        "What a careful reader of all figures would remark: the finding, its evidence, what to do. It stands for as "
        "long as it is so; what has passed is listed below."
    ),
    "lesson": (
        "The lesson. It says something, points at something on the screen (◉), and asks you to do something with the "
        "ordinary keys; it notices when that is done (✓). At the end stands a question; your answer is compared with "
        "what happened here, on this engine."
    ),
}
WORDS_WIDTH = 60
"""Of what stands beside the keys; what is longer goes on below, as far in."""
GROUPS = {
    "stepping": "Time",
    "engine": "The engine",
    "sequences": "Sequences",
    "grid": "The grid",
    "log": "The log",
    "lab": "The policy lab",
    "tabs": "Tabs",
    "lesson": "Lessons",
    "servers": "Servers",
    "view": "The screen",
}


class Help(Dialog[None]):
    DEFAULT_CSS = """
    Help > .box { width: 84; scrollbar-size-vertical: 1; }
    Help .reading { margin-bottom: 1; }
    """
    BINDINGS = [
        Binding("q,question_mark,enter", "leave", "back", show=False),
        Binding("A", "analogy", "analogy", show=False),
    ]

    def __init__(self, panel: str, actions: list[Action[Any]]) -> None:
        super().__init__()
        self._panel = panel
        self._actions = actions

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="box") as box:
            box.border_title = Content("help")
            box.border_subtitle = Content("↑ ↓ scroll · A the operating-system analogy · esc back")
            if self._panel in READING:
                yield Static(Content(READING[self._panel]), classes="reading")
            yield Static(self._keys())

    def action_analogy(self) -> None:
        self.app.push_screen(Analogy())

    def _keys(self) -> Content:
        lines: list[Content] = []
        used = {action.group for action in self._actions}
        groups = sorted((group for group in GROUPS if group in used), key=lambda group: group != self._panel)
        for group in groups:
            lines.append(Content.styled(GROUPS[group], "bold $primary"))
            for action in self._actions:
                if action.group == group:
                    first, *more = wrap(action.help, WORDS_WIDTH)
                    lines.append(Content.assemble("  ", (key_words(action.keys).ljust(13), "bold"), first))
                    lines += [Content(" " * 15 + line) for line in more]
            lines.append(Content(""))
        return Content("\n").join(lines[:-1])

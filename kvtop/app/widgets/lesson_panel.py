"""The lesson beside the engine: what it says, what to watch, what to do, what it asks, and how that went.

The words come from the course; here they only get their place. What there is to do stands under what there is to read
and is always in sight; where the panel is small, the reading scrolls above it.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from textual import events

from kvtop.app.actions import panel_bindings
from kvtop.app.lines import Line, Span, wrapped
from kvtop.app.marks import words_for
from kvtop.app.scene import Scene
from kvtop.app.widgets.painted import Framed
from kvtop.lessons.course import HINTS, Course
from kvtop.lessons.figures import number
from kvtop.lessons.lesson import Guess, Question
from kvtop.lessons.player import Player
from kvtop.view.clean import clean_line, clean_text
from kvtop.view.words import count

WIDEST = 84
"""Cells a line of reading may have."""


class LessonPanel(Framed, can_focus=True):
    """``unread`` is whether more of the text follows below."""

    BINDINGS = panel_bindings("lesson")

    def __init__(self, scene: Scene, id: str) -> None:
        super().__init__(scene, id)
        self.first_line = 0
        self.unread = False
        self._page_lines = 1
        self._shown: tuple[object, int] = (None, 0)
        """Lesson and scene of the last frame: another one is read from its first line."""

    def read_on(self) -> None:
        """A page further down."""
        self.scroll_text(max(1, self._page_lines - 1))

    def scroll_text(self, lines: int) -> None:
        self.first_line = max(0, self.first_line + lines)
        self.redraw()

    # --- words in the frame -------------------------------------------------------------------------------------------

    def title(self) -> Sequence[Span]:
        named, course = self.scene.palette.named, self.scene.course
        lesson = course.lesson if course is not None else None
        if lesson is None:
            return [("lessons", named.title)]
        return [(clean_line(lesson.title, 60), named.title)]

    def figures(self) -> Sequence[Span]:
        named, course = self.scene.palette.named, self.scene.course
        player = course.player if course is not None else None
        if course is None or player is None:
            return ()
        scenes = len(player.lesson.scenes)
        place = "question" if player.scene is None else f"scene {player.position + 1} of {scenes}"
        return [(place, named.muted)]

    def note(self) -> Sequence[Span]:
        named, course = self.scene.palette.named, self.scene.course
        if course is None or course.player is None:
            return [("L", named.accent), (" lessons", named.muted)]
        going = "answer" if course.asked else "go on"
        if self.unread:
            going = "read on"
        return [
            ("n", named.accent), (f" {going}  ", named.muted),
            ("N", named.accent), (" back  ", named.muted),
            ("L", named.accent), (" lessons", named.muted),
        ]  # fmt: skip

    # --- inside -------------------------------------------------------------------------------------------------------

    def content(self, width: int, height: int) -> Sequence[Line]:
        course = self.scene.course
        if course is None or course.player is None:
            self.unread = False
            words = wrapped("No lesson is open. L lists them.", self.scene.palette.named.muted, width - 2)
            return [((" ", self.blank), *line) for line in words]
        player = course.player
        if self._shown != (player, player.position):
            self._shown, self.first_line = (player, player.position), 0
        room = min(width - 2, WIDEST)
        due = self._due(course, player, room)
        text = self._text(course, player, room)
        self._page_lines = max(1, height - len(due))
        last = max(0, len(text) - self._page_lines)
        self.first_line = min(self.first_line, last)
        self.unread = self.first_line < last
        seen = text[self.first_line : self.first_line + self._page_lines]
        if self.unread:
            seen[-1:] = [((" ↓ more: n or PgDn", self.scene.palette.named.accent),)]
        return [*seen, *due]

    def _text(self, course: Course, player: Player, room: int) -> list[Line]:
        named = self.scene.palette.named
        scene = player.scene
        if scene is None:
            words, style = player.lesson.question.text, named.strong
        else:
            words, style = scene.text, named.text
        lines = self._wrapped(player.words(words), style, room)
        return [*(((" ", self.blank), *line) for line in lines), ()]

    def _due(self, course: Course, player: Player, room: int) -> list[Line]:
        """What stands under the text: what to watch and to do, or what became of the answer."""
        named = self.scene.palette.named
        if self.scene.feed.status.state in ("failed", "stopped"):
            words = "The engine is gone. r starts another, and the lesson goes on from here."
            return self._said("✗", words, named.bad, room)
        if self.scene.view.info is None:
            return self._said("◌", "The engine for this lesson starts. Read on meanwhile.", named.warning, room)
        if course.catching_up:
            words = "The scenes before are played again, so that the engine is where you left it."
            return self._said("◌", words, named.warning, room)
        lines: list[Line] = []
        if course.simulated and player.position == 0:
            words = "No model here: words and times are made up; scheduler, blocks and queues are the real ones."
            lines += self._said("≈", words, named.muted, room)
        if course.watch:
            lines += self._said("◉", f"watch {words_for(course.watch)}", named.warning, room)
        lines += self._to_answer(course, player, room) if player.scene is None else self._to_do(course, player, room)
        if course.fault:
            lines += self._said("!", course.fault, named.bad, room)
        return lines

    def _to_do(self, course: Course, player: Player, room: int) -> list[Line]:
        named, scene = self.scene.palette.named, player.scene
        assert scene is not None
        if course.guess_due and scene.guess is not None:
            words = f"guess first: {player.words(scene.guess.text)}"
            return [
                *self._said("?", words, named.strong, room),
                *self._choices(scene.guess.choices, room),
                *self._said(
                    " ", f"n: type {'its number' if scene.guess.choices else 'your guess'}", named.accent, room
                ),
            ]
        lines = self._said("▶", player.words(scene.task), named.strong, room) if scene.task else []
        if not player.task_done:
            return lines
        if scene.guess is not None and (truth := player.guess_truth) is not None:
            guess = course.guesses.get(player.position)
            told = f"it is {_answer(truth, scene.guess)}"
            words = told if guess is None else f"you guessed {_answer(guess, scene.guess)}; {told}"
            lines += self._said("=", words, named.accent, room)
        if scene.task:
            lines += self._said("✓", "done: n goes on", named.good, room)
        return lines

    def _to_answer(self, course: Course, player: Player, room: int) -> list[Line]:
        named, question, verdict = self.scene.palette.named, player.lesson.question, course.verdict
        lines = self._choices(question.choices, room)
        if verdict is not None and verdict.right:
            lines += self._said("✓", _answer(verdict.truth, question), named.good, room)
            lines += self._said(" ", verdict.said, named.text, room)
            return lines + self._what_next(course, room)
        if verdict is not None:
            lines += self._said("✗", "Not what happened here. " + verdict.said, named.warning, room)
            if course.told:
                words = f"In this run it is {_answer(verdict.truth, question)}"
                lines += self._said("=", words, named.strong, room)
                return lines + self._what_next(course, room)
            left = HINTS - course.wrong_answers
            words = f"n: answer again; after {count(left, 'more wrong one')} it is told"
            return lines + self._said(" ", words, named.accent, room)
        if not player.can_answer:
            return lines + self._said(
                "!", "What this asks about is over. R plays the lesson again.", named.warning, room
            )
        words = "n: type the number of your answer" if question.choices else "n: type your answer"
        return lines + self._said(" ", words, named.accent, room)

    def _choices(self, choices: Sequence[str], room: int) -> list[Line]:
        named = self.scene.palette.named
        return [
            line
            for index, words in enumerate(choices, start=1)
            for line in self._said(f"{index}", words, named.text, room)
        ]

    def _what_next(self, course: Course, room: int) -> list[Line]:
        following = course.next_lesson()
        words = (
            f"n: next lesson, {following.title}"
            if following is not None
            else "That was the last lesson. Q asks what you know now."
        )
        return self._said(" ", words, self.scene.palette.named.accent, room)

    def _said(self, sign: str, words: str, style: Style, room: int) -> list[Line]:
        """Words behind a sign, hanging."""
        first, *more = self._wrapped(words, style, room - 2)
        return [((f" {sign} ", style), *first), *((("   ", style), *line) for line in more)]

    def _wrapped(self, words: str, style: Style, room: int) -> list[Line]:
        """Line feeds are kept; an empty line stays one."""
        return [line for part in clean_text(words).strip().split("\n") for line in wrapped(part, style, room)]

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.scroll_text(2)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.scroll_text(-2)


def _answer(value: float, asked: Guess | Question) -> str:
    """A guess or an answer in words."""
    if asked.choices:
        return clean_line(asked.choices[int(value)])
    return f"{number(value)} {clean_line(asked.unit)}".strip()

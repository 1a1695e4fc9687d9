"""The live screen: the panels, and what actions ask of it. Panels draw; actions decide; this joins the two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

from textual import on
from textual.app import ComposeResult
from textual.widgets import Input

from kvtop.app.actions import ACTIONS, panel_bindings
from kvtop.app.arrangement import PANELS_OF, Tab
from kvtop.app.destination import Destination, EngineDestination
from kvtop.app.lab.panel import LabPanel
from kvtop.app.marks import panel_for
from kvtop.app.palette import Palette
from kvtop.app.scene import Scene
from kvtop.app.screens.speaking import SpeakingScreen
from kvtop.app.screens.words import Words
from kvtop.app.theme_files import Theme
from kvtop.app.widgets.answer_field import AnswerField
from kvtop.app.widgets.block_panel import BlockPanel
from kvtop.app.widgets.decision_panel import DecisionPanel
from kvtop.app.widgets.drawing import Drawing
from kvtop.app.widgets.findings_panel import FindingsPanel
from kvtop.app.widgets.footer import Footer
from kvtop.app.widgets.headline import Headline
from kvtop.app.widgets.lesson_panel import LessonPanel
from kvtop.app.widgets.life_panel import LifePanel
from kvtop.app.widgets.log_panel import LogPanel
from kvtop.app.widgets.panels import Panels
from kvtop.app.widgets.pool_grid import PoolGrid
from kvtop.app.widgets.prefix_panel import PrefixPanel
from kvtop.app.widgets.pressure import Pressure
from kvtop.app.widgets.request_list import RequestList
from kvtop.app.widgets.sequences import Sequences
from kvtop.app.widgets.tab_line import TabLine
from kvtop.app.widgets.table_panel import TablePanel
from kvtop.app.widgets.text_panel import TextPanel
from kvtop.engine.control import AnyCommand, Reply
from kvtop.sources.replay import UNCHANGEABLE
from kvtop.view.clean import clean_line, clean_text
from kvtop.view.decision import sequence_in_question
from kvtop.view.why import why_block, why_sequence


class LiveScreen(SpeakingScreen):
    """``keys``: action name → keys in place of its own. ``form_values`` is what the inject form held last."""

    DEFAULT_CSS = """
    LiveScreen { layout: vertical; layers: default answer; background: $background; }
    #filter { dock: bottom; display: none; background: $raised; }
    #filter.open { display: block; }
    """
    BINDINGS = panel_bindings("")

    def __init__(
        self,
        scene: Scene,
        themes: Mapping[str, Theme],
        use_theme: Callable[[str], None],
        restart: Callable[[], None],
        pictures: Path,
        keys: Mapping[str, str],
    ) -> None:
        super().__init__(pictures, lambda: scene.clock())
        self.scene = scene
        self.themes = themes
        self.use_theme = use_theme
        self.restart = restart
        self.actions = [replace(action, keys=keys.get(action.name, action.keys)) for action in ACTIONS.values()]
        """All of them, with the keys they listen to."""
        self.destination: Destination = EngineDestination(scene.feed)
        """Where requests of the inject form go."""
        self.form_values: dict[str, str] = {}
        self.grid = PoolGrid(scene, "grid")
        self.sequences = Sequences(scene, "sequences")
        self.log_panel = LogPanel(scene, "log")
        self.requests = RequestList(scene, "requests")
        self.prefix = PrefixPanel(scene, "prefix")
        self.lab = LabPanel(scene, "lab")
        self.findings = FindingsPanel(scene, "findings")
        self.lesson: LessonPanel = LessonPanel(scene, "lesson")
        self._panels = Panels(
            Headline(scene, "headline"),
            TabLine(scene, "tabs"),
            self.grid,
            self.sequences,
            self.requests,
            LifePanel(scene, "life"),
            self.prefix,
            self.lab,
            self.findings,
            BlockPanel(scene, "block"),
            self.log_panel,
            Pressure(scene, "pressure"),
            TablePanel(scene, "table"),
            TextPanel(scene, "text"),
            DecisionPanel(scene, "decision"),
            self.lesson,
            Footer(scene, "footer", self.actions),
        )
        self._quiet_frames = 0

    def compose(self) -> ComposeResult:
        yield self._panels
        yield Input(placeholder="show only sequences with …", id="filter", compact=True)
        yield AnswerField("answer")

    def on_mount(self) -> None:
        self.set_focus(self.grid)

    # --- frames ---------------------------------------------------------------------------------------------------

    def tick(self, news: bool) -> None:
        """A frame is due: after news everything, and once more to let what flashed go out; else what shows time."""
        if self.scene.feed.stopped_by:
            self.say(f"breakpoint, {self.scene.feed.stopped_by}", "warning")
            self.scene.feed.stopped_by = ""
        while self.scene.feed.late_errors:
            self.say(self.scene.feed.late_errors.pop(0), "error")
        self.scene.feed.findings.observe(self.scene.feed.live, self.scene.live_now_s)
        if self.scene.tab == "lab":
            self.lab.tick()
        self._quiet_frames = 0 if news else self._quiet_frames + 1
        if self._quiet_frames < 2:
            self.redraw()
            return
        in_sight = self._panels.in_sight()
        for panel in self._panels.query_children(Drawing):
            if panel.moves_with_time and panel.id in in_sight:
                panel.redraw()

    def redraw(self) -> None:
        """Bring every panel in sight up to date."""
        scene = self.scene
        watch = panel_for(scene.watch)
        comes = watch == "decision" or (scene.stands and scene.decision)
        by_itself = ("decision",) if comes and "decision" not in scene.extras else ()
        lesson = ("lesson",) if scene.course is not None else ()
        self._panels.show(scene.tab, (*lesson, *scene.extras, *by_itself), watch)
        in_sight = self._panels.in_sight()
        for panel in self._panels.query_children(Drawing):
            if panel.id in in_sight:
                panel.redraw()

    def in_sight(self, panel: str) -> bool:
        """Whether a panel has a place on the screen now."""
        return panel in self._panels.in_sight()

    def look_again(self, palette: Palette) -> None:
        """Everything looks different now."""
        self.scene.palette = palette
        for panel in self._panels.query_children(Drawing):
            panel.forget()

    def on_screen_resume(self) -> None:
        self.redraw()

    def show_tab(self, tab: Tab) -> None:
        """Open a tab and give the keys to what it is about."""
        self.scene.tab = tab
        self.redraw()
        self.set_focus(self._panels.get_child_by_id(PANELS_OF[tab][0]))

    @on(TabLine.Opened)
    def _tab_opened(self, event: TabLine.Opened) -> None:
        self.show_tab(cast(Tab, event.tab))

    # --- what is selected -----------------------------------------------------------------------------------------

    def point_at(self, block: int | None) -> None:
        self.scene.cursor = block
        self.redraw()

    def select(self, seq: int | None) -> None:
        self.scene.selected = seq
        self.redraw()

    def look_at_nothing(self) -> None:
        """Nothing that was pointed at is there any more: another engine takes this one's place."""
        scene = self.scene
        scene.selected = scene.cursor = scene.zoom = None
        scene.filter, scene.extras, scene.request = "", (), ""
        self.show_tab("live")

    def back_out(self) -> None:
        """Take back the last choice; while the engine loads, leave."""
        scene = self.scene
        if scene.feed.live.info is None and scene.feed.status.state == "loading":
            self.app.exit(return_code=130)
        elif scene.feed.in_past:
            scene.feed.thaw()
        elif scene.tab != "live":
            self.show_tab("live")
        elif scene.extras:
            scene.extras = ()
        elif scene.filter:
            scene.filter = ""
        elif scene.selected is not None:
            scene.selected = None
        elif scene.cursor is not None:
            scene.cursor = None
        else:
            scene.zoom = None
        self.redraw()

    @on(PoolGrid.Pointed)
    def _pointed(self, event: PoolGrid.Pointed) -> None:
        self.point_at(event.block)

    @on(Sequences.Selected)
    def _selected(self, event: Sequences.Selected) -> None:
        self.select(event.seq)

    # --- keys -----------------------------------------------------------------------------------------------------

    def action_do(self, name: str) -> None:
        action = ACTIONS[name]
        if action.changes_engine and self.scene.feed.tape is not None:
            self.say(UNCHANGEABLE, "error")
        else:
            action.run(self)

    @on(Footer.Pressed)
    def _footer_pressed(self, event: Footer.Pressed) -> None:
        self.action_do(event.name)

    @property
    def focused_panel(self) -> str:
        """The id of the panel that has the keys."""
        return self.focused.id or "" if self.focused is not None else ""

    def focus_panel(self, direction: int) -> None:
        """Give the keys to the next panel in sight that takes them."""
        ids = [name for name in self._panels.in_sight() if self._panels.get_child_by_id(name).can_focus]
        at = ids.index(self.focused_panel) if self.focused_panel in ids else -direction
        self.set_focus(self._panels.get_child_by_id(ids[(at + direction) % len(ids)]))  # at once: keys may follow fast

    # --- the filter -----------------------------------------------------------------------------------------------

    def open_filter(self) -> None:
        field = self.query_one("#filter", Input)
        field.value = self.scene.filter
        field.add_class("open")
        self.set_focus(field)

    @on(Input.Changed, "#filter")
    def _filter_changed(self, event: Input.Changed) -> None:
        self.scene.filter = event.value
        self.redraw()

    @on(Input.Submitted, "#filter")
    def _filter_kept(self, event: Input.Submitted) -> None:
        event.input.remove_class("open")
        self.set_focus(self.requests if self.scene.tab == "requests" else self.sequences)
        self.redraw()

    # --- a lesson's answer ----------------------------------------------------------------------------------------

    def ask(self, unit: str) -> None:
        """Open the line for a lesson's answer."""
        self.query_one(AnswerField).ask(clean_line(unit, 20))

    @on(AnswerField.Closed)
    def _answered(self, event: AnswerField.Closed) -> None:
        self.set_focus(self.grid)
        if self.scene.course is not None and event.text:
            self.scene.course.type_in(event.text)
        self.redraw()

    # --- words and files ------------------------------------------------------------------------------------------

    def send(self, command: AnyCommand) -> None:
        """Send a command; an error in the reply is shown."""

        def answered(reply: Reply) -> None:
            if reply.error:
                self.say(reply.error, "error")

        self.scene.feed.send(command, answered)

    def show_traceback(self) -> None:
        traceback = self.scene.feed.status.traceback
        if traceback:
            self.app.push_screen(Words("what the engine said last", clean_text(traceback)))
        else:
            self.say("there is no traceback: the engine has not failed")

    def pointed_at(self) -> str:
        """The facts of what is selected, as plain text."""
        row = self.scene.view.sequences.get(self.scene.selected or 0)
        if row is not None:
            return f"{row.name}: {row.status}, {row.tokens} tokens, {len(row.table)} blocks: {row.table}"
        return self._panels.query_one(BlockPanel).as_text()

    def copy(self, text: str) -> None:
        if text:
            self.app.copy_to_clipboard(text)
            self.say(f"copied: {text}")
        else:
            self.say("nothing is selected: point at a block or select a sequence first", "warning")

    def reason(self) -> str:
        """Why, for what is selected; with nothing selected, for what the last step was about."""
        view, cursor = self.scene.view, self.scene.cursor
        if self.scene.selected in view.sequences:
            return why_sequence(view, self.scene.selected)
        if cursor is not None and cursor < view.blocks.num_blocks:
            return why_block(view, cursor)
        seq = sequence_in_question(view) if view.info is not None else None
        return why_sequence(view, seq) if seq is not None else "Nothing has been decided yet."

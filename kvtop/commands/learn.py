"""Lessons on the live engine: read, watch, do it by hand, answer from what happened.

  kvtop learn                    all lessons and how far you are; choose one
  kvtop learn sharing            that lesson, from where you left it; also by its number or letter in the list
  kvtop learn sharing --restart  from its beginning
  kvtop learn --sim              without a model: the real scheduler on made-up words
  kvtop learn my-lesson.toml     a lesson of your own
  kvtop learn --check FILE       is this file a lesson? what is wrong, where, and what is allowed
  kvtop learn --list             names, titles and progress as text; --json for programs

A lesson brings the settings of its engine (pool size, policy, swap); model, device and dtype are yours. Lessons of your
own also lie in the folder lessons beside the config file. Ends with 0, also when you leave in the middle; 1 when a file
is no lesson or there is no terminal; 2 for a lesson that there is not.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from pathlib import Path

from msgspec.structs import replace

from kvtop.commands.engine_flags import add_flag, say_warnings, settings_from
from kvtop.commands.screen import require_screen
from kvtop.extra import require
from kvtop.failure import Failure, WrongUsage
from kvtop.lessons.course import Syllabus
from kvtop.lessons.lesson import OWN_SETTINGS, Lesson, read_lesson
from kvtop.lessons.library import Library, load_library
from kvtop.lessons.progress import Progress, progress_path
from kvtop.settings import SETTINGS, Settings
from kvtop.view.clean import clean_line


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lesson", metavar="LESSON", nargs="?", help="a lesson's name, number or letter, or a file")
    parser.add_argument("--sim", action="store_true", help="no model: words and step times are made up")
    parser.add_argument("--restart", action="store_true", help="LESSON from its beginning, not from where you left it")
    parser.add_argument("--list", action="store_true", help="print names, titles and progress instead")
    parser.add_argument("--json", action="store_true", help="with --list: print as JSON")
    parser.add_argument("--check", metavar="FILE", nargs="+", type=Path, help="say whether files are lessons instead")
    for section in ("screen", "engine", "model"):
        group = parser.add_argument_group("screen" if section == "screen" else "model")
        for setting in SETTINGS:
            if setting.section == section and (section == "screen" or setting.name in OWN_SETTINGS):
                add_flag(group, setting)


def run(args: argparse.Namespace) -> int:
    _refuse_what_does_not_go_together(args)
    if args.check:
        return _check(args.check)
    settings = settings_from(args)
    library = load_library([settings.config_path.parent / "lessons"])
    progress = Progress(progress_path())
    if args.list:
        say_warnings(settings)
        _print_list(library, progress, as_json=args.json)
        return 0
    library, first = _chosen(library, args.lesson)
    if first is not None and args.sim and not first.simulated:
        raise WrongUsage(f"the lesson {clean_line(first.id)} needs a model; leave out --sim")
    if not args.sim:
        from kvtop.models.resolve import kind_of_model

        require("kvtop learn without --sim", "torch", "transformers")
        kind_of_model(settings["model"])
    require_screen("kvtop learn", "--list prints the lessons")
    return _play(args, settings, library, progress, first)


def _refuse_what_does_not_go_together(args: argparse.Namespace) -> None:
    if args.json and not args.list:
        raise WrongUsage("--json belongs to --list")
    if (args.list or args.check) and args.lesson:
        raise WrongUsage(f"{'--list' if args.list else '--check'} plays no lesson; leave out {args.lesson!r}")
    if args.restart and not args.lesson:
        raise WrongUsage("--restart needs the name of a lesson")
    given = [setting.flag for setting in SETTINGS if setting.name in OWN_SETTINGS and hasattr(args, setting.name)]
    if args.sim and given:
        raise WrongUsage(f"--sim runs no model; leave out {given[0]}")


def _chosen(library: Library, name: str | None) -> tuple[Library, Lesson | None]:
    """The lesson that was asked for, and the library with it: one in a file joins the others."""
    if name is None:
        return library, None
    lesson = library.find(name) or library.at(name)
    if lesson is not None:
        return library, lesson
    if name.endswith(".toml") or "/" in name:
        path = Path(name)
        lesson = replace(read_lesson(path), id=str(path.resolve()))
        return Library([*library.lessons, lesson], library.faults), lesson
    faulty = next((fault for fault in library.faults if f"{name}.toml:" in fault), None)
    if faulty is not None:
        raise Failure(faulty)
    near = difflib.get_close_matches(name, [lesson.id for lesson in library.lessons], n=1)
    hint = f"did you mean {near[0]}?" if near else "kvtop learn --list names them"
    raise WrongUsage(f"there is no lesson {name!r}; {hint}")


def _check(files: list[Path]) -> int:
    """A line for each file: what it holds on stdout, or what is wrong with it on stderr."""
    faults = 0
    for path in files:
        try:
            lesson = read_lesson(path)
        except Failure as fault:
            faults += 1
            print(f"kvtop: {clean_line(str(fault), limit=1000)}", file=sys.stderr)
        else:
            tasks = sum(bool(scene.done) for scene in lesson.scenes)
            title = clean_line(lesson.title)
            print(f"{path}: a lesson, “{title}”: {len(lesson.scenes)} scenes, {tasks} with a task that is checked")
    return 1 if faults else 0


def _print_list(library: Library, progress: Progress, *, as_json: bool) -> None:
    rows = [
        {
            "lesson": lesson.id,
            "title": lesson.title,
            "summary": lesson.summary,
            "scenes": len(lesson.scenes),
            "position": progress.of(lesson.id).position,
            "answered": progress.of(lesson.id).answered,
            "simulated": lesson.simulated,
        }
        for lesson in library.lessons
    ]
    if as_json:
        print(json.dumps({"lessons": rows, "faults": library.faults}, indent=2))
        return
    for number, lesson in enumerate(library.lessons, start=1):
        reached = progress.of(lesson.id)
        where = f"scene {reached.position + 1} of {len(lesson.scenes)}"
        if reached.position >= len(lesson.scenes):
            where = "at the question"
        state = where if reached.position else "answered" if reached.answered else "new"
        print(f"{number:>2}  {clean_line(lesson.id):<24}{state:<18}{clean_line(lesson.title)}")
    for fault in library.faults:
        print(f"kvtop: warning: {clean_line(fault, limit=1000)}", file=sys.stderr)


def _play(
    args: argparse.Namespace, settings: Settings, library: Library, progress: Progress, first: Lesson | None
) -> int:
    from kvtop.app.from_settings import app_settings
    from kvtop.app.run import run_app
    from kvtop.lessons.course import suggested
    from kvtop.sources.embedded import ENGINE_COMMAND, SIMULATOR_COMMAND, EmbeddedSource
    from kvtop.sources.history import History
    from kvtop.sources.recorder import Recorder

    likely = first or suggested(library, progress, simulated=args.sim)
    running = likely.settings(settings.engine) if likely is not None else settings.engine
    history = History()
    recorder = Recorder([history])
    syllabus = Syllabus(
        library=library,
        progress=progress,
        own=settings.engine,
        running=running,
        simulated=args.sim,
        first=first.id if first is not None else "",
        anew=args.restart,
    )
    return run_app(
        EmbeddedSource(running, SIMULATOR_COMMAND if args.sim else ENGINE_COMMAND, recorder.add),
        app_settings(settings, history=history, syllabus=syllabus),
    )

"""The command line: find the command, parse its flags, run it, turn what happened into an exit code.

Only the module of the command that runs is imported, so that help stays instant. A command module has
``configure(parser)``, which adds its flags, and ``run(args)``, which returns 0 (done) or 1 (failed). Wrong usage is 2,
an interrupt 130. Data goes to stdout and words to stderr; a failure is one line, with ``--debug`` its traceback too.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import io
import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from typing import NoReturn

from kvtop import __version__
from kvtop.extra import extra_of, missing_words
from kvtop.failure import Failure, WrongUsage

DONE, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130

COMMANDS = {
    "live": "watch a real model fill a paged KV pool, and throw traffic at it",
    "run": "run a workload file through the same engine without a screen",
    "serve": "the engine behind an OpenAI-compatible HTTP interface, for clients and watchers",
    "sim": "the policy lab: the same scheduler without a model, rules side by side",
    "learn": "lessons on the live engine: read, watch, do it by hand, answer",
    "attach": "watch vLLM and SGLang servers: metrics, KV events, true block tables",
    "model": "pull, list and locate models",
    "replay": "play a recording: pause, step, wind to and fro",
    "web": "open a dashboard in a browser",
    "export": "make one web page of a recording, that plays it anywhere",
    "events": "print the events of a recording, one a line",
    "doctor": "what this machine can do, and what to fix",
    "config": "show every setting, its value and where it came from",
}

_EPILOG = """\
Every flag has an environment variable (KVTOP_BLOCK_SIZE for --block-size) and a key in the config file; a flag wins
over the variable, the variable over the file. `kvtop COMMAND --help` explains a command.

exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted, 128 + its number for any other signal
"""


class _Parser(argparse.ArgumentParser):
    """An ArgumentParser whose usage errors read like every other line of ours, and say no more than helps."""

    def error(self, message: str) -> NoReturn:
        start, _, unknown = message.partition("unrecognized arguments: ")
        if not start and unknown.startswith("-"):
            flag = unknown.split()[0].partition("=")[0]
            near = _nearest(flag, self._option_string_actions)
            message = f"there is no flag {flag}" + (f"; did you mean {near}?" if near else "")
        self.exit(WRONG_USAGE, f"{self.prog}: {message}\n`{self.prog} --help` says what there is\n")


def _nearest(flag: str, flags: Iterable[str]) -> str:
    """The flag that was meant, though perhaps only its beginning was typed; empty when none is near."""

    def likeness(known: str) -> float:
        typed, whole = flag.lstrip("-"), known.lstrip("-")
        return max(difflib.SequenceMatcher(None, typed, end).ratio() for end in (whole, whole[: len(typed) + 1]))

    best = max(flags, key=likeness)
    return best if likeness(best) >= 0.7 else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (without the program's name); returns the exit code and raises nothing but SystemExit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # in a C locale a sign it lacks is no reason to end
    top = _top_parser()
    chosen = top.parse_args(arguments)
    if chosen.command is None:
        top.print_help(sys.stderr)
        return WRONG_USAGE
    if chosen.command not in COMMANDS:
        near = difflib.get_close_matches(chosen.command, COMMANDS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(COMMANDS)}"
        top.error(f"no command {chosen.command!r}; {hint}")
    parser = parser_of(chosen.command, chosen.debug)
    args = parser.parse_args(chosen.rest)
    try:
        code: int = importlib.import_module(f"kvtop.commands.{chosen.command}").run(args)
        sys.stdout.flush()
        return code
    except WrongUsage as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away. Python would complain once more when it flushes stdout at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        return _report(error, args.debug)


def parser_of(command: str, debug: bool = False) -> argparse.ArgumentParser:
    """The parser of a command's flags, with its help."""
    module = importlib.import_module(f"kvtop.commands.{command}")
    parser = _Parser(
        prog=f"kvtop {command}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--debug", action="store_true", default=debug, help="show the traceback of a failure")
    module.configure(parser)
    return parser


def _top_parser() -> argparse.ArgumentParser:
    listing = "\n".join(f"  {name:<8} {summary}" for name, summary in COMMANDS.items())
    parser = _Parser(
        prog="kvtop",
        usage="kvtop [--help] [--version] [--debug] COMMAND ...",
        description="See the paged KV cache of a language model at work.",
        epilog=f"commands:\n{listing}\n\n{_EPILOG}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"kvtop {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of a failure")
    parser.add_argument("command", nargs="?", metavar="COMMAND", help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _report(error: Exception, debug: bool) -> int:
    """One line on stderr; with ``debug`` the traceback before it."""
    from kvtop.view.clean import clean_line

    if debug:
        traceback.print_exception(error)
    text = clean_line(" ".join(str(error).split()), limit=1000)
    if isinstance(error, ModuleNotFoundError) and extra_of(error.name or ""):
        text = missing_words("this", error.name or "")
    elif not isinstance(error, Failure):
        text = f"internal error: {type(error).__name__}: {text}" + ("" if debug else " (--debug shows where)")
    print(f"kvtop: {text}", file=sys.stderr)
    return FAILED

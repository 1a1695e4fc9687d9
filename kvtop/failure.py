"""What went wrong in words: the exceptions whose message is the one line a person reads.

Raise it where the cause is known and something can be done; the command prints the line and ends with code 1 (with
a traceback only under ``--debug``). Any other exception that reaches the command line is a fault of the program.
"""

from __future__ import annotations


class Failure(Exception):
    """The message says what was wrong, what was expected and what to do, in one line."""


class WrongUsage(Failure):
    """The flags were fine one by one but not together, or for this machine or file; ends with code 2."""


def first_line(error: BaseException) -> str:
    """The first line of another library's message, to be quoted in ours."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]

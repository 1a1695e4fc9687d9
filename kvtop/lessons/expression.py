"""Formulas in lesson files: arithmetic and comparisons over facts of the running engine, and nothing else.

    kv_bytes_per_token * block_size          blocks("a") >= 3 and free_blocks == 0

A formula is read as Python and then walked: numbers, + - * / // %, comparisons, and, or, not, facts, and facts of a
request (its id in quotes). Anything else is refused when the lesson is loaded, so a lesson can compute but do nothing.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Collection
from typing import Protocol

_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class FactSource(Protocol):
    """Where the values come from."""

    def fact(self, name: str) -> float: ...

    def fact_of(self, name: str, request_id: str) -> float: ...

    def knows(self, request_id: str) -> bool: ...


class Expression:
    """A formula that was found to be well formed.

    Raises:
        ValueError: it is not; the message says what is wrong and what can be used.
    """

    def __init__(self, text: str, facts: Collection[str], facts_of_a_request: Collection[str]) -> None:
        self.text = text
        self.request_ids: set[str] = set()
        """The requests it asks about."""
        self._facts = facts
        self._facts_of_a_request = facts_of_a_request
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ValueError(f'{text!r} is no formula, expected one such as blocks("a") + 1') from None
        self._check(self._tree)

    def value(self, source: FactSource) -> float:
        """Its value now; a comparison's is 0 or 1. A division by 0 is 0: nothing has happened yet; so is what is no
        number, or too large for one."""
        try:
            value = float(self._value(self._tree, source))
        except OverflowError:
            return 0
        return value if math.isfinite(value) else 0

    def _check(self, node: ast.expr) -> None:
        match node:
            case ast.Constant(value=bool() | str() | None):
                raise self._refusal(node)
            case ast.Constant(value=int() | float()):
                pass
            case ast.Name(id=name) if name in self._facts:
                pass
            case ast.Name(id=name):
                raise ValueError(f"{self.text!r}: no fact {name!r}, expected one of {', '.join(sorted(self._facts))}")
            case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str(request_id))], keywords=[]):
                if name not in self._facts_of_a_request:
                    known = ", ".join(sorted(self._facts_of_a_request))
                    raise ValueError(f"{self.text!r}: no fact {name!r} of a request, expected one of {known}")
                self.request_ids.add(request_id)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                self._check(left)
                self._check(right)
            case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
                self._check(operand)
            case ast.BoolOp(values=values):
                for value in values:
                    self._check(value)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
                self._check(left)
                self._check(right)
            case _:
                raise self._refusal(node)

    def _refusal(self, node: ast.expr) -> ValueError:
        part = ast.unparse(node)
        return ValueError(f"{self.text!r}: {part!r} is not allowed, expected numbers, facts, arithmetic, comparisons")

    def _value(self, node: ast.expr, source: FactSource) -> float:
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.Name(id=name):
                return source.fact(name)
            case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str(request_id))]):
                return source.fact_of(name, request_id)
            case ast.BinOp(left=left, op=op, right=right):
                try:
                    return _BINARY[type(op)](self._value(left, source), self._value(right, source))
                except ZeroDivisionError:
                    return 0
            case ast.UnaryOp(op=op, operand=operand):
                value = self._value(operand, source)
                return -value if isinstance(op, ast.USub) else not value
            case ast.BoolOp(op=op, values=values):
                every = all if isinstance(op, ast.And) else any
                return every(self._value(value, source) for value in values)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return _COMPARE[type(op)](self._value(left, source), self._value(right, source))
        raise AssertionError(f"{self.text!r} was not checked")

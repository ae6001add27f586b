"""Translation of PostgreSQL's expressions to SQLite, for generated columns and CHECK constraints.

An expression is translated only if it has the same meaning in both databases. The supported parts
are integers (without division, because the result would have another type in the other database),
text without ordering (collations differ), truth values, and NULL. For every other expression the
result is None, and the caller must leave the expression out: an expression that is only nearly
right computes wrong rows.

*Rejected:* sqlglot's own transpilation. It always finds some SQL for the other dialect and never
reports that this SQL has another meaning: ``numeric`` arithmetic becomes floating-point arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from subscriber.digits import integer_of
from subscriber.types import family_of

_Kind = Literal["number", "text", "truth", "null"]
_Written = tuple[_Kind, str]
_Node = Any
"""A node of sqlglot's tree. The name of the base class depends on the version of sqlglot."""

_TEXTS: Final = frozenset({25, 1043})
"""The types text and character varying. The type character is not among them: it pads its values
with blanks and ignores these blanks in comparisons.
"""
_TEXT_CASTS: Final = frozenset({exp.DataType.Type.TEXT, exp.DataType.Type.VARCHAR})
_NUMBER_CASTS: Final = frozenset({exp.DataType.Type.SMALLINT, exp.DataType.Type.INT, exp.DataType.Type.BIGINT})

_ARITHMETIC: Final[Mapping[type, str]] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Mod: "%"}
_EQUALITY: Final[Mapping[type, str]] = {exp.EQ: "=", exp.NEQ: "<>"}
_ORDER: Final[Mapping[type, str]] = {exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_LOGIC: Final[Mapping[type, str]] = {exp.And: "AND", exp.Or: "OR"}


def sqlite_expression(expression: str, types: Mapping[str, int], quote: Callable[[str], str]) -> str | None:
    """The expression in SQLite's SQL, or None if it may have another meaning there.

    Args:
        expression: the expression as ``pg_get_expr`` prints it.
        types: the type OID of every column of the table.
        quote: a function that quotes a column's name.
    """
    try:
        tree = parse_one(expression, dialect="postgres")
    except SqlglotError:
        return None
    try:
        return _Translation(types, quote).write(tree)[1]
    except _NotPortable:
        return None


class _NotPortable(Exception):
    """A part of the expression may have another meaning in SQLite."""


class _Translation:
    def __init__(self, types: Mapping[str, int], quote: Callable[[str], str]) -> None:
        self._types = types
        self._quote = quote

    def write(self, node: _Node) -> _Written:
        match node:
            case exp.Paren():
                kind, written = self.write(node.this)
                return kind, f"({written})"
            case exp.Column() if not node.table:
                return self._column(node.name)
            case exp.Literal():
                return ("text", _string(node.name)) if node.is_string else ("number", _integer(node.name))
            case exp.Boolean():
                return "truth", "TRUE" if node.this else "FALSE"
            case exp.Null():
                return "null", "NULL"
            case exp.Cast() if node.to.this in _TEXT_CASTS and not node.to.expressions:
                return "text", self._of(node.this, "text")
            case exp.Cast() if node.to.this in _NUMBER_CASTS and isinstance(node.this, exp.Literal):
                # PostgreSQL stores a negative number in this form: '-5'::integer.
                digits = node.name.removeprefix("-")
                return "number", f"({'-' if digits != node.name else ''}{_integer(digits)})"
            case exp.Neg():
                return "number", f"-{self._of(node.this, 'number')}"
            case exp.Not():
                return "truth", f"NOT {self._of(node.this, 'truth')}"
            case exp.Length():
                return "number", f"length({self._of(node.this, 'text')})"
            case exp.Is():
                return self._is(node)
            case exp.Coalesce():
                return self._coalesce([node.this, *node.expressions])
            case exp.Binary():
                return self._binary(node)
        raise _NotPortable

    def _column(self, name: str) -> _Written:
        type_oid = self._types.get(name)
        if type_oid is None:
            raise _NotPortable
        arrow_type = family_of(type_oid).arrow_type
        if pa.types.is_boolean(arrow_type):
            return "truth", self._quote(name)
        if pa.types.is_integer(arrow_type):
            return "number", self._quote(name)
        if type_oid in _TEXTS:
            return "text", self._quote(name)
        raise _NotPortable

    def _binary(self, node: _Node) -> _Written:
        kind = type(node)
        if kind in _ARITHMETIC:
            return "number", self._infix(node, _ARITHMETIC[kind], "number")
        if kind is exp.DPipe:
            return "text", self._infix(node, "||", "text")
        if kind in _LOGIC:
            return "truth", self._infix(node, _LOGIC[kind], "truth")
        if kind in _ORDER:
            return "truth", self._infix(node, _ORDER[kind], "number")
        if kind is exp.EQ and isinstance(node.expression, exp.Any):
            return "truth", self._any_of(node)
        if kind in _EQUALITY:
            left, _ = self.write(node.this)
            return "truth", self._infix(node, _EQUALITY[kind], left)
        raise _NotPortable

    def _infix(self, node: _Node, operator: str, kind: _Kind) -> str:
        return f"{self._of(node.this, kind)} {operator} {self._of(node.expression, kind)}"

    def _is(self, node: _Node) -> _Written:
        _, left = self.write(node.this)
        if not isinstance(node.expression, exp.Null):
            raise _NotPortable
        return "truth", f"{left} IS {'NOT ' if node.args.get('negate') else ''}NULL"

    def _coalesce(self, nodes: list[_Node]) -> _Written:
        kind, _ = self.write(nodes[0])
        return kind, f"coalesce({', '.join(self._of(node, kind) for node in nodes)})"

    def _any_of(self, node: _Node) -> str:
        """``x = ANY (ARRAY[…])``: PostgreSQL stores ``x IN (…)`` in this form."""
        array = node.expression.this
        while isinstance(array, exp.Paren | exp.Cast):
            array = array.this
        if not isinstance(array, exp.Array) or not array.expressions:
            raise _NotPortable
        kind, left = self.write(node.this)
        return f"{left} IN ({', '.join(self._of(one, kind) for one in array.expressions)})"

    def _of(self, node: _Node, kind: _Kind) -> str:
        found, written = self.write(node)
        if found != kind:
            raise _NotPortable
        return written


def _string(text: str) -> str:
    if "\0" in text or "\\" in text:
        raise _NotPortable
    return "'" + text.replace("'", "''") + "'"


def _integer(text: str) -> str:
    if not text.isdecimal() or integer_of(text) >= 2**63:
        raise _NotPortable
    return text

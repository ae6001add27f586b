"""Reads type names as ``gram.y`` does.

``Typename`` is behind ``::`` and in CAST, ``ConstTypename`` is before a string constant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from subscriber.base.errors import UsageError
from subscriber.postgres.expressions.parse import syntax
from subscriber.postgres.sql.cursor import Cursor
from subscriber.postgres.sql.keywords import NOT_TYPE_OR_FUNCTION
from subscriber.postgres.sql.lexer import Kind

_NUMBERS: Final = {
    "int": "int4",
    "integer": "int4",
    "smallint": "int2",
    "bigint": "int8",
    "real": "float4",
    "boolean": "bool",
}
_DECIMALS: Final = frozenset({"decimal", "dec", "numeric"})
_CHARACTERS: Final = frozenset({"character", "char", "varchar", "national", "nchar"})
_DATETIMES: Final = frozenset({"timestamp", "time"})
TYPE_WORDS: Final = frozenset(
    {*_NUMBERS, *_DECIMALS, *_CHARACTERS, *_DATETIMES, "float", "double", "bit", "interval", "json"}
)
"""The words that begin a type name with its own grammar rule."""

INTERVAL_FULL_RANGE: Final = 0x7FFF
_FIELDS: Final = {"year": 1 << 2, "month": 1 << 1, "day": 1 << 3, "hour": 1 << 10, "minute": 1 << 11, "second": 1 << 12}
_FIELD_ORDER: Final = ("day", "hour", "minute", "second")

ReadExpression = Callable[[], syntax.Node]


def read_type(cursor: Cursor, read_expression: ReadExpression) -> syntax.TypeName:
    position = cursor.position
    cursor.accept("setof")  # casts ignore SETOF
    if cursor.peek().kind is Kind.WORD and cursor.peek().value in TYPE_WORDS and _is_own_type(cursor):
        name = _own_type(cursor, read_expression, constant=False)
        if name.names[-1] == "interval" and not name.modifiers:
            name = syntax.TypeName(position, name.names, interval_fields(cursor))
    else:
        names = [cursor.name(NOT_TYPE_OR_FUNCTION)]
        while cursor.accept("."):
            names.append(cursor.name())
        name = syntax.TypeName(position, tuple(names), _modifiers(cursor, read_expression))
    return syntax.TypeName(position, name.names, name.modifiers, array=_array_bounds(cursor))


def read_literal_type(cursor: Cursor, read_expression: ReadExpression) -> syntax.TypeName:
    """``ConstTypename`` or ``ConstInterval``."""
    return _own_type(cursor, read_expression, constant=True)


def interval_fields(cursor: Cursor) -> tuple[syntax.Node, ...]:
    """``opt_interval``, such as ``YEAR TO MONTH`` or ``SECOND (3)``, as type modifiers."""
    position = cursor.position
    first = cursor.accept_any(*_FIELDS)
    if first is None:
        return ()
    last = first
    if cursor.at("to"):
        cursor.expect("to")
        place = cursor.place
        last = cursor.accept_any("month", *_FIELD_ORDER) or ""
        order = ("year", "month") if first == "year" else _FIELD_ORDER
        if first not in order or last not in order or order.index(last) <= order.index(first):
            cursor.place = place
            raise cursor.error()
    span = ("month",) if first == last == "month" else ("year", "month") if first == "year" else _FIELD_ORDER
    mask = sum(_FIELDS[field] for field in span[span.index(first) : span.index(last) + 1])
    modifiers: tuple[syntax.Node, ...] = (_integer(position, mask),)
    if last == "second" and cursor.accept("("):
        modifiers = (*modifiers, _integer(cursor.position, cursor.integer()))
        cursor.expect(")")
    return modifiers


def _is_own_type(cursor: Cursor) -> bool:
    """Whether a type name with its own rule comes next: ``double`` only before ``precision``."""
    return cursor.at("double", "precision") or not cursor.at("double")


def _own_type(cursor: Cursor, read_expression: ReadExpression, *, constant: bool) -> syntax.TypeName:
    position = cursor.position
    word = cursor.take(Kind.WORD).value

    def named(name: str, modifiers: tuple[syntax.Node, ...] = ()) -> syntax.TypeName:
        return syntax.TypeName(position, ("pg_catalog", name), modifiers)

    if word in _NUMBERS:
        return named(_NUMBERS[word])
    if word in _DECIMALS:
        return named("numeric", _modifiers(cursor, read_expression))
    if word == "float":
        return named(_float(cursor))
    if word == "double":
        cursor.expect("precision")
        return named("float8")
    if word == "json":
        return named("json")
    if word == "bit":
        name = "varbit" if cursor.accept("varying") else "bit"
        modifiers = _modifiers(cursor, read_expression)
        return named(name, modifiers or (() if constant or name == "varbit" else (_integer(position, 1),)))
    if word in _CHARACTERS:
        return _character(cursor, word, position, constant=constant)
    if word in _DATETIMES:
        return named(*_datetime(cursor, word))
    if cursor.accept("("):  # interval
        precision = _integer(cursor.position, cursor.integer())
        cursor.expect(")")
        return named("interval", (_integer(position, INTERVAL_FULL_RANGE), precision))
    return named("interval")


def _float(cursor: Cursor) -> str:
    if not cursor.accept("("):
        return "float8"
    digits = cursor.integer()
    cursor.expect(")")
    if digits < 1:
        raise UsageError("precision for type float must be at least 1 bit", sqlstate="22023")
    if digits > 53:
        raise UsageError("precision for type float must be less than 54 bits", sqlstate="22023")
    return "float4" if digits < 25 else "float8"


def _character(cursor: Cursor, word: str, position: int, *, constant: bool) -> syntax.TypeName:
    if word == "national" and cursor.accept_any("character", "char") is None:
        raise cursor.error()
    varying = word == "varchar" or cursor.accept("varying")
    modifiers: tuple[syntax.Node, ...] = ()
    if cursor.accept("("):
        modifiers = (_integer(cursor.position, cursor.integer()),)
        cursor.expect(")")
    elif not varying and not constant:
        modifiers = (_integer(position, 1),)
    return syntax.TypeName(position, ("pg_catalog", "varchar" if varying else "bpchar"), modifiers)


def _datetime(cursor: Cursor, word: str) -> tuple[str, tuple[syntax.Node, ...]]:
    modifiers: tuple[syntax.Node, ...] = ()
    if cursor.accept("("):
        modifiers = (_integer(cursor.position, cursor.integer()),)
        cursor.expect(")")
    if cursor.accept("with", "time", "zone"):
        return word + "tz", modifiers
    cursor.accept("without", "time", "zone")
    return word, modifiers


def _modifiers(cursor: Cursor, read_expression: ReadExpression) -> tuple[syntax.Node, ...]:
    if not cursor.accept("("):
        return ()
    found = [read_expression()]
    while cursor.accept(","):
        found.append(read_expression())
    cursor.expect(")")
    return tuple(found)


def _array_bounds(cursor: Cursor) -> bool:
    found = False
    if cursor.accept("array"):
        if cursor.accept("["):
            cursor.integer()
            cursor.expect("]")
        return True
    while cursor.accept("["):
        if cursor.peek().kind is Kind.INTEGER:
            cursor.integer()
        cursor.expect("]")
        found = True
    return found


def _integer(position: int, value: int) -> syntax.AConst:
    return syntax.AConst(position, "integer", str(value))

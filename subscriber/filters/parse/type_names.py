"""Type names as ``gram.y`` reads them: ``Typename`` behind ``::`` and in CAST, ``ConstTypename`` before a string constant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from subscriber.errors import UsageError
from subscriber.filters.parse import syntax
from subscriber.filters.parse.filter_lexer import Kind
from subscriber.filters.parse.token_reader import NOT_TYPE_OR_FUNCTION, Words

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
"""Words that begin a type of the grammar's own."""

INTERVAL_FULL_RANGE: Final = 0x7FFF
_FIELDS: Final = {"year": 1 << 2, "month": 1 << 1, "day": 1 << 3, "hour": 1 << 10, "minute": 1 << 11, "second": 1 << 12}
_FIELD_ORDER: Final = ("day", "hour", "minute", "second")

ReadExpression = Callable[[], syntax.Node]


def read_type(words: Words, read_expression: ReadExpression) -> syntax.TypeName:
    """``Typename``."""
    position = words.position
    words.accept("setof")  # no cast asks
    if words.peek().kind is Kind.WORD and words.peek().value in TYPE_WORDS and _is_own_type(words):
        name = _own_type(words, read_expression, constant=False)
        if name.names[-1] == "interval" and not name.modifiers:
            name = syntax.TypeName(position, name.names, interval_fields(words))
    else:
        names = [words.name(NOT_TYPE_OR_FUNCTION)]
        while words.accept("."):
            names.append(words.label())
        name = syntax.TypeName(position, tuple(names), _modifiers(words, read_expression))
    return syntax.TypeName(position, name.names, name.modifiers, array=_array_bounds(words))


def read_literal_type(words: Words, read_expression: ReadExpression) -> syntax.TypeName:
    """``ConstTypename`` and ``ConstInterval``, whose words come next."""
    return _own_type(words, read_expression, constant=True)


def interval_fields(words: Words) -> tuple[syntax.Node, ...]:
    """``opt_interval``: ``YEAR TO MONTH``, ``SECOND (3)``, as the modifiers of the type."""
    position = words.position
    first = words.accept_any(*_FIELDS)
    if first is None:
        return ()
    last = first
    if words.at("to"):
        words.expect("to")
        place = words.place
        last = words.accept_any("month", *_FIELD_ORDER) or ""
        order = ("year", "month") if first == "year" else _FIELD_ORDER
        if first not in order or last not in order or order.index(last) <= order.index(first):
            words.place = place
            raise words.error()
    span = ("month",) if first == last == "month" else ("year", "month") if first == "year" else _FIELD_ORDER
    mask = sum(_FIELDS[field] for field in span[span.index(first) : span.index(last) + 1])
    modifiers: tuple[syntax.Node, ...] = (_integer(position, mask),)
    if last == "second" and words.accept("("):
        modifiers = (*modifiers, _integer(words.position, words.integer()))
        words.expect(")")
    return modifiers


def _is_own_type(words: Words) -> bool:
    """``double`` is a word of the grammar's only before ``precision``; ``json`` is a plain name in all but its syntax."""
    return words.at("double", "precision") or not words.at("double")


def _own_type(words: Words, read_expression: ReadExpression, *, constant: bool) -> syntax.TypeName:
    position = words.position
    word = words.take(Kind.WORD).value

    def named(name: str, modifiers: tuple[syntax.Node, ...] = ()) -> syntax.TypeName:
        return syntax.TypeName(position, ("pg_catalog", name), modifiers)

    if word in _NUMBERS:
        return named(_NUMBERS[word])
    if word in _DECIMALS:
        return named("numeric", _modifiers(words, read_expression))
    if word == "float":
        return named(_float(words))
    if word == "double":
        words.expect("precision")
        return named("float8")
    if word == "json":
        return named("json")
    if word == "bit":
        name = "varbit" if words.accept("varying") else "bit"
        modifiers = _modifiers(words, read_expression)
        return named(name, modifiers or (() if constant or name == "varbit" else (_integer(position, 1),)))
    if word in _CHARACTERS:
        return _character(words, word, position, constant=constant)
    if word in _DATETIMES:
        return named(*_datetime(words, word))
    if words.accept("("):  # interval
        precision = _integer(words.position, words.integer())
        words.expect(")")
        return named("interval", (_integer(position, INTERVAL_FULL_RANGE), precision))
    return named("interval")


def _float(words: Words) -> str:
    if not words.accept("("):
        return "float8"
    digits = words.integer()
    words.expect(")")
    if digits < 1:
        raise UsageError("precision for type float must be at least 1 bit", sqlstate="22023")
    if digits > 53:
        raise UsageError("precision for type float must be less than 54 bits", sqlstate="22023")
    return "float4" if digits < 25 else "float8"


def _character(words: Words, word: str, position: int, *, constant: bool) -> syntax.TypeName:
    if word == "national" and words.accept_any("character", "char") is None:
        raise words.error()
    varying = word == "varchar" or words.accept("varying")
    modifiers: tuple[syntax.Node, ...] = ()
    if words.accept("("):
        modifiers = (_integer(words.position, words.integer()),)
        words.expect(")")
    elif not varying and not constant:
        modifiers = (_integer(position, 1),)
    return syntax.TypeName(position, ("pg_catalog", "varchar" if varying else "bpchar"), modifiers)


def _datetime(words: Words, word: str) -> tuple[str, tuple[syntax.Node, ...]]:
    modifiers: tuple[syntax.Node, ...] = ()
    if words.accept("("):
        modifiers = (_integer(words.position, words.integer()),)
        words.expect(")")
    if words.accept("with", "time", "zone"):
        return word + "tz", modifiers
    words.accept("without", "time", "zone")
    return word, modifiers


def _modifiers(words: Words, read_expression: ReadExpression) -> tuple[syntax.Node, ...]:
    if not words.accept("("):
        return ()
    found = [read_expression()]
    while words.accept(","):
        found.append(read_expression())
    words.expect(")")
    return tuple(found)


def _array_bounds(words: Words) -> bool:
    found = False
    if words.accept("array"):
        if words.accept("["):
            words.integer()
            words.expect("]")
        return True
    while words.accept("["):
        if words.peek().kind is Kind.INTEGER:
            words.integer()
        words.expect("]")
        found = True
    return found


def _integer(position: int, value: int) -> syntax.Constant:
    return syntax.Constant(position, "integer", str(value))

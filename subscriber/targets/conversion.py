"""Values for a column of another type than the publisher's: what PostgreSQL's input function makes of the value's text (rules C2, C5).

::

    value ──output function──▶ its text ──input function of the column's type──▶ value to bind

============================  ==============================================================================
into                          from
============================  ==============================================================================
text                          every type: its text as the publisher's output function writes it
smallint, integer, bigint     texts, numbers, types of a user: digits, with a sign, 0x, 0o, 0b, underscores
boolean                       texts, integers, types of a user: ``t``, ``yes``, ``off``, ``1``, ...
double precision              texts, numbers, types of a user: decimal numbers, ``NaN``, ``Infinity``
real                          texts, types of a user, likewise
numeric                       texts, numbers, types of a user; the scale is that of the text
timestamp                     date; timestamptz, of which the zone (a replication session's is UTC) is dropped
============================  ==============================================================================

The last step differs from PostgreSQL's in one thing. Where its input function rounds (a numeric of twenty digits for a ``double
precision`` column) the value is refused, because nobody would be told; so are hexadecimal numbers there. What is in no line of the table is refused when the
relation is opened: for most of the rest the result depends on the subscriber's settings, its time zone above all.

Values that came in binary form are converted likewise, where PostgreSQL's receive function would refuse the bytes of another type, or read
them as another value. The columns here have none of PostgreSQL's types; for those of a PostgreSQL target see :mod:`subscriber.targets.binary_columns`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from subscriber.digits import integer_of
from subscriber.errors import UnsupportedValue
from subscriber.targets.declared_columns import check_range
from subscriber.targets.target_table import TargetColumn
from subscriber.types import BUILT_IN_TYPES, type_name
from subscriber.types.output import output_texts

BOOLEAN, SMALLINT, INTEGER, BIGINT, TEXT = 16, 21, 23, 20, 25
REAL, DOUBLE, NUMERIC, DATE, TIMESTAMP, TIMESTAMPTZ = 700, 701, 1700, 1082, 1114, 1184

_TEXTS: Final = frozenset({TEXT, 1043, 1042, 19})
_INTEGERS: Final = frozenset({SMALLINT, INTEGER, BIGINT, 26})
_NUMBERS: Final = _INTEGERS | {REAL, DOUBLE, NUMERIC}
_ARROW: Final = {
    BOOLEAN: pa.bool_(),
    SMALLINT: pa.int16(),
    INTEGER: pa.int32(),
    BIGINT: pa.int64(),
    REAL: pa.float32(),
    DOUBLE: pa.float64(),
    NUMERIC: pa.string(),
    TEXT: pa.string(),
    TIMESTAMP: pa.string(),
}
SOURCES: Final = {
    BOOLEAN: _TEXTS | _INTEGERS,
    SMALLINT: _TEXTS | _NUMBERS,
    INTEGER: _TEXTS | _NUMBERS,
    BIGINT: _TEXTS | _NUMBERS,
    REAL: _TEXTS,
    DOUBLE: _TEXTS | _NUMBERS,
    NUMERIC: _TEXTS | _NUMBERS,
    TIMESTAMP: frozenset({DATE, TIMESTAMPTZ}),
}
"""For each type to read: the built-in types that are read."""

_LIMITS: Final = {
    oid: (-(1 << bits - 1), (1 << bits - 1) - 1) for oid, bits in ((SMALLINT, 16), (INTEGER, 32), (BIGINT, 64))
}
_WHITESPACE: Final = " \t\n\v\f\r"
"""What input functions skip at both ends."""
_WHOLE: Final = re.compile(
    r"([+-]?)(?:0[xX]((?:_?[0-9a-fA-F])+)|0[oO]((?:_?[0-7])+)|0[bB]((?:_?[01])+)|([0-9](?:_?[0-9])*))"
)
_DIGITS: Final = "[0-9](?:_?[0-9])*"
_NUMBER: Final = re.compile(rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?")
_NAMED: Final = {"nan": "NaN"} | {
    sign + word: ("-" if sign == "-" else "") + "Infinity" for sign in ("", "+", "-") for word in ("inf", "infinity")
}
_MOST_WHOLE_DIGITS, _MOST_DECIMALS = 131_072, 16_383
"""Digits of a numeric on both sides of its point."""
_EXACT: Final = Context(prec=2 * (_MOST_WHOLE_DIGITS + _MOST_DECIMALS), Emax=10**9, Emin=-(10**9), traps=[])
_LAST_TIMESTAMP_YEAR: Final = 294_276


def converts(type_oid: int, into: int | None) -> bool:
    """Whether values of a type can be read as another.

    Args:
        type_oid: the publisher's.
        into: the type that the target's column stands for; None for one that nothing is converted for.
    """
    if into is None:
        return False
    if into == TEXT:
        return True
    sources = SOURCES[into]
    own = type_oid not in BUILT_IN_TYPES and TEXT in sources
    return own or type_oid in sources


def converted(into: int, column: TargetColumn, values: pa.Array) -> pa.Array:
    """The values as the input function of another type reads them, in that type's Arrow form.

    Args:
        into: the type to read.
        column: where the values go, for messages.
        values: decoded, of a type that :func:`converts`.

    Raises:
        UnsupportedValue: 22P02 or 22003, PostgreSQL's text without the value; 22003 too for a number that would be rounded.
    """
    if pa.types.is_integer(values.type) and into in _LIMITS:
        check_range(column, values, *_LIMITS[into])
        return values.cast(_ARROW[into])
    read = _READ[into]
    known: dict[str, Any] = {}
    try:
        for text in output_texts(values.drop_null()):
            if text not in known:
                known[text] = read(text)
    except _Unreadable as error:
        message = error.message.format(type_name(into))
        raise UnsupportedValue(message, sqlstate=error.sqlstate, column=column.name, hint=error.hint) from None
    texts = iter(output_texts(values.drop_null()))
    return pa.array([known[next(texts)] if valid else None for valid in values.is_valid().to_pylist()], _ARROW[into])


class _Unreadable(Exception):
    """No value of the type; leaves this module as an UnsupportedValue."""

    def __init__(self, message: str, sqlstate: str, hint: str | None = None) -> None:
        self.message = message
        self.sqlstate = sqlstate
        self.hint = hint


def _invalid() -> _Unreadable:
    return _Unreadable("invalid input syntax for type {}", "22P02")


def _out_of_range() -> _Unreadable:
    return _Unreadable("value is out of range for type {}", "22003")


def _read_integer(least: int, greatest: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        found = _WHOLE.fullmatch(text.strip(_WHITESPACE))
        if found is None:
            raise _invalid()
        sign, *digits = found.groups()
        base, written = next((base, one) for base, one in zip((16, 8, 2, 10), digits, strict=True) if one is not None)
        number = integer_of(written.replace("_", ""), base) * (-1 if sign == "-" else 1)
        if not least <= number <= greatest:
            raise _out_of_range()
        return number

    return read


def _read_boolean(text: str) -> bool:
    word = text.strip(_WHITESPACE).lower()
    if word in ("1", "on") or (word and ("true".startswith(word) or "yes".startswith(word))):
        return True
    if word in ("0", "of", "off") or (word and ("false".startswith(word) or "no".startswith(word))):
        return False
    raise _invalid()


def _read_float(parse: Callable[[str], Any]) -> Callable[[str], float]:
    def read(text: str) -> float:
        word = text.strip(_WHITESPACE)
        if (named := _NAMED.get(word.lower())) is not None:
            return float(named)
        if _NUMBER.fullmatch(word) is None or "_" in word:
            raise _invalid()
        with np.errstate(over="ignore", under="ignore"):
            number = parse(word)
        written = _EXACT.create_decimal(word)
        if np.isinf(number) or (number == 0 and written):
            raise _out_of_range()
        if _EXACT.create_decimal(str(number)) != written:
            raise _Unreadable(
                "value would be rounded to type {}", "22003", "Declare the column so that it keeps every digit."
            )
        return float(number)

    return read


def _read_numeric(text: str) -> str:
    word = text.strip(_WHITESPACE)
    if (named := _NAMED.get(word.lower())) is not None:
        return named
    whole = _WHOLE.fullmatch(word)
    if whole is not None and whole[5] is None:
        sign, *digits = whole.groups()
        base, written = next((base, one) for base, one in zip((16, 8, 2), digits[:3], strict=True) if one is not None)
        # Not str(): Python limits how long a whole number it writes.
        number = Decimal(int(written.replace("_", ""), base) * (-1 if sign == "-" else 1))
    elif _NUMBER.fullmatch(word) is not None:
        number = _EXACT.create_decimal(word.replace("_", ""))
    else:
        raise _invalid()
    exponent = number.as_tuple().exponent
    if number.adjusted() >= _MOST_WHOLE_DIGITS or not isinstance(exponent, int) or -exponent > _MOST_DECIMALS:
        raise _Unreadable("value overflows numeric format", "22003")
    # There is no negative zero.
    return f"{number or number.copy_abs():f}"


def _read_timestamp(text: str) -> str:
    """Of a date's or a timestamptz's text."""
    moment, before, _ = text.partition(" BC")
    moment = moment.removesuffix("+00")
    if "infinity" in moment or " " in moment:
        return moment + before
    if not before and int(moment.partition("-")[0]) > _LAST_TIMESTAMP_YEAR:
        raise _Unreadable("timestamp out of range", "22008")
    return f"{moment} 00:00:00{before}"


_READ: Final[dict[int, Callable[[str], Any]]] = {
    TEXT: str,
    BOOLEAN: _read_boolean,
    SMALLINT: _read_integer(*_LIMITS[SMALLINT]),
    INTEGER: _read_integer(*_LIMITS[INTEGER]),
    BIGINT: _read_integer(*_LIMITS[BIGINT]),
    REAL: _read_float(np.float32),
    DOUBLE: _read_float(float),
    NUMERIC: _read_numeric,
    TIMESTAMP: _read_timestamp,
}

"""Conversion of values for a column of another type than the publisher's (rules C2, C5): the type's
output function writes the text, and PostgreSQL's input function of the column's type reads it.

=========================  ======================================================================
into                       from
=========================  ======================================================================
text                       every type: its text as the publisher's output function writes it
smallint, integer, bigint  texts, numbers, user-defined types: digits, with a sign, 0x, 0o, 0b,
                           underscores
boolean                    texts, integers, user-defined types: ``t``, ``yes``, ``off``, ``1``, ...
double precision           texts, numbers, user-defined types: decimal and hexadecimal numbers,
                           ``NaN``, ``Infinity``
real                       texts, user-defined types: the same texts as for double precision
numeric                    texts, numbers, user-defined types; the scale is that of the text
timestamp                  date; timestamptz, without its zone (which is UTC in a replication
                           session)
=========================  ======================================================================

Where PostgreSQL rounds (for example a numeric of twenty digits for a ``double precision`` column),
the value is refused, because rounding would not be reported. Hexadecimal numbers for ``real`` and
``double precision`` columns are refused too. A pair of types that is not in the table is refused
when the relation is opened: for most of them the result depends on the subscriber's settings, above
all on its time zone.

Values that arrived in binary format are converted in the same way, unlike in PostgreSQL, whose
receive function would refuse the bytes of another type or misread them. For the columns of a
PostgreSQL target see :mod:`subscriber.targets.postgresql.values`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from subscriber.base.errors import DataException, UnsupportedValue
from subscriber.postgres.types.arrays import output_texts
from subscriber.postgres.types.datetimes.date_values import out_of_range
from subscriber.postgres.types.family import WHITESPACE
from subscriber.postgres.types.floats import decimal_text, float4in, float8in
from subscriber.postgres.types.integers import boolin, int2in, int4in, int8in
from subscriber.postgres.types.numeric import EXACT, numeric_in, numeric_out
from subscriber.postgres.types.oids import BUILT_IN_TYPES, type_name
from subscriber.targets.declared_columns import check_range
from subscriber.targets.target_table import TargetColumn

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
"""For each type that can be read: the built-in types that it is read from."""

_LIMITS: Final = {
    oid: (-(1 << bits - 1), (1 << bits - 1) - 1) for oid, bits in ((SMALLINT, 16), (INTEGER, 32), (BIGINT, 64))
}
_LAST_TIMESTAMP_YEAR: Final = 294_276


def converts(type_oid: int, into: int | None) -> bool:
    """Whether values can be read as the type of the target's column; None: nothing is converted."""
    if into is None:
        return False
    if into == TEXT:
        return True
    sources = SOURCES[into]
    own = type_oid not in BUILT_IN_TYPES and TEXT in sources
    return own or type_oid in sources


def converted(into: int, column: TargetColumn, values: pa.Array) -> pa.Array:
    """Decoded values, of a type for which :func:`converts` is true, as the input function of
    another type reads them, in that type's Arrow form. Raises UnsupportedValue (22P02, 22003) with
    PostgreSQL's text but without the value; also for a number that would be rounded (22003).
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
    except DataException as error:
        raise UnsupportedValue(error.message, sqlstate=error.sqlstate, column=column.name, hint=error.hint) from None
    texts = iter(output_texts(values.drop_null()))
    return pa.array([known[next(texts)] if valid else None for valid in values.is_valid().to_pylist()], _ARROW[into])


def _exactly(read: Callable[[str], float], shortest: Callable[[float], object], name: str, text: str) -> float:
    """The floating-point number that a text represents; a text that would be rounded is refused."""
    value = read(text)
    exact = EXACT.create_decimal(decimal_text(text.strip(WHITESPACE)))
    if math.isfinite(value) and EXACT.create_decimal(str(shortest(value))) != exact:
        raise DataException(
            f"value would be rounded to type {name}",
            sqlstate="22003",
            hint="Declare the column so that it keeps every digit.",
        )
    return value


def _exact_text(text: str) -> str:
    return numeric_out(numeric_in(text))


def _timestamp_text(text: str) -> str:
    moment, before, _ = text.partition(" BC")
    moment = moment.removesuffix("+00")
    if "infinity" in moment or " " in moment:
        return moment + before
    if not before and int(moment.partition("-")[0]) > _LAST_TIMESTAMP_YEAR:
        raise out_of_range("timestamp")
    return f"{moment} 00:00:00{before}"


_READ: Final[dict[int, Callable[[str], Any]]] = {
    TEXT: str,
    BOOLEAN: boolin,
    SMALLINT: int2in,
    INTEGER: int4in,
    BIGINT: int8in,
    REAL: partial(_exactly, float4in, np.float32, type_name(REAL)),
    DOUBLE: partial(_exactly, float8in, float, type_name(DOUBLE)),
    NUMERIC: _exact_text,
    TIMESTAMP: _timestamp_text,
}

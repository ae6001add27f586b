"""A query's result as text, as PostgreSQL would write it, for output in psql's tables."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final

import sqlalchemy as sa

from subscriber import types
from subscriber.types.float_text import double_text, real_text, rounded_to_real

_NUMERIC: Final = 1700
_UNKNOWN: Final = 705


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The result of a query.

    Attributes:
        names: the names of its columns.
        type_oids: the PostgreSQL type of each column. If the target does not report types: numeric
            if all values are numbers, else unknown.
        rows: the values as text; None is NULL.
    """

    names: tuple[str, ...]
    type_oids: tuple[int, ...]
    rows: list[tuple[str | None, ...]]


def read_result(result: sa.CursorResult[Any], real: Hashable | None = None) -> QueryResult:
    """The result of a target whose driver returns Python values.

    Args:
        result: the driver's result.
        real: the driver's code for single-precision columns; None if the driver does not
            distinguish them from double-precision columns.
    """
    names = tuple(result.keys())
    texts = [_real_text if real is not None and code == real else value_text for code in _type_codes(result)]
    rows = [tuple(row) for row in result]
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return QueryResult(
        names,
        tuple(_NUMERIC if _are_numbers(column) else _UNKNOWN for column in columns),
        [tuple(text(value) for text, value in zip(texts, row, strict=True)) for row in rows],
    )


def _type_codes(result: sa.CursorResult[Any]) -> list[object]:
    assert result.cursor is not None
    return [column[1] for column in result.cursor.description]


def _real_text(value: object) -> str | None:
    return real_text(rounded_to_real(value)) if isinstance(value, float) else value_text(value)


def value_text(value: object) -> str | None:
    r"""A driver's value as PostgreSQL writes it, or as Python writes it if PostgreSQL has no such
    type.

    >>> value_text(True), value_text(2.0), value_text(b"\x00a"), value_text(datetime(2026, 1, 2, 3, 4, 5, 60))
    ('t', '2', '\\x0061', '2026-01-02 03:04:05.00006')
    """
    match value:
        case None:
            return None
        case bool():
            return types.boolout(value)
        case float():
            return double_text(value)
        case Decimal():
            return types.numeric_out(value)
        case bytes() | bytearray() | memoryview():
            return types.byteaout(bytes(value))
        case datetime() | time():
            return _time_text(value)
        case date():
            return value.isoformat()
        case _:
            return str(value)


def _are_numbers(values: Sequence[object]) -> bool:
    present = [value for value in values if value is not None]
    return bool(present) and all(
        isinstance(value, int | float | Decimal) and not isinstance(value, bool) for value in present
    )


def _time_text(value: datetime | time) -> str:
    """ISO format with a blank between date and time.

    The fraction has no trailing zeros, and a zone offset of whole hours has no minutes.
    """
    text = value.replace(tzinfo=None, microsecond=0).isoformat().replace("T", " ")
    fraction = f".{value.microsecond:06}".rstrip("0") if value.microsecond else ""
    zone = value.isoformat()[len(value.replace(tzinfo=None).isoformat()) :].removesuffix(":00")
    return text + fraction + zone

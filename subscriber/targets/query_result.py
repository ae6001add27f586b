"""A query's result as text, as PostgreSQL would write it, for output in psql's tables."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final

import sqlalchemy as sa

from subscriber.postgres.types.float_text import double_text, real_text, rounded_to_real

_NUMERIC: Final = 1700
_UNKNOWN: Final = 705


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Texts, None for NULL. Without types, a column is numeric if all values are numbers."""

    names: tuple[str, ...]
    type_oids: tuple[int, ...]
    rows: list[tuple[str | None, ...]]


def read_result(result: sa.CursorResult[Any], real: Hashable | None = None) -> QueryResult:
    """From a driver's Python values; ``real`` is its code for single-precision columns."""
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
    r"""A driver's value as PostgreSQL writes it, or as Python does if PostgreSQL has no such type.

    >>> value_text(True), value_text(2.0), value_text(b"\x00a"), value_text(datetime(2026, 1, 2, 3, 4, 5, 60))
    ('t', '2', '\\x0061', '2026-01-02 03:04:05.00006')
    """
    # The imports within are of modules that import Arrow, which a command starts without.
    match value:
        case None:
            return None
        case bool():
            from subscriber.postgres.types.integers import boolout

            return boolout(value)
        case float():
            return double_text(value)
        case Decimal():
            from subscriber.postgres.types.numeric import numeric_out

            return numeric_out(value)
        case bytes() | bytearray() | memoryview():
            from subscriber.postgres.types.byte_strings import byteaout

            return byteaout(bytes(value))
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
    """ISO format with a blank, without trailing zeros, and without a zone's minutes of 00."""
    text = value.replace(tzinfo=None, microsecond=0).isoformat().replace("T", " ")
    fraction = f".{value.microsecond:06}".rstrip("0") if value.microsecond else ""
    zone = value.isoformat()[len(value.replace(tzinfo=None).isoformat()) :].removesuffix(":00")
    return text + fraction + zone

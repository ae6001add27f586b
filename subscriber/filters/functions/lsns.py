"""pg_lsn: a position in the write-ahead log, stored as an unsigned integer of 64 bits."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from subscriber.errors import RowFilterError
from subscriber.filters.functions.comparison import register_columns, register_extremes, register_order, sign
from subscriber.filters.functions.function_table import FunctionTable
from subscriber.lsn import MAX_LSN
from subscriber.types.numeric import EXACT

FUNCTIONS: Final = FunctionTable()

register_columns(FUNCTIONS, "pg_lsn_{}(pg_lsn,pg_lsn)")
register_order(FUNCTIONS, "pg_lsn_cmp(pg_lsn,pg_lsn)", sign)
register_extremes(FUNCTIONS, "pg_lsn_larger(pg_lsn,pg_lsn)", "pg_lsn_smaller(pg_lsn,pg_lsn)", sign)


@FUNCTIONS.elementwise("pg_lsn_mi(pg_lsn,pg_lsn)", "pg_wal_lsn_diff(pg_lsn,pg_lsn)", raises=False)
def _difference(left: int, right: int) -> Decimal:
    return Decimal(left - right)


@FUNCTIONS.elementwise("pg_lsn(numeric)")
def _from_number(value: Decimal) -> int:
    if not value.is_finite():
        what = "NaN" if value.is_nan() else "infinity"
        raise RowFilterError(f"cannot convert {what} to pg_lsn", sqlstate="0A000")
    if not -1 < value < MAX_LSN + 1:
        raise _out_of_range()
    number = int(EXACT.to_integral_value(value))
    if not 0 <= number <= MAX_LSN:
        raise _out_of_range()
    return number


def _out_of_range() -> RowFilterError:
    return RowFilterError("pg_lsn out of range", sqlstate="22023")


@FUNCTIONS.elementwise("pg_lsn_pli(pg_lsn,numeric)")
def _plus(lsn: int, count: Decimal) -> int:
    return _moved(lsn, count, "add NaN to")


@FUNCTIONS.elementwise("numeric_pl_pg_lsn(numeric,pg_lsn)")
def _plus_lsn(count: Decimal, lsn: int) -> int:
    return _plus(lsn, count)


@FUNCTIONS.elementwise("pg_lsn_mii(pg_lsn,numeric)")
def _minus(lsn: int, count: Decimal) -> int:
    return _moved(lsn, count.copy_negate(), "subtract NaN from")


def _moved(lsn: int, count: Decimal, what: str) -> int:
    if count.is_nan():
        raise RowFilterError(f"cannot {what} pg_lsn", sqlstate="0A000")
    if count.is_infinite():
        return _from_number(count)
    # Fractions are kept until the sum is rounded.
    return _from_number(EXACT.add(Decimal(lsn), count))

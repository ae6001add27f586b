"""``width_bucket`` of numeric."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Final

from subscriber.errors import RowFilterError
from subscriber.filters.functions.function_table import Context, FunctionTable
from subscriber.filters.functions.integers import out_of_range as integer_out_of_range
from subscriber.filters.functions.numeric import quotient, quotient_scale
from subscriber.types.numeric import EXACT

FUNCTIONS: Final = FunctionTable()

_INT4: Final = 2**31
_EXACT_BUCKETS: Final = 160000
"""The first version that does not round before it takes the integer part."""


@FUNCTIONS.elementwise("width_bucket(numeric,numeric,numeric,int4)", context=True)
def _bucket(context: Context, operand: Decimal, low: Decimal, high: Decimal, count: int) -> int:
    if count <= 0:
        raise _bucket_error("count must be greater than zero")
    if operand.is_nan() or low.is_nan() or high.is_nan():
        raise _bucket_error("operand, lower bound, and upper bound cannot be NaN")
    if low.is_infinite() or high.is_infinite():
        raise _bucket_error("lower and upper bounds must be finite")
    if low == high:
        raise _bucket_error("lower bound cannot equal upper bound")
    if (operand < low) if low < high else (operand > low):
        return 0
    if (operand >= high) if low < high else (operand <= high):
        found = count + 1
    else:
        part = EXACT.multiply(EXACT.subtract(operand, low), Decimal(count))
        width = EXACT.subtract(high, low)
        if context.server_version < _EXACT_BUCKETS:
            found = math.floor(quotient(part, width, quotient_scale(part, width))) + 1
        else:
            found = int(EXACT.divide_int(part, width)) + 1
    if found > _INT4 - 1:
        raise integer_out_of_range("integer")
    return found


def _bucket_error(message: str) -> RowFilterError:
    return RowFilterError(message, sqlstate="2201G")

"""smallint, integer, bigint, oid, boolean and pg_lsn: comparisons, arithmetic, bits, casts.

Arithmetic does not wrap around: an overflow is an error. The name of a function contains its types:
``int24pl`` is smallint + integer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from subscriber.base.errors import RowFilterError
from subscriber.base.lsn import MAX_LSN
from subscriber.postgres.expressions.functions import function_table
from subscriber.postgres.types.family import sign
from subscriber.postgres.types.numeric import EXACT

_ARROW: Final = {"2": pa.int16(), "4": pa.int32(), "8": pa.int64()}
_NAMES: Final = {"2": "smallint", "4": "integer", "8": "bigint"}


def out_of_range(name: str) -> RowFilterError:
    """The error for a result that the type cannot hold (22003)."""
    return RowFilterError(f"{name} out of range", sqlstate="22003")


def division_by_zero() -> RowFilterError:
    return RowFilterError("division by zero", sqlstate="22012")


def _checked(function: Callable[..., Any], name: str, *values: Any) -> Any:
    """Call an Arrow function that checks for overflow, with PostgreSQL's errors."""
    try:
        return function(*values)
    except pa.ArrowInvalid as error:
        raise (division_by_zero() if "divide by zero" in str(error) else out_of_range(name)) from None


# Comparisons and arithmetic of each pair of widths ------------------------------------------------

_ARITHMETIC: Final = {
    "pl": pc.add_checked,
    "mi": pc.subtract_checked,
    "mul": pc.multiply_checked,
    "div": pc.divide_checked,
}


def _sign_of_difference(left: Any, right: Any) -> Any:
    greater, less = (pc.cast(compare(left, right), pa.int32()) for compare in (pc.greater, pc.less))
    return pc.subtract(greater, less)


def _arithmetic(function: Callable[..., Any], width: str, left: Any, right: Any) -> Any:
    arrow_type = _ARROW[width]
    return _checked(function, _NAMES[width], pc.cast(left, arrow_type), pc.cast(right, arrow_type))


for _left in _ARROW:
    for _right in _ARROW:
        _types = f"(int{_left},int{_right})"
        _pair = f"int{_left}" if _left == _right else f"int{_left}{_right}"
        function_table.register_columns(f"{_pair}{{}}{_types}")
        for _name, _function in _ARITHMETIC.items():
            function_table.vectorised(f"{_pair}{_name}{_types}", raises=True)(
                partial(_arithmetic, _function, max(_left, _right))
            )
        if _pair != "int2":
            function_table.vectorised(f"bt{_pair}cmp{_types}")(_sign_of_difference)


function_table.vectorised("btint2cmp(int2,int2)")(
    lambda left, right: pc.subtract(pc.cast(left, pa.int32()), pc.cast(right, pa.int32()))
)


# One width ----------------------------------------------------------------------------------------


def numbers(value: Any, instead_of_null: Any) -> Any:
    """A column or a scalar as a numpy array or number, with a substitute for null."""
    if isinstance(value, pa.Scalar):
        return instead_of_null if value.as_py() is None else value.as_py()
    return (pc.fill_null(value, instead_of_null) if value.null_count else value).to_numpy(zero_copy_only=False)


def with_nulls(result: Any, arrow_type: pa.DataType, *values: Any) -> pa.Array:
    """Numpy's result as a column, which is null where one of the values is null."""
    masks = [value.is_null().to_numpy(zero_copy_only=False) for value in values if isinstance(value, pa.Array)]
    return pa.array(result, arrow_type, mask=np.logical_or.reduce(masks))


def _modulo(width: str, left: Any, right: Any) -> Any:
    divisor = numbers(right, 1)
    valid = left.is_valid().to_numpy(zero_copy_only=False) if isinstance(left, pa.Array) else True
    if np.any((divisor == 0) & valid):
        raise division_by_zero()
    # A division by -1 has the remainder 0, and the processor would overflow for the least number.
    # Zeros remain only where the dividend is NULL.
    divisor = np.where((divisor == -1) | (divisor == 0), 1, divisor)
    dtype = _ARROW[width].to_pandas_dtype()
    return with_nulls(np.fmod(np.asarray(numbers(left, 0), dtype), divisor.astype(dtype)), _ARROW[width], left, right)


def _shifted(width: str, left: Any, right: Any, *, to_left: bool) -> Any:
    # The processor uses the lowest five bits of the distance (six for bigint). A smallint is
    # shifted as an integer.
    wide = np.int64 if width == "8" else np.int32
    value = np.asarray(numbers(left, 0), wide)
    distance = np.asarray(numbers(right, 0), np.int64) & (63 if width == "8" else 31)
    shifted = np.left_shift(value, distance.astype(wide)) if to_left else np.right_shift(value, distance.astype(wide))
    return with_nulls(shifted.astype(_ARROW[width].to_pandas_dtype()), _ARROW[width], left, right)


def _extreme(compare: Callable[..., Any], left: Any, right: Any) -> Any:
    return pc.if_else(compare(left, right), left, right)


for _width, _arrow in _ARROW.items():
    _one, _two = f"(int{_width})", f"(int{_width},int{_width})"
    _type = f"int{_width}"
    function_table.vectorised(f"{_type}mod{_two}", f"mod{_two}", raises=True)(partial(_modulo, _width))
    function_table.vectorised(f"{_type}um{_one}", raises=True)(partial(_checked, pc.negate_checked, _NAMES[_width]))
    function_table.vectorised(f"{_type}abs{_one}", f"abs{_one}", raises=True)(
        partial(_checked, pc.abs_checked, _NAMES[_width])
    )
    function_table.vectorised(f"{_type}up{_one}")(lambda value: value)
    function_table.vectorised(f"{_type}not{_one}")(pc.bit_wise_not)
    function_table.vectorised(f"{_type}and{_two}")(pc.bit_wise_and)
    function_table.vectorised(f"{_type}or{_two}")(pc.bit_wise_or)
    function_table.vectorised(f"{_type}xor{_two}")(pc.bit_wise_xor)
    function_table.vectorised(f"{_type}shl(int{_width},int4)")(partial(_shifted, _width, to_left=True))
    function_table.vectorised(f"{_type}shr(int{_width},int4)")(partial(_shifted, _width, to_left=False))
    function_table.vectorised(f"{_type}larger{_two}")(partial(_extreme, pc.greater))
    function_table.vectorised(f"{_type}smaller{_two}")(partial(_extreme, pc.less))
    for _source in _ARROW:
        if _source != _width:
            _cast = partial(pc.cast, target_type=_arrow)
            function_table.vectorised(f"{_type}(int{_source})", raises=_source > _width)(
                partial(_checked, _cast, _NAMES[_width])
            )


function_table.vectorised("bool(int4)")(lambda value: pc.not_equal(value, 0))


def _divisor(name: str, greatest: int, left: int, right: int) -> int:
    divisor = math.gcd(left, right)
    if divisor > greatest:
        raise out_of_range(name)
    return divisor


def _multiple(name: str, greatest: int, left: int, right: int) -> int:
    multiple = math.lcm(left, right)
    if multiple > greatest:
        raise out_of_range(name)
    return multiple


for _width in ("4", "8"):
    _greatest = 2 ** (8 * int(_width) - 1) - 1
    function_table.elementwise(f"gcd(int{_width},int{_width})")(partial(_divisor, _NAMES[_width], _greatest))
    function_table.elementwise(f"lcm(int{_width},int{_width})")(partial(_multiple, _NAMES[_width], _greatest))


# oid ----------------------------------------------------------------------------------------------

function_table.register_columns("oid{}(oid,oid)")
function_table.vectorised("btoidcmp(oid,oid)")(_sign_of_difference)
function_table.vectorised("oidlarger(oid,oid)")(partial(_extreme, pc.greater))
function_table.vectorised("oidsmaller(oid,oid)")(partial(_extreme, pc.less))
function_table.vectorised("int8(oid)")(lambda value: value)


@function_table.vectorised("oid(int8)", raises=True)
def _to_oid(value: Any) -> Any:
    if pc.any(pc.or_(pc.less(value, 0), pc.greater(value, 2**32 - 1))).as_py():
        raise out_of_range("OID")
    return value


function_table.register_columns("bool{}(bool,bool)")
function_table.vectorised("btboolcmp(bool,bool)")(
    lambda left, right: pc.subtract(pc.cast(left, pa.int32()), pc.cast(right, pa.int32()))
)
function_table.vectorised("int4(bool)")(lambda value: pc.cast(value, pa.int32()))
function_table.vectorised("text(bool)")(lambda value: pc.if_else(value, "true", "false"))
function_table.elementwise("num_nulls(any)", strict=False, raises=False)(
    lambda *values: sum(one is None for one in values)
)
function_table.elementwise("num_nonnulls(any)", strict=False, raises=False)(
    lambda *values: sum(one is not None for one in values)
)
function_table.register_columns("pg_lsn_{}(pg_lsn,pg_lsn)")
function_table.register_order("pg_lsn_cmp(pg_lsn,pg_lsn)", sign)
function_table.register_extremes("pg_lsn_larger(pg_lsn,pg_lsn)", "pg_lsn_smaller(pg_lsn,pg_lsn)", sign)
function_table.elementwise("pg_lsn_mi(pg_lsn,pg_lsn)", "pg_wal_lsn_diff(pg_lsn,pg_lsn)", raises=False)(
    lambda left, right: Decimal(left - right)
)


@function_table.elementwise("pg_lsn(numeric)")
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


@function_table.elementwise("pg_lsn_pli(pg_lsn,numeric)")
def _plus(lsn: int, count: Decimal) -> int:
    return _moved(lsn, count, "add NaN to")


function_table.elementwise("pg_lsn_mii(pg_lsn,numeric)")(
    lambda lsn, count: _moved(lsn, count.copy_negate(), "subtract NaN from")
)


def _moved(lsn: int, count: Decimal, what: str) -> int:
    if count.is_nan():
        raise RowFilterError(f"cannot {what} pg_lsn", sqlstate="0A000")
    if count.is_infinite():
        return _from_number(count)
    # Fractions are kept until the sum is rounded.
    return _from_number(EXACT.add(Decimal(lsn), count))

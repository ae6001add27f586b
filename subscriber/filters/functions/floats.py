"""real and double precision: comparisons, arithmetic, rounding, casts.

The mathematical functions of the C library are in :mod:`.float_functions`.

NaN equals itself and is greater than every other value. Arithmetic follows IEEE 754 in the width of
the type, so the results are identical to the server's, bit by bit. If the result is infinite or
zero although the arguments are not, it is an error (22003).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from subscriber.errors import RowFilterError
from subscriber.filters.functions.function_table import FunctionTable
from subscriber.filters.functions.integers import division_by_zero, numbers, out_of_range, with_nulls

FUNCTIONS: Final = FunctionTable()

_ARROW: Final = {"4": pa.float32(), "8": pa.float64()}


def overflow() -> RowFilterError:
    """The error for a result that is too large (22003)."""
    return RowFilterError("value out of range: overflow", sqlstate="22003")


def underflow() -> RowFilterError:
    """The error for a result that is too near to zero (22003)."""
    return RowFilterError("value out of range: underflow", sqlstate="22003")


# Comparisons --------------------------------------------------------------------------------------


def _with_nan(plain: Callable[..., Any], decide: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A comparison of floats in which NaN has PostgreSQL's order.

    Args:
        plain: Arrow's comparison, for two numbers.
        decide: the result where a side is NaN; it is called with "left is NaN" and "right is NaN".
    """

    def compare(left: Any, right: Any) -> Any:
        nan_left, nan_right = pc.is_nan(left), pc.is_nan(right)
        return pc.if_else(pc.or_(nan_left, nan_right), decide(nan_left, nan_right), plain(left, right))

    return compare


_equal = _with_nan(pc.equal, pc.and_)
_less = _with_nan(pc.less, lambda left, right: pc.and_not(right, left))
_greater = _with_nan(pc.greater, pc.and_not)


def _negated(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda left, right: pc.invert(compare(left, right))


_COMPARISONS: Final = {
    "eq": _equal,
    "ne": _negated(_equal),
    "lt": _less,
    "le": _negated(_greater),
    "gt": _greater,
    "ge": _negated(_less),
}


def _order(left: Any, right: Any) -> Any:
    greater, less = (pc.cast(compare(left, right), pa.int32()) for compare in (_greater, _less))
    return pc.subtract(greater, less)


# Arithmetic ---------------------------------------------------------------------------------------


def _add(left: Any, right: Any) -> Any:
    return left + right


def _subtract(left: Any, right: Any) -> Any:
    return left - right


def _multiply(left: Any, right: Any) -> Any:
    return left * right


def _divide(left: Any, right: Any) -> Any:
    if np.any((right == 0) & ~np.isnan(left)):
        raise division_by_zero()
    return left / right


def _check_sum(result: Any, left: Any, right: Any) -> None:
    if np.any(np.isinf(result) & ~np.isinf(left) & ~np.isinf(right)):
        raise overflow()


def _check_product(result: Any, left: Any, right: Any) -> None:
    _check_sum(result, left, right)
    if np.any((result == 0) & (left != 0) & (right != 0)):
        raise underflow()


def _check_quotient(result: Any, left: Any, right: Any) -> None:
    if np.any(np.isinf(result) & ~np.isinf(left)):
        raise overflow()
    if np.any((result == 0) & (left != 0) & ~np.isinf(right)):
        raise underflow()


_ARITHMETIC: Final = {
    "pl": (_add, _check_sum),
    "mi": (_subtract, _check_sum),
    "mul": (_multiply, _check_product),
    "div": (_divide, _check_quotient),
}


def _arithmetic(
    compute: Callable[[Any, Any], Any], check: Callable[[Any, Any, Any], None], width: str, left: Any, right: Any
) -> Any:
    dtype = _ARROW[width].to_pandas_dtype()
    # A value next to a NULL must not raise an error. So both sides are replaced by 1 where either
    # is NULL.
    missing = np.logical_or(*(_missing(value) for value in (left, right)))
    one, other = (np.where(missing, dtype(1), np.asarray(numbers(value, 1), dtype)) for value in (left, right))
    with np.errstate(all="ignore"):
        result = compute(one, other)
        check(result, one, other)
    return with_nulls(result, _ARROW[width], left, right)


def _missing(value: Any) -> Any:
    return value.is_null().to_numpy(zero_copy_only=False) if isinstance(value, pa.Array) else np.False_


for _left in _ARROW:
    for _right in _ARROW:
        _types = f"(float{_left},float{_right})"
        _pair = f"float{_left}" if _left == _right else f"float{_left}{_right}"
        for _name, _comparison in _COMPARISONS.items():
            FUNCTIONS.vectorised(f"{_pair}{_name}{_types}")(_comparison)
        FUNCTIONS.vectorised(f"bt{_pair}cmp{_types}")(_order)
        for _name, (_compute, _check) in _ARITHMETIC.items():
            FUNCTIONS.vectorised(f"{_pair}{_name}{_types}", raises=True)(
                partial(_arithmetic, _compute, _check, max(_left, _right))
            )


def _extreme(compare: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    return pc.if_else(compare(left, right), left, right)


for _width in _ARROW:
    _one, _two = f"(float{_width})", f"(float{_width},float{_width})"
    FUNCTIONS.vectorised(f"float{_width}um{_one}")(pc.negate)
    FUNCTIONS.vectorised(f"float{_width}up{_one}")(lambda value: value)
    FUNCTIONS.vectorised(f"float{_width}abs{_one}", f"abs{_one}")(pc.abs)
    FUNCTIONS.vectorised(f"float{_width}larger{_two}")(partial(_extreme, _greater))
    FUNCTIONS.vectorised(f"float{_width}smaller{_two}")(partial(_extreme, _less))


# Rounding -----------------------------------------------------------------------------------------


def _each(compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Apply numpy's function, which cannot fail, to a column of double precision."""

    def apply(value: Any) -> Any:
        with np.errstate(all="ignore"):
            return with_nulls(compute(np.asarray(numbers(value, 0.0), np.float64)), pa.float64(), value)

    return apply


FUNCTIONS.vectorised("round(float8)", "dround(float8)")(_each(np.rint))
FUNCTIONS.vectorised("trunc(float8)", "dtrunc(float8)")(_each(np.trunc))
FUNCTIONS.vectorised("ceil(float8)", "ceiling(float8)")(_each(np.ceil))
FUNCTIONS.vectorised("floor(float8)")(_each(np.floor))
FUNCTIONS.vectorised("sign(float8)")(_each(lambda value: np.where(value > 0, 1.0, np.where(value < 0, -1.0, 0.0))))


# Casts --------------------------------------------------------------------------------------------


def _rounded(value: Any, *, arrow_type: pa.DataType, name: str) -> Any:
    """Round to the nearest integer; a half is rounded to the even integer."""
    limit = 2.0 ** (arrow_type.bit_width - 1)
    with np.errstate(all="ignore"):
        whole = np.rint(np.asarray(numbers(value, 0.0)))
        if not np.all((whole >= -limit) & (whole < limit)):
            raise out_of_range(name)
        return with_nulls(whole.astype(arrow_type.to_pandas_dtype()), arrow_type, value)


def _as_float(value: Any, *, arrow_type: pa.DataType) -> Any:
    return with_nulls(np.asarray(numbers(value, 0)).astype(arrow_type.to_pandas_dtype()), arrow_type, value)


for _width in _ARROW:
    for _bits, _arrow, _name in (
        ("2", pa.int16(), "smallint"),
        ("4", pa.int32(), "integer"),
        ("8", pa.int64(), "bigint"),
    ):
        FUNCTIONS.vectorised(f"int{_bits}(float{_width})", raises=True)(
            partial(_rounded, arrow_type=_arrow, name=_name)
        )
        FUNCTIONS.vectorised(f"float{_width}(int{_bits})")(partial(_as_float, arrow_type=_ARROW[_width]))
FUNCTIONS.vectorised("float8(float4)")(partial(_as_float, arrow_type=pa.float64()))


@FUNCTIONS.vectorised("float4(float8)", raises=True)
def _to_real(value: Any) -> Any:
    wide = np.asarray(numbers(value, 0.0))
    with np.errstate(all="ignore"):
        narrow = wide.astype(np.float32)
        if np.any(np.isinf(narrow) & ~np.isinf(wide)):
            raise overflow()
        if np.any((narrow == 0) & (wide != 0)):
            raise underflow()
    return with_nulls(narrow, pa.float32(), value)

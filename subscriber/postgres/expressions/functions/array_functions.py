"""Arrays: comparison, containment, search and concatenation.

The elements are compared by the default operators of their type. Two NULL elements are equal here,
and NULL sorts after every other element. Arrays of json and jsonb are not supported, because the
order of their elements is not known.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from operator import mul
from typing import Any, Final

from subscriber.base.errors import RowFilterError
from subscriber.postgres.expressions.functions.function_table import Context, elementwise
from subscriber.postgres.types.arrays import EMPTY, MOST_DIMENSIONS, MOST_ELEMENTS, Array, bounds_text, too_large
from subscriber.postgres.types.family import Compare, sign
from subscriber.postgres.types.oids import ELEMENT_TYPES
from subscriber.postgres.types.registry import form_of

_BPCHAR: Final = 1042
_LAST_SUBSCRIPT: Final = 2**31 - 1


def _comparison(context: Context) -> Compare:
    """The function that compares the elements of a call's arrays."""
    element = next(ELEMENT_TYPES[oid] for oid in context.argument_types if oid in ELEMENT_TYPES)
    form = form_of(element)
    assert form is not None
    assert form.compare is not None
    return form.compare


def _equal(compare: Compare, left: Any, right: Any) -> bool:
    """IS NOT DISTINCT FROM of two elements."""
    if left is None or right is None:
        return left is right
    return compare(left, right) == 0


# --- comparison ---------------------------------------------------------------------------------


def compare_arrays(compare: Compare, left: Array, right: Array) -> int:
    """Compare by the first element that differs, then by number, dimensions, lower bounds."""
    for one, other in zip(left.elements, right.elements, strict=False):
        order = sign(one is None, other is None) if one is None or other is None else compare(one, other)
        if order:
            return order
    shapes = ((len(one.elements), len(one.dimensions), one.dimensions, one.lower_bounds) for one in (left, right))
    return sign(*shapes)


def _arrays_are_equal(compare: Compare, left: Array, right: Array) -> bool:
    return (
        left.dimensions == right.dimensions
        and left.lower_bounds == right.lower_bounds
        and all(_equal(compare, one, other) for one, other in zip(left.elements, right.elements, strict=True))
    )


elementwise("array_eq(anyarray,anyarray)", context=True, raises=False)(
    lambda context, left, right: _arrays_are_equal(_comparison(context), left, right)
)
elementwise("array_ne(anyarray,anyarray)", context=True, raises=False)(
    lambda context, left, right: not _arrays_are_equal(_comparison(context), left, right)
)


def _register_order(name: str, result: Callable[[int, Array, Array], Any]) -> None:
    def by(compare: Compare) -> Callable[[Context, Array, Array], Any]:
        def compared(context: Context, left: Array, right: Array) -> Any:
            blank_padded = ELEMENT_TYPES[context.argument_types[0]] == _BPCHAR
            elements = (lambda one, other: compare(one.rstrip(" "), other.rstrip(" "))) if blank_padded else compare
            return result(compare_arrays(elements, left, right), left, right)

        return compared

    @elementwise(f"{name}(anyarray,anyarray)", context=True, raises=False, bytewise=True, by_order=by)
    def _(context: Context, left: Array, right: Array) -> Any:
        return result(compare_arrays(_comparison(context), left, right), left, right)


_register_order("array_lt", lambda order, *_: order < 0)
_register_order("array_le", lambda order, *_: order <= 0)
_register_order("array_gt", lambda order, *_: order > 0)
_register_order("array_ge", lambda order, *_: order >= 0)
_register_order("btarraycmp", lambda order, *_: sign(order, 0))
_register_order("array_larger", lambda order, left, right: left if order > 0 else right)
_register_order("array_smaller", lambda order, left, right: left if order < 0 else right)


# --- containment --------------------------------------------------------------------------------


def _has(compare: Compare, array: Array, value: Any) -> bool:
    """Whether an element equals the value. NULL equals nothing here."""
    return value is not None and any(one is not None and compare(one, value) == 0 for one in array.elements)


@elementwise("arraycontains(anyarray,anyarray)", context=True, raises=False)
def _contains(context: Context, array: Array, part: Array) -> bool:
    compare = _comparison(context)
    return all(_has(compare, array, one) for one in part.elements)


elementwise("arraycontained(anyarray,anyarray)", context=True, raises=False)(
    lambda context, part, array: _contains(context, array, part)
)


@elementwise("arrayoverlap(anyarray,anyarray)", context=True, raises=False)
def _overlaps(context: Context, left: Array, right: Array) -> bool:
    compare = _comparison(context)
    return any(_has(compare, left, one) for one in right.elements)


# --- shape --------------------------------------------------------------------------------------

elementwise("array_ndims(anyarray)", raises=False)(lambda array: len(array.dimensions) or None)
elementwise("array_dims(anyarray)", raises=False)(
    lambda array: bounds_text(array.dimensions, array.lower_bounds) or None
)
elementwise("cardinality(anyarray)", raises=False)(lambda array: len(array.elements))


@elementwise("array_length(anyarray,int4)", raises=False)
def _length(array: Array, dimension: int) -> int | None:
    return array.dimensions[dimension - 1] if 1 <= dimension <= len(array.dimensions) else None


@elementwise("array_lower(anyarray,int4)", raises=False)
def _lower(array: Array, dimension: int) -> int | None:
    return array.lower_bounds[dimension - 1] if 1 <= dimension <= len(array.dimensions) else None


@elementwise("array_upper(anyarray,int4)", raises=False)
def _upper(array: Array, dimension: int) -> int | None:
    length, lower = _length(array, dimension), _lower(array, dimension)
    return None if length is None or lower is None else lower + length - 1


# --- search -------------------------------------------------------------------------------------


def _one_dimension(array: Array, what: str) -> None:
    if len(array.dimensions) > 1:
        raise RowFilterError(f"{what} multidimensional arrays is not supported", sqlstate="0A000")


def _positions(compare: Compare, array: Array, value: Any) -> list[int]:
    _one_dimension(array, "searching for elements in")
    return [
        subscript
        for subscript, one in enumerate(array.elements, array.lower_bounds[0] if array.dimensions else 1)
        if _equal(compare, one, value)
    ]


elementwise("array_position(anycompatiblearray,anycompatible)", context=True, strict=False)(
    lambda context, array, value: (
        None if array is None else next(iter(_positions(_comparison(context), array, value)), None)
    )
)


@elementwise("array_position(anycompatiblearray,anycompatible,int4)", context=True, strict=False)
def _position_from(context: Context, array: Array | None, value: Any, start: int | None) -> int | None:
    if array is None:
        return None
    found = _positions(_comparison(context), array, value)
    if not array.dimensions or (value is None and None not in array.elements):
        return None
    if start is None:
        raise RowFilterError("initial position must not be null", sqlstate="22004")
    return next((one for one in found if one >= start), None)


elementwise("array_positions(anycompatiblearray,anycompatible)", context=True, strict=False)(
    lambda context, array, value: (
        None if array is None else _of_elements(tuple(_positions(_comparison(context), array, value)))
    )
)


def _of_elements(elements: tuple[Any, ...], lower_bound: int = 1) -> Array:
    return Array((len(elements),), (lower_bound,), elements) if elements else EMPTY


# --- other arrays -------------------------------------------------------------------------------


def _check_subscript(subscript: int) -> int:
    if not -_LAST_SUBSCRIPT - 1 <= subscript <= _LAST_SUBSCRIPT:
        raise RowFilterError("integer out of range", sqlstate="22003")
    return subscript


def _check_bounds(sizes: tuple[int, ...], lower_bounds: tuple[int, ...]) -> None:
    """``ArrayCheckBounds``: the subscripts of a new array must be integers."""
    if any(bound + size > _LAST_SUBSCRIPT for bound, size in zip(lower_bounds, sizes, strict=True)):
        raise RowFilterError("array lower bound is too large", sqlstate="54000")


def _extended(array: Array | None, *, front: tuple[Any, ...] = (), back: tuple[Any, ...] = ()) -> Array:
    if array is None or not array.dimensions:
        return _of_elements((*front, *back))
    if len(array.dimensions) > 1:
        raise RowFilterError("argument must be empty or one-dimensional array", sqlstate="22000")
    lower = array.lower_bounds[0]
    _check_subscript(lower - 1 if front else lower + len(array.elements))
    elements = (*front, *array.elements, *back)
    if back:
        _check_bounds((len(elements),), (lower,))
    return _of_elements(elements, lower)


elementwise("array_append(anycompatiblearray,anycompatible)", strict=False)(
    lambda array, value: _extended(array, back=(value,))
)
elementwise("array_prepend(anycompatible,anycompatiblearray)", strict=False)(
    lambda value, array: _extended(array, front=(value,))
)


@elementwise("array_cat(anycompatiblearray,anycompatiblearray)", strict=False)
def _concatenate(left: Array | None, right: Array | None) -> Array | None:
    """``array_cat``: of equal depth, or one is an element of the other."""
    if left is None or right is None:
        return right if left is None else left
    if not left.dimensions or not right.dimensions:
        return right if not left.dimensions else left
    outer = left if len(left.dimensions) >= len(right.dimensions) else right
    depth = len(outer.dimensions)
    parts = [_as_deep(one, depth) for one in (left, right)]
    if None in parts or parts[0][1:] != parts[1][1:]:
        raise RowFilterError("cannot concatenate incompatible arrays", sqlstate="2202E")
    elements = (*left.elements, *right.elements)
    if len(elements) > MOST_ELEMENTS:
        raise too_large()
    sizes = (parts[0][0] + parts[1][0], *outer.dimensions[1:])
    _check_bounds(sizes, outer.lower_bounds)
    return Array(sizes, outer.lower_bounds, elements)


def _as_deep(array: Array, depth: int) -> Any:
    """Number of outer elements, dimensions and bounds of one; None if the depth does not fit."""
    inner = depth - len(array.dimensions)
    if inner > 1:
        return None
    dimensions = array.dimensions if inner else array.dimensions[1:]
    bounds = array.lower_bounds if inner else array.lower_bounds[1:]
    return (1 if inner else array.dimensions[0], dimensions, bounds)


@elementwise("array_remove(anycompatiblearray,anycompatible)", context=True, strict=False)
def _remove(context: Context, array: Array | None, value: Any) -> Array | None:
    if array is None:
        return None
    _one_dimension(array, "removing elements from")
    compare = _comparison(context)
    kept = tuple(one for one in array.elements if not _equal(compare, one, value))
    return _of_elements(kept, array.lower_bounds[0] if array.dimensions else 1)


@elementwise("array_replace(anycompatiblearray,anycompatible,anycompatible)", context=True, strict=False, raises=False)
def _replace(context: Context, array: Array | None, value: Any, new: Any) -> Array | None:
    if array is None:
        return None
    compare = _comparison(context)
    elements = tuple(new if _equal(compare, one, value) else one for one in array.elements)
    return Array(array.dimensions, array.lower_bounds, elements)


@elementwise("trim_array(anyarray,int4)")
def _trim(array: Array, count: int) -> Array:
    length = array.dimensions[0] if array.dimensions else 0
    if not 0 <= count <= length:
        raise RowFilterError(f"number of elements to trim must be between 0 and {length}", sqlstate="2202E")
    kept = length - count
    if not kept:
        return EMPTY
    elements = array.elements[: len(array.elements) // length * kept]
    return Array((kept, *array.dimensions[1:]), (1,) * len(array.dimensions), elements)


@elementwise("array_reverse(anyarray)", raises=False)
def _reverse(array: Array) -> Array:
    if not array.dimensions:
        return array
    size = len(array.elements) // array.dimensions[0]
    parts = [array.elements[start : start + size] for start in range(0, len(array.elements), size)]
    return Array(array.dimensions, array.lower_bounds, tuple(one for part in reversed(parts) for one in part))


@elementwise("array_fill(anyelement,_int4,_int4)", strict=False)
def _filled(value: Any, dimensions: Array | None, lower_bounds: Array | int | None) -> Array:
    """``array_fill``. A number as ``lower_bounds`` counts dimensions from 1 on."""
    if dimensions is None or lower_bounds is None:
        raise RowFilterError("dimension array or low bound array cannot be null", sqlstate="22004")
    sizes = _subscripts(dimensions)
    bounds = (1,) * lower_bounds if isinstance(lower_bounds, int) else None
    if len(sizes) > MOST_DIMENSIONS:
        raise RowFilterError(
            f"number of array dimensions ({len(sizes)}) exceeds the maximum allowed ({MOST_DIMENSIONS})",
            sqlstate="54000",
        )
    if bounds is None:
        assert isinstance(lower_bounds, Array)
        bounds = _subscripts(lower_bounds)
        if len(bounds) != len(sizes):
            raise RowFilterError("wrong number of array subscripts", sqlstate="2202E")
    # The sizes are multiplied one after another, and no intermediate product may exceed four bytes.
    products = list(accumulate(sizes, mul, initial=1))
    count = products[-1]
    if any(size < 0 for size in sizes) or max(products) >= 2**31 or count > MOST_ELEMENTS:
        raise too_large()
    _check_bounds(sizes, bounds)
    if not count or not sizes:
        return EMPTY
    return Array(sizes, bounds, (value,) * count)


elementwise("array_fill(anyelement,_int4)", strict=False)(
    lambda value, dimensions: _filled(value, dimensions, None if dimensions is None else len(dimensions.elements))
)


def _subscripts(array: Array) -> tuple[int, ...]:
    if len(array.dimensions) > 1:
        raise RowFilterError("wrong number of array subscripts", sqlstate="2202E")
    if None in array.elements:
        raise RowFilterError("dimension values cannot be null", sqlstate="22004")
    return array.elements

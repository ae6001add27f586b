"""Arrays: comparison, containment, search and concatenation.

The element type must have a form (:mod:`subscriber.types.form`). Elements are compared by the
default operators of their type, which the form contains. Two NULL elements are equal here, and NULL
sorts after every other element. Arrays of json and jsonb are not supported, because the order of
their elements is not known (see :mod:`.json`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from operator import mul
from typing import Any, Final

from subscriber.errors import RowFilterError
from subscriber.filters.functions.function_table import Context, FunctionTable
from subscriber.types import ELEMENT_TYPES, form_of
from subscriber.types.array_text import EMPTY, MOST_DIMENSIONS, MOST_ELEMENTS, Array, bounds_text, too_large
from subscriber.types.form import Compare, sign

FUNCTIONS: Final = FunctionTable()

_LAST_SUBSCRIPT: Final = 2**31 - 1


def _comparison(context: Context) -> Compare:
    """The function that compares the elements of a call's arrays."""
    element = next(ELEMENT_TYPES[oid] for oid in context.argument_types if oid in ELEMENT_TYPES)
    form = form_of(element)
    assert form is not None
    assert form.compare is not None
    return form.compare


def _equal(compare: Compare, left: Any, right: Any) -> bool:
    """Whether two elements are not distinct (IS NOT DISTINCT FROM)."""
    if left is None or right is None:
        return left is right
    return compare(left, right) == 0


# --- comparison ---------------------------------------------------------------------------------


def compare_arrays(compare: Compare, left: Array, right: Array) -> int:
    """Compare two arrays: less than, equal to or greater than zero.

    The first element that differs decides. If there is none, the number of elements decides, then
    the dimensions, then the lower bounds.
    """
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


@FUNCTIONS.elementwise("array_eq(anyarray,anyarray)", context=True, raises=False)
def _eq(context: Context, left: Array, right: Array) -> bool:
    return _arrays_are_equal(_comparison(context), left, right)


@FUNCTIONS.elementwise("array_ne(anyarray,anyarray)", context=True, raises=False)
def _ne(context: Context, left: Array, right: Array) -> bool:
    return not _arrays_are_equal(_comparison(context), left, right)


def _register_order(name: str, test: Callable[[int], bool | int]) -> None:
    @FUNCTIONS.elementwise(f"{name}(anyarray,anyarray)", context=True, raises=False, bytewise=True)
    def _(context: Context, left: Array, right: Array) -> bool | int:
        return test(compare_arrays(_comparison(context), left, right))


_register_order("array_lt", lambda order: order < 0)
_register_order("array_le", lambda order: order <= 0)
_register_order("array_gt", lambda order: order > 0)
_register_order("array_ge", lambda order: order >= 0)
_register_order("btarraycmp", lambda order: order)


@FUNCTIONS.elementwise("array_larger(anyarray,anyarray)", context=True, raises=False, bytewise=True)
def _larger(context: Context, left: Array, right: Array) -> Array:
    return left if compare_arrays(_comparison(context), left, right) > 0 else right


@FUNCTIONS.elementwise("array_smaller(anyarray,anyarray)", context=True, raises=False, bytewise=True)
def _smaller(context: Context, left: Array, right: Array) -> Array:
    return left if compare_arrays(_comparison(context), left, right) < 0 else right


# --- containment --------------------------------------------------------------------------------


def _has(compare: Compare, array: Array, value: Any) -> bool:
    """Whether an element equals the value. NULL equals nothing here."""
    return value is not None and any(one is not None and compare(one, value) == 0 for one in array.elements)


@FUNCTIONS.elementwise("arraycontains(anyarray,anyarray)", context=True, raises=False)
def _contains(context: Context, array: Array, part: Array) -> bool:
    compare = _comparison(context)
    return all(_has(compare, array, one) for one in part.elements)


@FUNCTIONS.elementwise("arraycontained(anyarray,anyarray)", context=True, raises=False)
def _contained(context: Context, part: Array, array: Array) -> bool:
    return _contains(context, array, part)


@FUNCTIONS.elementwise("arrayoverlap(anyarray,anyarray)", context=True, raises=False)
def _overlaps(context: Context, left: Array, right: Array) -> bool:
    compare = _comparison(context)
    return any(_has(compare, left, one) for one in right.elements)


# --- shape --------------------------------------------------------------------------------------


@FUNCTIONS.elementwise("array_ndims(anyarray)", raises=False)
def _dimension_count(array: Array) -> int | None:
    return len(array.dimensions) or None


@FUNCTIONS.elementwise("array_dims(anyarray)", raises=False)
def _bounds(array: Array) -> str | None:
    return bounds_text(array.dimensions, array.lower_bounds) or None


@FUNCTIONS.elementwise("cardinality(anyarray)", raises=False)
def _element_count(array: Array) -> int:
    return len(array.elements)


@FUNCTIONS.elementwise("array_length(anyarray,int4)", raises=False)
def _length(array: Array, dimension: int) -> int | None:
    return array.dimensions[dimension - 1] if 1 <= dimension <= len(array.dimensions) else None


@FUNCTIONS.elementwise("array_lower(anyarray,int4)", raises=False)
def _lower(array: Array, dimension: int) -> int | None:
    return array.lower_bounds[dimension - 1] if 1 <= dimension <= len(array.dimensions) else None


@FUNCTIONS.elementwise("array_upper(anyarray,int4)", raises=False)
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


@FUNCTIONS.elementwise("array_position(anycompatiblearray,anycompatible)", context=True, strict=False)
def _position(context: Context, array: Array | None, value: Any) -> int | None:
    return None if array is None else next(iter(_positions(_comparison(context), array, value)), None)


@FUNCTIONS.elementwise("array_position(anycompatiblearray,anycompatible,int4)", context=True, strict=False)
def _position_from(context: Context, array: Array | None, value: Any, start: int | None) -> int | None:
    if array is None:
        return None
    found = _positions(_comparison(context), array, value)
    if not array.dimensions or (value is None and None not in array.elements):
        return None
    if start is None:
        raise RowFilterError("initial position must not be null", sqlstate="22004")
    return next((one for one in found if one >= start), None)


@FUNCTIONS.elementwise("array_positions(anycompatiblearray,anycompatible)", context=True, strict=False)
def _all_positions(context: Context, array: Array | None, value: Any) -> Array | None:
    return None if array is None else _of_elements(tuple(_positions(_comparison(context), array, value)))


def _of_elements(elements: tuple[Any, ...], lower_bound: int = 1) -> Array:
    return Array((len(elements),), (lower_bound,), elements) if elements else EMPTY


# --- other arrays -------------------------------------------------------------------------------


def _check_subscript(subscript: int) -> int:
    if not -_LAST_SUBSCRIPT - 1 <= subscript <= _LAST_SUBSCRIPT:
        raise RowFilterError("integer out of range", sqlstate="22003")
    return subscript


def _check_bounds(sizes: tuple[int, ...], lower_bounds: tuple[int, ...]) -> None:
    """Check that the subscripts of a new array are integers (``ArrayCheckBounds``)."""
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


@FUNCTIONS.elementwise("array_append(anycompatiblearray,anycompatible)", strict=False)
def _append(array: Array | None, value: Any) -> Array:
    return _extended(array, back=(value,))


@FUNCTIONS.elementwise("array_prepend(anycompatible,anycompatiblearray)", strict=False)
def _prepend(value: Any, array: Array | None) -> Array:
    return _extended(array, front=(value,))


@FUNCTIONS.elementwise("array_cat(anycompatiblearray,anycompatiblearray)", strict=False)
def _concatenate(left: Array | None, right: Array | None) -> Array | None:
    """Concatenate two arrays (``array_cat``).

    Both have the same number of dimensions, or one of them has one dimension less and becomes an
    element of the other.
    """
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
    """The number of an array's outer elements at this depth, and the dimensions and bounds of one
    element.

    None if the array's number of dimensions does not fit the depth.
    """
    inner = depth - len(array.dimensions)
    if inner > 1:
        return None
    dimensions = array.dimensions if inner else array.dimensions[1:]
    bounds = array.lower_bounds if inner else array.lower_bounds[1:]
    return (1 if inner else array.dimensions[0], dimensions, bounds)


@FUNCTIONS.elementwise("array_remove(anycompatiblearray,anycompatible)", context=True, strict=False)
def _remove(context: Context, array: Array | None, value: Any) -> Array | None:
    if array is None:
        return None
    _one_dimension(array, "removing elements from")
    compare = _comparison(context)
    kept = tuple(one for one in array.elements if not _equal(compare, one, value))
    return _of_elements(kept, array.lower_bounds[0] if array.dimensions else 1)


@FUNCTIONS.elementwise(
    "array_replace(anycompatiblearray,anycompatible,anycompatible)", context=True, strict=False, raises=False
)
def _replace(context: Context, array: Array | None, value: Any, new: Any) -> Array | None:
    if array is None:
        return None
    compare = _comparison(context)
    elements = tuple(new if _equal(compare, one, value) else one for one in array.elements)
    return Array(array.dimensions, array.lower_bounds, elements)


@FUNCTIONS.elementwise("trim_array(anyarray,int4)")
def _trim(array: Array, count: int) -> Array:
    length = array.dimensions[0] if array.dimensions else 0
    if not 0 <= count <= length:
        raise RowFilterError(f"number of elements to trim must be between 0 and {length}", sqlstate="2202E")
    kept = length - count
    if not kept:
        return EMPTY
    elements = array.elements[: len(array.elements) // length * kept]
    return Array((kept, *array.dimensions[1:]), (1,) * len(array.dimensions), elements)


@FUNCTIONS.elementwise("array_reverse(anyarray)", raises=False)
def _reverse(array: Array) -> Array:
    if not array.dimensions:
        return array
    size = len(array.elements) // array.dimensions[0]
    parts = [array.elements[start : start + size] for start in range(0, len(array.elements), size)]
    return Array(array.dimensions, array.lower_bounds, tuple(one for part in reversed(parts) for one in part))


@FUNCTIONS.elementwise("array_fill(anyelement,_int4)", strict=False)
def _fill(value: Any, dimensions: Array | None) -> Array:
    return _filled(value, dimensions, None if dimensions is None else len(dimensions.elements))


@FUNCTIONS.elementwise("array_fill(anyelement,_int4,_int4)", strict=False)
def _fill_from(value: Any, dimensions: Array | None, lower_bounds: Array | None) -> Array:
    return _filled(value, dimensions, lower_bounds)


def _filled(value: Any, dimensions: Array | None, lower_bounds: Array | int | None) -> Array:
    """An array in which every element is the same value (``array_fill``).

    If ``lower_bounds`` is a number, every dimension has the lower bound 1, and the number is the
    count of dimensions.
    """
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


def _subscripts(array: Array) -> tuple[int, ...]:
    if len(array.dimensions) > 1:
        raise RowFilterError("wrong number of array subscripts", sqlstate="2202E")
    if None in array.elements:
        raise RowFilterError("dimension values cannot be null", sqlstate="22004")
    return array.elements

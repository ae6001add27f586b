"""Makes the values of ``ARRAY[…]`` from elements or from arrays (``ExecEvalArrayExpr``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from subscriber.errors import RowFilterError
from subscriber.types.array_text import EMPTY, MOST_DIMENSIONS, Array


def array_of_elements(elements: Sequence[Any]) -> Array:
    """Return an array with one dimension, whose lower bound is 1.

    Without elements it is the empty array, which has no dimension.
    """
    return Array((len(elements),), (1,), tuple(elements)) if elements else EMPTY


def array_of_arrays(arrays: Sequence[Array | None]) -> Array:
    """Return an array with one dimension more than the given arrays.

    Raises:
        RowFilterError: 2202E, the dimensions of the arrays differ; 54000, there are too many
            dimensions.
    """
    filled = [one for one in arrays if one is not None and one.dimensions]
    if not filled:
        return EMPTY
    first = filled[0]
    if len(filled) < len(arrays) or any(
        (one.dimensions, one.lower_bounds) != (first.dimensions, first.lower_bounds) for one in filled
    ):
        raise RowFilterError(
            "multidimensional arrays must have array expressions with matching dimensions", sqlstate="2202E"
        )
    if len(first.dimensions) == MOST_DIMENSIONS:
        raise RowFilterError(
            f"number of array dimensions ({MOST_DIMENSIONS + 1}) exceeds the maximum allowed ({MOST_DIMENSIONS})",
            sqlstate="54000",
        )
    return Array(
        (len(filled), *first.dimensions),
        (1, *first.lower_bounds),
        tuple(element for one in filled for element in one.elements),
    )

"""ARRAY[…] of elements and of arrays (``ExecEvalArrayExpr``)."""

from __future__ import annotations

import pytest

from subscriber.base.errors import RowFilterError
from subscriber.postgres.expressions.evaluate.row_values import array_of_arrays, array_of_elements
from subscriber.postgres.types.arrays import EMPTY, Array

ONE_TWO = Array((2,), (1,), (1, 2))
THREE_FOUR = Array((2,), (1,), (3, 4))


def test_elements_make_an_array_that_begins_at_one():
    assert array_of_elements([1, None]) == Array((2,), (1,), (1, None))
    assert array_of_elements([]) == EMPTY


def test_arrays_make_an_array_with_one_dimension_more():
    assert array_of_arrays([ONE_TWO, THREE_FOUR]) == Array((2, 2), (1, 1), (1, 2, 3, 4))
    from_five = Array((2,), (5,), (1, 2))
    assert array_of_arrays([from_five]) == Array((1, 2), (1, 5), (1, 2))


@pytest.mark.parametrize("arrays", [[], [EMPTY], [EMPTY, None], [None]])
def test_arrays_without_elements_make_the_empty_array(arrays):
    assert array_of_arrays(arrays) == EMPTY


@pytest.mark.parametrize(
    "other",
    [None, EMPTY, Array((3,), (1,), (1, 2, 3)), Array((2,), (2,), (1, 2)), Array((1, 2), (1, 1), (1, 2))],
    ids=["null", "empty", "longer", "other bounds", "deeper"],
)
def test_arrays_of_different_dimensions_are_an_error(other):
    with pytest.raises(RowFilterError) as caught:
        array_of_arrays([ONE_TWO, other])
    assert (caught.value.sqlstate, caught.value.message) == (
        "2202E",
        "multidimensional arrays must have array expressions with matching dimensions",
    )


def test_an_array_has_six_dimensions_at_most():
    deepest = Array((1,) * 6, (1,) * 6, (1,))
    with pytest.raises(RowFilterError) as caught:
        array_of_arrays([deepest])
    assert (caught.value.sqlstate, caught.value.message) == (
        "54000",
        "number of array dimensions (7) exceeds the maximum allowed (6)",
    )

"""Rows of a frame: columns in the form of their types, parts of rows, and values put together."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from subscriber.base.errors import DataException, NotSupportedError
from subscriber.postgres.expressions.evaluate.row_values import (
    NULL,
    FrameRows,
    Pieces,
    ScalarValue,
    array_from,
    arrow_of,
    filtered,
    listed,
    nulls,
    read_column,
    required_form,
)

BOOL, INT4, TEXT, POINT, DATE, NUMERIC = 16, 23, 25, 600, 1082, 1700


def rows(**columns: list[object]) -> FrameRows:
    return FrameRows({name: pa.array(values) for name, values in columns.items()}, len(next(iter(columns.values()))))


def test_a_column_of_text_is_read_into_the_form_of_its_type():
    assert listed(read_column(pa.array(["1", None, "-2"]), INT4), 3) == [1, None, -2]
    assert listed(read_column(pa.array(["2000-01-02", None, "2000-01-02"]), DATE), 3) == [1, None, 1]
    assert read_column(pa.array(["1.50", None]), NUMERIC) == [Decimal("1.50"), None]


def test_a_column_of_the_forms_arrow_type_is_taken_as_it_is():
    array = pa.array([1, None], pa.int32())
    assert read_column(array, INT4) is array


def test_a_column_of_another_arrow_type_cannot_be_read():
    with pytest.raises(NotSupportedError, match="values of type date from int64"):
        read_column(pa.array([1], pa.int64()), DATE)


def test_a_type_without_a_form_is_refused():
    assert arrow_of(POINT) is None
    with pytest.raises(NotSupportedError, match="type point"):
        required_form(POINT)


@pytest.mark.parametrize(
    ("type_oid", "name"), [(NUMERIC, "numeric"), (1007, "integer[]")], ids=["read as a column", "read one by one"]
)
def test_a_text_that_is_no_value_is_an_error_that_does_not_show_it(type_oid, name):
    """names_are_data."""
    with pytest.raises(DataException) as caught:
        read_column(pa.array(["{secret"]), type_oid)
    assert (caught.value.sqlstate, caught.value.message) == ("22P02", f"invalid input syntax for type {name}")


def test_a_column_is_converted_at_its_first_use_only():
    whole = rows(a=["1", "2"])
    column = whole.column("a", INT4)
    assert whole.column("a", INT4) is column
    assert listed(whole.column("a", TEXT), 2) == ["1", "2"]


def test_a_part_of_the_rows_has_their_values_there():
    whole = rows(a=["1", "2", "3"])
    part = whole.where(pa.array([True, False, True]))
    assert part.count == 2
    assert listed(part.column("a", INT4), 2) == [1, 3]
    nested = part.where(pa.array([False, True]))
    assert listed(nested.column("a", INT4), 1) == [3]


def test_a_value_that_is_kept_is_known_to_all_parts_of_the_rows():
    whole = rows(a=["1", "2"])
    slot = object()
    whole.keep(slot, ["x", "y"])
    part = whole.where(pa.array([False, True]))
    assert part.kept(slot) == ["y"]
    assert whole.kept(object()) == NULL


@pytest.mark.parametrize(
    "value", [pa.array([1, None, 3], pa.int32()), [1, None, 3]], ids=["a column of arrow", "a list"]
)
def test_values_are_listed_filtered_and_tested_for_null(value):
    assert listed(value, 3) == [1, None, 3]
    assert listed(filtered(value, pa.array([True, True, False])), 2) == [1, None]
    assert nulls(value, 3).to_pylist() == [False, True, False]
    assert array_from(value, 3, pa.int32()).to_pylist() == [1, None, 3]


def test_one_value_for_all_rows_is_all_of_these_too():
    assert listed(ScalarValue(7), 2) == [7, 7]
    assert filtered(ScalarValue(7), pa.array([False])) == ScalarValue(7)
    assert nulls(ScalarValue(7), 2).to_pylist() == [False, False]
    assert nulls(NULL, 2).to_pylist() == [True, True]
    assert array_from(NULL, 2, pa.int32()).equals(pa.nulls(2, pa.int32()))


@pytest.mark.parametrize("arrow_type", [pa.int32(), None], ids=["a column of arrow", "a list"])
class TestPieces:
    """Values of some rows after another."""

    def test_each_piece_comes_to_the_place_of_its_rows(self, arrow_type):
        pieces = Pieces(rows(a=["1", "2", "3", "4"]), arrow_type)
        pieces.give(pa.array([False, True, False, True]), [20, 40])
        assert pieces.rest.count == 2
        pieces.give(pa.array([False, True]), ScalarValue(30))
        pieces.give_rest(lambda rest: [int(one) for one in listed(rest.column("a", INT4), rest.count)])
        assert listed(pieces.whole(), 4) == [1, 20, 30, 40]

    def test_rows_without_a_piece_are_null(self, arrow_type):
        pieces = Pieces(rows(a=["1", "2"]), arrow_type)
        assert listed(pieces.whole(), 2) == [None, None]
        pieces.give(pa.array([False, True]), [2])
        assert listed(pieces.whole(), 2) == [None, 2]

    def test_one_piece_for_all_rows_is_the_value_itself(self, arrow_type):
        pieces = Pieces(rows(a=["1", "2"]), arrow_type)
        pieces.give(pa.array([True, True]), ScalarValue(7))
        assert pieces.whole() == ScalarValue(7)

    def test_the_rest_is_not_computed_for_no_rows(self, arrow_type):
        pieces = Pieces(rows(a=["1"]), arrow_type)
        pieces.give(pa.array([True]), [1])
        pieces.give_rest(lambda _: pytest.fail("there are no rows"))
        assert listed(pieces.whole(), 1) == [1]

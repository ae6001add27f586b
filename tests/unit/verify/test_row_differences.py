"""The rows in which two sets of rows differ, in any order and with little memory."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.verify import row_differences
from subscriber.verify.row_differences import DifferenceKind, DifferingRows, RowDifferences

COLUMNS = ("k", "v")


def twice(rows):
    """Rows whose texts were canonical before."""
    return ((row, row) for row in rows)


def compare(here, there, *, key=(0,), most_keys=10, buffered=50_000) -> RowDifferences:
    with closing(DifferingRows(COLUMNS, key, buffered=buffered)) as rows:
        return rows.differences(*rows.add(twice(here), twice(there)), most_keys=most_keys)


def test_equal_rows_leave_nothing_in_any_order():
    rows = [(str(number), None if number % 3 else "x") for number in range(20)]
    assert compare(rows, rows) == RowDifferences(20, 20)
    assert compare(rows, rows[::-1], buffered=2).is_equal
    assert compare([], []).is_equal


def test_missing_unexpected_and_changed_rows_are_told_apart_by_key():
    found = compare([("1", "a"), ("2", "b"), ("3", "c")], [("1", "a"), ("2", "B"), ("4", "d")])
    assert found == RowDifferences(3, 3, 1, 1, 1, ("v",), (("3",),), (("4",),), (("2",),))


def test_null_differs_from_an_empty_text_and_from_the_word_null():
    """absence_is_typed"""
    for text in ("", "null", "NULL", "\\N"):
        assert compare([("1", None)], [("1", text)]).changed == 1
        assert compare([(None, "v")], [(text, "v")]).missing == 1


def test_without_a_key_equal_rows_are_counted():
    found = compare([("1", "a")] * 3 + [("2", "b")], [("1", "a"), ("2", "c")], key=())
    assert found == RowDifferences(4, 2, 3, 1)


def test_a_duplicate_row_is_unexpected_once():
    assert compare([("1", "a")], [("1", "a"), ("1", "a")]) == RowDifferences(1, 2, 0, 1, 0, (), (), (("1",),))


def test_the_smallest_keys_are_named_up_to_a_limit():
    found = compare([(str(number), "x") for number in range(30)], [], most_keys=3)
    assert (found.missing, found.missing_keys) == (30, (("0",), ("1",), ("2",)))


def test_a_long_key_is_named_by_its_digest_and_still_differs_from_another():
    """names_are_data: a message does not have a key of megabytes."""
    found = compare([("a" * 1000, "x")], [("a" * 999 + "b", "x")])
    assert (found.missing, found.unexpected) == (1, 1)
    assert str(found.missing_keys[0][0]).startswith("1000 characters ")


@pytest.mark.parametrize("seed", range(20))
def test_the_result_does_not_depend_on_order_or_on_memory(seed):
    """bounded_memory: rows that do not fit into the buffer are in a file."""
    source = random.Random(seed)
    rows = [[(str(source.randrange(40)), source.choice("ab")) for _ in range(60)] for _ in range(2)]
    left, right = Counter(rows[0]), Counter(rows[1])
    expected = compare(*rows)
    assert expected.missing + expected.changed == (left - right).total()
    assert expected.unexpected + expected.changed == (right - left).total()
    for buffered in (0, 1, 7):
        for one in rows:
            source.shuffle(one)
        assert compare(*rows, buffered=buffered) == expected


KEYED = st.dictionaries(st.sampled_from("abcd"), st.none() | st.sampled_from(["", "x", "y"]))
BAG = st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.just("")), max_size=8)


KINDS: tuple[DifferenceKind, ...] = ("unexpected", "changed", "missing")


def left(ours, theirs, key, *, buffered=3):
    with closing(DifferingRows(COLUMNS, key, values=True, buffered=buffered)) as rows:
        rows.add(ours, theirs)
        return {kind: [row for some in rows.rows(kind) for row in some] for kind in KINDS}


@given(KEYED, KEYED)
def test_rows_are_told_apart_by_their_key(ours, theirs):
    found = left(twice(ours.items()), twice(theirs.items()), [0])
    assert {key for key, _ in found["unexpected"]} == theirs.keys() - ours.keys()
    assert dict(found["missing"]) == {key: ours[key] for key in ours.keys() - theirs.keys()}
    both = ours.keys() & theirs.keys()
    assert dict(found["changed"]) == {key: ours[key] for key in both if ours[key] != theirs[key]}


@given(BAG, BAG)
def test_without_a_key_each_row_is_written_or_deleted_as_often_as_it_is_missing_or_surplus(ours, theirs):
    found = left(twice(ours), twice(theirs), [])
    assert Counter(found["missing"]) == Counter(ours) - Counter(theirs)
    assert Counter(found["unexpected"]) == Counter(theirs) - Counter(ours)
    assert found["changed"] == []


@pytest.mark.parametrize("buffered", [0, 10])
def test_the_publishers_form_of_a_value_is_written(buffered):
    ours, theirs = [(("1", "1.5"), ("1", "1.50"))], [(("1", "2"), ("1", "2.0"))]
    assert left(ours, theirs, [0], buffered=buffered)["changed"] == [("1", "1.50")]
    again = [(("1",), ("1.0",)), (("1",), ("1.00",))]
    assert left([(("1",), ("1",)), *again], again[:1], [], buffered=buffered)["missing"] == [("1.00",)] * 2


@pytest.mark.parametrize("buffered", [0, 10])
def test_equal_rows_in_another_form_cancel(buffered):
    found = left(
        [(("2",), ("2",)), (("1.5",), ("1.50",))], [(("1.5",), ("1.5",)), (("2",), ("2",))], [], buffered=buffered
    )
    assert found == {kind: [] for kind in KINDS}


def test_more_rows_than_one_part():
    rows = [(str(number),) for number in range(2500)]
    assert len(left(twice(rows), [], [0], buffered=100)["missing"]) == 2500


def test_large_values_are_not_held_in_memory(monkeypatch):
    monkeypatch.setattr(row_differences, "_BUFFERED_CHARACTERS", 10)
    rows = [(str(number), "x" * 300) for number in range(20)]
    assert sorted(left(twice(rows), [], [0], buffered=1000)["missing"]) == sorted(rows)

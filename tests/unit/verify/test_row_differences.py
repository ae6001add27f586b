"""The differences of two sets of rows, in any order and with little memory."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from subscriber.verify.row_differences import RowDifferences, compare_rows

COLUMNS = ("k", "v")


def compare(here, there, *, key=("k",), most_keys=10, buffered=50_000) -> RowDifferences:
    return compare_rows(here, there, COLUMNS, key, most_keys=most_keys, buffered=buffered)


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

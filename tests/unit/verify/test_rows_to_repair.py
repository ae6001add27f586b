from __future__ import annotations

from collections import Counter
from contextlib import closing

from hypothesis import given
from hypothesis import strategies as st

from subscriber.verify.rows_to_repair import RowsToRepair

KEYED = st.dictionaries(st.sampled_from("abcd"), st.none() | st.sampled_from(["", "x", "y"]))
BAG = st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.just("")), max_size=8)


def left(ours, theirs, key):
    with closing(RowsToRepair(key)) as rows:
        rows.add(((row, row) for row in ours), 1)
        rows.add(((row, row) for row in theirs), -1)
        rows.cancel()
        return {kind: [row for some in rows.rows(kind) for row in some] for kind in ("surplus", "changed", "missing")}


@given(KEYED, KEYED)
def test_rows_are_told_apart_by_their_key(ours, theirs):
    found = left(ours.items(), theirs.items(), [0])
    assert {key for key, _ in found["surplus"]} == theirs.keys() - ours.keys()
    assert dict(found["missing"]) == {key: ours[key] for key in ours.keys() - theirs.keys()}
    both = ours.keys() & theirs.keys()
    assert dict(found["changed"]) == {key: ours[key] for key in both if ours[key] != theirs[key]}


@given(BAG, BAG)
def test_without_a_key_each_row_is_written_or_deleted_as_often_as_it_is_missing_or_surplus(ours, theirs):
    found = left(ours, theirs, [])
    assert Counter(found["missing"]) == Counter(ours) - Counter(theirs)
    assert Counter(found["surplus"]) == Counter(theirs) - Counter(ours)
    assert found["changed"] == []


def test_the_publishers_form_of_a_value_is_written():
    with closing(RowsToRepair([0])) as rows:
        rows.add([(("1", "1.5"), ("1", "1.50"))], 1)
        rows.add([(("1", "2"), ("1", "2.0"))], -1)
        rows.cancel()
        assert list(rows.rows("changed")) == [[("1", "1.50")]]


def test_equal_rows_in_another_form_cancel():
    with closing(RowsToRepair([])) as rows:
        rows.add([(("1.5",), ("1.50",))], 1)
        rows.add([(("1.5",), ("1.5",))], -1)
        rows.cancel()
        assert list(rows.rows("missing")) == list(rows.rows("surplus")) == []


def test_more_rows_than_one_part():
    rows = [(str(number),) for number in range(2500)]
    assert len(left(rows, [], [0])["missing"]) == 2500

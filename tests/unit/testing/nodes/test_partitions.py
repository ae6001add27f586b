"""Where the rows of partitioned tables are in a target that has no partitions."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from subscriber.testing.nodes.mirrored_rows import ancestors, families, split
from tests.table_shapes import column_shape

A, B, C = (column_shape(name, 23, "integer") for name in "abc")
ROOT, MIDDLE, LEFT, RIGHT, OTHER = 1, 2, 3, 4, 9
PARENTS = {LEFT: ROOT, RIGHT: MIDDLE, MIDDLE: ROOT}
"""ROOT ─┬─ LEFT
         └─ MIDDLE ── RIGHT"""


def bag(*rows: str) -> Counter[tuple[str | None, ...]]:
    """One row a word, one value a letter."""
    return Counter(tuple(row) for row in rows)


def test_the_ancestors_of_a_partition_lead_to_its_root():
    assert list(ancestors(RIGHT, PARENTS)) == [MIDDLE, ROOT]
    assert list(ancestors(ROOT, PARENTS)) == []


def test_a_family_is_a_root_with_all_below_it():
    assert families(PARENTS | {OTHER: 8}) == [frozenset({ROOT, MIDDLE, LEFT, RIGHT}), frozenset({8, OTHER})]
    assert families({}) == []


def test_rows_that_came_through_the_root_stay_in_its_table():
    rows = split(
        {LEFT: bag("1", "2", "2"), RIGHT: bag("5", "6", "7")},
        {ROOT: bag("2", "5"), MIDDLE: bag("6")},
        PARENTS,
        dict.fromkeys((ROOT, MIDDLE, LEFT, RIGHT), (A,)),
        dict.fromkeys((ROOT, MIDDLE), (A,)),
    )
    assert rows == {ROOT: bag("2", "5"), MIDDLE: bag("6"), LEFT: bag("1", "2"), RIGHT: bag("7")}


def test_rows_that_are_gone_are_gone_from_the_roots_table_too():
    """TRUNCATE of a partition (C29)"""
    rows = split({LEFT: bag()}, {ROOT: bag("1", "2")}, {LEFT: ROOT}, {ROOT: (A,), LEFT: (A,)}, {ROOT: (A,)})
    assert rows == {ROOT: bag(), LEFT: bag()}


def test_a_partition_may_have_its_columns_in_another_order():
    """B12: by name"""
    rows = split({LEFT: bag("xy", "uv")}, {ROOT: bag("yx")}, {LEFT: ROOT}, {ROOT: (A, B), LEFT: (B, A)}, {ROOT: (A, B)})
    assert rows == {ROOT: bag("yx"), LEFT: bag("uv")}


def test_after_alter_table_rows_are_told_by_the_columns_that_are_the_same():
    wide = column_shape("b", 20, "bigint")
    rows = split(
        {LEFT: bag("1pz", "2qz")},
        {ROOT: bag("1x")},
        {LEFT: ROOT},
        {ROOT: (A, wide, C), LEFT: (A, wide, C)},
        {ROOT: (A, B)},
    )
    assert rows == {ROOT: bag("1pz"), LEFT: bag("2qz")}


rows_of = st.lists(st.sampled_from(["1", "2", "3"]), max_size=6)


@given(rows_of, rows_of, rows_of)
def test_no_row_is_lost_or_made(left, right, above):
    """What the partitions have in PostgreSQL is what all tables of the target have together."""
    leaves = {LEFT: bag(*left), RIGHT: bag(*(str(int(row) + 5) for row in right))}
    columns = dict.fromkeys((ROOT, LEFT, RIGHT), (A,))
    rows = split(leaves, {ROOT: bag(*above)}, {LEFT: ROOT, RIGHT: ROOT}, columns, {ROOT: (A,)})
    assert sum(rows.values(), Counter()) == sum(leaves.values(), Counter())
    assert rows[ROOT] <= bag(*above)
    assert all(rows[leaf] <= leaves[leaf] for leaf in leaves)

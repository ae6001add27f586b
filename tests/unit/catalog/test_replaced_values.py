"""The values that were replaced by NULL: exact counts, and a limited number of records."""

from __future__ import annotations

import sqlalchemy as sa

from subscriber import catalog
from subscriber.catalog import KEPT_VALUES, ReplacedColumn, ReplacedRow, ReplacedValues
from subscriber.catalog.own_tables import REPLACED_ROW
from subscriber.catalog.replaced_values import forget_replaced_values
from subscriber.lsn import LSN

V = ReplacedColumn("public", "t", "v", "archive.t", ("a", "b"))
W = ReplacedColumn("public", "t", "w", "archive.t")


def values(count: int, *, first: int = 100, rows: int | None = None) -> ReplacedValues:
    lsns = [LSN(first + number) for number in range(count)]
    kept = [ReplacedRow(lsn, ("1", None), "NaN") for lsn in lsns[: count if rows is None else rows]]
    return ReplacedValues(lsns[0], lsns[-1], count, kept)


def recorded(connection, column: str) -> list[tuple[object, ...]]:
    table = REPLACED_ROW.c
    query = sa.select(table.remote_lsn, table.key_columns, table.key_values, table.replaced_value)
    return [
        tuple(row) for row in connection.execute(query.where(table.columnname == column).order_by(table.replacedid))
    ]


def test_values_are_counted_by_column_and_recorded_in_order(connection):
    catalog.count_replaced_values(connection, 1, {V: values(2), W: values(1)})
    catalog.count_replaced_values(connection, 1, {V: values(3, first=200)})
    counts = catalog.replaced_counts(connection, 1)
    assert [(one.relation, one.column, one.count, one.key, one.first_lsn, one.last_lsn) for one in counts] == [
        ("archive.t", "v", 5, ("a", "b"), "0/64", "0/CA"),
        ("archive.t", "w", 1, (), "0/64", "0/64"),
    ]
    assert [row[0] for row in recorded(connection, "v")] == [
        "0/64", "0/65", "0/C8", "0/C9", "0/CA",
    ]  # fmt: skip
    assert recorded(connection, "v")[0][1:] == ('["a", "b"]', '["1", null]', "NaN")
    assert recorded(connection, "w")[0][1] is None


def test_only_the_first_values_of_a_column_are_recorded_and_all_are_counted(connection):
    """bounded_memory"""
    catalog.count_replaced_values(connection, 1, {V: values(KEPT_VALUES - 1)})
    catalog.count_replaced_values(connection, 1, {V: values(5, first=5000), W: values(7, rows=2)})
    catalog.count_replaced_values(connection, 1, {V: values(3, first=9000)})
    assert [one.count for one in catalog.replaced_counts(connection, 1)] == [KEPT_VALUES + 7, 7]
    assert len(recorded(connection, "v")) == KEPT_VALUES
    assert recorded(connection, "v")[-1][0] == "0/1388"
    assert len(recorded(connection, "w")) == 2


def test_the_rows_of_a_dropped_subscription_are_deleted_and_no_others(connection):
    """Numbers of subscriptions are used again."""
    for subid in (1, 2):
        catalog.count_replaced_values(connection, subid, {V: values(1)})
    forget_replaced_values(connection, 1)
    assert catalog.replaced_counts(connection, 1) == []
    assert [one.count for one in catalog.replaced_counts(connection, 2)] == [1]
    assert len(recorded(connection, "v")) == 1

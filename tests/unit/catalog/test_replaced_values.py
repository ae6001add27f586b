"""The values that were replaced by NULL: exact counts, and a limited number of records."""

from __future__ import annotations

from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import REPLACED_ROW
from subscriber.catalog.replaced_values import (
    KEPT_VALUES,
    ReplacedColumn,
    ReplacedRow,
    ReplacedValues,
    count_replaced_values,
    replaced_counts,
)
from tests.subscriptions import as_stored

V = ReplacedColumn("public", "t", "v", "archive.t", ("a", "b"))
W = ReplacedColumn("public", "t", "w", "archive.t")


def values(count: int, *, first: int = 100, rows: int | None = None) -> ReplacedValues:
    lsns = [LSN(first + number) for number in range(count)]
    kept = [ReplacedRow(lsn, ("1", None), "NaN") for lsn in lsns[: count if rows is None else rows]]
    return ReplacedValues(lsns[0], lsns[-1], count, kept)


def recorded(connection, column: str) -> list[tuple[object, ...]]:
    table = REPLACED_ROW.c
    query = as_stored(table.remote_lsn, table.key_columns, table.key_values, table.replaced_value)
    return [
        tuple(row) for row in connection.execute(query.where(table.columnname == column).order_by(table.replacedid))
    ]


def test_values_are_counted_by_column_and_recorded_in_order(connection):
    count_replaced_values(connection, 1, {V: values(2), W: values(1)})
    count_replaced_values(connection, 1, {V: values(3, first=200)})
    counts = replaced_counts(connection, 1)
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
    count_replaced_values(connection, 1, {V: values(KEPT_VALUES - 1)})
    count_replaced_values(connection, 1, {V: values(5, first=5000), W: values(7, rows=2)})
    count_replaced_values(connection, 1, {V: values(3, first=9000)})
    assert [one.count for one in replaced_counts(connection, 1)] == [KEPT_VALUES + 7, 7]
    assert len(recorded(connection, "v")) == KEPT_VALUES
    assert recorded(connection, "v")[-1][0] == "0/1388"
    assert len(recorded(connection, "w")) == 2

"""The optional role ``bulk``: many rows of one statement look as those of a statement for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from subscriber.base.errors import ConflictError
from subscriber.postgres.schema.publisher_tables import PublisherTable
from subscriber.targets import Target, TargetTable
from subscriber.targets.base.loading import Bulk, BulkColumn, LoadColumn
from subscriber.testing.type_edges import EDGES
from tests.targets.tables import created, decoded, distinct_keys, insert, qualified, run, shape_of, stored
from tests.targets.test_values import refusal

MANY_ROWS = 800
"""So many that a target inserts them in the way that is meant for many."""

KEYS = {
    "smallint": ["-32768", "7"],
    "integer": ["-2147483648", "7"],
    "bigint": ["-9223372036854775808", "9007199254740993"],
    "text": ["", "a", "A", "a ", "é", 'q"\\,(', "%s", "\t"],
    "date": ["2026-02-28", "0001-01-01"],
    "timestamp without time zone": ["2026-02-28 12:34:56.789012", "2026-02-28 12:34:56.789013"],
    "uuid": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12"],
}


@pytest.fixture
def bulk(target) -> Bulk:
    found: Bulk | None = target.bulk
    if found is None:
        pytest.skip("it has no bulk writes")
    return found


def column(target: Target, table: TargetTable, shape: PublisherTable, name: str, *texts: str | None) -> BulkColumn:
    found, declared = table.column(name), shape.column(name)
    assert found is not None
    assert declared is not None
    return BulkColumn(found, declared.type_oid, decoded(target, declared.type_oid, texts))


def columns(
    target: Target, table: TargetTable, shape: PublisherTable, changes: Mapping[str, Sequence[str | None]]
) -> list[BulkColumn]:
    return [column(target, table, shape, name, *texts) for name, texts in changes.items()]


@pytest.mark.parametrize("kind", EDGES)
def test_inserted_and_updated_rows_are_as_those_of_single_statements(target, bulk, kind):
    """C5, absence_is_typed"""
    shapes = [shape_of({"number": "integer", "value": kind}, ["number"], name=name) for name in ("t", "u")]
    single, table = (created(target, shape) for shape in shapes)
    stores, type_oid = single.columns[1], shapes[0].columns[1].type_oid
    texts = [None, *(text for text in EDGES[kind] if refusal(target, type_oid, stores, text) is None)]
    numbers, others = [str(number) for number in range(len(texts))], texts[1:] + texts[:1]
    with target.begin() as connection:
        insert(target, connection, shapes[0], *zip(numbers, others, strict=True))
        key, first = columns(target, table, shapes[1], {"number": numbers, "value": texts})
        assert bulk.insert(connection, table, [key, first]) == len(texts)
        assert bulk.update(connection, table, [key], [column(target, table, shapes[1], "value", *others)]) == len(texts)
    assert stored(target, shapes[1]) == stored(target, shapes[0])


@pytest.mark.parametrize("kind", EDGES)
def test_many_inserted_rows_are_as_those_of_single_statements(target, bulk, kind):
    """C5, absence_is_typed"""
    shapes = [shape_of({"number": "integer", "value": kind}, ["number"], name=name) for name in ("t", "u")]
    single, table = (created(target, shape) for shape in shapes)
    stores, type_oid = single.columns[1], shapes[0].columns[1].type_oid
    texts = [None, *(text for text in EDGES[kind] if refusal(target, type_oid, stores, text) is None)]
    numbers = [str(number) for number in range(MANY_ROWS)]
    with target.begin() as connection:
        insert(target, connection, shapes[0], *zip(numbers, texts, strict=False))
        values = (texts * MANY_ROWS)[:MANY_ROWS]
        written = columns(target, table, shapes[1], {"number": numbers, "value": values})
        assert bulk.insert(connection, table, written) == MANY_ROWS
    single_rows, rows = ({row[0]: row[1] for row in stored(target, shape)} for shape in shapes)
    assert rows == {one: single_rows[str(int(one) % len(texts))] for one in numbers}


@pytest.mark.parametrize("kind", KEYS)
def test_rows_are_found_by_keys_of_each_type(target, bulk, kind):
    """C8: and each row is another one."""
    shape = shape_of({"k": kind, "n": "integer"}, ["k"])
    table = created(target, shape)
    texts = [text for text in KEYS[kind] if refusal(target, shape.columns[0].type_oid, table.columns[0], text) is None]
    texts = distinct_keys(target, texts)
    numbers = [str(number) for number in range(len(texts))]
    with target.begin() as connection:
        least = bulk.least_rows(connection, table, [LoadColumn(table.columns[0], shape.columns[0].type_oid)])
        if least is None:
            pytest.skip("it leaves such keys to the single statements")
        key = column(target, table, shape, "k", *texts)
        bulk.insert(connection, table, [key])
        written = [key, column(target, table, shape, "n", *numbers)]  # a change sends the key again
        assert bulk.update(connection, table, [key], written) == len(texts)
        assert bulk.delete(connection, table, [column(target, table, shape, "k", texts[0])]) == 1
    assert sorted(str(row[1]) for row in stored(target, shape)) == numbers[1:]


def test_a_composite_key_finds_a_row_by_all_its_columns(target, bulk):
    shape = shape_of({"a": "integer", "v": "integer", "b": "bigint"}, ["b", "a"])
    table = created(target, shape)
    with target.begin() as connection:
        rows = {"a": "1122", "b": "3434", "v": "0000"}
        bulk.insert(connection, table, columns(target, table, shape, rows))
        key = columns(target, table, shape, {"b": "345", "a": "111"})
        assert bulk.update(connection, table, key, [column(target, table, shape, "v", "7", "8", "9")]) == 2
        assert bulk.delete(connection, table, columns(target, table, shape, {"b": "4", "a": "2"})) == 1
    assert stored(target, shape) == [("1", "7", "3"), ("1", "8", "4"), ("2", "0", "3")]


def test_an_update_leaves_other_columns_alone_and_does_not_count_missing_rows(target, bulk):
    """C9, C18"""
    shape = shape_of({"a": "integer", "b": "text", "c": "text"}, ["a"])
    table = created(target, shape)
    with target.begin() as connection:
        insert(target, connection, shape, ("1", "b", "c"), ("2", "b", "c"))
        key = column(target, table, shape, "a", "1", "3")
        assert bulk.update(connection, table, [key], [column(target, table, shape, "b", None, "x")]) == 1
        assert bulk.update(connection, table, [key], []) == 1
        assert bulk.delete(connection, table, [column(target, table, shape, "a", "2", "3")]) == 1
    assert stored(target, shape) == [("1", None, "c")]


def test_columns_that_are_not_inserted_get_their_defaults(target, bulk):
    """C7"""
    shape = shape_of({"a": "integer", "b": "text", "own": "integer"}, ["a"])
    columns_of = "a INTEGER PRIMARY KEY, b VARCHAR(80), own INTEGER DEFAULT 7"
    run(target, f"CREATE TABLE {qualified(target, shape)} ({columns_of})")
    with target.begin() as connection:
        table = target.shapes.reflect(connection, shape.schema, shape.name)
        assert table is not None
        assert bulk.insert(connection, table, columns(target, table, shape, {"b": ["x", None], "a": "12"})) == 2
    assert stored(target, shape) == [("1", "x", "7"), ("2", None, "7")]


def test_any_name_is_only_a_name(target, bulk):
    """names_are_data"""
    names = ["%s", "%%", ":p0", "$1", 'q"q', "c0", "select", "ctid%", "subscriber_rows"]
    shape = shape_of({"a b": "integer"} | dict.fromkeys(names, "text"), ["a b"], name="t;--%(x)s", schema="s.%(x)s")
    table = created(target, shape)
    key = column(target, table, shape, "a b", "1", "2")
    written = [column(target, table, shape, name, name, None) for name in names]
    with target.begin() as connection:
        assert bulk.insert(connection, table, [key, written[0]]) == 2
        assert bulk.update(connection, table, [key], written) == 2
    assert stored(target, shape) == [("1", *names), ("2", *[None] * len(names))]
    with target.begin() as connection:
        assert bulk.delete(connection, table, [key]) == 2


@pytest.mark.parametrize(
    ("action", "changes", "sqlstate"),
    [
        ("insert", {"a": ["5"], "b": ["secret"]}, "23505"),
        ("insert", {"a": ["6"], "b": [None]}, "23502"),
        ("insert", {"a": [*map(str, range(MANY_ROWS))], "b": ["secret"] * MANY_ROWS}, "23505"),
        ("insert", {"a": [*map(str, range(6, 6 + MANY_ROWS))], "b": [None] * MANY_ROWS}, "23502"),
        ("update", {"a": ["5"], "b": [None]}, "23502"),
    ],
)
def test_an_error_has_its_sqlstate_and_no_values(target, bulk, action, changes, sqlstate):
    """names_are_data"""
    shape = shape_of({"a": "integer", "b": "text"}, ["a"])
    run(target, f"CREATE TABLE {qualified(target, shape)} (a INTEGER PRIMARY KEY, b VARCHAR(80) NOT NULL)")
    with target.begin() as connection:
        insert(target, connection, shape, ("5", "secret"))
    with pytest.raises(ConflictError) as raised, target.begin() as connection:
        table = target.shapes.reflect(connection, shape.schema, shape.name)
        assert table is not None
        key, *written = columns(target, table, shape, changes)
        if action == "insert":
            bulk.insert(connection, table, [key, *written])
        else:
            bulk.update(connection, table, [key], written)
    assert raised.value.sqlstate == sqlstate
    assert "secret" not in raised.value.report()
    assert raised.value.__cause__ is None
    assert stored(target, shape) == [("5", "secret")]

"""The role ``reading``: all rows of a table, with each value as it is stored."""

from __future__ import annotations

import pyarrow as pa

from subscriber.verify.canonical_text import canonical, texts_of
from tests.targets.tables import created, insert, shape_of

SHAPE = shape_of({"a": "integer", "b": "text", "c": "bigint"}, ["a"])
ROWS = [(str(number), None if number % 7 == 0 else f"row {number}", "9007199254740993") for number in range(1, 1301)]


def read(target, names):
    """The parts in which the columns are read, as lists of Python values."""
    with target.reporting(), target.engine.connect() as connection:
        table = target.shapes.reflect(connection, SHAPE.schema, SHAPE.name)
        columns = [table.column(name) for name in names]
        parts = []
        for part in target.reader.rows(connection, table, columns):
            values = [one.to_pylist() if isinstance(one, pa.Array) else list(one) for one in part.columns]
            assert all(len(one) == part.rows for one in values)
            parts.append((part.rows, values))
        return parts


def test_all_rows_are_read_with_the_columns_in_the_order_that_is_asked_for(target):
    created(target, SHAPE)
    with target.begin() as connection:
        insert(target, connection, SHAPE, *ROWS)
    rows = [row for _, columns in read(target, ("c", "a", "b")) for row in zip(*columns, strict=True)]
    assert sorted((str(a), b, str(c)) for c, a, b in rows) == sorted(ROWS)


def test_numbers_are_read_as_they_are_stored(target):
    """Also very small and very long ones."""
    shape = shape_of({"a": "integer", "n": "numeric(38,15)"}, ["a"], name="numbers")
    created(target, shape)
    texts = ["0.000000000000001", "-0.100000000000000", "12345678901234567890123.123456789012345", "7.000000000000000"]
    with target.begin() as connection:
        insert(target, connection, shape, *((str(place), text) for place, text in enumerate(texts)))
    with target.reporting(), target.engine.connect() as connection:
        table = target.shapes.reflect(connection, shape.schema, shape.name)
        parts = list(target.reader.rows(connection, table, [table.column("n")]))
    found = [text for part in parts for text in texts_of(1700, part.columns[0]).to_pylist()]
    assert sorted(canonical(1700, pa.array(found)).to_pylist()) == sorted(canonical(1700, pa.array(texts)).to_pylist())


def test_large_rows_are_given_few_at_a_time(target):
    """The memory of a reader does not depend on the size of the table's rows."""
    shape = shape_of({"a": "integer", "b": "text"}, ["a"], name="large")
    created(target, shape)
    rows = [(str(number), str(number % 10) * 100_000) for number in range(400)]
    with target.begin() as connection:
        insert(target, connection, shape, *rows)
    with target.reporting(), target.engine.connect() as connection:
        table = target.shapes.reflect(connection, shape.schema, shape.name)
        parts = [(part.rows, *map(list, part.columns)) for part in target.reader.rows(connection, table, table.columns)]
    assert sum(count for count, *_ in parts) == 400
    found = sorted((int(str(a)), str(b)) for _, *columns in parts for a, b in zip(*columns, strict=True))
    assert found == [(int(a), b) for a, b in rows]
    if target.capabilities.database != "DuckDB":  # it reads a vector of 2,048 rows at once
        assert max(count for count, *_ in parts) < 200


def test_rows_are_counted_without_columns(target):
    created(target, SHAPE)
    with target.begin() as connection:
        insert(target, connection, SHAPE, *ROWS)
    parts = read(target, ())
    assert sum(rows for rows, _ in parts) == len(ROWS)
    assert all(columns == [] for _, columns in parts)


def test_an_empty_table_has_no_part(target):
    created(target, SHAPE)
    assert read(target, ("a",)) == []


def test_the_ranges_of_a_table_have_each_row_once(target):
    """A target without ranges is read by one connection."""
    created(target, SHAPE)
    with target.begin() as connection:
        insert(target, connection, SHAPE, *ROWS)
    with target.reporting(), target.engine.connect() as connection:
        table = target.shapes.reflect(connection, SHAPE.schema, SHAPE.name)
        columns = [table.column("a")]
        ranges = target.reader.ranges(connection, table, 5)
        assert len(ranges) in (0, 5)
        assert bool(ranges) == (target.capabilities.database in ("SQLite", "Turso", "MariaDB", "OceanBase seekdb"))
        parts = [one for part in ranges or [None] for one in target.reader.rows(connection, table, columns, part)]
    found = [
        value
        for part in parts
        for value in (part.columns[0].to_pylist() if isinstance(part.columns[0], pa.Array) else part.columns[0])
    ]
    assert sorted(map(int, found)) == list(range(1, len(ROWS) + 1))


def test_a_small_table_has_no_ranges(target):
    created(target, SHAPE)
    with target.begin() as connection:
        insert(target, connection, SHAPE, *ROWS[:3])
    with target.reporting(), target.engine.connect() as connection:
        table = target.shapes.reflect(connection, SHAPE.schema, SHAPE.name)
        assert target.reader.ranges(connection, table, 5) == ()

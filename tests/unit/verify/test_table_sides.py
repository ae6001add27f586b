from __future__ import annotations

import numpy as np
import pytest

from subscriber.postgres.protocol.messages import Relation, RelationColumn
from subscriber.targets import open_target
from subscriber.targets.base import catalog as generic_reading
from subscriber.targets.duckdb import catalog as duckdb_reading
from subscriber.verify.canonical_text import CanonicalColumn
from subscriber.verify.row_digests import BucketChoice
from subscriber.verify.table_sides import TargetSide, target_texts

COLUMNS = (RelationColumn(1, "a", 23, -1), RelationColumn(0, "b", 16, -1), RelationColumn(0, "c", 1700, -1))


@pytest.fixture(params=["sqlite", "duckdb"])
def target(request, tmp_path):
    with open_target(f"{request.param}:///{tmp_path / 'target.db'}") as target:
        yield target


def side_of(target, connection, names, key=()):
    relation = Relation(1, "public", "t", "d", tuple(one for one in COLUMNS if one.name in names))
    table = target.shapes.reflect(connection, "public", "t")
    columns = tuple(CanonicalColumn(one.type_oid, table.column(one.name)) for one in relation.columns)
    return TargetSide(table, relation, columns, key, BucketChoice(8))


def read(target, names, key=()):
    with target.engine.connect() as connection:
        return list(side_of(target, connection, names, key).batches(target, connection))


def fill(target, rows):
    with target.begin() as connection:
        if target.capabilities.database == "DuckDB":
            connection.exec_driver_sql("CREATE TABLE t (c VARCHAR, a INTEGER, b BOOLEAN)")
        else:
            connection.exec_driver_sql("CREATE TABLE t (c NUMERIC_TEXT, a INT, b BOOLEAN_INTEGER)")
        for row in rows:
            connection.exec_driver_sql("INSERT INTO t VALUES (?, ?, ?)", row)


def rows_of(batch):
    """All rows of a batch: their texts before and after they were made canonical."""
    return [(stored, canonical) for canonical, stored in batch.rows_of(BucketChoice(1), np.array([0]))]


def test_rows_are_read_in_batches_with_the_text_before_and_after(target, monkeypatch):
    monkeypatch.setattr(generic_reading, "_ROWS_OF_A_FETCH", 1)
    monkeypatch.setattr(generic_reading, "_FETCHES", 2)
    monkeypatch.setattr(duckdb_reading, "_ROWS_OF_A_VECTOR", 2)
    monkeypatch.setattr(duckdb_reading, "_VECTORS", 1)
    fill(target, [("1.50", 1, True), ("2", 2, False), (None, 3, None)])
    batches = read(target, ("a", "b", "c"), key=(0,))
    assert [batch.rows for batch in batches] == [2, 1]
    assert sorted(row for batch in batches for row in rows_of(batch)) == [
        (("1", "t", "1.50"), ("1", "t", "1.5")),
        (("2", "f", "2"), ("2", "f", "2")),
        (("3", None, None), ("3", None, None)),
    ]
    assert (batches[0].keys != batches[0].hashes).all()


def test_only_the_columns_of_the_publication_are_read(target):
    fill(target, [("1.50", 1, True)])
    (batch,) = read(target, ("b",))
    assert rows_of(batch) == [(("t",), ("t",))]
    assert (batch.keys == batch.hashes).all()


def test_rows_without_columns_are_counted(target):
    fill(target, [(None, 1, True), (None, 2, True)])
    assert [batch.rows for batch in read(target, ())] == [2]


def test_an_empty_table_has_no_batch(target):
    fill(target, [])
    assert read(target, ("a",)) == []


def test_the_ranges_of_a_table_have_its_rows_together(target):
    fill(target, [(str(number), number, True) for number in range(100)])
    with target.engine.connect() as connection:
        side = side_of(target, connection, ("a",), key=(0,))
        ranges = side.ranges(target, connection, 7)
        assert len(ranges) == (7 if target.capabilities.database == "SQLite" else 0)
        found = [
            row
            for part in ranges or [None]
            for batch in side.batches(target, connection, part)
            for row in rows_of(batch)
        ]
    assert sorted(int(stored[0]) for stored, _ in found) == list(range(100))


def texts(target, **types):
    with target.engine.connect() as connection:
        table = target.shapes.reflect(connection, "public", "t")
        return list(target_texts(target, connection, table, types))


def test_texts_are_those_that_are_stored(target):
    fill(target, [("1.50", 1, True), (None, 2, None)])
    assert sorted(texts(target, a=23, c=1700, b=16)) == [("1", "1.50", "t"), ("2", None, None)]
    assert texts(target) == [(), ()]


def test_all_rows_of_a_table_have_texts(target):
    fill(target, [(str(number), number, True) for number in range(2500)])
    assert sorted(int(row[0]) for row in texts(target, a=23)) == list(range(2500))

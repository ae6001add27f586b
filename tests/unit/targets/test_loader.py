"""Loaders: blocks of a table's copy become rows as the apply path would write them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
import sqlalchemy as sa

from subscriber.base.errors import ConflictError, SubscriberError
from subscriber.targets import Target, open_target
from subscriber.targets.base.loading import LoadColumn, RowStatement, read_block, write_block
from subscriber.targets.base.target import base_target
from tests.unit.targets.tables import execute, reflected, rows
from tests.unit.targets.tables import load as load_into

INT8, TEXT, FLOAT8 = 20, 25, 701


@pytest.fixture(params=["base", "sqlite"])
def target(request, tmp_path) -> Iterator[Target]:
    """SQLite by its own loader, and by the one for any dialect."""
    url = f"sqlite:///{tmp_path / 't.db'}"
    base = request.param == "base"
    with base_target(sa.make_url(url), sa.create_engine(url)) if base else open_target(url) as opened:
        yield opened


def load(target: Target, columns: dict[str, int], *batches: pa.RecordBatch) -> None:
    """Load batches into table t."""
    load_into(target, reflected(target, "t"), columns, *batches)


def batch(**columns: list) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_values_go_to_the_columns_they_belong_to_whatever_their_order(target):
    """C2; what is not loaded has its default (C7)."""
    execute(target, "CREATE TABLE t (c TEXT, extra TEXT DEFAULT 'e', a INT, \"p0\" TEXT)")
    load(
        target,
        {"a": INT8, "p0": TEXT, "c": TEXT},
        batch(a=[1, None], p0=["p", ""], c=[None, "c"]),
        batch(a=[3], p0=[None], c=["x"]),
    )
    assert rows(target, "SELECT * FROM t ORDER BY rowid") == [
        {"c": None, "extra": "e", "a": 1, "p0": "p"},
        {"c": "c", "extra": "e", "a": None, "p0": ""},
        {"c": "x", "extra": "e", "a": 3, "p0": None},
    ]


def test_a_block_without_rows_loads_nothing(target):
    execute(target, "CREATE TABLE t (a TEXT)")
    load(target, {"a": TEXT}, pa.RecordBatch.from_arrays([pa.array([], pa.string())], names=["a"]))
    assert rows(target, "SELECT * FROM t") == []


def test_rows_without_columns_are_rows(target):
    execute(target, "CREATE TABLE t (a TEXT DEFAULT 'd')")
    load(target, {}, pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([]))))
    assert rows(target, "SELECT a FROM t") == [{"a": "d"}] * 3


def test_a_row_that_is_refused_rolls_everything_back(target):
    """names_are_data: the error has no value."""
    execute(target, "CREATE TABLE t (a TEXT CHECK (a <> 'secret'))")
    with pytest.raises(ConflictError) as raised:
        load(target, {"a": TEXT}, batch(a=["one"]), batch(a=["two", "secret"]))
    assert "secret" not in raised.value.report()
    assert raised.value.__cause__ is None
    assert rows(target, "SELECT * FROM t") == []


def test_a_null_is_refused_where_the_target_would_make_a_value_of_it(tmp_path):
    with open_target(f"sqlite:///{tmp_path / 't.db'}") as target:
        execute(target, "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
        with pytest.raises(ConflictError, match='null value in column "a" violates not-null') as raised:
            load(target, {"a": INT8, "b": TEXT}, batch(a=[1, None], b=["x", "y"]))
        assert raised.value.column == "a"


def test_values_are_bound_as_the_apply_path_binds_them(tmp_path):
    """SQLite: NaN is text there."""
    with open_target(f"sqlite:///{tmp_path / 't.db'}") as target:
        execute(target, "CREATE TABLE t (a REAL)")
        load(target, {"a": FLOAT8}, batch(a=[1.5, float("nan"), None]))
        assert rows(target, "SELECT a FROM t") == [{"a": 1.5}, {"a": "NaN"}, {"a": None}]


def test_a_drivers_named_parameters_are_given_by_name():
    statement = RowStatement("INSERT …", (1, 0), ("p1", "p0"))
    assert list(statement.rows([["a", "b"], [1, 2]], 2)) == [{"p1": 1, "p0": "a"}, {"p1": 2, "p0": "b"}]


def test_a_block_is_what_was_written():
    written = batch(a=[1, None], b=["x", "x" * 100_000])
    assert read_block(write_block(written)).equals(written)


def test_errors_are_ours(target):
    execute(target, "CREATE TABLE t (a TEXT)")
    with pytest.raises(SubscriberError), target.begin() as connection:
        table = target.shapes.reflect(connection, "public", "t")
        with target.loading.loader(connection, table, [LoadColumn(table.columns[0], TEXT)]) as loader:
            connection.exec_driver_sql("DROP TABLE t")
            loader(write_block(batch(a=["x"])))

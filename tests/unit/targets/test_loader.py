"""Loaders: blocks of a table's copy become rows as the apply path would write them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
import sqlalchemy as sa

from subscriber.errors import ConflictError, SubscriberError, UnsupportedValue
from subscriber.targets import Target, open_target
from subscriber.targets.generic.target import open_generic
from subscriber.targets.loader import LoadColumn, read_block, write_block

INT8, TEXT, FLOAT8 = 20, 25, 701


@pytest.fixture(params=["generic", "sqlite"])
def target(request, tmp_path) -> Iterator[Target]:
    """SQLite by its own loader, and by the one for any dialect."""
    url = f"sqlite:///{tmp_path / 't.db'}"
    with open_generic(sa.make_url(url)) if request.param == "generic" else open_target(url) as opened:
        yield opened


def load(target: Target, columns: dict[str, int], *batches: pa.RecordBatch) -> None:
    """Load batches into table t."""
    with target.begin() as connection:
        table = target.shapes.reflect(connection, "public", "t")
        assert table is not None
        found = [(table.column(name), type_oid) for name, type_oid in columns.items()]
        wanted = [LoadColumn(column, type_oid) for column, type_oid in found if column is not None]
        with target.loading.loader(connection, table, wanted) as loader:
            for batch in batches:
                loader(write_block(batch))


def run(target: Target, sql: str) -> list[tuple]:
    with target.begin() as connection:
        result = connection.exec_driver_sql(sql)
        return [tuple(row) for row in result] if result.returns_rows else []


def batch(**columns: list) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_values_go_to_the_columns_they_belong_to_whatever_their_order(target):
    """C2; what is not loaded has its default (C7)."""
    run(target, "CREATE TABLE t (c TEXT, extra TEXT DEFAULT 'e', a INT, \"p0\" TEXT)")
    load(
        target,
        {"a": INT8, "p0": TEXT, "c": TEXT},
        batch(a=[1, None], p0=["p", ""], c=[None, "c"]),
        batch(a=[3], p0=[None], c=["x"]),
    )
    assert run(target, "SELECT * FROM t ORDER BY rowid") == [
        (None, "e", 1, "p"),
        ("c", "e", None, ""),
        ("x", "e", 3, None),
    ]


def test_a_block_without_rows_loads_nothing(target):
    run(target, "CREATE TABLE t (a TEXT)")
    load(target, {"a": TEXT}, pa.RecordBatch.from_arrays([pa.array([], pa.string())], names=["a"]))
    assert run(target, "SELECT count(*) FROM t") == [(0,)]


def test_rows_without_columns_are_rows(target):
    run(target, "CREATE TABLE t (a TEXT DEFAULT 'd')")
    load(target, {}, pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([]))))
    assert run(target, "SELECT a FROM t") == [("d",)] * 3


def test_a_row_that_is_refused_rolls_everything_back(target):
    """names_are_data: the error has no value."""
    run(target, "CREATE TABLE t (a TEXT CHECK (a <> 'secret'))")
    with pytest.raises(ConflictError) as raised:
        load(target, {"a": TEXT}, batch(a=["one"]), batch(a=["two", "secret"]))
    assert "secret" not in raised.value.report()
    assert raised.value.__cause__ is None
    assert run(target, "SELECT count(*) FROM t") == [(0,)]


def test_a_null_is_refused_where_the_target_would_make_a_value_of_it(tmp_path):
    with open_target(f"sqlite:///{tmp_path / 't.db'}") as target:
        run(target, "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
        with pytest.raises(ConflictError, match='null value in column "a" violates not-null') as raised:
            load(target, {"a": INT8, "b": TEXT}, batch(a=[1, None], b=["x", "y"]))
        assert raised.value.column == "a"


def test_values_are_bound_as_the_apply_path_binds_them(tmp_path):
    """SQLite: NaN is text there."""
    with open_target(f"sqlite:///{tmp_path / 't.db'}") as target:
        run(target, "CREATE TABLE t (a REAL)")
        load(target, {"a": FLOAT8}, batch(a=[1.5, float("nan"), None]))
        assert run(target, "SELECT a FROM t") == [(1.5,), ("NaN",), (None,)]


def test_what_pythons_module_refuses_is_an_unsupported_value(tmp_path, monkeypatch):
    with open_target(f"sqlite:///{tmp_path / 't.db'}") as target:
        run(target, "CREATE TABLE t (a TEXT)")
        monkeypatch.setattr(target.values, "bind_values", lambda *_: [object()])
        with pytest.raises(UnsupportedValue, match="cannot hold a value exactly"):
            load(target, {"a": TEXT}, batch(a=["x"]))


def test_a_drivers_named_parameters_are_given_by_name():
    from subscriber.targets.loader import InsertStatement

    statement = InsertStatement("INSERT …", (1, 0), ("p1", "p0"))
    assert list(statement.rows([["a", "b"], [1, 2]], 2)) == [{"p1": 1, "p0": "a"}, {"p1": 2, "p0": "b"}]


def test_a_block_is_what_was_written():
    written = batch(a=[1, None], b=["x", "x" * 100_000])
    assert read_block(write_block(written)).equals(written)
    assert len(write_block(written)) < 10_000


def test_errors_are_ours(target):
    run(target, "CREATE TABLE t (a TEXT)")
    with pytest.raises(SubscriberError), target.begin() as connection:
        table = target.shapes.reflect(connection, "public", "t")
        with target.loading.loader(connection, table, [LoadColumn(table.columns[0], TEXT)]) as loader:
            connection.exec_driver_sql("DROP TABLE t")
            loader(write_block(batch(a=["x"])))

"""Rows of a target as PostgreSQL's text. With PostgreSQL's side:
tests/conformance/test_types_round_trip.py and test_target_node.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from subscriber.base.errors import ConflictError, TargetRelationError
from subscriber.postgres.schema.publisher_tables import PublisherColumn
from subscriber.targets import Target, open_target
from subscriber.testing.nodes.mirrored_rows import (
    Row,
    read_target_rows,
    replace_target_rows,
    stored_columns,
    target_table,
    writable_columns,
)
from tests.frames import OIDS
from tests.table_shapes import column_shape, table_shape


def column(name: str, type_name: str, *, generated: str | None = None) -> PublisherColumn:
    kind = "stored" if generated else ""
    return column_shape(name, OIDS[type_name], type_name, generated=kind, expression=generated)


SHAPE = table_shape(
    schema="public",
    name="t",
    columns=(column("id", "int4"), column("f", "float8"), column("b", "bool"), column("x", "text")),
    key=("id",),
)
CREATE = {
    "sqlite": "CREATE TABLE t (id INTEGER PRIMARY KEY, f REAL, b BOOLEAN, x TEXT)",
    "duckdb": "CREATE TABLE t (id INTEGER PRIMARY KEY, f DOUBLE, b BOOLEAN, x VARCHAR)",
}


@pytest.fixture(params=CREATE)
def target(request, tmp_path):
    with open_target(f"{request.param}:///{tmp_path / 'target.db'}") as opened:
        with opened.begin() as connection:
            connection.exec_driver_sql(CREATE[request.param])
        yield opened


def replace(target: Target, rows: Sequence[Row]) -> None:
    with target.begin() as connection:
        replace_target_rows(target, connection, SHAPE, stored_columns(SHAPE), rows)


def read(target: Target) -> list[Row]:
    with target.engine.connect() as connection:
        return sorted(read_target_rows(target, connection, SHAPE), key=str)


def test_rows_are_read_as_they_were_written(target):
    """In the text of PostgreSQL's output functions, NULL included."""
    rows: list[Row] = [("1", "1.5", "t", "a"), ("2", None, "f", ""), ("3", "1e+300", None, "t\\b\n'ü'")]
    replace(target, rows)
    assert read(target) == rows


@pytest.mark.parametrize("text", ["Infinity", "-Infinity", "1e-300", "-0.5"])
def test_a_float_has_postgresqls_text(target, text):
    replace(target, [("1", text, None, None)])
    assert read(target) == [("1", text, None, None)]


def test_the_rows_that_were_there_are_replaced(target):
    replace(target, [("1", None, None, "before")])
    replace(target, [("2", None, None, "after")])
    assert read(target) == [("2", None, None, "after")]
    replace(target, [])
    assert read(target) == []


def test_rows_that_the_target_refuses_are_an_error_of_apply(target):
    row = ("1", None, None, "twice")
    with pytest.raises(ConflictError):
        replace(target, [row, row])
    assert read(target) == []


def test_generated_columns_are_not_stored():
    shape = table_shape(
        schema="public", name="t", columns=(column("a", "int4"), column("g", "int4", generated="a * 2"))
    )
    assert [one.name for one in stored_columns(shape)] == ["a"]


def test_a_generated_column_is_written_if_it_is_an_ordinary_column_in_the_target(tmp_path):
    shape = table_shape(
        schema="public", name="t", columns=(column("a", "int4"), column("g", "int4", generated="a * 2"))
    )
    for number, (definition, writable) in enumerate(
        (("g INTEGER", ["a", "g"]), ("g INTEGER GENERATED ALWAYS AS (a * 2) STORED", ["a"]))
    ):
        with open_target(f"sqlite:///{tmp_path / f'{number}.db'}") as opened, opened.begin() as connection:
            connection.exec_driver_sql(f"CREATE TABLE t (a INTEGER, {definition})")
            assert [one.name for one in writable_columns(opened, connection, shape)] == writable


def test_a_table_that_something_else_has_dropped_is_named(target):
    with target.begin() as connection:
        connection.exec_driver_sql("DROP TABLE t")
    with target.engine.connect() as connection, pytest.raises(TargetRelationError) as raised:
        target_table(target, connection, SHAPE)
    assert raised.value.relation == "public.t"

"""The role ``loading``: a row looks the same whether it was loaded or inserted."""

from __future__ import annotations

import struct

import pytest
import sqlalchemy as sa

from subscriber.base.errors import ConflictError
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.own_tables import CONTROL
from subscriber.targets.base.loading import write_block
from tests.targets.tables import batch, created, insert, load_columns, shape_of, stored

SHAPE = shape_of({"a": "integer", "b": "text", "c": "integer[]"}, ["a"])
ROWS = [("1", "one", "{1,NULL}"), ("2", None, None), ("3", "tab\there\\ \n line", "{}")]
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n"})


def block(target, table, shape, rows):
    """Rows in the form that the target wants, as PostgreSQL or the executors would give it."""
    match target.loading.block_format(load_columns(table, shape)):
        case "arrow":
            return write_block(batch(target, shape, rows))
        case "text":
            lines = ("\t".join("\\N" if text is None else text.translate(_ESCAPES) for text in row) for row in rows)
            return "".join(f"{line}\n" for line in lines).encode()
        case "binary":
            return b"".join(struct.pack("!h", len(row)) + b"".join(_field(*one) for one in zip(row, shape.columns, strict=True)) for row in rows)  # fmt: skip


def _field(text, column) -> bytes:
    if text is None:
        return struct.pack("!i", -1)
    data = struct.pack("!i", int(text)) if column.type_name == "integer" else text.encode()
    return struct.pack("!i", len(data)) + data


def load(target, shape, *blocks) -> None:
    with target.begin() as connection:
        table = target.shapes.reflect(connection, shape.schema, shape.name)
        with target.loading.loader(connection, table, load_columns(table, shape)) as one:
            for rows in blocks:
                one(block(target, table, shape, rows))


@pytest.mark.parametrize("columns", [{"a": "integer", "b": "text"}, {"a": "integer", "b": "text", "c": "integer[]"}])
def test_loaded_rows_are_as_inserted_ones(target, columns):
    """The second in PostgreSQL's binary form, where the target takes that."""
    shape = shape_of(columns, ["a"])
    created(target, shape)
    rows = [row[: len(columns)] for row in ROWS]
    load(target, shape, rows[:2], rows[2:])
    loaded = stored(target, shape)
    assert loaded == sorted(rows, key=repr)
    inserted = shape_of(columns, ["a"], name="u")
    created(target, inserted)
    with target.begin() as connection:
        insert(target, connection, inserted, *rows)
    assert stored(target, inserted) == loaded


def test_columns_that_are_not_loaded_get_their_defaults(target):
    """C7"""
    shape = shape_of({"a": "integer", "b": "text"}, ["a"])
    created(target, shape)
    load(target, shape_of({"a": "integer"}, ["a"]), [("1",), ("2",)])
    assert stored(target, shape) == [("1", None), ("2", None)]


def test_a_load_that_fails_leaves_nothing(target):
    created(target, SHAPE)
    with pytest.raises(ConflictError) as raised:
        load(target, SHAPE, ROWS[:1], ROWS[:1])
    assert "one" not in raised.value.report()
    assert stored(target, SHAPE) == []


def test_a_load_without_blocks_loads_nothing(target):
    created(target, SHAPE)
    load(target, SHAPE)
    assert stored(target, SHAPE) == []


def test_what_a_target_finds_out_about_loads_leaves_the_catalog_as_it_is(target):
    """progress_with_data: in OceanBase seekdb a load commits, so it cannot be rolled back."""
    ensure_catalog(target.engine)
    created(target, SHAPE)
    load(target, SHAPE, ROWS)
    with target.begin() as connection:
        assert connection.execute(sa.select(CONTROL.c.controlid)).all() == [(1,)]

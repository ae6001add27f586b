"""Statements that alter a table. What a database makes of them: tests/targets/test_shapes.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from subscriber.base.errors import UnsupportedValue
from subscriber.targets import Target, TargetTable, open_target
from subscriber.targets.base.target import base_target
from subscriber.targets.ddl import add_column, as_typed, fill_column
from subscriber.targets.statements import rename_column

INT4, NUMERIC = 23, 1700


@pytest.fixture
def target(tmp_path) -> Iterator[Target]:
    with open_target(f"sqlite:///{tmp_path / 't.db'}") as opened:
        with opened.begin() as connection:
            connection.exec_driver_sql('CREATE TABLE "odd t" (a INTEGER PRIMARY KEY, n INTEGER)')
            connection.exec_driver_sql('INSERT INTO "odd t" (a) VALUES (1), (2)')
        yield opened


def reflected(target: Target, connection: sa.Connection) -> TargetTable:
    table = target.shapes.reflect(connection, "public", "odd t")
    assert table is not None
    return table


def test_names_are_quoted(target):
    """names_are_data"""
    with target.begin() as connection:
        table = reflected(target, connection)
    renamed = rename_column(table, "n", 'a "name"')
    assert as_typed(target, renamed) == 'ALTER TABLE main."odd t" RENAME COLUMN n TO "a ""name"""'
    added = add_column(target, table, "N b", NUMERIC, "numeric")
    assert as_typed(target, added) == 'ALTER TABLE main."odd t" ADD COLUMN "N b" NUMERIC_TEXT'


def test_a_column_is_added_nullable_and_filled_in_every_row(target):
    with target.begin() as connection:
        connection.execute(add_column(target, reflected(target, connection), "b", NUMERIC, "numeric"))
        table = reflected(target, connection)
        column = table.column("b")
        assert column is not None
        assert column.nullable
        fill_column(target, connection, table, column, NUMERIC, "1.50")
        assert [row.b for row in connection.exec_driver_sql('SELECT b FROM "odd t"')] == ["1.50", "1.50"]


def test_a_value_that_the_column_cannot_store_is_refused(target):
    with target.begin() as connection:
        connection.exec_driver_sql('ALTER TABLE "odd t" ADD COLUMN small NUMERIC_TEXT(2,0)')
        table = reflected(target, connection)
        column = table.column("small")
        assert column is not None
        with pytest.raises(UnsupportedValue):
            fill_column(target, connection, table, column, NUMERIC, "1000")


def test_a_percent_sign_is_single_as_a_user_types_it(tmp_path):
    """A driver with the style ``format`` wants it twice."""
    url = sa.make_url(f"sqlite:///{tmp_path / 'g.db'}")
    with base_target(url, sa.create_engine(url, paramstyle="format")) as target:
        table = TargetTable(None, "t", (), None)
        assert as_typed(target, rename_column(table, "a", "b%")) == 'ALTER TABLE t RENAME COLUMN a TO "b%"'

"""subscriber.targets.statements: ADD COLUMN, and INSERT of a row that may be there already."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.sql import compiler

from subscriber.targets.statements import AddColumn, upsert

TABLE = sa.Table(
    "counted",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("name", sa.Text),
    sa.Column("first", sa.Text),
    sa.Column("number", sa.Integer),
)


NAMED = sa.Table("a.b", sa.MetaData(), sa.Column('c"d', sa.Integer, nullable=False, server_default="0"), schema="s t")


@pytest.fixture(params=["sqlite", "a database that has no such statement"])
def connection(request) -> Iterator[sa.Connection]:
    engine = sa.create_engine("sqlite://")
    TABLE.create(engine)
    if request.param != "sqlite":
        engine.dialect.statement_compiler = compiler.SQLCompiler
    with engine.begin() as opened:
        yield opened


def write(connection: sa.Connection, key: int, name: str, first: str, number: int) -> None:
    upsert(connection, TABLE, {"id": key}, {"name": name}, new={"first": first}, add={"number": number})


def test_a_row_is_inserted_changed_and_counted(connection):
    write(connection, 1, "a", "x", 2)
    write(connection, 2, "b", "y", 1)
    write(connection, 1, "c", "z", 3)
    assert connection.execute(sa.select(TABLE).order_by(TABLE.c.id)).all() == [(1, "c", "x", 5), (2, "b", "y", 1)]


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        (
            postgresql.dialect(),
            "ON CONFLICT (id) DO UPDATE SET name = excluded.name, number = (counted.number + excluded.number)",
        ),
        (
            mysql.dialect(),
            "ON DUPLICATE KEY UPDATE name = VALUES(name), number = (counted.number + VALUES(number))",
        ),
    ],
)
def test_a_database_gets_its_own_statement(monkeypatch, dialect, expected):
    class Recorded:
        def __init__(self) -> None:
            self.dialect = dialect

        def execute(self, statement: sa.Insert) -> None:
            self.statement = statement

    connection = Recorded()
    write(connection, 1, "a", "x", 2)  # type: ignore[arg-type]
    assert expected in str(connection.statement.compile(dialect=dialect))


def test_a_column_is_added_with_its_whole_declaration():
    """names_are_data"""
    statement = AddColumn(NAMED, NAMED.c['c"d'])
    assert str(statement.compile(dialect=sqlite.dialect())) == (
        """ALTER TABLE "s t"."a.b" ADD COLUMN "c""d" INTEGER DEFAULT '0' NOT NULL"""
    )
    assert str(statement.compile(dialect=mysql.dialect())) == (
        "ALTER TABLE `s t`.`a.b` ADD COLUMN `c\"d` INTEGER NOT NULL DEFAULT '0'"
    )

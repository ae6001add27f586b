"""The DDL for MariaDB's tables, without a server. With one:
tests/conformance/test_schema_step.py.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.postgres.schema.shape import ForeignKey, IndexKey, IndexShape
from subscriber.targets.table_changes import (
    CannotBuild,
    NewCheck,
    NewComment,
    NewDefault,
    NewForeignKey,
    NewGenerated,
    NewIdentity,
    NewIndex,
    Statements,
)
from subscriber.targets.target_table import TargetColumn, TargetTable
from tests.unit.targets.recorded_server import RecordedServer

TABLE = TargetTable(
    None,
    "t",
    (
        TargetColumn("id", "int(11)", "int", nullable=False),
        TargetColumn("long", "longtext", "longtext"),
        TargetColumn("wide", "varchar(800)", "varchar"),
        TargetColumn("short", "varchar(20)", "varchar"),
    ),
    ("id",),
)


def built(target, change) -> Statements:
    """The statements in a database whose catalog has no columns, so that none are compared."""
    with RecordedServer().engine("mariadb+pymysql://h/shop").connect() as connection:
        statements: Statements = target.objects.statements(connection, TABLE, change)
    return statements


def ddl(target, change) -> str:
    (statement,) = built(target, change).sql
    return statement


def index(*columns: str, **more) -> NewIndex:
    shape = IndexShape(name="i", keys=tuple(IndexKey(name, descending=name == "id") for name in columns), **more)
    return NewIndex(shape, "i", tuple(f"`{name}`" for name in columns))


@pytest.mark.parametrize(
    ("change", "statement"),
    [
        (
            index("id", "long", "wide", "short"),
            "CREATE INDEX `i` ON `t` (`id` DESC, `long`(191), `wide`(191), `short`)",
        ),
        (index("short", unique=True), "CREATE UNIQUE INDEX `i` ON `t` (`short`)"),
        (NewCheck("c%", "`id` > 0"), "ALTER TABLE `t` ADD CONSTRAINT `c%` CHECK (`id` > 0)"),
        (NewDefault("id", "7"), "ALTER TABLE `t` ALTER COLUMN `id` SET DEFAULT (7)"),
        (NewComment("it's \\ 5%"), "ALTER TABLE `t` COMMENT = 'it''s \\\\ 5%'"),
        (
            NewGenerated("g", "INT", "`id` * 2"),
            "ALTER TABLE `t` ADD COLUMN `g` INT GENERATED ALWAYS AS (`id` * 2) STORED",
        ),
        (
            NewForeignKey(
                ForeignKey(("id",), "public", "t", ("id",), on_delete="CASCADE", on_update="RESTRICT"), "f", TABLE
            ),
            "ALTER TABLE `t` ADD CONSTRAINT `f` FOREIGN KEY (`id`) REFERENCES `t` (`id`) ON DELETE CASCADE ON UPDATE RESTRICT",
        ),
    ],
)
def test_a_change_is_one_statement(target, change, statement):
    assert ddl(target, change) == statement


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (index("long", unique=True), "only the first characters"),
        (index("wide", unique=True), "only the first characters"),
        (NewIndex(IndexShape(name="i", keys=(IndexKey(None, "x"),)), "i", ("(x)",)), "expressions"),
        (NewIndex(IndexShape(name="i", keys=(IndexKey("id"),)), "i", ("`id`",), "`id` > 1"), "partial"),
        # The server accepts SET DEFAULT and ignores it.
        (NewForeignKey(ForeignKey(("id",), "p", "t", ("id",), on_delete="SET DEFAULT"), "f", TABLE), "SET DEFAULT"),
        (NewForeignKey(ForeignKey(("id",), "p", "t", ("id",), deferrable=True), "f", TABLE), "deferrable"),
        (NewForeignKey(ForeignKey(("id",), "p", "t", ("id",), plain=False), "f", TABLE), "PERIOD"),
        (
            NewForeignKey(ForeignKey(("id",), "p", "t", ("id",), "SET NULL", set_columns=("id",)), "f", TABLE),
            "all columns only",
        ),
        (NewForeignKey(ForeignKey(("long",), "p", "t", ("short",)), "f", TABLE), "declare it as VARCHAR"),
        (NewIdentity("short"), "first of the key"),
    ],
)
def test_what_mariadb_cannot_have_is_refused_with_the_reason(target, change, reason):
    with pytest.raises(CannotBuild, match=reason):
        ddl(target, change)


def test_match_full_of_several_columns_is_noted(target):
    key = ForeignKey(("id", "short"), "p", "t", ("id", "short"), match_full=True)
    assert "MATCH SIMPLE" in built(target, NewForeignKey(key, "f", TABLE)).note


def test_the_current_time_is_written_as_the_columns_type_needs_it(target):
    assert (
        target.objects.default("now()", 1114, TargetColumn("at", "datetime(6)", "datetime")) == "current_timestamp(6)"
    )
    assert "utc_timestamp" in target.objects.default("now()", 1184, TABLE.columns[3])
    assert target.objects.default("CURRENT_DATE", 1082, TargetColumn("d", "date", "date")) == "curdate()"
    assert target.objects.default("gen_random_uuid()", 2950, TABLE.columns[3]) is None


def test_a_text_of_another_collation_is_not_compared(target):
    columns = {"short": (25, TABLE.columns[3])}
    assert target.objects.expression("(short = 'x'::text)", columns) == "(`short` = 'x')"
    with pytest.raises(CannotBuild, match='column "short"'):
        target.objects.expression("(short = 'x'::text)", columns, inexact={"short"})


@pytest.mark.parametrize(
    ("change", "statements"),
    [
        (index("id"), ("DROP INDEX `old` ON `t`",)),
        (NewCheck("c", "`id` > 0"), ("ALTER TABLE `t` DROP CONSTRAINT `old`",)),
        (NewGenerated("g", "INT", "`id` * 2"), ("ALTER TABLE `t` DROP COLUMN `old`",)),
        (NewDefault("id", "7"), ()),
    ],
)
def test_what_is_different_can_be_removed(target, change, statements):
    assert target.objects.removal(TABLE, change, "old") == statements


def test_the_objects_of_many_tables_are_found_with_one_query_a_kind(target):
    """MariaDB: the statement that shows one table is for MySQL."""
    server = RecordedServer()
    others = [replace(TABLE, name=f"t{number}") for number in range(20)]
    with server.engine("mariadb+pymysql://h/shop").connect() as connection:
        assert len(target.objects.find(connection, others)) == 20
    asked = [one.split()[0] for one in server.statements if one.startswith(("SELECT", "SHOW"))]
    assert asked == ["SELECT"] * 6

"""The conditions that find a row, as MariaDB's SQL."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from subscriber.targets import TargetColumn, TargetTable
from subscriber.targets.mariadb.values import INEXACT_KEY
from subscriber.types import equality_of
from subscriber.types.equality import EXACT
from tests.frames import OIDS

EXACTLY = "CAST(t.a AS CHAR CHARACTER SET utf8mb4) COLLATE utf8mb4_nopad_bin"
VALUE = sa.literal("x")


@pytest.fixture
def matching(target):
    return target.matching


def column(storage: str) -> TargetColumn:
    return TargetColumn("a", storage, storage)


def sql(statement: sa.ClauseElement) -> str:
    return " ".join(str(statement.compile(dialect=mysql.dialect(), compile_kwargs={"literal_binds": True})).split())


def clause(of: TargetColumn) -> sa.ColumnElement[str]:
    return TargetTable(None, "t", (of,), None).clause().c.a


@pytest.mark.parametrize(
    ("storage", "compared"),
    [
        ("varchar", EXACTLY),
        ("longtext", EXACTLY),
        (f"varchar{INEXACT_KEY}", EXACTLY),
        ("char", "CAST(t.a AS CHAR CHARACTER SET utf8mb4) COLLATE utf8mb4_bin"),
        ("int", "t.a"),
        ("longblob", "t.a"),
    ],
)
def test_a_text_is_compared_exactly_whatever_its_collation_is(matching, storage, compared):
    """C14: a CHAR has no blanks at the end, so its collation may ignore them."""
    assert sql(matching.comparable(column(storage), clause(column(storage)))) == compared


@pytest.mark.parametrize(
    ("storage", "condition"),
    [("varchar", f"t.a = 'x' AND ({EXACTLY}) = 'x'"), ("char", "t.a = 'x'"), ("date", "t.a = 'x'")],
)
def test_a_row_is_found_by_the_index_and_then_compared_exactly(matching, storage, condition):
    """C8"""
    assert sql(matching.finds(column(storage), clause(column(storage)), VALUE)) == condition


def test_in_a_whole_row_null_equals_null(matching):
    """C14"""
    assert sql(matching.is_same(column("text"), clause(column("text")), VALUE)) == f"({EXACTLY}) <=> %s"


@pytest.mark.parametrize(
    ("name", "storage", "equality"),
    [
        ("numeric", "decimal", EXACT),
        ("numeric", "varchar", equality_of(OIDS["numeric"])),
        ("json", "longtext", equality_of(OIDS["json"])),
        ("text", "varchar", EXACT),
    ],
)
def test_the_equality_is_the_publishers_except_in_a_decimal(matching, name, storage, equality):
    """C14, C17"""
    assert matching.equality(OIDS[name], column(storage)) == equality


@pytest.mark.parametrize(
    ("name", "storage", "same"),
    [
        ("int4", "int", True),
        ("text", "varchar", True),
        ("numeric", "decimal", True),
        ("numeric", "varchar", False),  # 1.0 finds 1.00
        ("bpchar", "char", False),
        ("float8", "double", False),
        ("timestamptz", "timestamp", False),  # ON UPDATE CURRENT_TIMESTAMP
        ("text", f"varchar{INEXACT_KEY}", False),
    ],
)
def test_a_key_column_is_left_out_of_set_if_equal_values_are_stored_alike(matching, name, storage, same):
    table = TargetTable(None, "t", (column(storage),), ("a",))
    assert matching.found_as_written(OIDS[name], table, column(storage)) is same


def test_of_equal_rows_one_is_changed(matching):
    """C16"""
    table = TargetTable(None, "t", (column("int"),), None).clause()
    assert sql(matching.change_first(sa.delete(table))) == "DELETE FROM t LIMIT 1"
    assert sql(matching.change_first(sa.update(table).values(a=sa.literal(1)))) == "UPDATE t SET a=1 LIMIT 1"

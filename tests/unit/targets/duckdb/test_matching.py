"""Row matching in DuckDB."""

from __future__ import annotations

from typing import Literal

import pytest
import sqlalchemy as sa

from subscriber.protocol import messages as m
from subscriber.targets import TargetColumn, TargetTable, open_target
from subscriber.targets.duckdb.matching import DuckDBMatching
from subscriber.targets.duckdb.values import storage
from subscriber.types import equality_of
from subscriber.types.equality import EXACT
from tests.frames import OIDS, relation, transaction, values
from tests.unit.targets.tables import execute, insert, reflected, rows

MATCHING = DuckDBMatching()


def test_of_equal_rows_one_is_changed(apply, target):
    """C16: found by the whole row, NULL-safe"""
    execute(target, "CREATE TABLE t (a int, b text)", "INSERT INTO t VALUES (1, NULL), (1, NULL), (1, 'x')")
    whole = relation("public.t", {"a": "int4", "b": "text"}, identity="f")
    apply([whole], *transaction(200, m.Delete(16384, "O", values("1", None))))
    assert rows(target, "SELECT a, b FROM t ORDER BY b") == [{"a": 1, "b": "x"}, {"a": 1, "b": None}]


@pytest.mark.parametrize("identity", ["d", "f"])
def test_letters_of_both_cases_find_their_own_row(apply, target, identity):
    """C8, C14: DuckDB's indexes take no notice of a column's collation, and its = does"""
    key = " PRIMARY KEY" if identity == "d" else ""
    execute(target, f"CREATE TABLE t (a text COLLATE nocase{key}, b text COLLATE noaccent)")
    remote = relation("public.t", {"a": "text", "b": "text"}, ["a"], identity=identity)
    kind: Literal["K", "O"] = "K" if key else "O"
    old = values("A", None if key else "é")
    apply(
        [remote],
        *transaction(200, insert("a", "é"), insert("A", "e"), insert("A" if not key else "b", "é")),
        *transaction(300, m.Update(16384, kind, old, values("A", "x")), m.Delete(16384, kind, values("A", "x"))),
    )
    left = {"a": "é", "b": "é"} if key else {"a": "é", "A": "e"}
    assert {row["a"]: row["b"] for row in rows(target, "SELECT a, b FROM t")} == left


def test_a_collation_of_the_database_changes_no_row_but_the_one(tmp_path):
    """C14: the URL may set one for every text"""
    with open_target(f"duckdb:///{tmp_path / 'target.duckdb'}?default_collation=nocase") as target:
        execute(target, "CREATE TABLE t (a text PRIMARY KEY)", "INSERT INTO t VALUES ('a'), ('A')")
        with target.begin() as connection:
            table = reflected(target, "t").clause()
            column = reflected(target, "t").columns[0]
            connection.execute(sa.delete(table).where(target.matching.finds(column, table.c.a, sa.literal("A"))))
        assert rows(target, "SELECT a FROM t") == [{"a": "a"}]


def column(declared: str) -> TargetColumn:
    return TargetColumn("a", declared, storage(declared))


@pytest.mark.parametrize(
    ("declared", "compared"), [("VARCHAR", "t.a COLLATE binary"), ("INTEGER", "t.a"), ("BLOB", "t.a")]
)
def test_a_text_is_compared_by_its_bytes(declared, compared):
    """C8, C14: whatever the collation of the column or the database is."""
    clause = TargetTable("main", "t", (column(declared),), None).clause().c.a
    found = MATCHING.comparable(column(declared), clause)
    assert str(found).replace("main.", "").replace('"binary"', "binary") == compared


@pytest.mark.parametrize(
    ("name", "declared", "equality"),
    [
        ("numeric", "DECIMAL(6,2)", EXACT),
        ("numeric", "VARCHAR", equality_of(OIDS["numeric"])),
        ("json", "JSON", equality_of(OIDS["json"])),
        ("text", "VARCHAR", EXACT),
    ],
)
def test_the_equality_is_the_publishers_except_in_a_decimal(name, declared, equality):
    """C14, C17"""
    assert MATCHING.equality(OIDS[name], column(declared)) == equality


@pytest.mark.parametrize(
    ("name", "declared", "same"),
    [
        ("int4", "INTEGER", True),
        ("text", "VARCHAR", True),
        ("numeric", "DECIMAL(6,2)", True),
        ("numeric", "VARCHAR", False),  # 1.0 finds 1.00
        ("float8", "DOUBLE", False),  # 0 finds -0
        ("jsonb", "JSON", False),
    ],
)
def test_a_key_column_is_left_out_of_set_if_equal_values_are_stored_alike(name, declared, same):
    table = TargetTable("main", "t", (column(declared),), ("a",))
    assert MATCHING.found_as_written(OIDS[name], table, column(declared)) is same

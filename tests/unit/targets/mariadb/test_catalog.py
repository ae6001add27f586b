"""What is made of information_schema's rows. The server's own answers are in
tests/conformance/test_apply_mariadb.py and tests/targets/test_shapes.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from subscriber.errors import ConflictError, TargetUnavailable
from subscriber.targets import TargetColumn, TargetTable
from subscriber.targets.mariadb.catalog import check_references, counts, next_auto_increment, read_table
from subscriber.targets.mariadb.values import INEXACT_KEY
from tests.unit.targets.recorded_server import RecordedServer

URL = "mariadb+pymysql://user@host/db"
TABLE = TargetTable(None, "t", (), None)


def column(name: str, declared: str, **properties: Any) -> dict[str, Any]:
    """A row of information_schema.columns."""
    described = {
        "name": name, "declared": declared, "storage": declared.partition("(")[0], "nullable": "YES", "extra": "",
        "collation": None, "generated": None, "value": None,
    }  # fmt: skip
    return described | properties


def server(
    *columns: dict[str, Any], key: tuple[str, ...] = (), kind: str = "BASE TABLE", transactions: str | None = "YES"
) -> RecordedServer:
    """A server that has one table, named t."""
    return RecordedServer(
        {
            "information_schema.engines": [{"name": "t", "type": kind, "transactions": transactions}],
            "information_schema.columns": columns,
            "information_schema.statistics": [{"name": name} for name in key],
        }
    )


def read(from_server: RecordedServer, schema: str = "public", name: str = "t") -> TargetTable | None:
    with from_server.engine(URL).connect() as connection:
        return read_table(connection, schema, name)


def the_column(row: dict[str, Any], key: tuple[str, ...] = ()) -> TargetColumn:
    table = read(server(row, key=key))
    assert table is not None
    return table.columns[0]


# Tables -------------------------------------------------------------------------------------------


def test_a_table_has_its_columns_in_their_order_and_its_key():
    table = read(server(column("b", "int(11)"), column("a", "text", nullable="NO"), key=("a", "b")))
    assert table is not None
    assert (table.schema, table.name, table.kind, table.key) == (None, "t", "table", ("a", "b"))
    assert table.columns == (
        TargetColumn("b", "int(11)", "int"),
        TargetColumn("a", "text", "text", nullable=False, required=True),
    )


@pytest.mark.parametrize(
    ("kind", "transactions", "found"),
    [
        ("BASE TABLE", "YES", "table"),
        ("SYSTEM VERSIONED", "YES", "table"),
        ("BASE TABLE", "NO", "non-transactional table"),
        ("BASE TABLE", None, "non-transactional table"),
        ("VIEW", None, "view"),
        ("SEQUENCE", "YES", "other"),
    ],
)
def test_the_kind_depends_on_the_type_and_the_engine(kind, transactions, found):
    table = read(server(column("a", "int(11)"), kind=kind, transactions=transactions))
    assert table is not None
    assert table.kind == found


def test_names_are_compared_exactly():
    """C1: a server may ignore case."""
    assert read(server(column("a", "int(11)")), name="T") is None


@pytest.mark.parametrize(
    ("schema", "places"),
    [
        ("public", ["COALESCE(NULL, DATABASE()) AND t.table_name = 'T'"]),
        (
            "s",
            ["COALESCE(NULL, DATABASE()) AND t.table_name = 's.T'", "COALESCE('s', DATABASE()) AND t.table_name = 'T'"],
        ),
        ("MySQL", ["COALESCE(NULL, DATABASE()) AND t.table_name = 'MySQL.T'"]),
    ],
    ids=["public", "another schema", "a database of the server itself"],
)
def test_a_schema_is_part_of_the_name_or_a_database(schema, places):
    """C1"""
    asked = server()
    assert read(asked, schema, "T") is None
    found = [statement.replace("None", "NULL") for statement in asked.statements if "engines" in statement]
    assert [statement.partition("t.table_schema = ")[2] for statement in found] == places


def test_a_name_that_the_server_cannot_have_is_not_looked_up():
    asked = server(column("a", "int(11)"))
    assert read(asked, name="t\U0001f600") is None
    assert asked.statements == ["CONNECT"]


def test_the_period_of_a_system_versioned_table_is_not_part_of_its_key():
    table = read(server(column("a", "int(11)"), column("e", "timestamp(6)", generated="ROW END"), key=("a", "e")))
    assert table is not None
    assert table.key == ("a",)


@pytest.mark.parametrize("code", [1684, 1292])
def test_a_table_that_is_being_altered_is_not_missing(code):
    """C3: the server leaves it out of the result, with a warning."""
    altered = server(column("a", "int(11)"))
    altered.warning_count = 1
    altered.answers["SHOW WARNINGS"] = [{"Level": "Warning", "Code": code, "Message": ""}]
    if code == 1684:
        with pytest.raises(
            TargetUnavailable, match='the definition of table "t" cannot be read while a table is being altered'
        ):
            read(altered)
    else:
        assert read(altered) is not None


# Columns ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "required"),
    [
        ({"nullable": "NO"}, True),
        ({"nullable": "YES"}, False),
        ({"nullable": "NO", "value": "1"}, False),
        ({"nullable": "NO", "extra": "auto_increment"}, False),
        ({"nullable": "NO", "generated": "`a` + 1"}, False),
    ],
    ids=["not null", "nullable", "default", "auto_increment", "generated"],
)
def test_an_insert_needs_a_column_for_which_nothing_makes_a_value(properties, required):
    assert the_column(column("a", "int(11)", **properties)).required is required


@pytest.mark.parametrize(
    ("row", "generates", "counter"),
    [
        (column("a", "int(11)", extra="auto_increment", nullable="NO"), True, True),
        (column("a", "timestamp(6)", nullable="NO"), True, False),
        (column("a", "timestamp(6)"), False, False),
        (column("a", "datetime(6)", nullable="NO"), False, False),
        (column("a", "int(11)", nullable="NO"), False, False),
    ],
    ids=["auto_increment", "timestamp", "nullable timestamp", "datetime", "integer"],
)
def test_a_null_becomes_a_value_in_a_counter_and_in_a_timestamp(row, generates, counter):
    """absence_is_typed"""
    found = the_column(row)
    assert (found.null_is_generated, counts(found)) == (generates, counter)


@pytest.mark.parametrize(
    ("collation", "key", "storage"),
    [
        ("utf8mb4_general_ci", ("a",), f"varchar{INEXACT_KEY}"),
        ("utf8mb4_nopad_bin", ("a",), "varchar"),
        ("binary", ("a",), "varchar"),
        ("utf8mb4_general_ci", (), "varchar"),
    ],
)
def test_the_collation_of_a_key_column_is_part_of_its_storage(collation, key, storage):
    assert the_column(column("a", "varchar(9)", collation=collation), key).storage == storage


# Counters and references --------------------------------------------------------------------------


@pytest.mark.parametrize(("stored", "following"), [(42, 42), (None, 1)])
def test_a_counter_that_was_never_used_begins_with_1(stored, following):
    counter = RecordedServer({"auto_increment": [{"auto_increment": stored}]})
    with counter.engine(URL).connect() as connection:
        assert next_auto_increment(connection, TABLE) == following


def reference(name: str, *, place: str = "db", here: bool = True) -> dict[str, Any]:
    """A row of the query for the tables that reference another."""
    return {"place": place, "name": name, "here": int(here)}


@pytest.mark.parametrize(
    ("references", "truncated"),
    [
        ([], [TABLE]),
        ([reference("t")], [TABLE]),
        ([reference("c")], [TABLE, TargetTable(None, "c", (), None)]),
        ([reference("c", place="s", here=False)], [TABLE, TargetTable("s", "c", (), None)]),
    ],
    ids=["nobody", "itself", "a table that is truncated too", "one of another database"],
)
def test_a_table_is_truncated_with_those_that_reference_it(references, truncated):
    """C30"""
    with RecordedServer({"key_column_usage": references}).engine(URL).connect() as connection:
        check_references(connection, TABLE, truncated)


@pytest.mark.parametrize(
    "references",
    [[reference("z"), reference("c")], [reference("c", place="s", here=False)]],
    ids=["two of this database", "one of another database"],
)
def test_a_table_that_another_references_is_not_truncated(references):
    """C30"""
    other = TargetTable(None, "c", (), None) if len(references) == 1 else TABLE
    with (
        RecordedServer({"key_column_usage": references}).engine(URL).connect() as connection,
        pytest.raises(ConflictError) as raised,
    ):
        check_references(connection, TABLE, [TABLE, other])
    assert (raised.value.sqlstate, raised.value.detail) == ("0A000", 'Table "c" references "t".')

"""What is made of information_schema's rows. The server's own answers are in
tests/conformance/test_apply_mariadb.py and tests/targets/test_shapes.py.
"""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from pymysql.err import OperationalError

from subscriber.base.errors import ConflictError, TargetUnavailable
from subscriber.postgres.schema.shape import SequencePosition
from subscriber.targets import TargetColumn, TargetTable
from subscriber.targets.base.writing import check_references
from subscriber.targets.mariadb.catalog import (
    MariaDBSequences,
    MariaDBShapes,
    MariaDBTableReader,
    counts,
    next_auto_increment,
    read_tables,
    references_to,
)
from subscriber.targets.mariadb.errors import MariaDBErrors
from subscriber.targets.mariadb.objects import checks_of, defaults_of, generated_of, without_default
from subscriber.targets.mariadb.values import INEXACT_KEY
from subscriber.targets.target_table import TargetSequence
from tests.unit.targets.recorded_server import RecordedServer

URL = "mariadb+pymysql://user@host/db"
TABLE = TargetTable(None, "t", (), None)


def column(name: str, declared: str, **properties: Any) -> dict[str, Any]:
    """A row of information_schema.columns."""
    described = {
        "place": "t", "name": name, "declared": declared, "storage": declared.partition("(")[0], "nullable": "YES", "extra": "",
        "collation": None, "generation": None, "value": None,
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
            "information_schema.statistics": [{"place": "t", "name": name} for name in key],
        }
    )


def read(from_server: RecordedServer, schema: str = "public", name: str = "t") -> TargetTable | None:
    with from_server.engine(URL).connect() as connection:
        return read_tables(connection, [(schema, name)]).get((schema, name))


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
        ("public", ["COALESCE(NULL, DATABASE()) AND t.table_name IN ('T')"]),
        (
            "s",
            [
                "COALESCE(NULL, DATABASE()) AND t.table_name IN ('s.T')",
                "COALESCE('s', DATABASE()) AND t.table_name IN ('T')",
            ],
        ),
        ("MySQL", ["COALESCE(NULL, DATABASE()) AND t.table_name IN ('MySQL.T')"]),
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
    table = read(server(column("a", "int(11)"), column("e", "timestamp(6)", generation="ROW END"), key=("a", "e")))
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


def test_the_number_of_queries_does_not_depend_on_the_number_of_tables():
    asked = server(column("a", "int(11)"))
    with asked.engine(URL).connect() as connection:
        found = read_tables(connection, [("public", f"t{number}") for number in range(50)] + [("public", "t")])
    assert [*found] == [("public", "t")]
    assert len([one for one in asked.statements if one.startswith("SELECT")]) == 3


# Columns ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "required"),
    [
        ({"nullable": "NO"}, True),
        ({"nullable": "YES"}, False),
        ({"nullable": "NO", "value": "1"}, False),
        ({"nullable": "NO", "extra": "auto_increment"}, False),
        ({"nullable": "NO", "generation": "`a` + 1"}, False),
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


def created(end: str) -> RecordedServer:
    """A server with a table, whose CREATE TABLE statement has this end."""
    text = f"CREATE TABLE `t` (\n  `a` int(11) NOT NULL AUTO_INCREMENT COMMENT 'AUTO_INCREMENT=7'\n){end}"
    return RecordedServer({"SHOW CREATE TABLE": [{"Table": "t", "Create Table": text}]})


@pytest.mark.parametrize(
    ("end", "following"),
    [
        (" ENGINE=InnoDB AUTO_INCREMENT=42 DEFAULT CHARSET=utf8mb4", 42),
        (" ORGANIZATION INDEX AUTO_INCREMENT = 43 DEFAULT CHARSET = utf8mb4", 43),
        (" ENGINE=InnoDB DEFAULT CHARSET=utf8mb4", 1),
        (" ENGINE=InnoDB COMMENT='AUTO_INCREMENT=44'", 1),
    ],
    ids=["used", "in OceanBase", "never used", "a comment"],
)
def test_a_counter_that_was_never_used_begins_with_1(end, following):
    with created(end).engine(URL).connect() as connection:
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
        assert references_to(connection, TABLE, truncated) == set()


@pytest.mark.parametrize(
    "references",
    [[reference("z"), reference("c")], [reference("c", place="s", here=False)]],
    ids=["two of this database", "one of another database"],
)
def test_a_table_that_another_references_is_not_truncated(references):
    """C30"""
    other = TargetTable(None, "c", (), None) if len(references) == 1 else TABLE
    with RecordedServer({"key_column_usage": references}).engine(URL).connect() as connection:
        found = references_to(connection, TABLE, [TABLE, other])
    assert found == {row["name"] for row in references}
    with pytest.raises(ConflictError) as raised:
        check_references(TABLE, found)
    assert (raised.value.sqlstate, raised.value.detail) == ("0A000", 'Table "c" references "t".')


# The role shapes of MariaDB. How a table is read is tested in test_catalog.py.


def test_a_table_that_does_not_exist_is_none():
    with RecordedServer().engine(URL).connect() as connection:
        assert MariaDBShapes(MariaDBErrors()).reflect(connection, "public", "absent") is None


def test_an_error_of_the_driver_is_translated():
    server = RecordedServer({"information_schema": OperationalError(1205, "Lock wait timeout exceeded")})
    with server.engine(URL).connect() as connection, pytest.raises(TargetUnavailable, match="LOCK_WAIT_TIMEOUT"):
        MariaDBShapes(MariaDBErrors()).reflect(connection, "public", "t")


# Ranges of a table; those of a server are in tests/targets/test_reading.py.


@pytest.fixture
def connection():
    """A database that answers the same query."""
    with sa.create_engine("sqlite://").connect() as connection:
        connection.exec_driver_sql("CREATE TABLE t (a INTEGER, b INTEGER)")
        connection.exec_driver_sql("INSERT INTO t VALUES (-5, 1), (10, 1), (25, 1)")
        yield connection


def ranges(connection, key, storage="bigint"):
    columns = TargetColumn("a", storage, storage), TargetColumn("b", "bigint", "bigint")
    table = TargetTable(None, "t", columns, key)
    return [(one.column, one.first, one.end) for one in MariaDBTableReader(None).ranges(connection, table, 3)]  # type: ignore[arg-type]


def test_a_key_of_one_integer_is_cut_into_ranges(connection):
    assert ranges(connection, ("a",)) == [("a", None, 5), ("a", 5, 15), ("a", 15, None)]


@pytest.mark.parametrize(("key", "storage"), [(None, "bigint"), (("a", "b"), "bigint"), (("a",), "varchar")])
def test_any_other_table_is_read_by_one_connection(connection, key, storage):
    assert ranges(connection, key, storage) == []


# AUTO_INCREMENT as a sequence. tests/targets/test_writing.py sets one in a real server.


COUNTER = TargetColumn("a", "smallint(6)", "smallint", nullable=False, null_is_generated=True)
SEQUENCE_TABLE = TargetTable(None, "t", (COUNTER, TargetColumn("b", "int(11)", "int")), ("a",))
SEQUENCES = MariaDBSequences(MariaDBErrors())


@pytest.mark.parametrize(
    ("following", "position"),
    [
        (1, SequencePosition(last_value=1, is_called=False)),
        (42, SequencePosition(last_value=41, is_called=True)),
    ],
    ids=["never used", "used"],
)
def test_a_counter_stores_the_next_value(following, position):
    server = created(f" ENGINE=InnoDB AUTO_INCREMENT={following}")
    with server.engine(URL).connect() as connection:
        found = SEQUENCES.of_column(connection, SEQUENCE_TABLE, "a")
    assert found == TargetSequence(".t", position, 1, 32_767, SEQUENCE_TABLE)


@pytest.mark.parametrize("name", ["b", "absent"])
def test_only_an_auto_increment_column_has_a_counter(name):
    server = RecordedServer()
    with server.engine(URL).connect() as connection:
        assert SEQUENCES.of_column(connection, SEQUENCE_TABLE, name) is None
    assert server.statements == ["CONNECT"]


@pytest.mark.parametrize(("is_called", "following"), [(True, 42), (False, 41)])
def test_a_counter_goes_on_as_the_publishers_sequence(is_called, following):
    """D14"""
    server = RecordedServer()
    table = TargetTable("s", "t", SEQUENCE_TABLE.columns, SEQUENCE_TABLE.key)
    counter = TargetSequence("s.t", SequencePosition(last_value=1, is_called=False), 1, 32_767, table)
    with server.engine(URL).connect() as connection:
        SEQUENCES.set(connection, counter, SequencePosition(last_value=41, is_called=is_called))
    assert f"ALTER TABLE s.t AUTO_INCREMENT = {following}" in server.statements


# What a statement of SHOW CREATE TABLE says. With a server:
# tests/conformance/test_schema_step.py.


TEXT = r"""CREATE TABLE `t` (
  `a` int(11) NOT NULL DEFAULT 5,
  `b ``c` varchar(20) DEFAULT 'it''s, \'DEFAULT 3\'' COMMENT 'DEFAULT 4 CHECK (1)',
  `d` longtext DEFAULT concat(trim(TRAILING '.' FROM utc_timestamp(6)),'+00'),
  `e` int(11) DEFAULT (1 + 2) CHECK (`e` > 0),
  `f` datetime(6) DEFAULT NULL,
  `g` bigint(20) GENERATED ALWAYS AS (`a` * (2)) STORED,
  `h` int(11) DEFAULT NULL,
  KEY `DEFAULT 1` (`a`),
  CONSTRAINT `c (x` CHECK (`a` > (0) and `b ``c` <> ')')
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"""


def test_defaults_are_found_except_null():
    assert dict(defaults_of(TEXT)) == {
        "a": "5",
        "b `c": r"'it''s, \'DEFAULT 3\''",
        "d": "concat(trim(TRAILING '.' FROM utc_timestamp(6)),'+00')",
        "e": "(1 + 2)",
    }


def test_generated_columns_are_found_with_their_expressions():
    assert dict(generated_of(TEXT)) == {"g": "`a` * (2)"}


def test_checks_of_the_table_and_of_columns_are_found():
    assert dict(checks_of(TEXT)) == {"e": "`e` > 0", "c (x": "`a` > (0) and `b ``c` <> ')'"}


@pytest.mark.parametrize(
    ("line", "rest"),
    [
        ("`a` int(11) NOT NULL DEFAULT (1 + 2) COMMENT 'x'", "`a` int(11) NOT NULL COMMENT 'x'"),
        ("`a` int(11) DEFAULT 'it''s 5' CHECK (`a` > 0)", "`a` int(11) CHECK (`a` > 0)"),
        ("`DEFAULT` int(11) DEFAULT current_timestamp(6)", "`DEFAULT` int(11)"),
        ("`a` int(11) COMMENT 'DEFAULT 5'", "`a` int(11) COMMENT 'DEFAULT 5'"),
    ],
)
def test_a_default_is_taken_from_a_column(line, rest):
    assert without_default(line) == rest


def test_the_invisible_key_that_mysql_generates_is_no_key():
    """With sql_generate_invisible_primary_key."""
    generated = column("my_row_id", "bigint(20) unsigned", extra="auto_increment INVISIBLE", nullable="NO")
    table = read(server(generated, column("a", "int(11)"), key=("my_row_id",)))
    assert table is not None
    assert ([one.name for one in table.columns], table.key) == (["a"], None)

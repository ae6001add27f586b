"""What is made of the system catalogs' rows. A server's own answers are in
tests/conformance/test_apply_postgresql.py and tests/targets/test_shapes.py.
"""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from psycopg.conninfo import conninfo_to_dict

from subscriber.base.errors import SubscriberError, TargetRelationError, TargetUnavailable
from subscriber.postgres.schema.shape import SequenceDefinition, SequencePosition
from subscriber.targets import LeafRouting, TargetTable, UniqueIndex
from subscriber.targets.postgresql.catalog import (
    PostgreSQLColumn,
    PostgreSQLSequences,
    PostgreSQLShapes,
    PostgreSQLTable,
    is_connected,
    read_tables,
    read_unique_indexes,
    refuses_rows,
    takes_many_rows,
)
from subscriber.targets.postgresql.errors import PostgreSQLErrors
from subscriber.targets.postgresql.transactions import PostgreSQLCluster, PostgreSQLTransactions
from subscriber.targets.target_table import TargetSequence
from tests.unit.targets.recorded_server import RecordedServer

URL = "postgresql+psycopg://user@host/db"


def column(name: str, declared: str = "integer", **properties: Any) -> dict[str, Any]:
    """A row of the query for columns."""
    described = {
        "attrelid": 5, "attname": name, "declared": declared, "nullable": True, "generated": False, "identity_always": False,
        "compared_as": None, "own_operator": None, "binary_form": 23, "required": False,
    }  # fmt: skip
    return described | properties


def server(*columns: dict[str, Any], key: tuple[str, ...] = (), **relation: Any) -> RecordedServer:
    """A server that has one table."""
    row = {
        "schema": "s", "name": "t", "oid": 5, "relkind": "r", "is_secured": False, "role": "u", "rule": None,
        "may_suppress": False, "root": None,
    }  # fmt: skip
    return RecordedServer(
        {
            "row_security_active": [row | relation],
            "attidentity = 'a'": columns or [column("a")],
            "pg_get_partition_constraintdef": [],
            "SELECT k.indrelid": [{"indrelid": 5, "attname": name} for name in key],
        }
    )


def read(from_server: RecordedServer, fires: str = "RA") -> PostgreSQLTable | None:
    with from_server.engine(URL).connect() as connection:
        return read_tables(connection, [("s", "t")], fires=fires).get(("s", "t"))


def table(from_server: RecordedServer) -> PostgreSQLTable:
    found = read(from_server)
    assert found is not None
    return found


def test_a_table_that_does_not_exist_is_none():
    assert read(RecordedServer()) is None


@pytest.mark.parametrize(
    ("relkind", "kind", "locators"),
    [
        ("r", "table", ("ctid",)),
        ("p", "partitioned table", ("tableoid", "ctid")),
        ("v", "view", ("ctid",)),
        ("m", "other", ("ctid",)),
        ("f", "other", ("ctid",)),
    ],
)
def test_the_kind_is_that_of_pg_class(relkind, kind, locators):
    """A ctid is unique only within a partition."""
    found = table(server(relkind=relkind, key=("a",)))
    assert (found.schema, found.name, found.kind, found.locators) == ("s", "t", kind, locators)


def test_a_column_has_its_properties():
    found = table(
        server(
            column(
                "a", "numeric(5,2)[]", compared_as="numeric(5,2)[]", binary_form=1231, nullable=False, required=True
            ),
            column("g", "ext.citext", generated=True, own_operator="ext.="),
            column("i", identity_always=True),
            key=("a",),
        )
    )
    assert found.columns == (
        PostgreSQLColumn(
            "a", "numeric(5,2)[]", "numeric[]", nullable=False, required=True, compared_as="numeric(5,2)[]", binary_form=1231,
        ),
        PostgreSQLColumn("g", "ext.citext", "ext.citext", generated=True, own_operator="ext.=", binary_form=23),
        PostgreSQLColumn("i", "integer", "integer", identity_always=True, binary_form=23),
    )  # fmt: skip
    assert (found.key, found.has_identity_always) == (("a",), True)


def test_a_table_without_a_key_has_none():
    """C11, C14"""
    assert (table(server()).key, table(server()).routing) == (None, None)


def test_row_level_security_is_refused():
    """C24"""
    with pytest.raises(TargetRelationError) as raised:
        read(server(is_secured=True))
    assert raised.value.message == ('user "u" cannot replicate into relation with row-level security enabled: "t"')
    assert raised.value.sqlstate == "0A000"


def test_a_rule_that_would_fire_is_refused():
    with pytest.raises(TargetRelationError, match='while its rule "r" acts on replicated changes'):
        read(server(rule="r"))


def test_triggers_and_rules_are_those_that_fire_in_the_session():
    asked = server()
    read(asked, fires="OA")
    assert asked.statements[1].count("CAST('OA'") == 2


def test_a_before_trigger_may_suppress_changes():
    assert table(server(may_suppress=True)).may_suppress


def test_the_number_of_queries_does_not_depend_on_the_number_of_tables():
    asked = server(key=("a",))
    with asked.engine(URL).connect() as connection:
        found = read_tables(connection, [("s", f"t{number}") for number in range(50)], fires="RA")
    assert [*found] == [("s", "t")]
    assert len([one for one in asked.statements if one.startswith("SELECT")]) == 3


# Partitions ---------------------------------------------------------------------------------------


def partitioned(*leaves: dict[str, Any]) -> PostgreSQLTable:
    from_server = server(relkind="p")
    from_server.answers |= {"pg_get_partition_constraintdef": leaves, "pg_depend d": [{"attname": "a"}]}
    return table(from_server)


def test_a_partitioned_table_without_a_key_has_the_key_of_its_partitions():
    """C12, C26"""
    found = partitioned(
        {"oid": 6, "bounds": "(a < 5)", "key": ["b", "a"]}, {"oid": 7, "bounds": None, "key": ["b", "a"]}
    )
    assert found.key == ("b", "a")
    assert found.routing == LeafRouting(
        "tableoid",
        "CASE WHEN (a < 5) THEN CAST(6 AS pg_catalog.oid) WHEN true THEN CAST(7 AS pg_catalog.oid) END",
        ("a",),
    )


@pytest.mark.parametrize(
    "leaves",
    [
        [],
        [{"oid": 6, "bounds": "(a < 5)", "key": None}],
        [{"oid": 6, "bounds": "(a < 5)", "key": ["a"]}, {"oid": 7, "bounds": "(a > 5)", "key": ["b"]}],
        [{"oid": 6, "bounds": "(a < 5)", "key": ["a"]}, {"oid": 7, "bounds": "(a > 5)", "key": None}],
    ],
    ids=["no partition", "no key", "different keys", "a partition without a key"],
)
def test_partitions_that_have_no_key_in_common_give_none(leaves):
    found = partitioned(*leaves)
    assert (found.key, found.routing) == (None, None)


# Unique indexes -----------------------------------------------------------------------------------


def test_an_index_may_have_expressions_and_a_predicate():
    """C22"""
    row = {
        "name": "i", "keys": ["a", "lower(b)"], "columns": ["a", None], "predicate": "a > 0", "nulls_distinct": False,
    }  # fmt: skip
    with RecordedServer({"indisunique": [row]}).engine(URL).connect() as connection:
        indexes = read_unique_indexes(connection, TargetTable("s", "t", (), None))
    assert indexes == [UniqueIndex("i", ("a", "lower(b)"), frozenset({"lower(b)"}), "a > 0", nulls_distinct=False)]


# The role shapes of PostgreSQL. How a table is read is tested in test_catalog.py.


def shapes(server: RecordedServer) -> PostgreSQLShapes:
    errors = PostgreSQLErrors()
    return PostgreSQLShapes(errors, PostgreSQLTransactions(server.engine(URL), errors))


def test_a_table_is_read_as_a_replica_sees_it():
    """C23: as long as it is not known that the role may not be one."""
    server = RecordedServer()
    with server.engine(URL).connect() as connection:
        assert shapes(server).reflect(connection, "public", "absent") is None
    assert "CAST('RA'" in server.statements[1]


def test_an_error_of_the_driver_is_translated():
    server = RecordedServer({"pg_class": psycopg.errors.LockNotAvailable()})
    with server.engine(URL).connect() as connection, pytest.raises(TargetUnavailable, match="lock timeout"):
        shapes(server).reflect(connection, "public", "t")


def test_unique_indexes_are_read_from_the_catalog():
    row = {"name": "t_pkey", "keys": ["a"], "columns": ["a"], "predicate": None, "nulls_distinct": True}
    server = RecordedServer({"indisunique": [row]})
    with server.engine(URL).connect() as connection:
        found = shapes(server).unique_indexes(connection, TargetTable("public", "t", (), ("a",)))
    assert found == [UniqueIndex("t_pkey", ("a",))]


# PostgreSQL's sequences. tests/targets/test_writing.py sets one in a real server.


SEQUENCES = PostgreSQLSequences(PostgreSQLErrors())
SEQUENCE_TABLE = TargetTable("s", "t", (), None)
NAME = 's."100%"'
DEFINITION = SequenceDefinition("smallint", 5, -2, -9, 9, cycles=True)
POSITION = SequencePosition(last_value=41, is_called=True, increment=-2)
FOUND = TargetSequence(NAME, POSITION, -9, 9, definition=DEFINITION)
LIMITS = {"seqstart": 5, "seqincrement": -2, "seqmin": -9, "seqmax": 9, "seqcycle": True}
ANSWERS = {
    "pg_sequence q": [{"name": NAME, "type_name": "smallint", **LIMITS}],
    "SELECT last_value": [{"last_value": 41, "is_called": True}],
}


def test_the_sequence_of_a_column_has_its_position_and_its_limits():
    server = RecordedServer(dict(ANSWERS))
    with server.engine(URL).connect() as connection:
        assert SEQUENCES.of_column(connection, SEQUENCE_TABLE, "a") == FOUND
    assert server.statements[2] == 'SELECT last_value, is_called FROM s."100%%"'


def test_a_sequence_is_found_by_its_name():
    with RecordedServer(dict(ANSWERS)).engine(URL).connect() as connection:
        assert SEQUENCES.named(connection, "s", "100%") == FOUND


def test_a_column_without_a_sequence_has_none():
    with RecordedServer().engine(URL).connect() as connection:
        assert SEQUENCES.of_column(connection, SEQUENCE_TABLE, "a") is None
        assert SEQUENCES.named(connection, "s", "absent") is None


@pytest.mark.parametrize("is_called", [True, False])
def test_a_sequence_goes_on_as_the_publishers(is_called):
    """D14"""
    server = RecordedServer()
    with server.engine(URL).connect() as connection:
        SEQUENCES.set(connection, FOUND, SequencePosition(last_value=41, is_called=is_called))
    (statement,) = (one for one in server.statements if "setval" in one)
    assert statement.startswith(f"SELECT setval(CAST('{NAME}' AS REGCLASS), 41")
    assert str(is_called).lower() in statement.lower()


def test_an_error_of_the_driver_about_a_sequence_is_translated():
    server = RecordedServer({"setval": psycopg.errors.InsufficientPrivilege("secret")})
    with server.engine(URL).connect() as connection, pytest.raises(SubscriberError) as raised:
        SEQUENCES.set(connection, FOUND, FOUND.position)
    assert raised.value.sqlstate == "42501"


# What is asked about a table's rules. A server's own answers are in
# tests/conformance/test_bulk_postgresql.py and tests/targets/test_shapes.py.


TABLE = TargetTable("s", "t", (), ("a",))


@pytest.mark.parametrize(("key", "keys"), [(("a",), 1), (None, 0)])
def test_a_table_with_more_unique_indexes_than_its_key_is_connected(key, keys):
    server = RecordedServer({"collisdeterministic": [{"connected": True}]})
    with server.engine(URL).connect() as connection:
        assert is_connected(connection, TargetTable("s", "t", (), key), fires="RA")
    assert f"HAVING count(*) > {keys}" in server.statements[1]
    assert "CAST('RA' AS text)" in server.statements[1]


@pytest.mark.parametrize(
    ("fires", "requires", "as_rows", "expected"),
    [
        (False, False, True, True),
        (True, False, False, False),
        (False, True, True, False),
        (False, True, False, True),
    ],
    ids=["no rule", "a trigger fires", "a domain refuses NULL", "a domain, and no values of the row type"],
)
def test_many_rows_are_written_at_once_where_each_alone_would_give_the_same(fires, requires, as_rows, expected):
    server = RecordedServer({"AS fires": [{"fires": fires, "requires": requires}]})
    with server.engine(URL).connect() as connection:
        assert takes_many_rows(connection, TABLE, fires="RA", as_rows=as_rows) is expected


@pytest.mark.parametrize("answer", [True, False])
def test_the_server_says_whether_a_table_may_refuse_rows(answer):
    server = RecordedServer({"has_table_privilege": [{"refuses": answer}]})
    with server.engine(URL).connect() as connection:
        assert refuses_rows(connection, TABLE) is answer
    assert "n.nspname = 's' AND c.relname = 't'" in server.statements[1]


HERE = {"pg_control_system": [{"system_identifier": "7", "current_database": "db"}]}


@pytest.mark.parametrize(
    ("identifier", "database", "found"), [("7", "db", True), ("7", "other", False), ("8", "db", False)]
)
def test_a_database_is_known_by_the_identifier_of_its_cluster_and_its_name(identifier, database, found):
    engine = RecordedServer(HERE).engine("postgresql+psycopg://user@host/db")
    with engine.connect() as connection:
        assert PostgreSQLCluster(engine, PostgreSQLErrors()).has_database(connection, identifier, database) is found


def test_the_connection_string_is_libpqs_with_every_part_of_the_url():
    engine = sa.create_engine("postgresql+psycopg://me:p%40ss%20word@db:5433/the%20shop?sslmode=require")
    found = conninfo_to_dict(PostgreSQLCluster(engine, PostgreSQLErrors()).conninfo())
    assert found == {
        "host": "db", "port": "5433", "user": "me", "password": "p@ss word", "dbname": "the shop", "sslmode": "require",
    }  # fmt: skip

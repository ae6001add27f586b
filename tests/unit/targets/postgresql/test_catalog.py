"""What is made of the system catalogs' rows. A server's own answers are in
tests/conformance/test_apply_postgresql.py and tests/targets/test_shapes.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from subscriber.errors import TargetRelationError
from subscriber.targets import LeafRouting, TargetTable, UniqueIndex
from subscriber.targets.postgresql.catalog import PostgreSQLColumn, PostgreSQLTable, read_table, read_unique_indexes
from tests.unit.targets.recorded_server import RecordedServer

URL = "postgresql+psycopg://user@host/db"


def column(name: str, declared: str = "integer", **properties: Any) -> dict[str, Any]:
    """A row of the query for columns."""
    described = {
        "attname": name, "declared": declared, "nullable": True, "generated": False, "identity_always": False,
        "compared_as": None, "own_operator": None, "binary_form": 23, "required": False,
    }  # fmt: skip
    return described | properties


def server(*columns: dict[str, Any], key: tuple[str, ...] = (), **relation: Any) -> RecordedServer:
    """A server that has one table."""
    row = {"oid": 5, "relkind": "r", "is_secured": False, "role": "u", "rule": None, "may_suppress": False}
    return RecordedServer(
        {
            "row_security_active": [row | relation],
            "attidentity = 'a'": columns or [column("a")],
            "pg_get_partition_constraintdef": [],
            "FROM (SELECT i.indkey": [{"attname": name} for name in key],
        }
    )


def read(from_server: RecordedServer, fires: str = "RA") -> PostgreSQLTable | None:
    with from_server.engine(URL).connect() as connection:
        return read_table(connection, "s", "t", fires=fires)


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

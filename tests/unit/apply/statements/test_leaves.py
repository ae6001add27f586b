"""The search in a partitioned table where only the partitions have keys (C26)."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from subscriber.apply.relations.local_relations import LocalRelation
from subscriber.apply.statements.leaves import in_leaf
from subscriber.errors import TargetRelationError
from subscriber.targets import LeafRouting, Target, TargetColumn, TargetTable
from tests.frames import relation

REMOTE = relation("public.t", {"id": "int4", "region": "text", "payload": "text"}, ["id", "region"])
COLUMNS = (
    TargetColumn("id", "integer", "int4"),
    TargetColumn("region", "character varying(10)", "varchar"),
    TargetColumn("payload", "text", "text"),
    TargetColumn("tenant", "integer", "int4"),
)
TABLE = TargetTable("public", "t", COLUMNS, ("id",), "partitioned table", locators=("tableoid", "ctid"))
LOCAL = LocalRelation(REMOTE, TABLE, COLUMNS[:3], "public.t")


class Routed:
    """The matching of a target whose partitions alone have keys."""

    def __init__(self, routing: LeafRouting | None) -> None:
        self._routing = routing

    def routing(self, table: TargetTable) -> LeafRouting | None:
        return self._routing


def conditions(target: Target, columns: tuple[str, ...] | None, sent: tuple[str, ...]) -> list[str]:
    """The conditions as PostgreSQL's SQL; ``columns`` are those of the partition bounds."""
    routing = None if columns is None else LeafRouting("tableoid", "CASE WHEN region = 'eu' THEN 16391 END", columns)
    roles = replace(target.open_table_roles(), matching=Routed(routing))  # type: ignore[arg-type]
    routed = replace(target, open_table_roles=lambda: roles)
    found = in_leaf(routed, LOCAL, TABLE.clause(), sent, lambda column: sa.literal_column(f":{column.name}"))
    return [" ".join(str(one.compile(dialect=postgresql.dialect())).split()) for one in found]


def test_a_table_that_has_a_key_is_searched_as_a_whole(target):
    assert conditions(target, None, ("id",)) == []


def test_the_row_is_searched_in_the_partition_that_its_values_belong_to(target):
    (condition,) = conditions(target, ("region",), ("id", "region"))
    assert condition == (
        "public.t.tableoid = (SELECT CASE WHEN region = 'eu' THEN 16391 END"
        " FROM (SELECT CAST(:region AS character varying(10)) AS region) AS subscriber_routed)"
    )


def test_a_column_that_the_publisher_does_not_have_is_null(target):
    """C15"""
    (condition,) = conditions(target, ("region", "tenant"), ("id", "region"))
    assert "CAST(NULL AS integer) AS tenant" in condition


def test_a_search_that_does_not_determine_the_partition_is_refused(target):
    """C12"""
    with pytest.raises(TargetRelationError) as caught:
        conditions(target, ("region",), ("id",))
    assert caught.value.message == (
        'logical replication target relation "public.t" has neither REPLICA IDENTITY index nor PRIMARY KEY'
        " and published relation does not have REPLICA IDENTITY FULL"
    )
    assert caught.value.sqlstate == "55000"

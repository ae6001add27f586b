"""The parts of the publisher's schema that the created tables lack."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from subscriber.catalog.own_tables import SCHEMA_DIFFERENCE
from subscriber.catalog.schema_changes import differing_relations, set_schema_differences
from subscriber.postgres.schema.shape import RelatedDifference, SchemaDifference


def difference(relation: str, name: str) -> RelatedDifference:
    found = SchemaDifference(kind="index", object=name, ddl=f"CREATE INDEX {name}", reason="no such index")
    return RelatedDifference(relation, found)


def stored(connection: sa.Connection, subid: int) -> list[dict[str, Any]]:
    query = sa.select(SCHEMA_DIFFERENCE).where(SCHEMA_DIFFERENCE.c.subid == subid)
    return [dict(row) for row in connection.execute(query.order_by(SCHEMA_DIFFERENCE.c.number)).mappings()]


def test_differences_are_numbered_in_their_order(connection):
    set_schema_differences(connection, 1, [difference("public.t", "t_b"), difference("public.t", "t_a")])
    first, second = stored(connection, 1)
    assert first == {
        "subid": 1,
        "number": 1,
        "relation": "public.t",
        "object": "t_b",
        "kind": "index",
        "ddl": "CREATE INDEX t_b",
        "reason": "no such index",
    }
    assert (second["number"], second["object"]) == (2, "t_a")


def test_the_differences_of_one_subscription_are_replaced_together(connection):
    set_schema_differences(connection, 1, [difference("public.t", "t_a"), difference("public.u", "u_a")])
    set_schema_differences(connection, 2, [difference("public.v", "v_a")])
    set_schema_differences(connection, 1, [difference("public.w", "w_a")])
    assert differing_relations(connection, 1) == {"public.w"}
    assert differing_relations(connection, 2) == {"public.v"}
    set_schema_differences(connection, 1, [])
    assert differing_relations(connection, 1) == frozenset()
    assert differing_relations(connection, 2) == {"public.v"}


def test_a_relation_with_several_differences_is_named_once(connection):
    set_schema_differences(connection, 1, [difference("public.t", name) for name in ("t_a", "t_b")])
    assert differing_relations(connection, 1) == {"public.t"}

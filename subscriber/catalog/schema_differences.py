"""``subscriber_schema_difference``: the parts of the publisher's schema that are missing in the
tables that ``create_tables`` has created.

The rows are for users who move an application to the target. Only commands write them. ``relation``
is the publisher's table.
"""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from subscriber.catalog.own_tables import SCHEMA_DIFFERENCE
from subscriber.schema.shape import RelatedDifference


def differing_relations(connection: sa.Connection, subid: int) -> frozenset[str]:
    """The relations of a subscription that have differences, as ``schema.table``."""
    query = sa.select(SCHEMA_DIFFERENCE.c.relation).where(SCHEMA_DIFFERENCE.c.subid == subid).distinct()
    return frozenset(connection.execute(query).scalars())


def set_schema_differences(connection: sa.Connection, subid: int, differences: Iterable[RelatedDifference]) -> None:
    """Replace the differences of all tables of a subscription; an empty list deletes them."""
    connection.execute(sa.delete(SCHEMA_DIFFERENCE).where(SCHEMA_DIFFERENCE.c.subid == subid))
    rows = [
        {
            "subid": subid,
            "number": number,
            "relation": one.relation,
            "object": one.difference.object,
            "kind": one.difference.kind,
            "ddl": one.difference.ddl,
            "reason": one.difference.reason,
        }
        for number, one in enumerate(differences, 1)
    ]
    if rows:
        connection.execute(sa.insert(SCHEMA_DIFFERENCE), rows)

"""``subscriber_schema_difference``: what of the publisher's schema the tables that
``create_tables`` has made do not have.

The rows are for people who move an application to the target, and are written by commands alone.
The relation is the publisher's.
"""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from subscriber.catalog.own_tables import SCHEMA_DIFFERENCE
from subscriber.schema.shape import RelatedDifference


def differing_relations(connection: sa.Connection, subid: int) -> frozenset[str]:
    """The relations, ``schema.table``, of which a subscription has differences."""
    query = sa.select(SCHEMA_DIFFERENCE.c.relation).where(SCHEMA_DIFFERENCE.c.subid == subid).distinct()
    return frozenset(connection.execute(query).scalars())


def set_schema_differences(connection: sa.Connection, subid: int, differences: Iterable[RelatedDifference]) -> None:
    """Replace everything that is kept of a subscription's tables; nothing forgets it."""
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

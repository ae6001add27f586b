"""The number of rows of each table of a subscription in the target."""

from __future__ import annotations

import sqlalchemy as sa

from subscriber import catalog
from subscriber.catalog import Subscription
from subscriber.targets import Target


def count_rows(target: Target, subscription: Subscription) -> dict[str, int]:
    """The rows of each table of a subscription, by the publisher's ``schema.table``; a table that
    the target does not have is left out.

    Raises:
        TargetError: the target cannot be queried.
    """
    counts = {}
    with target.reporting(), target.engine.connect() as connection:
        for relation in catalog.relations_of(connection, subscription.subid):
            place = subscription.options.map.local(relation.schema, relation.name)
            table = target.shapes.reflect(connection, *place)
            if table is not None:
                query = sa.select(sa.func.count()).select_from(table.clause())
                counts[relation.qualified_name] = int(connection.execute(query).scalar_one())
    return counts

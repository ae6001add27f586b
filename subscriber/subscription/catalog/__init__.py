"""The subscriptions of a target, kept in the target: pg_subscription and its neighbours for any database.

Progress and statistics are two more tables of the catalog: apply moves them with the data, so it defines them
(:mod:`subscriber.apply.progress`).

Every function works in the caller's transaction and leaves the database's own errors to the target's boundary. Names are looked
up exactly as they are stored: the grammar has folded them.
"""

from __future__ import annotations

import sqlalchemy as sa

from subscriber.subscription.catalog.relations import (
    RelationState,
    SubscriptionRelation,
    ready_relations,
    relations_of,
    set_relation_state,
)
from subscriber.subscription.catalog.statistics import record_error, statistics_of
from subscriber.subscription.catalog.subscriptions import (
    Subscription,
    delete_subscription,
    find_subscription,
    get_subscription,
    insert_subscription,
    list_subscriptions,
    set_enabled,
)
from subscriber.subscription.catalog.tables import CATALOG, SUBSCRIPTION, SUBSCRIPTION_REL, ensure_catalog

__all__ = [
    "CATALOG",
    "SUBSCRIPTION",
    "SUBSCRIPTION_REL",
    "RelationState",
    "Subscription",
    "SubscriptionRelation",
    "delete_subscription",
    "ensure_catalog",
    "find_subscription",
    "get_subscription",
    "insert_subscription",
    "list_subscriptions",
    "ready_relations",
    "record_error",
    "relations_of",
    "run_query",
    "set_enabled",
    "set_relation_state",
    "statistics_of",
]


def run_query(connection: sa.Connection, sql: str) -> tuple[list[str], list[tuple[object, ...]]]:
    """The column names and rows of a SELECT in the target's own SQL."""
    result = connection.exec_driver_sql(sql)
    return list(result.keys()), [tuple(row) for row in result]

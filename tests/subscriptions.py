"""Subscriptions in a target's catalog, for tests without a publisher."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from subscriber.base.lsn import LSN
from subscriber.catalog.statistics import statistics_of
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.catalog.subscriptions import Subscription, get_subscription, insert_subscription
from subscriber.catalog.table_states import RelationState, SubscriptionRelation, relations_of, set_relation_states
from subscriber.targets import Target


def as_stored(*columns: sa.Column[Any]) -> sa.Select[Any]:
    """A query for columns of the catalog, with the values that a user reads."""
    return sa.select(
        *(
            sa.type_coerce(one, sa.Text()).label(one.name) if isinstance(one.type, sa.types.TypeDecorator) else one
            for one in columns
        )
    )


NOWHERE = "host=127.0.0.1 port=1 dbname=nowhere"
"""A connection string that no server answers."""

SUBSCRIPTION = Subscription(
    subid=1,
    name="s",
    connection="",
    publications=("p",),
    options=SubscriptionOptions(),
    enabled=True,
    slot_name="s",
    skip_lsn=LSN(0),
    system_identifier="1",
)
"""An enabled subscription, for tests that need no catalog."""


def create_subscription(
    target: Target, name: str = "s", *, conninfo: str = "", applied: int = 50, **options: Any
) -> Subscription:
    """Store a subscription with the slot ``name``, whose progress is ``applied``."""
    with target.begin() as connection:
        created = insert_subscription(
            connection, name, conninfo, ["p"], SubscriptionOptions(slot_name=name, **options), "1"
        )
        created.progress.create(connection, LSN(applied))
    return created


def stored_subscription(target: Target, name: str = "s") -> Subscription:
    """Return the subscription as the catalog has it."""
    with target.engine.connect() as connection:
        return get_subscription(connection, name)


def set_state(target: Target, table: str, state: RelationState, lsn: int | None = None, *, subid: int = 1) -> None:
    """Store the state of table ``public.<table>``."""
    with target.begin() as connection:
        set_relation_states(connection, subid, [("public", table)], state, None if lsn is None else LSN(lsn))


def stored_relations(target: Target, subid: int = 1) -> list[SubscriptionRelation]:
    """Return the tables of a subscription as the catalog has them."""
    with target.engine.connect() as connection:
        return relations_of(connection, subid)


def stored_states(target: Target, subid: int = 1) -> dict[str, tuple[str, int | None]]:
    """Return the letter of the state and the LSN of each table, by the table's name."""
    return {one.name: (one.state.value, one.lsn) for one in stored_relations(target, subid)}


def stored_statistics(target: Target, subid: int = 1) -> dict[str, Any]:
    """Return the row of ``subscriber_stat_subscription_stats``."""
    with target.engine.connect() as connection:
        return statistics_of(connection, subid)

"""Subscriptions in a target's catalog, for tests without a publisher."""

from __future__ import annotations

from typing import Any

from subscriber import catalog
from subscriber.catalog import RelationState, Subscription, SubscriptionRelation
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.lsn import LSN
from subscriber.targets import Target

NOWHERE = "host=127.0.0.1 port=1 dbname=nowhere"
"""A connection string that no server answers."""

SUBSCRIPTION = Subscription(
    subid=1,
    name="s",
    conninfo="",
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
        created = catalog.insert_subscription(
            connection, name, conninfo, ["p"], SubscriptionOptions(slot_name=name, **options), "1"
        )
        created.progress.create(connection, LSN(applied))
    return created


def stored_subscription(target: Target, name: str = "s") -> Subscription:
    """Return the subscription as the catalog has it."""
    with target.engine.connect() as connection:
        return catalog.get_subscription(connection, name)


def set_state(target: Target, table: str, state: RelationState, lsn: int | None = None, *, subid: int = 1) -> None:
    """Store the state of table ``public.<table>``."""
    with target.begin() as connection:
        catalog.set_relation_state(connection, subid, "public", table, state, None if lsn is None else LSN(lsn))


def stored_relations(target: Target, subid: int = 1) -> list[SubscriptionRelation]:
    """Return the tables of a subscription as the catalog has them."""
    with target.engine.connect() as connection:
        return catalog.relations_of(connection, subid)


def stored_states(target: Target, subid: int = 1) -> dict[str, tuple[str, int | None]]:
    """Return the letter of the state and the LSN of each table, by the table's name."""
    return {one.name: (one.state.value, one.lsn) for one in stored_relations(target, subid)}


def stored_statistics(target: Target, subid: int = 1) -> dict[str, Any]:
    """Return the row of ``subscriber_stat_subscription_stats``."""
    with target.engine.connect() as connection:
        return catalog.statistics_of(connection, subid)

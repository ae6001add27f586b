"""Table states (D1-D6): what ``pg_subscription_rel`` knows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import sqlalchemy as sa

from subscriber.lsn import LSN, format_lsn, parse_lsn
from subscriber.subscription.catalog.tables import SUBSCRIPTION_REL


class RelationState(StrEnum):
    """The states of a table that the catalog knows (D1); w and c exist in a worker's memory only."""

    INIT = "i"
    DATASYNC = "d"
    FINISHEDCOPY = "f"
    SYNCDONE = "s"
    READY = "r"


@dataclass(frozen=True, slots=True)
class SubscriptionRelation:
    """One row of ``subscriber_subscription_rel``, read."""

    schema: str
    name: str
    state: RelationState
    lsn: LSN | None


def relations_of(connection: sa.Connection, subid: int) -> list[SubscriptionRelation]:
    """The tables of a subscription with their states, by schema and name."""
    table = SUBSCRIPTION_REL
    query = sa.select(table).where(table.c.srsubid == subid).order_by(table.c.srschema, table.c.srrelname)
    return [
        SubscriptionRelation(
            row.srschema,
            row.srrelname,
            RelationState(row.srsubstate),
            None if row.srsublsn is None else parse_lsn(row.srsublsn),
        )
        for row in connection.execute(query)
    ]


def ready_relations(connection: sa.Connection, subid: int) -> frozenset[tuple[str, str]]:
    """Schema and name of the tables whose changes are applied (rules C4, D5)."""
    return frozenset(
        (relation.schema, relation.name)
        for relation in relations_of(connection, subid)
        if relation.state is RelationState.READY
    )


def set_relation_state(
    connection: sa.Connection,
    subid: int,
    schema: str,
    name: str,
    state: RelationState,
    lsn: LSN | None = None,
) -> None:
    """Store a table's state and the LSN it was reached at (D1), whether the table is known or new."""
    table = SUBSCRIPTION_REL
    key = (table.c.srsubid == subid) & (table.c.srschema == schema) & (table.c.srrelname == name)
    values = {"srsubstate": state.value, "srsublsn": None if lsn is None else format_lsn(lsn)}
    if connection.execute(sa.select(table.c.srsubid).where(key)).first() is None:
        new = sa.insert(table).values(srsubid=subid, srschema=schema, srrelname=name, **values)
        connection.execute(new)
    else:
        connection.execute(sa.update(table).where(key).values(**values))

"""What subscriptions no longer use: their former slots (``subscriber_released_slot``) and tables
(``subscriber_dropped_rel``).

SET (slot_name = …) leaves the old slot at the publisher, and another subscription may continue with
it. What the slot has confirmed may not be applied yet, so the row has what was applied. It is
deleted when a subscription of this target takes the slot over, or creates one with that name.

TRUNCATE in ``subscriber sql`` empties only tables that a subscription fills or has filled, so the
tables of a dropped subscription are stored until they are emptied.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from subscriber.base import clock
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import DROPPED_REL, RELEASED_SLOT
from subscriber.catalog.rows import RowMapper, delete_rows
from subscriber.postgres.schema.relation_names import TableName
from subscriber.targets.statements import upsert


@dataclass(frozen=True, slots=True)
class ReleasedSlot:
    """A slot that no subscription of this target uses, applied up to ``applied``."""

    system_identifier: str
    slot: str
    applied: LSN
    subscription: str


_SLOTS = RowMapper(
    RELEASED_SLOT,
    ReleasedSlot,
    system_identifier="systemidentifier",
    slot="slotname",
    applied="remotelsn",
    subscription="subname",
)


def release_slot(connection: sa.Connection, released: ReleasedSlot) -> None:
    _SLOTS.write(connection, released, releasedat=clock.now())


def released_slots(connection: sa.Connection) -> list[ReleasedSlot]:
    return _SLOTS.select(connection)


def released_position(connection: sa.Connection, system_identifier: str, slot: str) -> LSN | None:
    """Up to where a slot's changes were applied; None if no subscription has released it."""
    found = _SLOTS.find(connection, systemidentifier=system_identifier, slotname=slot)
    return None if found is None else found.applied


def forget_released_slot(connection: sa.Connection, system_identifier: str, slot: str) -> None:
    """Delete the row: a subscription uses the slot again, or the slot was dropped."""
    delete_rows(connection, RELEASED_SLOT, systemidentifier=system_identifier, slotname=slot)


@dataclass(frozen=True, slots=True)
class DroppedTable:
    """A table of the target that a dropped subscription has filled from ``published``."""

    local: TableName
    published: TableName
    subscription: str


def store_dropped_tables(connection: sa.Connection, tables: Iterable[DroppedTable]) -> None:
    """Store tables of a subscription that is dropped; a known table gets these names."""
    for one in tables:
        schema, name = one.local
        published = {"schemaname": one.published[0], "relname": one.published[1], "subname": one.subscription}
        upsert(connection, DROPPED_REL, {"localschema": schema, "localname": name}, published)


def dropped_tables(connection: sa.Connection) -> list[DroppedTable]:
    rows = connection.execute(sa.select(DROPPED_REL).order_by(DROPPED_REL.c.localschema, DROPPED_REL.c.localname))
    return [DroppedTable((row.localschema, row.localname), (row.schemaname, row.relname), row.subname) for row in rows]


def forget_dropped_table(connection: sa.Connection, local: TableName) -> None:
    """Forget a table of the target; it is no error if it is unknown."""
    schema, name = local
    delete_rows(connection, DROPPED_REL, localschema=schema, localname=name)

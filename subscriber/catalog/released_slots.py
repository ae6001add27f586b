"""Slots that a subscription no longer uses, and the LSN up to which it had applied:
``subscriber_released_slot``.

ALTER SUBSCRIPTION … SET (slot_name = …) leaves the old slot at the publisher, and another
subscription may continue with it. The changes that the slot has confirmed are in the journal, but
they may not have been applied yet. This table stores what was applied. The row is deleted when a
subscription of this target takes the slot over, or creates a slot with that name.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa

from subscriber.catalog.own_tables import RELEASED_SLOT
from subscriber.lsn import LSN, format_lsn, parse_lsn


@dataclass(frozen=True, slots=True)
class ReleasedSlot:
    """A slot that no subscription of this target uses.

    Attributes:
        system_identifier: the publisher's system identifier.
        slot: the slot's name.
        applied: the LSN up to which the slot's changes were applied.
        subscription: the name of the subscription that used it.
    """

    system_identifier: str
    slot: str
    applied: LSN
    subscription: str


def release_slot(connection: sa.Connection, released: ReleasedSlot) -> None:
    """Store the LSN that the slot's subscription has applied."""
    forget_released_slot(connection, released.system_identifier, released.slot)
    connection.execute(
        sa.insert(RELEASED_SLOT).values(
            systemidentifier=released.system_identifier,
            slotname=released.slot,
            remotelsn=format_lsn(released.applied),
            subname=released.subscription,
            releasedat=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )
    )


def released_slots(connection: sa.Connection) -> list[ReleasedSlot]:
    """All released slots of the target."""
    rows = connection.execute(sa.select(RELEASED_SLOT))
    return [ReleasedSlot(row.systemidentifier, row.slotname, parse_lsn(row.remotelsn), row.subname) for row in rows]


def released_position(connection: sa.Connection, system_identifier: str, slot: str) -> LSN | None:
    """The LSN up to which a slot's changes were applied; None where no subscription of this target
    has released it.
    """
    slots = {(one.system_identifier, one.slot): one.applied for one in released_slots(connection)}
    return slots.get((system_identifier, slot))


def forget_released_slot(connection: sa.Connection, system_identifier: str, slot: str) -> None:
    """Delete the row, because a subscription uses the slot again, or the slot was dropped."""
    table = RELEASED_SLOT
    key = (table.c.systemidentifier == system_identifier) & (table.c.slotname == slot)
    connection.execute(sa.delete(table).where(key))

"""Slots that a subscription was taken off, and how far it had applied:
``subscriber_released_slot``.

ALTER SUBSCRIPTION … SET (slot_name = …) leaves the old slot at the publisher, for another
subscription to go on with. What the slot has confirmed is in the journal, and need not have been
applied; this says what has. The row goes when a subscription of this target takes the slot over, or
makes a slot of that name.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa

from subscriber.catalog.own_tables import RELEASED_SLOT
from subscriber.lsn import LSN, format_lsn, parse_lsn


@dataclass(frozen=True, slots=True)
class ReleasedSlot:
    """A slot that nobody of this target streams from.

    Attributes:
        system_identifier: of the publisher.
        slot: its name.
        applied: what was applied of its changes.
        subscription: whose it was.
    """

    system_identifier: str
    slot: str
    applied: LSN
    subscription: str


def release_slot(connection: sa.Connection, released: ReleasedSlot) -> None:
    """Keep how far a subscription has come whose slot it was."""
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
    """All of them."""
    rows = connection.execute(sa.select(RELEASED_SLOT))
    return [ReleasedSlot(row.systemidentifier, row.slotname, parse_lsn(row.remotelsn), row.subname) for row in rows]


def released_position(connection: sa.Connection, system_identifier: str, slot: str) -> LSN | None:
    """What was applied of a slot's changes; None where no subscription of this target was taken off
    it.
    """
    slots = {(one.system_identifier, one.slot): one.applied for one in released_slots(connection)}
    return slots.get((system_identifier, slot))


def forget_released_slot(connection: sa.Connection, system_identifier: str, slot: str) -> None:
    """The slot belongs to a subscription again, or was dropped."""
    table = RELEASED_SLOT
    key = (table.c.systemidentifier == system_identifier) & (table.c.slotname == slot)
    connection.execute(sa.delete(table).where(key))

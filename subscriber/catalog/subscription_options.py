"""The options of subscriptions as they are stored: PostgreSQL 18's names and defaults (C53)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from subscriber.schema.relation_names import SAME_NAMES, RelationNames

Streaming = Literal["off", "on", "parallel"]
Origin = Literal["any", "none"]
SchemaChanges = Literal["stop", "add_columns"]


@dataclass(frozen=True, slots=True)
class SubscriptionOptions:
    """The options of a subscription; the defaults are those of PostgreSQL 18 (C53).

    ``password_required`` and ``run_as_owner`` are about roles; a subscriber acts as a superuser of
    its target does, for whom PostgreSQL never enforces ``password_required``: both its values work.
    """

    connect: bool = True
    enabled: bool = True
    create_slot: bool = True
    slot_name: str | None = None
    """None is ``slot_name = NONE``; the grammar puts the subscription's name where the option is
    not given.
    """
    copy_data: bool = True
    binary: bool = False
    streaming: Streaming = "parallel"
    """``parallel`` gives the same result as ``on``: transactions are applied in commit order either
    way.
    """
    two_phase: bool = False
    disable_on_error: bool = False
    password_required: bool = True
    run_as_owner: bool = False
    failover: bool = False
    origin: Origin = "any"
    """``any`` or ``none``."""
    synchronous_commit: str = "off"
    """PostgreSQL's setting of that name for the transactions that apply; other targets' commits are
    durable.
    """
    create_tables: bool = False
    """Ours: make the target's tables that are missing, after the publisher's."""
    carrier: str | None = None
    """Ours: a publication of the server that brings everything; those named in PUBLICATION are then
    the subscriber's own.
    """
    map: RelationNames = SAME_NAMES
    """Ours: what the publisher's tables and schemas are called in the target."""
    schema_changes: SchemaChanges = "stop"
    """Ours: what is done when the publisher's table has a column that the target's lacks; ``stop``
    is PostgreSQL's way.
    """
    log_conflict_values: bool = False
    """Ours: conflicts are logged and kept with keys and rows, as PostgreSQL logs them, instead of
    names only.
    """

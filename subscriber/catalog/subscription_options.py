"""The stored options of subscriptions, with PostgreSQL 18's names and defaults (C53)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from subscriber.schema.relation_names import SAME_NAMES, RelationNames
from subscriber.schema.value_rules import STOP, ValueRules

Streaming = Literal["off", "on", "parallel"]
Origin = Literal["any", "none"]
SchemaChanges = Literal["stop", "add_columns"]


@dataclass(frozen=True, slots=True)
class SubscriptionOptions:
    """The options of a subscription; the defaults are those of PostgreSQL 18 (C53).

    ``password_required`` and ``run_as_owner`` concern roles. A subscriber has the rights of a
    superuser in its target, and PostgreSQL never enforces ``password_required`` for superusers.
    Therefore both values work.
    """

    connect: bool = True
    enabled: bool = True
    create_slot: bool = True
    slot_name: str | None = None
    """None means ``slot_name = NONE``. If the option is not given, the grammar uses the
    subscription's name.
    """
    copy_data: bool = True
    binary: bool = False
    streaming: Streaming = "parallel"
    """``parallel`` gives the same result as ``on``: in both cases transactions are applied in
    commit order.
    """
    two_phase: bool = False
    disable_on_error: bool = False
    password_required: bool = True
    run_as_owner: bool = False
    failover: bool = False
    origin: Origin = "any"
    """``any`` or ``none``."""
    synchronous_commit: str = "off"
    """PostgreSQL's setting ``synchronous_commit`` for the transactions that apply; the commits of
    other targets are always durable.
    """
    create_tables: bool = False
    """Not in PostgreSQL: create the tables that are missing in the target, from the publisher's
    tables.
    """
    carrier: str | None = None
    """Not in PostgreSQL: a publication of the server that sends everything. The publications that
    PUBLICATION names are then emulated publications.
    """
    map: RelationNames = SAME_NAMES
    """Not in PostgreSQL: the names of the publisher's tables and schemas in the target."""
    schema_changes: SchemaChanges = "stop"
    """Not in PostgreSQL: what happens if the target's table lacks a column that the publisher's
    table has. PostgreSQL's behavior is ``stop``.
    """
    log_conflict_values: bool = False
    """Not in PostgreSQL: conflicts are logged and stored with keys and rows, as PostgreSQL logs
    them, instead of with names only.
    """
    unrepresentable_values: ValueRules = STOP
    """Not in PostgreSQL: where NULL takes the place of values that the target cannot hold. By
    default the subscription stops at such a value.
    """

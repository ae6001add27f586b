"""Checks whether the publisher and the target support the options of a subscription: the third
check of an option (see :mod:`subscriber.commands.subscription_options`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from subscriber import catalog
from subscriber.catalog import Subscription
from subscriber.commands import publisher_slots
from subscriber.errors import NotSupportedError, UsageError
from subscriber.journal.storage import journal_url, open_storage
from subscriber.positions.consumers import check_other_targets
from subscriber.publisher.publisher import Publisher
from subscriber.schema.server_features import ServerFeatures
from subscriber.settings import Settings
from subscriber.targets import Target

_SINCE: Final = (
    ("binary", True, ServerFeatures.binary_transfer),
    ("two_phase", True, ServerFeatures.two_phase),
    ("origin", "none", ServerFeatures.origin_option),
    ("failover", True, ServerFeatures.failover_slots),
)
"""An option, its value, and the first server version that supports it (F). PostgreSQL's own
subscriber ignores such an option without an error if the server is older.
"""


def check_target(target: Target, options: Mapping[str, Any]) -> None:
    """Refuse options that the target does not support.

    Args:
        target: the subscriber's database.
        options: the options that were given, by name.

    Raises:
        NotSupportedError: ``synchronous_commit`` waits for standbys, which the target does not
            have.
    """
    value = options.get("synchronous_commit")
    if value in ("remote_write", "remote_apply") and not target.capabilities.standbys:
        raise NotSupportedError(
            f"synchronous_commit = {value} is not supported",
            detail=f"{target.capabilities.database} cannot wait for a standby: a commit waits only for the database's own disk.",
            hint="Use synchronous_commit = on.",
        )


def check_publisher(version: int, options: Mapping[str, Any]) -> None:
    """Refuse options that the publisher's server does not support.

    Args:
        version: the version of the server, as libpq returns it.
        options: the options that were given, by name.

    Raises:
        NotSupportedError: the server is too old for an option.
    """
    for name, value, since in _SINCE:
        if options.get(name) == value and version < since:
            raise NotSupportedError(
                f"{name} = {str(value).lower()} needs PostgreSQL {since // 10000} or newer at the publisher",
                detail=f"The publisher is PostgreSQL {version // 10000}.",
                hint=f"Leave {name} out.",
            )


def check_other_database(target: Target, connection: sa.Connection, system_identifier: str, database: str) -> None:
    """Refuse a subscription of a database to itself.

    Raises:
        NotSupportedError: the publisher is the target.
    """
    if target.cluster is not None and target.cluster.has_database(connection, system_identifier, database):
        raise NotSupportedError(
            "the publisher is the target itself",
            detail=f'CONNECTION names database "{database}", which is the target: every change would be applied to the table that it comes from.',
            hint="Replicate into another database.",
        )


def check_slot_is_free(others: Sequence[Subscription], slot: str, conninfo: str, system_identifier: str | None) -> None:
    """Refuse a slot that another subscription of the target uses: a slot sends each change to only
    one of them.

    Args:
        others: the target's other subscriptions.
        slot: the name of the slot.
        conninfo: the connection string of this subscription.
        system_identifier: the system identifier of this subscription's publisher; None if the
            publisher was not connected to.

    Raises:
        UsageError: another subscription uses the slot; the message names it.
    """
    for other in others:
        known = other.system_identifier is not None and system_identifier is not None
        same = other.system_identifier == system_identifier if known else other.conninfo == conninfo
        if same and other.slot_name == slot:
            raise UsageError(
                f'replication slot "{slot}" is used by subscription "{other.name}"',
                sqlstate="55006",
                hint="Use another slot_name: a slot sends each change to one subscription only.",
            )


def check_slot_is_unused(
    target: Target, publisher: Publisher, settings: Settings, system_identifier: str, slot: str
) -> None:
    """Refuse a slot that somebody else uses: a subscription of another target, whose consumer is in
    the journal, or a session that streams from it. A worker that has just been told to end is
    waited for.

    Raises:
        UsageError: 55006, a subscription of another target uses the slot.
        SlotInUse: a session streams from the slot.
    """
    with target.reporting(), target.engine.connect() as connection:
        identifier = catalog.target_identifier(connection)
    check_other_targets(open_storage(journal_url(settings.journal, system_identifier, slot)), identifier, slot)
    if not publisher_slots.is_released(publisher, slot):
        raise publisher_slots.in_use(
            publisher,
            slot,
            "Use another slot_name: a slot sends each change to one subscription only. To take the slot over, first stop its receiver.",
        )

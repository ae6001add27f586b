"""What publisher and target must be able to do for the options of a subscription: the third gate
(see options).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from subscriber.catalog import Subscription
from subscriber.errors import NotSupportedError, UsageError
from subscriber.schema.server_features import ServerFeatures
from subscriber.targets import Target

_SINCE: Final = (
    ("binary", True, ServerFeatures.binary_transfer),
    ("two_phase", True, ServerFeatures.two_phase),
    ("origin", "none", ServerFeatures.origin_option),
    ("failover", True, ServerFeatures.failover_slots),
)
"""An option's value, and the first server that can do it (F). PostgreSQL's own subscriber does
without in silence.
"""


def check_target(target: Target, options: Mapping[str, Any]) -> None:
    """Refuse what the target cannot do.

    Args:
        target: the subscriber's database.
        options: those that were given, by name.

    Raises:
        NotSupportedError: ``synchronous_commit`` waits for standbys that the target does not have.
    """
    value = options.get("synchronous_commit")
    if value in ("remote_write", "remote_apply") and not target.capabilities.standbys:
        raise NotSupportedError(
            f"synchronous_commit = {value} is not supported",
            detail=f"{target.capabilities.database} has no such commit: its transactions wait for its own disk, not for a standby.",
            hint="Use synchronous_commit = on.",
        )


def check_publisher(version: int, options: Mapping[str, Any]) -> None:
    """Refuse what the publisher's server cannot do.

    Args:
        version: of the server, as libpq gives it.
        options: those that were given, by name.

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
            detail=f'CONNECTION leads to database "{database}", which is the target: every change would be applied to its own table.',
            hint="Replicate into another database.",
        )


def check_slot_is_free(others: Sequence[Subscription], slot: str, conninfo: str, system_identifier: str | None) -> None:
    """Refuse a slot that another subscription of the target streams from: each change goes to one
    of them only.

    Args:
        others: the target's other subscriptions.
        slot: the slot's name.
        conninfo: how this subscription reaches its publisher.
        system_identifier: that publisher's, None when it was not asked.

    Raises:
        UsageError: naming the other subscription.
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

"""The subscriptions of a target: ``pg_subscription``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import sqlalchemy as sa

from subscriber.apply.progress import SUBSCRIPTION_STATS, drop_progress, origin_name
from subscriber.errors import UsageError
from subscriber.lsn import INVALID_LSN, LSN, format_lsn, parse_lsn
from subscriber.subscription.catalog.tables import SUBSCRIPTION, SUBSCRIPTION_REL
from subscriber.subscription.options import Streaming, SubscriptionOptions


@dataclass(frozen=True, slots=True)
class Subscription:
    """One row of ``subscriber_subscription``, read."""

    subid: int
    name: str
    conninfo: str = field(repr=False)  # may hold a password
    publications: tuple[str, ...]
    options: SubscriptionOptions
    """As stored; ``enabled`` and ``slot_name`` are the current ones."""
    enabled: bool
    slot_name: str | None
    skip_lsn: LSN
    """The finish LSN of the transaction to skip; 0/0 is none."""
    system_identifier: str | None
    """The publisher's, in decimal; None until the first connection."""

    @property
    def origin(self) -> str:
        """The replication origin that tracks this subscription's progress (C34)."""
        return origin_name(self.subid)


def insert_subscription(
    connection: sa.Connection,
    name: str,
    conninfo: str,
    publications: Sequence[str],
    options: SubscriptionOptions,
    system_identifier: str | None = None,
) -> Subscription:
    """Store a new subscription and its row of statistics, and give it its number.

    Raises:
        UsageError: 42710, ``subscription "…" already exists``.
    """
    if find_subscription(connection, name) is not None:
        raise UsageError(f'subscription "{name}" already exists', sqlstate="42710")
    last = connection.execute(sa.select(sa.func.max(SUBSCRIPTION.c.subid))).scalar_one()
    subid = (last or 0) + 1
    values = {
        "subid": subid,
        "subname": name,
        "subskiplsn": format_lsn(INVALID_LSN),
        "subconninfo": conninfo,
        "subpublications": json.dumps(list(publications), ensure_ascii=False),
        "systemidentifier": system_identifier,
    }
    connection.execute(sa.insert(SUBSCRIPTION).values(**values, **_option_columns(options)))
    connection.execute(sa.insert(SUBSCRIPTION_STATS).values(subid=subid, subname=name))
    return get_subscription(connection, name)


def find_subscription(connection: sa.Connection, name: str) -> Subscription | None:
    """The subscription of this name, or None."""
    row = connection.execute(sa.select(SUBSCRIPTION).where(SUBSCRIPTION.c.subname == name)).one_or_none()
    return None if row is None else _subscription(row)


def get_subscription(connection: sa.Connection, name: str) -> Subscription:
    """The subscription of this name.

    Raises:
        UsageError: 42704, ``subscription "…" does not exist``.
    """
    subscription = find_subscription(connection, name)
    if subscription is None:
        raise UsageError(f'subscription "{name}" does not exist', sqlstate="42704")
    return subscription


def list_subscriptions(connection: sa.Connection) -> list[Subscription]:
    """All subscriptions of the target, by name."""
    rows = connection.execute(sa.select(SUBSCRIPTION).order_by(SUBSCRIPTION.c.subname))
    return [_subscription(row) for row in rows]


def set_enabled(connection: sa.Connection, name: str, *, enabled: bool) -> None:
    """Enable or disable a subscription.

    Raises:
        UsageError: 42704, ``subscription "…" does not exist``.
    """
    subid = get_subscription(connection, name).subid
    connection.execute(sa.update(SUBSCRIPTION).where(SUBSCRIPTION.c.subid == subid).values(subenabled=enabled))


def delete_subscription(connection: sa.Connection, name: str) -> None:
    """Forget a subscription: its table states, progress and statistics go with it.

    Numbers are given again, so nothing that is kept under this one may stay.

    Raises:
        UsageError: 42704, ``subscription "…" does not exist``.
    """
    subscription = get_subscription(connection, name)
    connection.execute(sa.delete(SUBSCRIPTION_REL).where(SUBSCRIPTION_REL.c.srsubid == subscription.subid))
    connection.execute(sa.delete(SUBSCRIPTION_STATS).where(SUBSCRIPTION_STATS.c.subid == subscription.subid))
    drop_progress(connection, subscription.origin)
    connection.execute(sa.delete(SUBSCRIPTION).where(SUBSCRIPTION.c.subid == subscription.subid))


# Rows -------------------------------------------------------------------------------------------

_STREAM_CODES: Final[dict[Streaming, str]] = {"off": "f", "on": "t", "parallel": "p"}
_STREAMING: Final[dict[str, Streaming]] = {code: value for value, code in _STREAM_CODES.items()}


def _option_columns(options: SubscriptionOptions) -> dict[str, object]:
    return {
        "subenabled": options.enabled,
        "subbinary": options.binary,
        "substream": _STREAM_CODES[options.streaming],
        # PostgreSQL, too, starts with e where no copy is pending (C48).
        "subtwophasestate": "e" if options.two_phase else "d",
        "subdisableonerr": options.disable_on_error,
        "subpasswordrequired": options.password_required,
        "subrunasowner": options.run_as_owner,
        "subfailover": options.failover,
        "subslotname": options.slot_name,
        "subsynccommit": options.synchronous_commit,
        "suborigin": options.origin,
    }


def _subscription(row: sa.Row[tuple[object, ...]]) -> Subscription:
    options = SubscriptionOptions(
        enabled=row.subenabled,
        slot_name=row.subslotname,
        copy_data=False,
        create_slot=False,
        binary=row.subbinary,
        streaming=_STREAMING[row.substream],
        two_phase=row.subtwophasestate != "d",
        disable_on_error=row.subdisableonerr,
        password_required=row.subpasswordrequired,
        run_as_owner=row.subrunasowner,
        failover=row.subfailover,
        origin=row.suborigin,
        synchronous_commit=row.subsynccommit,
    )
    return Subscription(
        subid=row.subid,
        name=row.subname,
        conninfo=row.subconninfo,
        publications=tuple(json.loads(row.subpublications)),
        options=options,
        enabled=row.subenabled,
        slot_name=row.subslotname,
        skip_lsn=parse_lsn(row.subskiplsn),
        system_identifier=row.systemidentifier,
    )

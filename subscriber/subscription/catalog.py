"""The subscriptions of a target, kept in the target: pg_subscription and its neighbours for any database.

The tables have PostgreSQL's names with the prefix ``subscriber_`` and PostgreSQL's columns, so that
whoever knows the catalog can read ours; types are the few that every database has (LSNs and times are
text, lists are JSON). Progress and statistics are the other two tables of the catalog: apply moves
them with the data, so it defines them (:mod:`subscriber.apply.progress`).

Every function works in the caller's transaction and leaves the database's own errors to the target's
boundary. Names are looked up exactly as they are stored: the grammar has folded them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from subscriber.apply.progress import STATE, SUBSCRIPTION_STATS, drop_progress, origin_name
from subscriber.errors import UsageError
from subscriber.lsn import INVALID_LSN, LSN, format_lsn, parse_lsn
from subscriber.subscription.options import Streaming, SubscriptionOptions

CATALOG: Final = sa.MetaData()

_NAME: Final = sa.String(63).with_variant(mysql.VARCHAR(63, collation="utf8mb4_bin"), "mysql", "mariadb")
"""An identifier: short enough for a key anywhere, and "S" is not "s" (MySQL's default collations say it is)."""

SUBSCRIPTION: Final = sa.Table(
    "subscriber_subscription",
    CATALOG,
    sa.Column("subid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("subname", _NAME, nullable=False, unique=True),
    sa.Column("subenabled", sa.Boolean, nullable=False),
    sa.Column("subbinary", sa.Boolean, nullable=False),
    sa.Column("substream", sa.String(1), nullable=False),
    sa.Column("subtwophasestate", sa.String(1), nullable=False),
    sa.Column("subdisableonerr", sa.Boolean, nullable=False),
    sa.Column("subpasswordrequired", sa.Boolean, nullable=False),
    sa.Column("subrunasowner", sa.Boolean, nullable=False),
    sa.Column("subfailover", sa.Boolean, nullable=False),
    sa.Column("subskiplsn", sa.String(32), nullable=False),
    sa.Column("subconninfo", sa.Text, nullable=False),
    sa.Column("subslotname", sa.String(63)),
    sa.Column("subsynccommit", sa.String(32), nullable=False),
    sa.Column("subpublications", sa.Text, nullable=False),
    sa.Column("suborigin", sa.String(63), nullable=False),
    sa.Column("systemidentifier", sa.String(32)),
)
"""pg_subscription 18 (``subid`` is its oid), and the publisher's system identifier, which names the journal."""

SUBSCRIPTION_REL: Final = sa.Table(
    "subscriber_subscription_rel",
    CATALOG,
    sa.Column("srsubid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("srschema", _NAME, primary_key=True),
    sa.Column("srrelname", _NAME, primary_key=True),
    sa.Column("srsubstate", sa.String(1), nullable=False),
    sa.Column("srsublsn", sa.String(32)),
)
"""pg_subscription_rel, with the relation by its name at the publisher since a target has no oids."""


class RelationState(StrEnum):
    """The states of a table that the catalog knows (D1); w and c exist in a worker's memory only."""

    INIT = "i"
    DATASYNC = "d"
    FINISHEDCOPY = "f"
    SYNCDONE = "s"
    READY = "r"


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


@dataclass(frozen=True, slots=True)
class SubscriptionRelation:
    """One row of ``subscriber_subscription_rel``, read."""

    schema: str
    name: str
    state: RelationState
    lsn: LSN | None


def ensure_catalog(engine: sa.Engine) -> None:
    """Create the catalog's tables that do not exist yet, progress and statistics included."""
    for metadata in (CATALOG, STATE):
        metadata.create_all(engine)


# Subscriptions --------------------------------------------------------------------------------------


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


# Table states (D1) ----------------------------------------------------------------------------------


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


# Errors -----------------------------------------------------------------------------------------


def record_error(connection: sa.Connection, name: str, report: str) -> None:
    """Keep an apply error for ``subscriber status``: counted, with its report and the time (UTC, ISO 8601).

    Call it in a transaction of its own: the one that failed is rolled back.

    Args:
        connection: to the target.
        name: the subscription's; one that was dropped meanwhile is left alone.
        report: :meth:`SubscriberError.report`, which holds no values.
    """
    stats = SUBSCRIPTION_STATS
    subscription = find_subscription(connection, name)
    if subscription is None:
        return
    connection.execute(
        sa.update(stats)
        .where(stats.c.subid == subscription.subid)
        .values(
            apply_error_count=stats.c.apply_error_count + 1,
            last_error=report,
            last_error_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )
    )


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


def statistics_of(connection: sa.Connection, subid: int) -> dict[str, Any]:
    """The row of ``subscriber_stat_subscription_stats``, by column name; empty when there is none."""
    stats = SUBSCRIPTION_STATS
    row = connection.execute(sa.select(stats).where(stats.c.subid == subid)).mappings().one_or_none()
    return dict(row or {})


# Queries ----------------------------------------------------------------------------------------------


def run_query(connection: sa.Connection, sql: str) -> tuple[list[str], list[tuple[object, ...]]]:
    """The column names and rows of a SELECT in the target's own SQL."""
    result = connection.exec_driver_sql(sql)
    return list(result.keys()), [tuple(row) for row in result]

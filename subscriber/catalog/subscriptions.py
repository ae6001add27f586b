"""The equivalent of ``pg_subscription``. Unknown names raise 42704, existing ones 42710."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import sqlalchemy as sa

from subscriber.base.errors import ProgressConflict, PublisherNotReady, UsageError
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.catalog import foreign_servers, subscription_options
from subscriber.catalog.catalog_version import change_version, new_version
from subscriber.catalog.own_tables import CATALOG, PREPARED_TRANSACTION, SUBSCRIPTION, SUBSCRIPTION_STATS
from subscriber.catalog.progress import OriginProgress
from subscriber.catalog.rows import delete_rows
from subscriber.postgres.sql.quoting import quote_identifier

TwoPhaseState = Literal["d", "p", "e"]
"""The values of ``subtwophasestate`` (C48): disabled; pending, until every table is ready; enabled.
"""


@dataclass(frozen=True, slots=True)
class Subscription:
    subid: int
    name: str
    connection: str | None = field(repr=False)  # may contain a password
    """The connection string, also that of a SERVER; None if the server has no user mapping."""
    publications: tuple[str, ...]
    options: subscription_options.SubscriptionOptions
    """The options as stored; ``enabled`` and ``slot_name`` have their current values."""
    enabled: bool
    slot_name: str | None
    skip_lsn: LSN
    """The finish LSN of the transaction to skip; 0/0 means none."""
    system_identifier: str | None
    """The publisher's system identifier, in decimal; None until the first connection with this
    slot.
    """
    two_phase_state: TwoPhaseState = "d"
    """Prepared transactions are sent at their PREPARE in state ``e`` only; ``options.two_phase`` is
    the value that the user set.
    """
    slot_adopted: bool = True
    """Whether it is known where the changes of the slot begin
    (:mod:`subscriber.commands.slot_position`).
    """
    version: int = field(default=0, compare=False)
    """Changes whenever the row or its table states are written
    (:mod:`subscriber.catalog.catalog_version`).
    """
    retention_active: bool = False
    """Whether deleted rows are retained: ``retain_dead_tuples``, unless it took too long."""
    server: str | None = None
    """The foreign server of a subscription with SERVER."""

    @property
    def conninfo(self) -> str:
        """The connection string. PublisherNotReady: the server has no user mapping."""
        if self.connection is None:
            raise PublisherNotReady(
                f'user mapping not found for server "{self.server}"',
                hint=f"CREATE USER MAPPING FOR CURRENT_USER SERVER {quote_identifier(self.server or '')} OPTIONS (…)",
            )
        return self.connection

    @property
    def origin(self) -> str:
        """The replication origin that tracks this subscription's progress (C34)."""
        return self.progress.name

    @property
    def progress(self) -> OriginProgress:
        return OriginProgress(self.subid)

    @property
    def streamed_publications(self) -> tuple[str, ...]:
        """The server's publications that are streamed: the named ones, or the carrier."""
        return self.publications if self.options.carrier is None else (self.options.carrier,)


def insert_subscription(
    connection: sa.Connection,
    name: str,
    conninfo: str,
    publications: Sequence[str],
    options: subscription_options.SubscriptionOptions,
    system_identifier: str | None = None,
    two_phase_state: TwoPhaseState | None = None,
    *,
    slot_adopted: bool = True,
) -> Subscription:
    """Store a new subscription and its row of statistics, and give it its number.

    ``system_identifier`` is None if the publisher was not asked. The first ``two_phase_state`` is
    PostgreSQL's by default: p with ``two_phase``, else d (C48). ``slot_adopted`` says whether it is
    known where the changes of the slot begin.
    """
    if find_subscription(connection, name) is not None:
        raise UsageError(f'subscription "{name}" already exists', sqlstate="42710")
    # A number is not used again while a prepared transaction of a dropped subscription contains it.
    used = (SUBSCRIPTION.c.subid, PREPARED_TRANSACTION.c.subid)
    subid = 1 + max(connection.execute(sa.select(sa.func.max(column))).scalar_one() or 0 for column in used)
    values = {
        "subid": subid,
        "subname": name,
        "subskiplsn": INVALID_LSN,
        "subconninfo": conninfo,
        "subpublications": list(publications),
        "systemidentifier": system_identifier,
        "subretentionactive": options.retain_dead_tuples,
        "subslotadopted": slot_adopted,
        "subversion": new_version(),
    }
    if two_phase_state is not None:
        values["subtwophasestate"] = two_phase_state
    connection.execute(
        sa.insert(SUBSCRIPTION).values(
            subscription_options.to_columns(subscription_options.option_values(options)) | values
        )
    )
    connection.execute(sa.insert(SUBSCRIPTION_STATS).values(subid=subid, subname=name))
    return get_subscription(connection, name)


def find_subscription(connection: sa.Connection, name: str) -> Subscription | None:
    row = connection.execute(_BY_NAME, {"name": name}).one_or_none()
    # In MariaDB, a catalog that an earlier version has created treats "s " and "s" as equal.
    return _subscription(connection, row) if row is not None and row.subname == name else None


class CachedSubscription:
    """Reads a subscription only if it has changed (:mod:`subscriber.catalog.catalog_version`). One
    thread uses it. ``any_retains``: a subscription, this or another, has ``retain_dead_tuples``.
    """

    def __init__(self, name: str) -> None:
        self.any_retains = False
        self._name = name
        self._cached: Subscription | None = None

    def read(self, connection: sa.Connection) -> Subscription | None:
        row = connection.execute(_VERSION, {"name": self._name}).one_or_none()
        self.any_retains = row is not None and bool(row.any_retains)
        cached = self._cached
        if row is None or cached is None or (row.subid, row.subversion) != (cached.subid, cached.version):
            found = find_subscription(connection, self._name)
            # A foreign server is read each time: it may be altered without this catalog.
            self._cached = None if found is None or found.server is not None else found
            return found
        return cached


def get_subscription(connection: sa.Connection, name: str) -> Subscription:
    subscription = find_subscription(connection, name)
    if subscription is None:
        raise UsageError(f'subscription "{name}" does not exist', sqlstate="42704")
    return subscription


def list_subscriptions(connection: sa.Connection) -> list[Subscription]:
    rows = connection.execute(sa.select(*_READ).order_by(SUBSCRIPTION.c.subname))
    return [_subscription(connection, row) for row in rows.all()]


def set_enabled(connection: sa.Connection, name: str, *, enabled: bool) -> None:
    _update(connection, get_subscription(connection, name).subid, subenabled=enabled)


def set_options(connection: sa.Connection, subid: int, changes: Mapping[str, Any]) -> None:
    """Change options, given by name. ``two_phase`` resets its state to p or d, and
    ``retain_dead_tuples`` whether the retention is active.
    """
    columns = subscription_options.to_columns(changes)
    if "retain_dead_tuples" in changes:
        columns["subretentionactive"] = changes["retain_dead_tuples"]
    if columns:
        _update(connection, subid, **columns)


def rename_subscription(connection: sa.Connection, subid: int, name: str) -> None:
    if find_subscription(connection, name) is not None:
        raise UsageError(f'subscription "{name}" already exists', sqlstate="42710")
    _update(connection, subid, subname=name)
    connection.execute(sa.update(SUBSCRIPTION_STATS).where(SUBSCRIPTION_STATS.c.subid == subid).values(subname=name))


def set_publications(connection: sa.Connection, subid: int, publications: Sequence[str]) -> None:
    _update(connection, subid, subpublications=list(publications))


def set_connection(connection: sa.Connection, subid: int, conninfo: str, server: int = 0) -> None:
    """Store a connection string, or the number of a foreign server."""
    _update(connection, subid, subconninfo="" if server else conninfo, subserver=server)


def set_skip_lsn(connection: sa.Connection, subid: int, lsn: LSN) -> None:
    """Set the finish LSN of the transaction to skip; 0/0 means none (C40)."""
    _update(connection, subid, subskiplsn=lsn)


def set_retention(connection: sa.Connection, subid: int, *, active: bool) -> None:
    _update(connection, subid, subretentionactive=active)


def check_replicated(connection: sa.Connection, subscription: Subscription) -> None:
    """Lock the subscription's row, so that what it replicates, into which tables and with which
    transforms, does not change until the transaction ends. ProgressConflict means that it has
    changed, or its slot was recreated.

    If a table were copied while a receiver still streams with an older list of publications, the
    table would miss the changes that this receiver leaves out.
    """
    table = SUBSCRIPTION.c
    stored = subscription_options.OPTIONS["map"].stored(subscription.options.map)
    transform = subscription_options.OPTIONS["transform"].stored(subscription.options.transform)
    unchanged = sa.update(SUBSCRIPTION).where(
        table.subid == subscription.subid,
        table.submap.is_not_distinct_from(stored),
        table.subtransform.is_not_distinct_from(transform),
        table.subpublications == list(subscription.publications),
        table.suborigin == subscription.options.origin,
        table.subslotname == subscription.slot_name,
        table.subslotadopted == subscription.slot_adopted,
    )
    if connection.execute(unchanged.values(submap=stored)).rowcount != 1:
        raise ProgressConflict(
            f'the definition of subscription "{subscription.name}" has changed',
            hint="Its tables are read again.",
        )


def set_two_phase_state(connection: sa.Connection, subid: int, state: TwoPhaseState) -> None:
    _update(connection, subid, subtwophasestate=state)


def adopt_slot(connection: sa.Connection, subid: int, system_identifier: str) -> None:
    """Store the publisher's identifier, and that it is known where the slot's changes begin."""
    _update(connection, subid, systemidentifier=system_identifier, subslotadopted=True)


def take_up_slot(connection: sa.Connection, subid: int) -> None:
    """Another slot: the next connection determines where its changes begin."""
    _update(connection, subid, subslotadopted=False)


def publisher_tables(connection: sa.Connection, subid: int) -> dict[str, Any] | None:
    query = sa.select(SUBSCRIPTION.c.subpublishertables).where(SUBSCRIPTION.c.subid == subid)
    stored: dict[str, Any] | None = connection.execute(query).scalar_one_or_none()
    return stored


def set_publisher_tables(connection: sa.Connection, subid: int, tables: Mapping[str, Any]) -> None:
    _update(connection, subid, subpublishertables=tables)


def _update(connection: sa.Connection, subid: int, **columns: object) -> None:
    columns["subversion"] = new_version()
    connection.execute(sa.update(SUBSCRIPTION).where(SUBSCRIPTION.c.subid == subid).values(**columns))


def delete_subscription(connection: sa.Connection, name: str) -> None:
    """Delete a subscription with everything that the catalog has of it.

    Subscription numbers are used again, so no row with this number may remain, except those of
    transactions that are prepared in the target.
    """
    subscription = get_subscription(connection, name)
    change_version(connection, subscription.subid)  # locks its row before those of its tables
    subscription.progress.drop(connection)
    for table in CATALOG.sorted_tables:
        for column in ("subid", "srsubid"):
            if column in table.c and table not in (SUBSCRIPTION, PREPARED_TRANSACTION):
                delete_rows(connection, table, **{column: subscription.subid})
    delete_rows(connection, SUBSCRIPTION, subid=subscription.subid)


# Rows ---------------------------------------------------------------------------------------------

_READ: Final = tuple(column for column in SUBSCRIPTION.columns if column.name != "subpublishertables")
"""The columns that every batch reads. The publisher's tables are left out, because that text grows
with the number of tables.
"""

_BY_NAME: Final = sa.select(*_READ).where(SUBSCRIPTION.c.subname == sa.bindparam("name"))
_ANY: Final = SUBSCRIPTION.alias()
_VERSION: Final = sa.select(
    SUBSCRIPTION.c.subid,
    SUBSCRIPTION.c.subversion,
    sa.exists().where(_ANY.c.subretaindeadtuples == sa.true()).label("any_retains"),
).where(SUBSCRIPTION.c.subname == sa.bindparam("name"))
"""Every batch executes these two, so they are built once."""


def _subscription(connection: sa.Connection, row: sa.Row[tuple[object, ...]]) -> Subscription:
    of_server = row.subserver != 0
    return Subscription(
        subid=row.subid,
        name=row.subname,
        connection=foreign_servers.stored_conninfo(connection, row.subserver) if of_server else row.subconninfo,
        publications=tuple(row.subpublications),
        options=subscription_options.from_columns(row._asdict()),
        enabled=row.subenabled,
        slot_name=row.subslotname,
        skip_lsn=row.subskiplsn,
        system_identifier=row.systemidentifier,
        two_phase_state=row.subtwophasestate,
        slot_adopted=row.subslotadopted,
        version=row.subversion,
        retention_active=row.subretentionactive,
        server=foreign_servers.server_name(connection, row.subserver) if of_server else None,
    )

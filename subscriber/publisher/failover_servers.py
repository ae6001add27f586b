"""What each server that CONNECTION names says of a failover: which one is the primary, and what the
standbys need to take the subscription's slot over.

::

    CONNECTION 'host=a,b target_session_attrs=primary'
                    ├─▶ a    the primary: slot, synchronized_standby_slots, physical slots
                    └─▶ b    a standby:   synchronized slot, settings, slots of its own

All servers are asked at the same time, because one that is away costs the whole timeout. Nothing is
judged here: see :mod:`subscriber.publisher.failover_readiness`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, LiteralString

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from subscriber.errors import PublisherError
from subscriber.publisher.conninfo import check_conninfo, hosts_of
from subscriber.publisher.publisher import connect_publisher
from subscriber.publisher.sql_connection import features_of

_TIMEOUT_SECONDS: Final = "2"
"""libpq's shortest timeout. A server that needs longer counts as one that does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverSlot:
    """The logical slot of the subscription, at one server.

    Attributes:
        failover: whether the slot is synchronized to standbys.
        synced: whether the slot came from a primary by synchronization.
        temporary: whether a promotion drops the slot, because it is not synchronized far enough.
        lost: why the slot cannot be used any more; None if it can.
    """

    failover: bool
    synced: bool
    temporary: bool
    lost: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverServer:
    """One server that CONNECTION names.

    Attributes:
        place: its host and port.
        error: why it cannot be asked; None if it has answered. The other attributes are meaningless
            if it has not.
        is_standby: whether it is in recovery.
        timeline: the timeline of a primary; 0 for a standby.
        slot: the subscription's slot there; None if there is none.
        failover_slots: the permanent logical slots that are to be synchronized to standbys.
        own_slots: the logical slots that were not synchronized from a primary.
        sync_replication_slots: the setting.
        hot_standby_feedback: the setting.
        primary_slot_name: the setting; empty if there is none.
        names_database: whether ``primary_conninfo`` has a dbname; None if the role may not read it.
        synchronized_standby_slots: the setting, a list.
        physical_slots: whether a standby uses it, for each physical slot.
    """

    place: str
    error: str | None = None
    is_standby: bool = False
    timeline: int = 0
    slot: FailoverSlot | None = None
    failover_slots: frozenset[str] = frozenset()
    own_slots: frozenset[str] = frozenset()
    sync_replication_slots: bool = True
    hot_standby_feedback: bool = True
    primary_slot_name: str = ""
    names_database: bool | None = None
    synchronized_standby_slots: tuple[str, ...] = ()
    physical_slots: dict[str, bool] = field(default_factory=dict)


_FACTS: Final[LiteralString] = (
    "SELECT pg_is_in_recovery(),"
    " CASE WHEN pg_is_in_recovery() THEN NULL ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END,"
    " slot_name IS NOT NULL, failover, synced, temporary, invalidation_reason,"
    " ARRAY(SELECT slot_name::text FROM pg_replication_slots"
    "  WHERE slot_type = 'logical' AND failover AND NOT temporary),"
    " ARRAY(SELECT slot_name::text FROM pg_replication_slots WHERE slot_type = 'logical' AND NOT synced),"
    " current_setting('sync_replication_slots')::bool, current_setting('hot_standby_feedback')::bool,"
    " current_setting('primary_slot_name'),"
    " (SELECT setting FROM pg_settings WHERE name = 'primary_conninfo'),"
    " current_setting('synchronized_standby_slots'),"
    " ARRAY(SELECT slot_name::text FROM pg_replication_slots WHERE slot_type = 'physical' AND active),"
    " ARRAY(SELECT slot_name::text FROM pg_replication_slots WHERE slot_type = 'physical' AND NOT active)"
    " FROM (SELECT) AS one LEFT JOIN pg_replication_slots ON slot_name = %s"
)


def read_failover_servers(conninfo: str, application_name: str, slot: str | None) -> list[FailoverServer]:
    """Ask each server that a connection string names, all at the same time.

    Args:
        conninfo: the subscription's connection string.
        application_name: the name of the connections.
        slot: the subscription's slot; None if it has none yet.

    Raises:
        UsageError: the connection string is no connection string.
    """
    hosts = hosts_of(conninfo)
    with ThreadPoolExecutor(max_workers=len(hosts), thread_name_prefix="failover") as threads:
        asked: Sequence[FailoverServer] = list(
            threads.map(lambda host: _read(host, hosts[host], application_name, slot), hosts)
        )
    return list(asked)


def _read(place: str, conninfo: str, application_name: str, slot: str | None) -> FailoverServer:
    given = check_conninfo(conninfo).get("connect_timeout")
    patient = conninfo if given else make_conninfo(conninfo, connect_timeout=_TIMEOUT_SECONDS)
    try:
        with connect_publisher(patient, application_name) as connection:
            if not features_of(connection).failover_slots:
                return FailoverServer(place=place, error="it is older than PostgreSQL 17, which can synchronize slots")
            row = connection.execute(_FACTS, (slot,)).fetchone()
    except PublisherError as error:
        return FailoverServer(place=place, error=" ".join((error.refused or error.message).split()))
    assert row is not None
    (
        is_standby,
        timeline,
        exists,
        failover,
        synced,
        temporary,
        lost,
        failover_slots,
        own_slots,
        sync_replication_slots,
        hot_standby_feedback,
        primary_slot_name,
        primary_conninfo,
        listed,
        active,
        inactive,
    ) = row
    return FailoverServer(
        place=place,
        is_standby=is_standby,
        timeline=int(timeline, 16) if timeline else 0,
        slot=FailoverSlot(failover=failover, synced=synced, temporary=temporary, lost=lost) if exists else None,
        failover_slots=frozenset(failover_slots),
        own_slots=frozenset(own_slots),
        sync_replication_slots=sync_replication_slots,
        hot_standby_feedback=hot_standby_feedback,
        primary_slot_name=primary_slot_name,
        names_database=None if primary_conninfo is None else "dbname" in conninfo_to_dict(primary_conninfo),
        synchronized_standby_slots=tuple(name.strip().strip('"') for name in listed.split(",") if name.strip()),
        physical_slots=dict.fromkeys(active, True) | dict.fromkeys(inactive, False),
    )

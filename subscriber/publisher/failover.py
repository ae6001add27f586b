"""Judges whether a standby could take a subscription's slot over, by the condition of PostgreSQL's
manual ("Logical Replication Failover"): on each standby the slot is synchronized, permanent and
valid. Other problems are settings without which the subscriber may receive what no standby has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, LiteralString

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from subscriber.base.errors import PublisherError
from subscriber.publisher.connection import connect_publisher, features_of
from subscriber.publisher.conninfo import check_conninfo, hosts_of


@dataclass(frozen=True, slots=True)
class FailoverProblem:
    """Why a failover would lose something or end the subscription; it leads to ``reason``."""

    place: str
    message: str
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether a subscription survives a failover. ``standbys`` are those that have answered."""

    standbys: tuple[str, ...]
    problems: tuple[FailoverProblem, ...]

    @property
    def ready(self) -> bool | None:
        """Whether each standby could be promoted now; None if none has answered."""
        if self.problems:
            return False
        return True if self.standbys else None


def judge_readiness(subscription: str, slot: str | None, servers: Sequence[FailoverServer]) -> Readiness:
    answered = [server for server in servers if server.error is None]
    primaries = [server for server in answered if not server.is_standby]
    standbys = [server for server in answered if server.is_standby]
    problems = [
        FailoverProblem(
            server.place,
            f"the server does not answer: {server.error}",
            "If it is a standby, it is not known whether it could take the slot over.",
            "Start it, or take it out of the hosts of CONNECTION.",
        )
        for server in servers
        if server.error is not None
    ]
    if len(primaries) > 1:
        newest = max(primaries, key=lambda server: server.timeline)
        problems += [_old_primary(server, newest) for server in primaries if server.timeline < newest.timeline]
        primaries = [newest]
    if standbys and not primaries:
        problems.append(
            FailoverProblem(
                ", ".join(server.place for server in standbys),
                "no host that answers is a primary",
                "Nothing is sent to the subscription, and its slot cannot be compared with the primary's.",
                "Promote a standby, or name the primary in CONNECTION.",
            )
        )
    for primary in primaries:
        problems += _of_primary(primary, standbys, subscription, slot)
        for standby in standbys:
            problems += _of_standby(standby, primary, slot)
    return Readiness(tuple(server.place for server in standbys), tuple(problems))


def _old_primary(server: FailoverServer, newest: FailoverServer) -> FailoverProblem:
    return FailoverProblem(
        server.place,
        f"the server is a primary on timeline {server.timeline}, but {newest.place} is one on timeline {newest.timeline}",
        "It is an old primary that has come back. The subscription is not continued from it.",
        "Stop it, and let it begin again as a standby (pg_rewind or pg_basebackup).",
    )


def _of_primary(
    primary: FailoverServer, standbys: Sequence[FailoverServer], subscription: str, slot: str | None
) -> Iterator[FailoverProblem]:
    if primary.slot is not None and not primary.slot.failover:
        yield FailoverProblem(
            primary.place,
            f'replication slot "{slot}" has failover = false, although the subscription has failover = true',
            "No standby gets the slot.",
            f"ALTER SUBSCRIPTION {subscription} DISABLE; ALTER SUBSCRIPTION {subscription} SET (failover = true);"
            f" ALTER SUBSCRIPTION {subscription} ENABLE;",
        )
    listed = primary.synchronized_standby_slots
    for missing in [one for one in listed if not primary.physical_slots.get(one, False)]:
        others = ", ".join(one for one in listed if one != missing)
        state = "is used by no standby" if missing in primary.physical_slots else "does not exist"
        yield FailoverProblem(
            primary.place,
            f'synchronized_standby_slots names replication slot "{missing}", which {state}',
            "The publisher sends nothing to the subscription until that standby streams.",
            f"Start that standby, or: ALTER SYSTEM SET synchronized_standby_slots = '{others}'; SELECT pg_reload_conf();"
            f" -- at {primary.place}",
        )
    used = [standby.primary_slot_name for standby in standbys if standby.primary_slot_name]
    if unlisted := [one for one in used if one not in listed]:
        yield FailoverProblem(
            primary.place,
            f"synchronized_standby_slots does not name {', '.join(unlisted)}",
            "The subscription may receive changes that the standby does not have; after a failover it is refused then.",
            f"ALTER SYSTEM SET synchronized_standby_slots = '{', '.join((*listed, *unlisted))}'; SELECT pg_reload_conf();"
            f" -- at {primary.place}",
        )


def _of_standby(standby: FailoverServer, primary: FailoverServer, slot: str | None) -> Iterator[FailoverProblem]:
    place = standby.place
    here = f"-- at {place}"
    if leftovers := sorted(standby.own_slots & primary.failover_slots):
        yield FailoverProblem(
            place,
            f"the standby has a slot of its own with the name of a slot of the primary: {', '.join(leftovers)}",
            "It is left from the time when the server was the primary, and ends the synchronization of all slots.",
            " ".join(f"SELECT pg_drop_replication_slot('{one}');" for one in leftovers) + f" {here}",
        )
    if not standby.sync_replication_slots:
        yield FailoverProblem(
            place,
            "sync_replication_slots is off",
            "The standby does not get the slot.",
            f"ALTER SYSTEM SET sync_replication_slots = on; SELECT pg_reload_conf(); {here}",
        )
    if not standby.hot_standby_feedback:
        yield FailoverProblem(
            place,
            "hot_standby_feedback is off",
            "The standby cannot synchronize slots without it.",
            f"ALTER SYSTEM SET hot_standby_feedback = on; SELECT pg_reload_conf(); {here}",
        )
    if not standby.primary_slot_name:
        yield FailoverProblem(
            place,
            "primary_slot_name is empty",
            "The standby cannot synchronize slots without it.",
            f"SELECT pg_create_physical_replication_slot('standby', true); -- at {primary.place}, then"
            f" ALTER SYSTEM SET primary_slot_name = 'standby'; SELECT pg_reload_conf(); {here}",
        )
    if standby.names_database is False:
        yield FailoverProblem(
            place,
            "primary_conninfo has no dbname",
            "The standby cannot synchronize slots without it.",
            f"ALTER SYSTEM SET primary_conninfo = '… dbname=postgres'; SELECT pg_reload_conf(); {here}",
        )
    if slot is not None and primary.slot is not None and slot not in leftovers:
        yield from _of_slot(standby, primary, slot)


def _of_slot(standby: FailoverServer, primary: FailoverServer, slot: str) -> Iterator[FailoverProblem]:
    found = standby.slot
    if found is None:
        yield FailoverProblem(
            standby.place,
            f'replication slot "{slot}" is not there',
            "A promotion of this standby would lose the slot.",
            "It comes within 30 s where the settings are right. If it does not, the server's log says why.",
        )
    elif found.temporary:
        yield FailoverProblem(
            standby.place,
            f'replication slot "{slot}" is temporary{_skipped(found)}',
            "The slot is behind the standby. A promotion of this standby would drop it.",
            f"It becomes permanent when `subscriber run` has received what the standby has. If the publisher is idle:"
            f" SELECT pg_log_standby_snapshot(); -- at {primary.place}",
        )
    elif found.lost is not None:
        yield FailoverProblem(
            standby.place,
            f'replication slot "{slot}" is invalidated: {found.lost}',
            "A promotion of this standby would lose the slot.",
            "The standby creates it again within 30 s. If it does not, the server's log says why.",
        )
    elif found.skip_reason not in (None, _PASSES):
        yield FailoverProblem(
            standby.place,
            f'replication slot "{slot}" is not synchronized any more{_skipped(found)}',
            "After a promotion of this standby the slot may not have what the subscription needs.",
            "The standby tries again within 30 s. If it does not succeed, the server's log says why.",
        )


_PASSES: Final = "wal_not_flushed"
"""The slotsync_skip_reason of a standby that has not received the WAL yet."""


def _skipped(slot: FailoverSlot) -> str:
    return "" if slot.skip_reason is None else f": the last synchronization was skipped ({slot.skip_reason})"


_TIMEOUT_SECONDS: Final = "2"
"""libpq's shortest timeout. A server that needs longer counts as one that does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverSlot:
    """A logical slot at one server. ``failover``: it is to be synchronized to standbys. ``synced``:
    it came from a primary. ``temporary``: not yet synchronized far enough, so a promotion drops it.
    ``lost``: why it cannot be used any more. ``skip_reason``: why its last synchronization was
    skipped, where the server says so (slotsync_skip_reason, since 19).
    """

    failover: bool
    synced: bool
    temporary: bool
    lost: str | None
    skip_reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverServer:
    """A server of CONNECTION. With an ``error`` the rest means nothing. ``timeline`` is 0 for a
    standby; ``own_slots`` came from no primary; ``names_database``: ``primary_conninfo`` has a
    dbname (None: unreadable); ``physical_slots``: whether a standby uses each.
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
    # The column is missing before version 19.
    " to_jsonb(pg_replication_slots)->>'slotsync_skip_reason',"
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
    """Ask each server that a connection string names, all at the same time."""
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
    is_standby, timeline, exists, failover, synced, temporary, lost, skipped, failover_slots, own_slots, *settings = row
    sync, feedback, primary_slot_name, primary_conninfo, listed, active, inactive = settings
    return FailoverServer(
        place=place,
        is_standby=is_standby,
        timeline=int(timeline, 16) if timeline else 0,
        slot=FailoverSlot(failover=failover, synced=synced, temporary=temporary, lost=lost, skip_reason=skipped)
        if exists
        else None,
        failover_slots=frozenset(failover_slots),
        own_slots=frozenset(own_slots),
        sync_replication_slots=sync,
        hot_standby_feedback=feedback,
        primary_slot_name=primary_slot_name,
        names_database=None if primary_conninfo is None else "dbname" in conninfo_to_dict(primary_conninfo),
        synchronized_standby_slots=tuple(name.strip().strip('"') for name in listed.split(",") if name.strip()),
        physical_slots=dict.fromkeys(active, True) | dict.fromkeys(inactive, False),
    )

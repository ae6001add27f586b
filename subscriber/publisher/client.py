"""Queries of a run and of commands to a publisher, and the checks whether it is ready, at CREATE
SUBSCRIPTION and before every start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg.abc import Query

from subscriber.base.errors import RECREATE_SLOT, PublisherNotReady, SlotInUse, SlotLost
from subscriber.base.lsn import INVALID_LSN, LSN, parse_lsn
from subscriber.base.suggestions import perhaps
from subscriber.postgres.schema.server_features import OLDEST_VERSION, ServerFeatures
from subscriber.postgres.sql.quoting import quote_literal
from subscriber.publisher.connection import Connection, features_of
from subscriber.publisher.history import UNKNOWN_TIMELINE, Server
from subscriber.publisher.server_errors import error_of
from subscriber.publisher.server_facts import read_decoding_settings

_REMOTE_APPLY: Final = """
SELECT EXISTS (SELECT FROM pg_db_role_setting, unnest(setconfig) AS one (setting)
 WHERE setting = 'synchronous_commit=remote_apply'
  AND setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database())))
"""
"""Whether the database or a role has the setting."""


@dataclass(frozen=True, slots=True)
class Slot:
    """The columns of a row of ``pg_replication_slots`` that this program uses.

    Attributes:
        lost: why the slot can no longer be used, or None.
        restart_lsn: from where the publisher keeps its WAL for the slot; None where it keeps none.
        wal_status: reserved, extended, unreserved or lost; None before PostgreSQL 13.
        safe_wal_size: bytes that may still be written before the slot is in danger of being lost;
            None without a limit, and before PostgreSQL 13.
        failover: whether the slot is synchronized to standbys; ``synced``: whether it was
            synchronized from a primary; None before PostgreSQL 17.
        inactive_since: since when no receiver uses it (seconds since 1970); None while one does,
            and before PostgreSQL 17.
        spilled_bytes: what logical decoding has written to disk; None before PostgreSQL 14.
    """

    name: str
    plugin: str | None
    database: str | None
    active_pid: int | None
    confirmed_flush_lsn: LSN
    two_phase: bool
    lost: str | None
    restart_lsn: LSN | None = None
    wal_status: str | None = None
    safe_wal_size: int | None = None
    failover: bool | None = None
    synced: bool | None = None
    inactive_since: float | None = None
    spilled_bytes: int | None = None


class PublisherClient:
    """What only commands ask is in other modules, which a walreceiver does not import."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    @property
    def version(self) -> int:
        """As libpq reports it: 180006 is 18.6."""
        return self.connection.info.server_version

    @property
    def features(self) -> ServerFeatures:
        return features_of(self.connection)

    @property
    def database(self) -> str:
        return self.connection.info.dbname

    def assign_transaction_id(self) -> int:
        """The number of a new transaction, which has ended on return: those in progress before it
        have smaller numbers. A snapshot's xmax may be smaller than theirs.
        """
        return int(self._one("SELECT txid_current()")[0])

    def oldest_transaction(self) -> int:
        """The smallest number of a transaction that has not ended."""
        return int(self._one("SELECT txid_snapshot_xmin(txid_current_snapshot())")[0])

    def check_server(self) -> None:
        """Refuse a server that is too old, or that a setting keeps from logical decoding."""
        if self.version < OLDEST_VERSION:
            raise PublisherNotReady(
                f"the publisher is PostgreSQL {self._setting('server_version')}, which has no logical replication",
                sqlstate="0A000",
                hint="PostgreSQL 10 or newer is needed.",
            )
        for one in read_decoding_settings(self.connection).obstacles():
            raise PublisherNotReady(
                one.message,
                sqlstate=one.sqlstate,
                detail=f'The publisher runs with {one.setting} = "{one.value}".',
                hint=one.hint("publisher"),
            )

    def system_identifier(self) -> str:
        """``pg_control_system()``."""
        return str(self._one("SELECT system_identifier FROM pg_control_system()")[0])

    def slot(self, name: str) -> Slot | None:
        return self.slots([name]).get(name)

    def slots(self, names: Sequence[str]) -> dict[str, Slot]:
        """The slots of these names that exist, with one query."""
        reason = "NULL::text"
        if self.features.slot_wal_status:
            reason = "CASE WHEN wal_status = 'lost' THEN 'wal_removed' END"
        if self.features.slot_invalidation_reason:
            reason = "COALESCE(invalidation_reason, CASE WHEN wal_status = 'lost' THEN 'wal_removed' END)"
        two_phase = "two_phase" if self.features.slot_two_phase else "false"
        wal = "wal_status, safe_wal_size" if self.features.slot_wal_status else "NULL::text, NULL::int8"
        standbys = "NULL::boolean, NULL::boolean, NULL::float8"
        if self.features.failover_slots:
            standbys = "failover, synced, extract(epoch FROM inactive_since)::float8"
        spilled = "NULL::int8"
        if self.features.slot_statistics:
            spilled = "(SELECT spill_bytes FROM pg_stat_replication_slots t WHERE t.slot_name = s.slot_name)"
        rows = self.connection.execute(
            "SELECT slot_name::text, plugin, database, CASE WHEN active THEN COALESCE(active_pid, 0) END,"
            f" confirmed_flush_lsn::text, {two_phase}, {reason}, restart_lsn::text, {wal}, {standbys}, {spilled}"
            " FROM pg_replication_slots s WHERE slot_name = ANY (%s)",
            (list(names),),
        )
        return {row[0]: _slot(*row) for row in rows}

    def check_slot(self, name: str) -> Slot:
        """The slot, if it is ready; else SlotLost, SlotInUse or PublisherNotReady."""
        slot = self.slot(name)
        if slot is None:
            raise SlotLost(f'replication slot "{name}" does not exist', sqlstate="42704", hint=RECREATE_SLOT)
        if slot.plugin != "pgoutput":
            found = f'output plugin "{slot.plugin}"' if slot.plugin else "no output plugin (it is a physical slot)"
            raise PublisherNotReady(
                f'replication slot "{name}" has {found}, but "pgoutput" is needed',
                hint="Use another slot_name, or drop that slot at the publisher.",
            )
        if slot.database != self.database:
            raise PublisherNotReady(
                f'replication slot "{name}" was not created in this database',
                detail=f'The slot belongs to database "{slot.database}", the connection is to "{self.database}".',
                hint="Use another slot_name, or another dbname in CONNECTION.",
            )
        if slot.lost is not None:
            raise SlotLost(
                f'can no longer access replication slot "{name}"',
                detail=f'This replication slot has been invalidated due to "{slot.lost}".',
                hint=RECREATE_SLOT,
            )
        if slot.active_pid is not None:
            raise SlotInUse(
                f'replication slot "{name}" is active for PID {slot.active_pid}',
                hint="Another receiver streams from this slot. Stop it, or wait until the server has noticed that it has ended.",
            )
        return slot

    def missing_publications(self, names: Sequence[str]) -> list[str]:
        existing = self.publication_names()
        return [name for name in names if name not in existing]

    def publication_names(self) -> frozenset[str]:
        return frozenset(row[0] for row in self.connection.execute("SELECT pubname FROM pg_publication"))

    def like_publication(self, name: str) -> str | None:
        """The hint that names the publication most like ``name``, if one is like it."""
        return perhaps("publication", name, sorted(self.publication_names()))

    def check_publications(self, names: Sequence[str]) -> list[str]:
        """Refuse publications that the walsender could not serve: none exists, or one is missing
        and the server is older than 18. Returns the missing ones that it tolerates (rule A32).
        """
        missing = self.missing_publications(names)
        if missing and (len(missing) == len(names) or not self.features.missing_publications):
            raise PublisherNotReady(
                f'publication "{missing[0]}" does not exist',
                sqlstate="42704",
                hint=f"{self.like_publication(missing[0]) or 'Create it at the publisher (CREATE PUBLICATION).'}"
                " ALTER SUBSCRIPTION ... SET PUBLICATION names another one.",
            )
        return missing

    def clock(self) -> float:
        """The time at the publisher, in seconds since 1970."""
        return float(self._one("SELECT extract(epoch FROM clock_timestamp())::float8")[0])

    def flushed_lsn(self) -> LSN:
        """The end of the durable WAL; on a standby, of what it has received and replayed."""
        return parse_lsn(
            self._one(
                "SELECT CASE WHEN pg_is_in_recovery()"
                " THEN GREATEST(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())"
                " ELSE pg_current_wal_flush_lsn() END::text"
            )[0]
        )

    def server(self) -> Server:
        """The state of the server's WAL, without the older timelines."""
        is_standby = self.is_standby()
        timeline = UNKNOWN_TIMELINE
        if not is_standby:
            timeline = int(self._one("SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)")[0], 16)
        return Server(self.system_identifier(), timeline, self.flushed_lsn(), is_standby)

    def is_standby(self) -> bool:
        return bool(self._one("SELECT pg_is_in_recovery()")[0])

    def may_wait_for_us(self) -> bool:
        """Whether ``synchronous_standby_names`` contains our ``application_name``."""
        names = self._setting("synchronous_standby_names").casefold()
        name = self._setting("application_name").casefold()
        return "*" in names or (name != "" and name in names)

    def may_wait_for_apply(self) -> bool:
        """Whether the session's ``synchronous_commit`` is remote_apply; others may set it."""
        if not self.may_wait_for_us():
            return False
        return self._setting("synchronous_commit") == "remote_apply" or bool(self._one(_REMOTE_APPLY)[0])

    def is_failover_slot(self, name: str) -> bool:
        """Whether a slot is synchronized to standbys, for which its walsender may have to wait."""
        if not self.features.failover_slots:
            return False
        query = "SELECT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = %s AND failover)"
        row = self.connection.execute(query, (name,)).fetchone()
        return row is not None and bool(row[0])

    def write_barrier(self) -> LSN:
        """Write a barrier, a small logical message; returns its end, which the stream will soon
        pass.

        The current insert position may be behind a page header, or in WAL that an idle server has
        not flushed yet. A standby's replayed position is returned instead. The barrier is flushed
        and waits for no standby, whatever ``synchronous_commit`` is.
        """
        if self.is_standby():
            return parse_lsn(self._one("SELECT pg_last_wal_replay_lsn()::text")[0])
        with self.connection.transaction():
            self.connection.execute("SET LOCAL synchronous_commit = local")
            return parse_lsn(self._one("SELECT pg_logical_emit_message(true, 'subscriber', '')::text")[0])

    def end_backend(self, pid: int) -> None:
        """``pg_terminate_backend``, also of one that has ended; 42501 without the privilege."""
        try:
            self.connection.execute("SELECT pg_terminate_backend(%s)", (pid,))
        except psycopg.errors.InsufficientPrivilege as error:
            raise error_of(error) from error

    def drop_slot(self, name: str) -> bool:
        """Drop a slot; returns whether it existed. SlotInUse if a receiver streams from it."""
        if self.slot(name) is None:
            return False
        try:
            self.connection.execute("SELECT pg_drop_replication_slot(%s)", (name,))
        except psycopg.errors.ObjectInUse as error:
            raise error_of(error) from error
        return True

    def _setting(self, name: str) -> str:
        return str(self._one(f"SELECT current_setting({quote_literal(name)})".encode())[0])

    def _one(self, query: Query) -> tuple[Any, ...]:
        row = self.connection.execute(query).fetchone()
        assert row is not None
        return row


def _slot(
    name: str,
    plugin: str | None,
    database: str | None,
    active_pid: int | None,
    confirmed: str | None,
    two_phase: bool,
    lost: str | None,
    restart: str | None,
    *more: Any,
) -> Slot:
    position, kept_from = parse_lsn(confirmed) if confirmed else INVALID_LSN, parse_lsn(restart) if restart else None
    return Slot(name, plugin, database, active_pid, position, two_phase, lost, kept_from, *more)

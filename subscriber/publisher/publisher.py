"""Checks whether the publisher is ready. Each check is one query for a property that is known
before streaming starts.

A replication that would fail later, in the middle of the night, should fail when it is created. The
checks therefore run at CREATE SUBSCRIPTION and again before every start, and each error reports
what was found and what to do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.abc import Query

from subscriber.errors import RECREATE_SLOT, PublisherNotReady, PublisherUnavailable, SlotInUse, SlotLost
from subscriber.lsn import INVALID_LSN, LSN, parse_lsn
from subscriber.publication.definition import Publication
from subscriber.publisher.conninfo import session_conninfo
from subscriber.publisher.history import UNKNOWN_TIMELINE, Server
from subscriber.publisher.logical_decoding import read_decoding_settings
from subscriber.publisher.publication_definitions import publications_of_sequences, read_publications
from subscriber.publisher.published_tables import publications_of_other_origins
from subscriber.publisher.sequences import PublishedSequence, published_sequences
from subscriber.publisher.server_errors import error_of
from subscriber.publisher.sql_connection import Connection, connected, features_of
from subscriber.schema.server_features import OLDEST_VERSION, ServerFeatures
from subscriber.suggestions import perhaps

_REMOTE_APPLY: Final = """
SELECT EXISTS (SELECT FROM pg_db_role_setting, unnest(setconfig) AS one (setting)
 WHERE setting = 'synchronous_commit=remote_apply'
  AND setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database())))
"""
"""Whether the database or a role has the setting."""


@dataclass(frozen=True, slots=True)
class Slot:
    """The columns of a row of ``pg_replication_slots`` that this program uses."""

    name: str
    plugin: str | None
    database: str | None
    active_pid: int | None
    confirmed_flush_lsn: LSN
    two_phase: bool
    lost: str | None
    """Why the slot can no longer be used, or None."""
    restart_lsn: LSN | None = None
    """The LSN from which the publisher keeps its WAL for the slot; None where it keeps none."""
    wal_status: str | None = None
    """reserved, extended, unreserved or lost; None before PostgreSQL 13."""
    safe_wal_size: int | None = None
    """Bytes that may still be written before the slot is in danger of being lost; None without a
    limit, and before PostgreSQL 13.
    """


@contextlib.contextmanager
def connect_publisher(conninfo: str, application_name: str) -> Iterator[Connection]:
    """An ordinary connection to the publisher, in autocommit mode.

    Raises:
        PublisherError: there is no connection or no password, the session does not have the
            settings that were asked for, or the server refused a statement (with its text and
            SQLSTATE).
    """
    connection = connected(session_conninfo(conninfo, application_name))
    try:
        with connection:
            yield connection
    except psycopg.Error as error:
        if connection.broken or error.sqlstate is None:
            raise PublisherUnavailable(
                "the connection to the publisher was lost",
                hint="Give the command again; `subscriber run` tries again by itself.",
            ) from error
        raise error_of(error) from error


class Publisher:
    """Queries to a publisher, with PostgreSQL's error texts.

    Queries that only commands need (:mod:`subscriber.publisher.catalog_tables`,
    :mod:`subscriber.publisher.shapes`) are in other modules, which a walreceiver does not import.

    Attributes:
        connection: the connection for the queries.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    @property
    def version(self) -> int:
        """The server's version as libpq reports it: 180006 is 18.6."""
        return self.connection.info.server_version

    @property
    def features(self) -> ServerFeatures:
        """The features of the server's version."""
        return features_of(self.connection)

    @property
    def database(self) -> str:
        """The database's name."""
        return self.connection.info.dbname

    def check_server(self) -> None:
        """Refuse a server without logical decoding.

        Raises:
            PublisherNotReady: the server is too old, or a setting prevents logical decoding.
        """
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
        """The system identifier of the server's cluster (``pg_control_system()``).

        Raises:
            psycopg.Error: the query failed.
        """
        return str(self._one("SELECT system_identifier FROM pg_control_system()")[0])

    def slot(self, name: str) -> Slot | None:
        """A replication slot, or None when there is no slot of that name.

        Raises:
            psycopg.Error: the query failed.
        """
        reason = "NULL::text"
        if self.features.slot_wal_status:
            reason = "CASE WHEN wal_status = 'lost' THEN 'wal_removed' END"
        if self.features.slot_invalidation_reason:
            reason = "COALESCE(invalidation_reason, CASE WHEN wal_status = 'lost' THEN 'wal_removed' END)"
        two_phase = "two_phase" if self.features.slot_two_phase else "false"
        kept = "wal_status, safe_wal_size" if self.features.slot_wal_status else "NULL::text, NULL::int8"
        row = self.connection.execute(
            "SELECT plugin, database, CASE WHEN active THEN COALESCE(active_pid, 0) END,"
            f" confirmed_flush_lsn::text, {two_phase}, {reason}, restart_lsn::text, {kept}"
            " FROM pg_replication_slots WHERE slot_name = %s",
            (name,),
        ).fetchone()
        if row is None:
            return None
        plugin, database, pid, confirmed, two_phase_slot, lost, restart, wal_status, safe_wal_size = row
        return Slot(
            name,
            plugin,
            database,
            pid,
            parse_lsn(confirmed) if confirmed else INVALID_LSN,
            two_phase_slot,
            lost,
            parse_lsn(restart) if restart else None,
            wal_status,
            safe_wal_size,
        )

    def check_slot(self, name: str) -> Slot:
        """The slot, if it is ready to stream from.

        Raises:
            SlotLost: the slot is missing, or was invalidated.
            PublisherNotReady: the slot has another plugin or database.
            SlotInUse: another receiver streams from the slot.
        """
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
        """The publications in ``names`` that do not exist, in the order given.

        Raises:
            psycopg.Error: the query failed.
        """
        existing = self.publication_names()
        return [name for name in names if name not in existing]

    def publication_names(self) -> frozenset[str]:
        """The names of all publications of the database.

        Raises:
            psycopg.Error: the query failed.
        """
        return frozenset(row[0] for row in self.connection.execute("SELECT pubname FROM pg_publication"))

    def like_publication(self, name: str) -> str | None:
        """The hint that names the publication that is most like ``name``; None if none is like it.

        Raises:
            psycopg.Error: the query failed.
        """
        return perhaps("publication", name, sorted(self.publication_names()))

    def check_publications(self, names: Sequence[str]) -> list[str]:
        """Refuse publications that the walsender could not serve; returns the missing ones that it
        tolerates (rule A32).

        Raises:
            PublisherNotReady: no publication exists, or a publication is missing and the server is
                older than 18.
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

    def publications_of_other_origins(self, names: Sequence[str], known: Collection[tuple[str, str]]) -> list[str]:
        """See :func:`~subscriber.publisher.published_tables.publications_of_other_origins`.

        Raises:
            PublisherError: 08006, the server refused the query.
        """
        return publications_of_other_origins(self.connection, names, known)

    def publications(self, names: Sequence[str] | None = None) -> list[Publication]:
        """See :func:`~subscriber.publisher.publication_definitions.read_publications`.

        Raises:
            psycopg.Error: a query failed.
        """
        return read_publications(self.connection, names)

    def publications_of_sequences(self, names: Sequence[str]) -> list[str]:
        """See
        :func:`~subscriber.publisher.publication_definitions.publications_of_sequences`.

        Raises:
            psycopg.Error: the query failed.
        """
        return publications_of_sequences(self.connection, names)

    def sequences(self, tables: Sequence[tuple[str, str]]) -> list[PublishedSequence]:
        """The sequences of these tables' columns with their positions; tables are given as schema
        and name.

        Raises:
            psycopg.Error: a query failed.
        """
        return published_sequences(self.connection, tables)

    def flushed_lsn(self) -> LSN:
        """The end of the publisher's durable WAL; on a standby, of the WAL that it has received and
        replayed.

        Raises:
            psycopg.Error: the query failed.
        """
        return parse_lsn(
            self._one(
                "SELECT CASE WHEN pg_is_in_recovery()"
                " THEN GREATEST(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())"
                " ELSE pg_current_wal_flush_lsn() END::text"
            )[0]
        )

    def server(self) -> Server:
        """The state of the server's WAL, without the timelines before the current one. The timeline
        of a standby is unknown.

        Raises:
            psycopg.Error: a query failed.
        """
        is_standby = self.is_standby()
        timeline = UNKNOWN_TIMELINE
        if not is_standby:
            timeline = int(self._one("SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)")[0], 16)
        return Server(self.system_identifier(), timeline, self.flushed_lsn(), is_standby)

    def is_standby(self) -> bool:
        """Whether the server is in recovery.

        Raises:
            psycopg.Error: the query failed.
        """
        return bool(self._one("SELECT pg_is_in_recovery()")[0])

    def may_wait_for_us(self) -> bool:
        """Whether a commit may wait for a standby with this connection's ``application_name``
        (``synchronous_standby_names``). True also where the name is only part of another one.
        """
        names, name = (
            self._setting("synchronous_standby_names").casefold(),
            self._setting("application_name").casefold(),
        )
        return "*" in names or (name != "" and name in names)

    def may_wait_for_apply(self) -> bool:
        """Whether a commit may wait until a standby with this connection's ``application_name`` has
        applied it (``synchronous_commit = remote_apply``). What a session or a transaction sets for
        itself is not seen.
        """
        if not self.may_wait_for_us():
            return False
        return self._setting("synchronous_commit") == "remote_apply" or bool(self._one(_REMOTE_APPLY)[0])

    def is_failover_slot(self, name: str) -> bool:
        """Whether a slot is synchronized to standbys. Its walsender may have to wait for them
        (``synchronized_standby_slots``).

        Raises:
            psycopg.Error: the query failed.
        """
        if not self.features.failover_slots:
            return False
        query = "SELECT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = %s AND failover)"
        row = self.connection.execute(query, (name,)).fetchone()
        return row is not None and bool(row[0])

    def write_barrier(self) -> LSN:
        """Write a barrier, a small logical message; returns its end, a position that the stream
        will soon pass.

        The current insert position cannot be used: it may be behind a page header, or in WAL that
        an idle server has not flushed yet. A standby cannot write a message. There the replayed
        position is returned, which its walsender has read.

        The barrier is flushed when this method returns, and it waits for no standby, whatever the
        server's ``synchronous_commit`` is.

        Raises:
            psycopg.Error: the query failed.
        """
        if self.is_standby():
            return parse_lsn(self._one("SELECT pg_last_wal_replay_lsn()::text")[0])
        with self.connection.transaction():
            self.connection.execute("SET LOCAL synchronous_commit = local")
            return parse_lsn(self._one("SELECT pg_logical_emit_message(true, 'subscriber', '')::text")[0])

    def end_backend(self, pid: int) -> None:
        """Ask a backend to end (``pg_terminate_backend``); a backend that has ended already is no
        error.

        Raises:
            PublisherNotReady: 42501, the role has no privilege for this.
        """
        try:
            self.connection.execute("SELECT pg_terminate_backend(%s)", (pid,))
        except psycopg.errors.InsufficientPrivilege as error:
            raise error_of(error) from error

    def drop_slot(self, name: str) -> bool:
        """Drop a replication slot; returns whether it existed. A missing slot is no error, as in
        DROP SUBSCRIPTION.

        Raises:
            SlotInUse: a receiver streams from the slot.
        """
        if self.slot(name) is None:
            return False
        try:
            self.connection.execute("SELECT pg_drop_replication_slot(%s)", (name,))
        except psycopg.errors.ObjectInUse as error:
            raise error_of(error) from error
        return True

    def _setting(self, name: str) -> str:
        return str(self._one(sql.SQL("SELECT current_setting({})").format(sql.Literal(name)))[0])

    def _one(self, query: Query) -> tuple[Any, ...]:
        row = self.connection.execute(query).fetchone()
        assert row is not None
        return row

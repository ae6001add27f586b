"""The databases of a session. A node waits for replication, as a patient person at psql does.

::

    node        where it is                                  what replicates into it
    test_pub    publisher server 1                           nothing, or a native subscription (cascades)
    other_pub   publisher server 2                           "
    test_sub    the subscriber server (native), or a target  PostgreSQL's apply worker, or subscriber

Every publisher node has a separate server. CREATE SUBSCRIPTION from one database to another of the
same server would wait for itself: the creation of the slot waits for the transaction that creates
the subscription.

A database has the name of its node, so what prints the name is the same on all servers.

**Settling.** An enabled subscription has settled when every table is in state r and the slot's
confirmed position has passed a barrier that was written after the last statement, or when the
subscription fails with an error. A disabled subscription has settled when its workers have ended. A
worker with an error restarts and fails again. The node notices this from the error counters, or
from the process ID, which is different each time. It waits for two errors: the first may belong to
an attempt that began before the statement that removed its cause.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from subscriber.base.errors import StatementTimeout
from subscriber.postgres.schema.server_features import ServerFeatures
from subscriber.testing.servers.postgresql_server import PostgreSQL
from subscriber.testing.session.psql import PsqlSession, ServerError
from subscriber.testing.session.psql_input import replace_conninfo
from subscriber.testing.session.psql_table import with_values

POLL_SECONDS: Final = 0.02
_FAILURES: Final = 2
"""With so many errors since the settling began, a subscription has stopped."""
_WORKERS: Final = 4
"""As many apply workers in a row: those that fail before they apply do not count as errors."""

ResolveConninfo = Callable[[str], str]
"""A session's connection string → the real connection string."""


class SessionNode(ABC):
    """One database of a session."""

    name: str

    @abstractmethod
    def run(self, text: str, session: str = "") -> str:
        """What psql prints for ``text``, also errors; StatementTimeout if it does not end."""

    def in_transaction(self, session: str) -> bool:
        """Whether the session has an open block, whose locks a subscription may wait for."""
        del session
        return False

    @abstractmethod
    def settle(self, patience: float) -> None:
        """Wait until subscriptions have caught up or stopped on an error; else StatementTimeout."""

    @abstractmethod
    def state(self) -> str:
        """The node's subscriptions as people read them, one per line."""

    @abstractmethod
    def close(self) -> None:
        """End the node's sessions and its engine, and remove what the node created."""


class PostgreSQLNode(SessionNode):
    """A database of a PostgreSQL server: a publisher, or a native subscriber."""

    def __init__(self, name: str, server: PostgreSQL, resolve: ResolveConninfo, patience: float) -> None:
        self.name = name
        self._server = server
        self._resolve = resolve
        self._patience = patience
        self._sessions: dict[str, PsqlSession] = {}
        self._typed_conninfo: dict[str, str] = {}
        """Real connection string → connection string as it was typed."""
        server.drop_database(name)
        server.create_database(name)

    @property
    def conninfo(self) -> str:
        return self._server.conninfo(self.name)

    @property
    def major(self) -> int:
        return self._server.major

    def run(self, text: str, session: str = "") -> str:
        printed = self._session(session).run(text)
        if self._typed_conninfo and text.strip() == r"\dRs+" and "Conninfo" in printed:
            return with_values(printed, "Conninfo", self._typed_conninfo)
        return printed

    def run_without(self, publication: str, query: str, session: str = "") -> str:
        """What psql prints for a query while a publication, the carrier, is hidden."""
        psql = self._session(session)
        if psql.transaction_failed:
            return psql.run(query)
        begin, end = ("SAVEPOINT without", "ROLLBACK TO without") if psql.in_transaction else ("BEGIN", "ROLLBACK")
        inside = psql.in_transaction
        psql.ask(begin)
        try:
            psql.ask(sql.SQL("DROP PUBLICATION {}").format(sql.Identifier(publication)).as_string(None))
            return psql.run(query)
        finally:
            # If the query made the session's own transaction fail, its end undoes the DROP.
            if not (inside and psql.transaction_failed):
                psql.ask(end)

    def last_error(self, session: str) -> ServerError | None:
        return self._sessions[session].error if session in self._sessions else None

    def _session(self, name: str) -> PsqlSession:
        if name not in self._sessions:
            self._sessions[name] = PsqlSession(self.conninfo, lambda: self._server.psql, self._patience, self._to_send)
        return self._sessions[name]

    def in_transaction(self, session: str) -> bool:
        return session in self._sessions and self._sessions[session].in_transaction

    def settle(self, patience: float) -> None:
        with psycopg.connect(self._server.conninfo(self.name), autocommit=True) as connection:
            watched = {one.name: _Watch(one) for one in _subscriptions(connection) if one.enabled or one.worker}
            deadline = time.monotonic() + patience
            try:
                for watch in watched.values():
                    watch.write_barrier()
                while not self._settled(connection, watched):
                    if time.monotonic() > deadline:
                        raise StatementTimeout(
                            f'the subscriptions of node "{self.name}" did not settle within {patience:g} s',
                            detail=self.state(),
                        )
                    time.sleep(POLL_SECONDS)
            finally:
                for watch in watched.values():
                    watch.close()

    def state(self) -> str:
        with psycopg.connect(self._server.conninfo(self.name), autocommit=True) as connection:
            return "\n".join(str(one) for one in _subscriptions(connection)) or "no subscription"

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()
        self._server.drop_database(self.name)

    def _to_send(self, query: str) -> str:
        return replace_conninfo(query, self._real_conninfo)

    def _real_conninfo(self, typed: str) -> str:
        real = self._resolve(typed)
        self._typed_conninfo[real] = typed
        return real

    @staticmethod
    def _settled(connection: psycopg.Connection[Any], watched: Mapping[str, _Watch]) -> bool:
        now = {one.name: one for one in _subscriptions(connection)}
        # Every subscription is checked each time, so that all its workers are counted.
        settled = {name: name not in now or watch.has_settled(now[name]) for name, watch in watched.items()}
        return all(settled.values())


# The server's catalogs -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Subscription:
    name: str
    enabled: bool
    slot: str | None
    conninfo: str | None = field(repr=False)
    """None for a subscription with a SERVER, which PostgreSQL 19 has."""
    waiting: tuple[str, ...]
    """Tables that are not in state r, as ``table state``."""
    errors: int
    worker: int | None

    def __str__(self) -> str:
        parts = ["enabled" if self.enabled else "disabled", f"{self.errors} errors"]
        parts.append(f"apply worker {self.worker}" if self.worker else "no apply worker")
        if self.waiting:
            parts.append(f"tables not ready: {', '.join(self.waiting)}")
        return f'subscription "{self.name}": {", ".join(parts)}'


def _subscriptions(connection: psycopg.Connection[Any]) -> list[_Subscription]:
    errors = "apply_error_count + sync_error_count"
    if ServerFeatures(connection.info.server_version).sync_errors_of_sequences:
        errors = "apply_error_count + sync_table_error_count + sync_seq_error_count"
    rows = connection.execute(
        "SELECT subname, subenabled, subslotname, subconninfo,"
        " ARRAY(SELECT srrelid::regclass || ' ' || srsubstate::text FROM pg_subscription_rel"
        "       WHERE srsubid = s.oid AND srsubstate <> 'r' ORDER BY 1),"
        f" coalesce((SELECT {errors} FROM pg_stat_subscription_stats WHERE subid = s.oid), 0),"
        " (SELECT pid FROM pg_stat_subscription w WHERE w.subid = s.oid AND relid IS NULL AND pid IS NOT NULL"
        "  ORDER BY latest_end_lsn DESC NULLS LAST LIMIT 1)"
        " FROM pg_subscription s JOIN pg_database d ON d.oid = subdbid WHERE datname = current_database() ORDER BY 1".encode()
    ).fetchall()
    return [
        _Subscription(name, enabled, slot, conninfo, tuple(waiting), errors, worker)
        for name, enabled, slot, conninfo, waiting, errors, worker in rows
    ]


class _Watch:
    def __init__(self, subscription: _Subscription) -> None:
        self._first = subscription
        self._workers: set[int] = set()
        self._publisher: psycopg.Connection[Any] | None = None
        self._barrier: str | None = None

    def write_barrier(self) -> None:
        """Write a barrier. Without a publisher, the waiting ends with the subscription's errors."""
        if self._first.conninfo is None:
            return
        try:
            self._publisher = psycopg.connect(self._first.conninfo, autocommit=True)
            row = self._publisher.execute("SELECT pg_logical_emit_message(true, 'scenario', '')::text").fetchone()
        except psycopg.Error:
            return
        assert row is not None
        self._barrier = row[0]

    def has_settled(self, now: _Subscription) -> bool:
        if now.worker is not None:
            self._workers.add(now.worker)
        if not now.enabled:
            # Until the worker has ended, the subscription cannot be altered, and its last error is
            # not counted.
            return now.worker is None
        if now.errors - self._first.errors >= _FAILURES or len(self._workers) >= _WORKERS:
            return True
        return not now.waiting and self._confirmed(now.slot)

    def _confirmed(self, slot: str | None) -> bool:
        if self._publisher is None or self._barrier is None:
            return False
        row = self._publisher.execute(
            "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots WHERE slot_name = %s",
            (self._barrier, slot),
        ).fetchone()
        return row is not None and bool(row[0])

    def close(self) -> None:
        if self._publisher is not None:
            self._publisher.close()


def node_conninfo(session: str, servers: Mapping[str, PostgreSQL], otherwise: PostgreSQL) -> str:
    """``session`` with another host and port, and with a user; what cannot be parsed is kept."""
    try:
        given = conninfo_to_dict(session)
    except psycopg.ProgrammingError:
        return session
    if not given:
        return session
    dbname = str(given.get("dbname", "postgres"))
    kept: dict[str, Any] = {
        name: value for name, value in given.items() if name not in ("host", "hostaddr", "port", "dbname")
    }
    return servers.get(dbname, otherwise).conninfo(dbname, **kept)

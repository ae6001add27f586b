"""A replication connection in CopyBoth mode, on psycopg's libpq layer (``psycopg.pq``).

psycopg 3 has no replication cursor.

Reading: libpq returns one CopyData message at a time from its buffer. When that is empty, the
socket is read once more, and only if that brings nothing does the caller wait. While much arrives,
a short sleep before the wait lets the publisher fill the socket: with a backlog of 500,000 rows,
sleeps of 4 ms reduced the wake-ups from 100,000 to 4,600 and halved the receiver's CPU time. While
little arrives, there is no sleep, so that a commit is seen at once.

What the server says beside the data (NOTICE, WARNING) is returned among the frames, at its place in
the stream (:mod:`subscriber.postgres.protocol.envelope`).
"""

from __future__ import annotations

import contextlib
import select
import threading
import time
from collections.abc import Iterator
from typing import Any, Final, NoReturn, Self, TypeAlias

import psycopg
from psycopg import pq
from psycopg.errors import OperationalError

from subscriber.base.errors import PublisherError, PublisherUnavailable
from subscriber.postgres.protocol.envelope import encode_notice
from subscriber.postgres.schema.server_features import ServerFeatures
from subscriber.publisher.conninfo import (
    at_host,
    check_conninfo,
    check_session,
    replication_conninfo,
    session_conninfo,
)
from subscriber.publisher.server_errors import connection_refused, error_of, server_error

NAP_SECONDS: Final = 0.004
STOP_SECONDS: Final = 0.2
"""How often a command that waits checks whether it is to stop."""
_END_OF_COPY: Final = -1
_GULP_BYTES: Final = 1024 * 1024
"""About as many bytes are returned at once. libpq's buffer grows with the largest row, and may then
have hundreds of megabytes of small ones.
"""


class ReplicationConnection:
    """A ``replication=database`` connection, and a context manager; raises PublisherError.
    ``woken_by`` is a descriptor that ends a :meth:`wait` when it can be read.
    """

    def __init__(self, conninfo: str, application_name: str) -> None:
        self.conninfo = conninfo
        self.application_name = application_name
        self.woken_by: int | None = None
        self._failure: PublisherError | None = None
        self._frames: list[bytes] = []
        self._connection = connected(replication_conninfo(conninfo, application_name))
        self._pg = self._connection.pgconn
        self._pg.notice_handler = self._hear

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    @property
    def server_version(self) -> int:
        """As libpq reports it: 180006 is 18.6."""
        return self._pg.server_version

    @property
    def server(self) -> str:
        """The server that answered, of several in CONNECTION: host, port and version."""
        version = _text(self._pg.parameter_status(b"server_version") or b"")
        return f"host {self.address}, PostgreSQL {version}"

    @property
    def address(self) -> str:
        """Host and port of the server that answered, as one text."""
        return f'"{_text(self._pg.host)}", port {_text(self._pg.port)}'

    @property
    def same_server(self) -> str:
        """The connection string with the host that answered."""
        return at_host(self.conninfo, _text(self._pg.host), _text(self._pg.hostaddr), _text(self._pg.port))

    @property
    def process_id(self) -> int:
        return self._pg.backend_pid

    def execute(self, command: str, stop: threading.Event | None = None) -> list[dict[str, str | None]]:
        """Run a replication command that returns rows, such as ``IDENTIFY_SYSTEM``."""
        result = self._pg.exec_(command.encode()) if stop is None else self._execute_until(stop, command)
        if result is None or result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
            self._fail(result)
        names = [_text(result.fname(column) or b"") for column in range(result.nfields)]
        return [
            {name: _cell(result.get_value(row, column)) for column, name in enumerate(names)}
            for row in range(result.ntuples)
        ]

    def _execute_until(self, stop: threading.Event, command: str) -> pq.abc.PGresult | None:
        """The command's result, or the server's answer to its cancellation if ``stop`` is set."""
        try:
            self._pg.send_query(command.encode())
            while self._pg.is_busy():
                if stop.is_set():
                    self._pg.get_cancel().cancel()
                select.select([self._pg.socket], [], [], STOP_SECONDS)
                self._pg.consume_input()
            last = result = next_result(self._pg)
            while result is not None:
                last, result = result, next_result(self._pg)
        except OperationalError as error:
            raise PublisherUnavailable(_lost(_text(self._pg.error_message))) from error
        except KeyboardInterrupt:
            self._pg.get_cancel().cancel()  # a server that waits does not notice that its client is gone
            raise
        return last

    def start(self, command: str) -> None:
        result = self._pg.exec_(command.encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            self._fail(result)
        self._pg.nonblocking = 1

    def read(self) -> list[bytes]:
        """Read what has arrived, at least what libpq has. Its end is PublisherUnavailable."""
        if self._failure is not None:
            raise self._failure
        frames = self._frames
        try:
            self._read_into(frames)
        except PublisherError as error:
            if not frames:
                raise
            self._failure = error  # what came before it is taken first
        self._frames = []
        return frames

    def _hear(self, result: pq.abc.PGresult) -> None:
        """Put a notice among the frames. libpq calls this while it reads a frame or a result."""
        fields = {code: result.error_field(field) for code, field in _NOTICE_FIELDS.items()}
        self._frames.append(encode_notice({code: text for code, text in fields.items() if text}))

    def _read_into(self, frames: list[bytes]) -> None:
        """Append what libpq's buffer has, and what the socket has if the buffer is empty."""
        next_frame, add = self._pg.get_copy_data, frames.append
        room, has_read_socket = _GULP_BYTES, False
        try:
            while room > 0:
                size, data = next_frame(1)
                if size > 0:
                    add(bytes(data))
                    room -= size
                elif size == _END_OF_COPY:
                    self._fail(next_result(self._pg))
                elif has_read_socket:
                    return
                else:
                    self._pg.consume_input()
                    has_read_socket = True
        except OperationalError as error:
            raise PublisherUnavailable(_lost(_text(self._pg.error_message))) from error

    def wait(self, seconds: float, *, more: bool) -> None:
        if more:
            time.sleep(min(NAP_SECONDS, seconds))
            seconds -= NAP_SECONDS
        woken_by = [] if self.woken_by is None else [self.woken_by]
        select.select([self._pg.socket, *woken_by], [], [], max(0.0, seconds))

    def send(self, data: bytes) -> None:
        try:
            self._pg.put_copy_data(data)
            while self._pg.flush():
                select.select([self._pg.socket], [self._pg.socket], [], 1.0)
                self._pg.consume_input()
        except OperationalError as error:
            raise PublisherUnavailable(_lost(_text(self._pg.error_message))) from error

    def _fail(self, result: pq.abc.PGresult | None) -> NoReturn:
        if result is None or result.status == pq.ExecStatus.COMMAND_OK:
            raise PublisherUnavailable(
                "data stream from publisher has ended", hint="The publisher was stopped; trying again."
            )
        message = _text(result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or self._pg.error_message)
        sqlstate = _text(result.error_field(pq.DiagnosticField.SQLSTATE) or b"") or "08006"
        raise server_error(
            message,
            sqlstate,
            detail=_text(result.error_field(pq.DiagnosticField.MESSAGE_DETAIL) or b"") or None,
            hint=_text(result.error_field(pq.DiagnosticField.MESSAGE_HINT) or b"") or None,
        )


_NOTICE_FIELDS: Final = {chr(field): field for field in pq.DiagnosticField}
"""The fields of a notice by their codes in the protocol."""


def _lost(reason: str) -> str:
    return f"could not receive data from WAL stream: {reason or 'the connection was closed'}"


def _text(message: bytes) -> str:
    return message.decode("utf-8", "replace").strip()


def _cell(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]
"""Rows are tuples. The connection is in autocommit mode unless its user changes that."""

_WAIT_SECONDS: Final = 1.0


def connected(conninfo: str) -> Connection:
    """Connect to the publisher, in autocommit mode, and check the session's settings."""
    try:
        connection = psycopg.connect(conninfo, autocommit=True)
    except psycopg.Error as error:  # psycopg also raises this for a connect_timeout that is no number
        # libpq's message, if there is one; psycopg adds other text before it.
        message = b"" if error.pgconn is None else error.pgconn.error_message
        reason = message.decode("utf-8", "replace").strip() or str(error)
        raise connection_refused(reason, check_conninfo(conninfo).get("user") or "") from error
    try:
        check_session(connection.info.parameter_status)
    except PublisherError:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def connect_publisher(conninfo: str, application_name: str) -> Iterator[Connection]:
    """A connection in autocommit mode; errors of the server in the block become PublisherErrors."""
    connection = connected(session_conninfo(conninfo, application_name))
    with reporting(connection), connection:
        yield connection


@contextlib.contextmanager
def reporting(connection: Connection) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        if connection.broken or error.sqlstate is None:
            raise PublisherUnavailable(
                "the connection to the publisher was lost",
                hint="Give the command again; `subscriber run` tries again by itself.",
            ) from error
        raise error_of(error) from error


def next_result(pgconn: pq.abc.PGconn) -> pq.abc.PGresult | None:
    """Wait for the next result of a command; None after the last one."""
    while pgconn.is_busy():
        select.select([pgconn.socket], [], [], _WAIT_SECONDS)
        pgconn.consume_input()
    return pgconn.get_result()


def features_of(connection: Connection) -> ServerFeatures:
    return ServerFeatures(connection.info.server_version)

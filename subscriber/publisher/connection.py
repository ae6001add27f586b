"""A replication connection in CopyBoth mode, on psycopg's libpq layer (``psycopg.pq``).

psycopg 3 has no replication cursor. Its ``pq`` layer has all functions of libpq, and libpq handles
TLS, service files, password files and every other connection parameter as psql does.

Reading: libpq returns one CopyData message at a time from its buffer. When the buffer is empty, the
socket is read once more immediately, and only if that brings nothing does the caller wait. While
much arrives, a short sleep before the wait lets the publisher fill the socket. With a backlog of
500,000 rows, sleeps of 4 ms reduced the number of wake-ups from 100,000 to 4,600 and halved the
receiver's CPU time. While little arrives, there is no sleep, so that a commit is seen at once.

What the server says beside the data (NOTICE, WARNING) is returned among the frames, at its place in
the stream (:mod:`subscriber.protocol.notice`).
"""

from __future__ import annotations

import select
import threading
import time
from typing import Final, NoReturn, Self

from psycopg import pq
from psycopg.errors import OperationalError

from subscriber.errors import PublisherError, PublisherUnavailable
from subscriber.protocol.notice import encode_notice
from subscriber.publisher.conninfo import at_host, replication_conninfo
from subscriber.publisher.server_errors import server_error
from subscriber.publisher.sql_connection import connected, next_result

NAP_SECONDS: Final = 0.004
STOP_SECONDS: Final = 0.2
"""How often a command that waits checks whether it is to stop."""
_END_OF_COPY: Final = -1
_GULP_BYTES: Final = 1024 * 1024
"""About as many bytes are returned at once. libpq's buffer grows with the largest row, and may then
have hundreds of megabytes of small ones.
"""


class ReplicationConnection:
    """A ``replication=database`` connection. Use it as a context manager.

    Attributes:
        conninfo: the connection string, as given.
        application_name: the application name, as given.
    """

    def __init__(self, conninfo: str, application_name: str) -> None:
        self.conninfo = conninfo
        self.application_name = application_name
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
        """Close the connection; the walsender ends with it."""
        self._connection.close()

    @property
    def server_version(self) -> int:
        """The server's version as libpq reports it: 180006 is 18.6."""
        return self._pg.server_version

    @property
    def server(self) -> str:
        """The server that answered, where CONNECTION may have several: host, port and version."""
        version = _text(self._pg.parameter_status(b"server_version") or b"")
        return f"host {self.address}, PostgreSQL {version}"

    @property
    def address(self) -> str:
        """The host and the port of the server that answered, as one text."""
        return f'"{_text(self._pg.host)}", port {_text(self._pg.port)}'

    @property
    def same_server(self) -> str:
        """The connection string with the host that answered, for further connections to the same
        server.
        """
        return at_host(self.conninfo, _text(self._pg.host), _text(self._pg.hostaddr), _text(self._pg.port))

    @property
    def process_id(self) -> int:
        """The process ID of the server process of this connection."""
        return self._pg.backend_pid

    def execute(self, command: str, stop: threading.Event | None = None) -> list[dict[str, str | None]]:
        """Run a replication command that returns rows (``IDENTIFY_SYSTEM``,
        ``CREATE_REPLICATION_SLOT`` …).

        Args:
            command: the command.
            stop: an event that cancels the command when it is set.

        Raises:
            PublisherError: the server refused the command; with the server's text and SQLSTATE.
        """
        result = self._pg.exec_(command.encode()) if stop is None else self._execute_until(stop, command)
        if result is None or result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
            self._fail(result)
        names = [_text(result.fname(column) or b"") for column in range(result.nfields)]
        return [
            {name: _cell(result.get_value(row, column)) for column, name in enumerate(names)}
            for row in range(result.ntuples)
        ]

    def _execute_until(self, stop: threading.Event, command: str) -> pq.abc.PGresult | None:
        """The command's result. If ``stop`` is set meanwhile, the command is cancelled and the
        result is the server's answer to that.
        """
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
        """Send START_REPLICATION and enter CopyBoth mode.

        Raises:
            PublisherError: the server refused the command; with the server's text and SQLSTATE.
        """
        result = self._pg.exec_(command.encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            self._fail(result)
        self._pg.nonblocking = 1

    def read(self) -> list[bytes]:
        """See :class:`~subscriber.receive.contracts.ReplicationStream`.

        Raises:
            PublisherUnavailable: the connection was lost, or the stream has ended.
            PublisherError: the server ended the stream with an error.
        """
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
        """Put a notice among the frames. libpq calls this when it comes upon the notice, which is
        while a frame is read, or while a command runs.
        """
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
        """See :class:`~subscriber.receive.contracts.ReplicationStream`."""
        if more:
            time.sleep(min(NAP_SECONDS, seconds))
            seconds -= NAP_SECONDS
        select.select([self._pg.socket], [], [], max(0.0, seconds))

    def send(self, data: bytes) -> None:
        """See :class:`~subscriber.receive.contracts.ReplicationStream`.

        Raises:
            PublisherUnavailable: the connection was lost.
        """
        try:
            self._pg.put_copy_data(data)
            while self._pg.flush():
                select.select([self._pg.socket], [self._pg.socket], [], 1.0)
                self._pg.consume_input()
        except OperationalError as error:
            raise PublisherUnavailable(_lost(_text(self._pg.error_message))) from error

    def _fail(self, result: pq.abc.PGresult | None) -> NoReturn:
        """Raise the server's error as a :class:`PublisherError`."""
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

"""A replication connection in CopyBoth mode, on psycopg's libpq layer (``psycopg.pq``).

psycopg 3 has no replication cursor. Its ``pq`` layer has all functions of libpq, and libpq handles
TLS, service files, password files and every other connection parameter as psql does. The session's
output settings are those of PostgreSQL's walreceiver, so that text values come in one known form.

Reading: libpq returns one CopyData message at a time from its buffer. When the buffer is empty, the
socket is read once more immediately, and only if that brings nothing does the caller wait. While
much arrives, a short sleep before the wait lets the publisher fill the socket. With a backlog of
500,000 rows, sleeps of 4 ms reduced the number of wake-ups from 100,000 to 4,600 and halved the
receiver's CPU time. While little arrives, there is no sleep, so that a commit is seen at once.
"""

from __future__ import annotations

import re
import select
import threading
import time
from collections.abc import Mapping
from typing import Any, Final, NoReturn, Self

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import OperationalError, ProgrammingError

from subscriber.errors import PublisherError, PublisherNotReady, PublisherUnavailable, SlotInUse, UsageError
from subscriber.settings import UNREADABLE_CONNINFO, redact_conninfo

SESSION_SETTINGS: Final = {
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "extra_float_digits": "3",
    "timezone": "UTC",
    "bytea_output": "hex",
}
"""The settings that the text form of values depends on. The first three are those of PostgreSQL's
own subscriber.
"""

NAP_SECONDS: Final = 0.004
STOP_SECONDS: Final = 0.2
"""How often a command that waits checks whether it is to stop."""
_NO_SEARCH_PATH: Final = "-c search_path="
"""As in PostgreSQL's walreceiver: names in values, such as those of regclass, have their schema."""
_CONNECT_TIMEOUT_SECONDS: Final = "10"
_END_OF_COPY: Final = -1
_GULP_BYTES: Final = 1024 * 1024
"""About as many bytes are returned at once. libpq's buffer grows with the largest row, and may then
have hundreds of megabytes of small ones.
"""


def session_conninfo(conninfo: str, application_name: str) -> str:
    """The user's connection string with the session settings and defaults of this program added.

    Raises:
        UsageError: see :func:`check_conninfo`.
    """
    given = check_conninfo(conninfo)
    given.pop("replication", None)  # as in PostgreSQL's subscriber, which sets this parameter itself
    options = " ".join(f"-c {name}={value}" for name, value in SESSION_SETTINGS.items())
    defaults = {"connect_timeout": _CONNECT_TIMEOUT_SECONDS, "fallback_application_name": application_name}
    return make_conninfo(
        "",
        **{
            **defaults,
            **given,
            "client_encoding": "UTF8",
            "options": f"{given.get('options') or ''} {options}".strip(),
        },
    )


def check_conninfo(conninfo: str) -> dict[str, Any]:
    """The parameters of a connection string, without connecting.

    Raises:
        UsageError: 42601, the string is not a connection string. libpq's reason is included as far
            as it cannot reveal a password.
    """
    try:
        given = conninfo_to_dict(conninfo)
    except ProgrammingError as error:
        reason = _harmless(conninfo, str(error).strip())
        raise UsageError(
            f"invalid connection string syntax{reason and f': {reason}'}",
            sqlstate="42601",
            hint="Use libpq's form: 'host=… port=… dbname=… user=…', or a postgresql:// URI.",
        ) from None
    if conninfo.startswith(("postgresql://", "postgres://")) and redact_conninfo(conninfo) == UNREADABLE_CONNINFO:
        # libpq would use the rest of a password as a host, a port or a database, and show it in its
        # error messages.
        raise UsageError(
            "invalid connection string syntax: it is ambiguous where its password ends",
            sqlstate="42601",
            hint='Write "@" as %40, "/" as %2F, ":" as %3A and "?" as %3F inside the parts of a postgresql:// URI.',
        )
    return given


def _harmless(conninfo: str, reason: str) -> str:
    """libpq's reason, without words that may be part of a password.

    libpq quotes the word that it does not understand. If a password has a space in it, that word is
    the rest of the password; in a URI with a mistake it is the whole URI. The word is therefore
    shown only if it looks like a name and no password was given.
    """
    for before, after in _QUOTING_REASONS:
        if reason.startswith(before) and reason.endswith(after):
            word = reason[len(before) : len(reason) - len(after)]
            harmless = _NAME.fullmatch(word) is not None and _SECRET.search(conninfo) is None
            return f"{before}{word if harmless else '…'}{after}"
    return "" if '"' in reason else reason


_QUOTING_REASONS: Final = (
    ('missing "=" after "', '" in connection info string'),
    ('invalid connection option "', '"'),
)
"""libpq's reasons that quote one word. The reasons about URIs quote more than a word."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET: Final = re.compile("pass|secret|:", re.IGNORECASE)


class ReplicationConnection:
    """A ``replication=database`` connection. Use it as a context manager.

    Attributes:
        conninfo: the connection string, as given.
        application_name: the application name, as given.
    """

    def __init__(self, conninfo: str, application_name: str) -> None:
        self.conninfo = conninfo
        self.application_name = application_name
        session = session_conninfo(conninfo, application_name)
        options = f"{conninfo_to_dict(session)['options']} {_NO_SEARCH_PATH}"
        full = make_conninfo(session, replication="database", options=options)
        self._failure: PublisherError | None = None
        self._pg = pq.PGconn.connect(full.encode())
        if self._pg.status != pq.ConnStatus.OK:
            reason, role = _text(self._pg.error_message), _text(self._pg.user)
            self._pg.finish()
            raise connection_refused(reason, role)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the walsender ends with it."""
        self._pg.finish()

    @property
    def server_version(self) -> int:
        """The server's version as libpq reports it: 180006 is 18.6."""
        return self._pg.server_version

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
            last = result = self._pg.get_result()
            while result is not None:
                last, result = result, self._pg.get_result()
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
        frames: list[bytes] = []
        try:
            self._read_into(frames)
        except PublisherError as error:
            if not frames:
                raise
            self._failure = error  # what came before it is taken first
        return frames

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
                    self._fail(self._pg.get_result())
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


UNREADABLE_TEXT: Final = "a text of the publisher cannot be read as UTF8"
_UNREADABLE: Final = frozenset({"22021", "22P05"})


def is_unreadable_text(sqlstate: str) -> bool:
    """Whether the server found bytes in a value that are invalid in its encoding. Such a message
    shows the bytes.
    """
    return sqlstate in _UNREADABLE


def server_error(message: str, sqlstate: str, *, detail: str | None = None, hint: str | None = None) -> PublisherError:
    """A server's error as a PublisherError; its class depends on whether a retry may succeed."""
    if is_unreadable_text(sqlstate):
        message = message if UNREADABLE_TEXT in message else UNREADABLE_TEXT
        detail, hint = (
            None,
            "Correct the value at the publisher; a database of encoding SQL_ASCII accepts any bytes as text.",
        )
    if sqlstate == "55006":
        kind: type[PublisherError] = SlotInUse
        hint = (
            hint
            or "Another receiver streams from this slot. Stop it, or wait until the server has noticed that it has ended."
        )
    elif sqlstate[:2] in ("08", "57", "53", "XX", "58"):
        # A retry may succeed after errors of these classes: connection, operator intervention
        # (shutdown), resources, internal and system errors.
        kind = PublisherUnavailable
    else:
        kind = PublisherNotReady
        if sqlstate == _INSUFFICIENT_PRIVILEGE:
            hint = hint or _hint_for(message, _PRIVILEGES)
    return kind(message, sqlstate=sqlstate, detail=detail, hint=hint)


_INSUFFICIENT_PRIVILEGE: Final = "42501"
_SLOTS_HINT: Final = (
    "Run at the publisher, as a superuser: ALTER ROLE … REPLICATION, with the user of the subscription's CONNECTION."
)
_PRIVILEGES: Final = {
    "permission denied to use replication slots": _SLOTS_HINT,
    "must be superuser or replication role to use replication slots": _SLOTS_HINT,  # before 16
    "permission denied for table": "Run at the publisher: GRANT SELECT ON TABLE … TO the user of the subscription's CONNECTION.",
    "permission denied for relation": "Run at the publisher: GRANT SELECT ON TABLE … TO the user of the subscription's CONNECTION.",  # in 10
    "permission denied for schema": "Run at the publisher: GRANT USAGE ON SCHEMA … TO the user of the subscription's CONNECTION.",
}
"""The server's messages about missing privileges, and the hint for each."""


def error_of(error: psycopg.Error) -> PublisherError:
    """An error of an ordinary connection as a PublisherError."""
    diag = error.diag
    return server_error(
        diag.message_primary or str(error), error.sqlstate or "", detail=diag.message_detail, hint=diag.message_hint
    )


def connection_refused(reason: str, role: str = "") -> PublisherError:
    """The error for a failed connection: transient if the server may become available again,
    otherwise definite.

    libpq gives no SQLSTATE for a connection that failed, so its text decides. A text in another
    language, or one that is not known, counts as transient: the connection is tried again.

    Args:
        reason: libpq's error message.
        role: the role that tried to connect, where it is known.
    """
    lasting = _hint_for(reason, _LASTING_REASONS)
    hint = lasting or _hint_for(reason, _PASSING_REASONS) or _CONNECTING_HINT
    named = f'"{role}"' if role else "… (the user of the subscription's CONNECTION)"
    kind = PublisherUnavailable if lasting is None else PublisherNotReady
    error = kind(f"could not connect to the publisher: {reason}", sqlstate="08006", hint=hint.format(role=named))
    error.refused = reason
    return error


def _hint_for(message: str, hints: Mapping[str, str]) -> str | None:
    """The hint of the first text in ``hints`` that the server's message contains."""
    return next((hint for text, hint in hints.items() if text in message), None)


_CONNECTING_HINT: Final = "Check host, port, dbname, user and password of the subscription's CONNECTION, and that the server accepts replication connections."
_REPLICATION_HINT: Final = "Run at the publisher, as a superuser: ALTER ROLE {role} REPLICATION;"
_LASTING_REASONS: Final = {
    "permission denied to start WAL sender": _REPLICATION_HINT,
    "must be superuser or replication role to start walsender": _REPLICATION_HINT,  # before 16
    "is not permitted to log in": "Run at the publisher: ALTER ROLE {role} LOGIN;",
    "permission denied for database": "Run at the publisher: GRANT CONNECT ON DATABASE … TO {role}, with the dbname of the subscription's CONNECTION.",
    "no pg_hba.conf entry": "Add a line to pg_hba.conf of the publisher for this host, user and database, then: SELECT pg_reload_conf();",
    "password authentication failed": _CONNECTING_HINT,
    "does not exist": _CONNECTING_HINT,
    "no password supplied": _CONNECTING_HINT,
    "definition of service": _CONNECTING_HINT,
}
"""Reasons that last until somebody changes something, and what to change."""
_PASSING_REASONS: Final = {
    "exceeds max_wal_senders": "All walsenders of the publisher are in use: end one, or raise max_wal_senders and restart the publisher.",
    'exceeds "max_wal_senders"': "All walsenders of the publisher are in use: end one, or raise max_wal_senders and restart the publisher.",
    "too many connections": "All connections that the publisher allows are in use: end some, or raise the limit.",
    "connection slots are reserved": "All connections that the publisher allows are in use: end some, or raise max_connections.",
}
"""Reasons that may disappear without action."""


def _lost(reason: str) -> str:
    return f"could not receive data from WAL stream: {reason or 'the connection was closed'}"


def _text(message: bytes) -> str:
    return message.decode("utf-8", "replace").strip()


def _cell(value: bytes | None) -> str | None:
    return None if value is None else value.decode()

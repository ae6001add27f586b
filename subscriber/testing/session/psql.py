r"""A psql session: it runs what is typed, and returns what psql would print.

::

    text ── split as psql splits it ──▶ query ── simple protocol ──▶ notices, results or an error ──▶ as psql prints them
         ── a backslash command ──▶ the psql program itself, on a separate connection

Statements run in this process and not in psql. A session must know when a statement has ended, must
cancel a statement that does not end, and must keep its connection while another session is used.
Values are requested as text, so every type is printed as the server writes it. Messages are
formatted by libpq, so errors are printed as psql prints them, with ``LINE 1:`` and the caret.
"""

from __future__ import annotations

import math
import os
import select
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq.abc import PGconn, PGresult

from subscriber.base.errors import NotSupportedError, StatementTimeout, UsageError
from subscriber.testing.session.aligned import PrintedColumn, aligned_table
from subscriber.testing.session.psql_input import check_backslash_command, cut, is_backslash_command

NO_INPUT: Final = "a session has no input to copy from"
"""The error that COPY FROM STDIN gets."""

_CANCEL_SECONDS: Final = 10.0
"""Seconds to wait for the end of a cancelled statement. Then the connection is closed."""
_LEAST_CONNECT_SECONDS: Final = 2
_ERROR: Final = "ERROR:  "
_COMMANDS_WITH_ROWS: Final = (b"INSERT", b"UPDATE", b"DELETE", b"MERGE")
"""Commands with RETURNING: psql prints their command tag below the rows."""


@dataclass
class Generated:
    r"""The values of a query with ``\gexec``, to be run; ``tag`` is printed after their output."""

    statements: list[str] = field(default_factory=list)
    tag: str = ""

    def add(self, result: PGresult) -> None:
        values = (result.get_value(row, i) for row in range(result.ntuples) for i in range(result.nfields))
        self.statements += (_text(value) for value in values if value is not None)
        self.tag += _tag_below_rows(result)


@dataclass(frozen=True, slots=True)
class ServerError:
    """The parts of an error that the server reported; no SQLSTATE if the connection was lost."""

    message: str
    detail: str
    sqlstate: str


class PsqlSession:
    """One psql session on a database, in autocommit mode. It connects at its first use."""

    def __init__(
        self,
        conninfo: str,
        program: Callable[[], Path] | None,
        patience: float,
        rewrite: Callable[[str], str] = str,
    ) -> None:
        self._conninfo = conninfo
        self._program = program
        self._patience = patience
        self._rewrite = rewrite
        self._connection: PGconn | None = None
        self._printed: list[str] = []
        self.error: ServerError | None = None

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction block is open, failed or not."""
        return self._connection is not None and self._connection.transaction_status in (
            pq.TransactionStatus.INTRANS,
            pq.TransactionStatus.INERROR,
        )

    @property
    def transaction_failed(self) -> bool:
        """Whether the open transaction block has failed, so that only its end would be run."""
        return self._connection is not None and self._connection.transaction_status == pq.TransactionStatus.INERROR

    def run(self, text: str) -> str:
        r"""What psql prints for ``text``; statements go on after an error. If the connection is
        lost, libpq's message is printed, and the next statement connects again without the
        session's settings. StatementTimeout: a statement was cancelled, the session goes on.
        SQLSyntaxError and NotSupportedError are those of :func:`cut`, or of a forbidden backslash
        command; nothing was run.
        """
        self._printed = []
        if is_backslash_command(text):
            self._run_program(text.strip())
        else:
            for query in cut(text):
                if query.executes:
                    generated = Generated()
                    self._run_query(query.text, generated)
                    for statement in generated.statements:
                        self._run_query(statement)
                    self._printed.append(generated.tag)
                else:
                    self._run_query(query.text)
        return "".join(self._printed).rstrip("\n")

    def send(self, query: str) -> str:
        """What psql prints for one query, which is not split."""
        self._printed = []
        self._run_query(query)
        return "".join(self._printed).rstrip("\n")

    def generate(self, query: str) -> tuple[str, Generated]:
        r"""Run the query of a ``\gexec``: what psql prints, and the statements to be run."""
        self._printed = []
        generated = Generated()
        self._run_query(query, generated)
        return "".join(self._printed).rstrip("\n"), generated

    def ask(self, query: str) -> list[str]:
        """The values of a query that prints nothing; UsageError with the server's message."""
        printed, generated = self.generate(query)
        if (place := printed.find(_ERROR)) >= 0:
            message, *_ = printed[place + len(_ERROR) :].splitlines()
            raise UsageError(message)
        return generated.statements

    def close(self) -> None:
        """End the session; the next use would connect again."""
        if self._connection is not None:
            self._connection.finish()
            self._connection = None

    # Statements -----------------------------------------------------------------------------------

    def _run_query(self, query: str, generated: Generated | None = None) -> None:
        """Run a query, and print its results, or add them to ``generated``."""
        self.error = None
        connection = self._connected()
        if connection is None:
            return
        try:
            connection.send_query(self._rewrite(query).encode())
            self._print_results(connection, time.monotonic() + self._patience, generated)
        except psycopg.OperationalError:
            # If sending or receiving fails there is no result, only the message of the connection.
            self._print_message(connection.error_message)
        except TimeoutError:
            database = connection.db.decode()
            self._cancel(connection)
            raise self._timeout(f'a statement in database "{database}"', query) from None
        finally:
            if connection.status != pq.ConnStatus.OK:
                self.close()

    def _connected(self) -> PGconn | None:
        if self._connection is None:
            parameters = {
                "connect_timeout": max(_LEAST_CONNECT_SECONDS, math.ceil(self._patience)),
                "fallback_application_name": "psql",
                **conninfo_to_dict(self._conninfo),
                "client_encoding": "UTF8",
            }
            connection = pq.PGconn.connect(make_conninfo("", **parameters).encode())
            if connection.status != pq.ConnStatus.OK:
                self._print_message(connection.error_message)
                connection.finish()
                return None
            connection.notice_handler = lambda notice: self._print_message(notice.error_message)
            self._connection = connection
        return self._connection

    def _cancel(self, connection: PGconn) -> None:
        """Cancel the query and ignore its results; close the connection if it does not end."""
        try:
            connection.get_cancel().cancel()
            self._print_results(connection, time.monotonic() + _CANCEL_SECONDS)
        except (psycopg.OperationalError, TimeoutError):
            self.close()

    def _timeout(self, what: str, text: str) -> StatementTimeout:
        return StatementTimeout(
            f"{what} did not end within {self._patience:g} s: {text.splitlines()[0]}",
            hint="Look for a lock that another session holds, or give it more time.",
        )

    # Results --------------------------------------------------------------------------------------

    def _print_results(self, connection: PGconn, deadline: float, generated: Generated | None = None) -> None:
        """Print the results of the query that was sent; TimeoutError at ``deadline``."""
        copied = False
        error = b""  # of several errors (a lost connection), the last contains all
        while (result := _next_result(connection, deadline)) is not None:
            match result.status:
                case pq.ExecStatus.COPY_OUT:
                    self._print_copy(connection, deadline)
                case pq.ExecStatus.COPY_IN:
                    connection.put_copy_end(NO_INPUT.encode())
                case pq.ExecStatus.TUPLES_OK if generated is not None:
                    generated.add(result)
                case pq.ExecStatus.TUPLES_OK:
                    self._print_rows(result)
                case pq.ExecStatus.COMMAND_OK if not copied:  # psql prints no tag below COPY data
                    self._print_tag(result)
                case pq.ExecStatus.FATAL_ERROR:
                    error = result.error_message
                    self.error = _server_error(result)
            copied = result.status == pq.ExecStatus.COPY_OUT
        if error:
            self._print_message(error)

    def _print_copy(self, connection: PGconn, deadline: float) -> None:
        while (received := connection.get_copy_data(1))[0] >= 0:
            length, data = received
            if length:
                self._printed.append(_text(bytes(data)))
            else:
                _receive(connection, deadline)

    def _print_rows(self, result: PGresult) -> None:
        columns = [PrintedColumn(_text(result.fname(index)), result.ftype(index)) for index in range(result.nfields)]
        rows = [
            [_value(result.get_value(row, index)) for index in range(result.nfields)] for row in range(result.ntuples)
        ]
        self._printed.append(aligned_table(columns, rows) + "\n")
        self._printed.append(_tag_below_rows(result))

    def _print_tag(self, result: PGresult) -> None:
        self._printed.append(_text(result.command_status) + "\n")

    def _print_message(self, message: bytes) -> None:
        self._printed.append(_text(message).rstrip("\n") + "\n")

    # Backslash commands ---------------------------------------------------------------------------

    def _run_program(self, command: str) -> None:
        check_backslash_command(command)
        if self.in_transaction:
            raise NotSupportedError(
                f"{command.split(maxsplit=1)[0]} in a transaction block is not supported in a scenario",
                detail="It would not see what the transaction has done.",
                hint="COMMIT first, or ask the catalogs.",
            )
        if self._program is None:
            raise UsageError(
                f"psql is needed for {command.split(maxsplit=1)[0]}",
                hint="Install postgresql-client, or ask the catalogs (pg_class, pg_publication_tables …).",
            )
        parameters = conninfo_to_dict(self._conninfo)
        environment = {**os.environ, "PGCLIENTENCODING": "UTF8", "PG_COLOR": "never", "LC_ALL": "C"}
        if (password := parameters.pop("password", None)) is not None:
            environment["PGPASSWORD"] = str(password)  # other users can read a command line
        conninfo = make_conninfo("", **parameters)
        arguments = [str(self._program()), "-X", "-P", "pager=off", "-d", conninfo, "-c", command]
        try:
            ended = subprocess.run(
                arguments,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=self._patience,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise self._timeout(f'psql in database "{parameters.get("dbname")}"', command) from None
        self._printed.append(_text(ended.stdout))


def _next_result(connection: PGconn, deadline: float) -> PGresult | None:
    """The next result of the query, None after the last; TimeoutError at ``deadline``."""
    while connection.is_busy():
        _receive(connection, deadline)
    return connection.get_result()


def _receive(connection: PGconn, deadline: float) -> None:
    """Wait until the server sends data, and read it; TimeoutError at ``deadline``."""
    poll = select.poll()
    poll.register(connection.socket, select.POLLIN)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise TimeoutError
    connection.consume_input()


def _server_error(result: PGresult) -> ServerError:
    fields = (pq.DiagnosticField.MESSAGE_PRIMARY, pq.DiagnosticField.MESSAGE_DETAIL, pq.DiagnosticField.SQLSTATE)
    message, detail, sqlstate = (_text(result.error_field(field)) for field in fields)
    return ServerError(message, detail, sqlstate)


def _tag_below_rows(result: PGresult) -> str:
    """The command tag of a command with RETURNING. Empty for other commands with rows."""
    tag = result.command_status or b""
    return _text(tag) + "\n" if tag.startswith(_COMMANDS_WITH_ROWS) else ""


def _text(printed: bytes | None) -> str:
    # The text is UTF-8, except for values of a database with the encoding SQL_ASCII.
    return (printed or b"").decode(errors="replace")


def _value(value: bytes | None) -> str | None:
    return None if value is None else _text(value)

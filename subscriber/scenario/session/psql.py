r"""A psql session: text that is typed → text that psql prints.

::

    text ── cut as psql cuts it ──▶ query ── simple protocol ──▶ notices, results or an error ──▶ as psql prints them
         ── a backslash command ──▶ the psql program itself, on a connection of its own

The statements run here and not in a psql process, because a session must know when a statement has
ended, end one that does not, and keep its connection while another session types. Values come as
text, so every type prints as the server writes it; messages come from libpq, so errors print as
psql prints them, ``LINE 1:`` and the caret included.
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

from subscriber.errors import NotSupportedError, StatementTimeout, UsageError
from subscriber.scenario.session.aligned import Column, aligned_table
from subscriber.scenario.session.psql_input import check_backslash_command, cut, is_backslash_command

NO_INPUT: Final = "a session has no input to copy from"
"""What COPY FROM STDIN is answered."""

_CANCEL_SECONDS: Final = 10.0
"""Patience with a server that was asked to cancel a statement; then the connection is given up."""
_LEAST_CONNECT_SECONDS: Final = 2
_ERROR: Final = "ERROR:  "
_COMMANDS_WITH_ROWS: Final = (b"INSERT", b"UPDATE", b"DELETE", b"MERGE")
"""Commands whose tag psql prints below the rows of their RETURNING."""


@dataclass
class Generated:
    r"""What a query with ``\gexec`` has given.

    Attributes:
        statements: its values row by row; a NULL is none.
        tag: printed after what they print, with its newline; empty for most queries.
    """

    statements: list[str] = field(default_factory=list)
    tag: str = ""

    def add(self, result: PGresult) -> None:
        """Take a result with rows."""
        values = (result.get_value(row, i) for row in range(result.ntuples) for i in range(result.nfields))
        self.statements += (_text(value) for value in values if value is not None)
        self.tag += _tag_below_rows(result)


@dataclass(frozen=True, slots=True)
class ServerError:
    """An error of the server's, by its parts.

    Attributes:
        message: the primary message.
        detail: DETAIL; empty where there is none.
        sqlstate: five characters; empty for a lost connection.
    """

    message: str
    detail: str
    sqlstate: str


class PsqlSession:
    """One psql session on a database, in autocommit as psql's are; it connects when it is first
    used.

    Args:
        conninfo: libpq's connection string of the database.
        program: finds the psql program for backslash commands (raising UsageError if it does not);
            None for none.
        patience: seconds that a statement may take.
        rewrite: what is sent for a statement, also for one that another has generated.

    Attributes:
        error: of the last query; None where it had none.
    """

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
        """Whether nothing but the end of the open transaction block would be carried out."""
        return self._connection is not None and self._connection.transaction_status == pq.TransactionStatus.INERROR

    def run(self, text: str) -> str:
        r"""What psql prints for ``text``, without newlines at the end.

        Every statement runs, also after one that failed. A connection that is lost, or cannot be
        made, prints libpq's message, and the next statement connects again; what a lost session had
        set is gone.

        Args:
            text: one or more statements, or one backslash command. That runs on a connection of its
                own, and knows nothing of this one's ``SET`` and temporary tables.

        Raises:
            StatementTimeout: a statement took longer than the session's patience. It was cancelled;
                the session goes on.
            SQLSyntaxError: ``text`` holds a string, quoted identifier or comment that does not end.
                Nothing has run.
            NotSupportedError: a backslash command that does more than describe, stands behind a
                statement, or in a transaction block.
            UsageError: a backslash command, and no psql program.
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
        """What psql prints for one query, which is sent as it is.

        Raises:
            StatementTimeout: as :meth:`run`.
        """
        self._printed = []
        self._run_query(query)
        return "".join(self._printed).rstrip("\n")

    def generate(self, query: str) -> tuple[str, Generated]:
        r"""What psql prints for a query before it comes to what ``\gexec`` runs, and what that is.

        Args:
            query: one query, without its ``\gexec``.

        Raises:
            StatementTimeout: as :meth:`run`.
        """
        self._printed = []
        generated = Generated()
        self._run_query(query, generated)
        return "".join(self._printed).rstrip("\n"), generated

    def ask(self, query: str) -> list[str]:
        """The values of a query that nobody has typed: nothing of it is printed.

        Raises:
            UsageError: it failed, in the server's words.
            StatementTimeout: as :meth:`run`.
        """
        printed, generated = self.generate(query)
        if (place := printed.find(_ERROR)) >= 0:
            message, *_ = printed[place + len(_ERROR) :].splitlines()
            raise UsageError(message)
        return generated.statements

    def close(self) -> None:
        """End the session; an open transaction is rolled back. It would connect again if it was
        used again.
        """
        if self._connection is not None:
            self._connection.finish()
            self._connection = None

    # Statements -----------------------------------------------------------------------------------

    def _run_query(self, query: str, generated: Generated | None = None) -> None:
        """Run it, and print its results, or gather them."""
        self.error = None
        connection = self._connected()
        if connection is None:
            return
        try:
            connection.send_query(self._rewrite(query).encode())
            self._print_results(connection, time.monotonic() + self._patience, generated)
        except psycopg.OperationalError:
            # What could not be sent or received at all has no result, only the connection's
            # message.
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
        """Cancel the running query and pass over what it still prints; give the connection up if it
        goes on.
        """
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

    # What comes back ------------------------------------------------------------------------------

    def _print_results(self, connection: PGconn, deadline: float, generated: Generated | None = None) -> None:
        """Print the results of what was sent; TimeoutError at the deadline."""
        copied = False
        error = b""  # of several, each holds those before it: how libpq reports that a connection was lost
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
                case pq.ExecStatus.COMMAND_OK if not copied:  # psql prints no tag where it has printed the data
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
        columns = [Column(_text(result.fname(index)), result.ftype(index)) for index in range(result.nfields)]
        rows = [
            [_value(result.get_value(row, index)) for index in range(result.nfields)] for row in range(result.ntuples)
        ]
        self._printed.append(aligned_table(columns, rows) + "\n")
        self._printed.append(_tag_below_rows(result))

    def _print_tag(self, result: PGresult) -> None:
        self._printed.append(_text(result.command_status) + "\n")

    def _print_message(self, message: bytes) -> None:
        """An error or notice as libpq has formatted it."""
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
            environment["PGPASSWORD"] = str(password)  # others can read a command line
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
    """The next result of what was sent, or None after the last; TimeoutError at the deadline."""
    while connection.is_busy():
        _receive(connection, deadline)
    return connection.get_result()


def _receive(connection: PGconn, deadline: float) -> None:
    """Wait until the server sends something, and take it; TimeoutError at the deadline."""
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
    """The tag of a command that has RETURNING; other commands with rows have none."""
    tag = result.command_status or b""
    return _text(tag) + "\n" if tag.startswith(_COMMANDS_WITH_ROWS) else ""


def _text(printed: bytes | None) -> str:
    # UTF-8 but for what a database of encoding SQL_ASCII holds.
    return (printed or b"").decode(errors="replace")


def _value(value: bytes | None) -> str | None:
    return None if value is None else _text(value)

"""Reading a table's rows from the publisher in steps of limited size.

::

    CopyRange ──read_range──▶ steps, a COPY each ──▶ blocks of whole rows, and the rest of the range

*Steps* limit memory where the average row size is misleading. The blocks of a step are held back
until the step is complete; one that grows too large is abandoned and read again in smaller steps. A
single row that is too large is returned as a range, for a reader that does not hold it back
(:meth:`CopyReader.read_whole`). A reader that has returned enough bytes returns the rest of its
range.
"""

from __future__ import annotations

import contextlib
import select
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NoReturn

import psycopg
from psycopg import pq

from subscriber.base.errors import PublisherError, PublisherUnavailable
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.postgres.sql.quoting import delimited_identifier
from subscriber.publisher.connection import STOP_SECONDS, Connection, next_result
from subscriber.publisher.copy_plan import CopyFormat, CopyQuery, CopyRange, Piece, rewritten
from subscriber.publisher.server_errors import UNREADABLE_TEXT, error_of, is_unreadable_text, server_error
from subscriber.publisher.snapshot import SnapshotSession, snapshot_session

BLOCK_BYTES: Final = 2 * 1024 * 1024
"""The approximate size of a block of COPY data."""

STEP_BYTES: Final = 8 * 1024 * 1024
"""The intended size of a step. A step is held back until it is complete."""

LARGEST_STEP_BYTES: Final = 4 * STEP_BYTES
"""A step that grows beyond this size is abandoned."""

_FIRST_STEP_BYTES: Final = 1024 * 1024
_GROWTH: Final = 4
_SHRINKING: Final = 16

_BINARY_HEADER: Final = 19
"""Size of the header in bytes: signature, flags and the length of the extension, which is 0."""
_BINARY_END: Final = b"\xff\xff"


@dataclass(frozen=True, slots=True)
class CopyBlock:
    """Some whole rows in a format of COPY."""

    data: bytes
    rows: int


@dataclass(frozen=True, slots=True)
class CopyReader:
    """Reads ranges of one table, each in a separate session. The repr leaves out the password."""

    conninfo: str
    application_name: str
    snapshot: str
    query: CopyQuery
    copy_format: CopyFormat

    def __repr__(self) -> str:
        return f"CopyReader({self.query.schema}.{self.query.table})"

    def read_range(
        self, part: CopyRange, most_bytes: int, session: SnapshotSession | None = None
    ) -> Iterator[CopyBlock | CopyRange]:
        """The blocks of a range. After ``most_bytes``, the last item is the rest of the range.
        Giant rows are among the items as ranges, for :meth:`read_whole`. PublisherUnavailable: the
        connection was lost, or the snapshot is gone. PublisherError: the server refused the COPY
        (rule D10), or the table was rewritten (``transient``).
        """
        position, given = part.first, 0
        step = max(1, int(_FIRST_STEP_BYTES / max(part.piece.page_bytes, 1.0) * part.piece.row_slots))
        while position < part.end:
            with self._session() if session is None else session.transaction() as connection:
                checked = False
                while position < part.end:
                    if given >= most_bytes:
                        yield replace(part, first=position)
                        return
                    end = min(position + step, part.end)
                    blocks, size = self._step(connection, replace(part, first=position, end=end))
                    if blocks is None:
                        if end - position == 1:
                            yield replace(part, first=position, end=end, giant=True)
                            position = end
                        step = max(1, (end - position) // _SHRINKING)
                        break  # ends the session, so that the server stops sending
                    if not checked:
                        self._check_files(connection, part.piece)
                        checked = True
                    yield from blocks
                    given += size
                    step = next_step(end - position, size)
                    position = end

    def read_whole(
        self, part: CopyRange, stop: threading.Event, session: SnapshotSession | None = None
    ) -> Generator[CopyBlock, None, None]:
        """Each block as soon as it is complete; as :meth:`read_range`, and 57014 after ``stop``."""
        with self._session() if session is None else session.transaction() as connection:
            with contextlib.closing(self._copy(connection, part, stop)) as blocks:
                yield from blocks
            self._check_files(connection, part.piece)

    def _session(self) -> contextlib.AbstractContextManager[Connection]:
        return snapshot_session(self.conninfo, self.application_name, self.snapshot)

    def _step(self, connection: Connection, part: CopyRange) -> tuple[list[CopyBlock] | None, int]:
        """The blocks of a step and their size; None for the blocks if they are too large."""
        blocks, size = [], 0
        with contextlib.closing(self._copy(connection, part, None)) as reading:
            for block in reading:
                blocks.append(block)
                size += len(block.data)
                if size > LARGEST_STEP_BYTES:
                    return None, size
        return blocks, size

    def _copy(
        self, connection: Connection, part: CopyRange, stop: threading.Event | None
    ) -> Generator[CopyBlock, None, None]:
        """One COPY command. A caller that does not take all blocks loses the connection."""
        try:
            yield from self._blocks(connection.pgconn, part, stop)
        except GeneratorExit:
            connection.close()
            raise

    def _blocks(self, pgconn: pq.abc.PGconn, part: CopyRange, stop: threading.Event | None) -> Iterator[CopyBlock]:
        result: pq.abc.PGresult | None = pgconn.exec_(self.query.command(part, self.copy_format).encode())
        if result is None or result.status != pq.ExecStatus.COPY_OUT:
            self._fail(result)
        size = last = 0
        header = _BINARY_HEADER if self.copy_format == "binary" else 0
        while size >= 0:
            data, rows = bytearray(), 0
            while len(data) < BLOCK_BYTES:
                size, row = pgconn.get_copy_data(1)
                if size > 0:  # the server sends each row in a separate message
                    # Copied at once: to keep thousands of libpq's buffers costs three times as
                    # much.
                    data += row
                    rows += 1
                    last = size
                elif size < 0:
                    break
                else:
                    _wait(pgconn, stop)
            if header and rows:  # the header comes with the first row, or with the end if there are no rows
                if rows == 1:
                    last -= header
                del data[:header]
                header = 0
            if self.copy_format == "binary" and last == len(_BINARY_END) and data.endswith(_BINARY_END):
                del data[-last:]
                rows -= 1
            if rows:
                yield CopyBlock(bytes(data), rows)
        result = next_result(pgconn)
        while next_result(pgconn) is not None:
            pass  # all results must be read, or the following rollback fails
        if result is None or result.status != pq.ExecStatus.COMMAND_OK:
            self._fail(result)

    def _check_files(self, connection: Connection, piece: Piece) -> None:
        """Refuse, while a COPY holds the lock, a table that was rewritten since the snapshot."""
        rows = connection.execute(
            "SELECT COALESCE(to_regclass(%s)::oid::int8, 0), array_agg(COALESCE(pg_relation_filenode(leaf), 0)::int8"
            " ORDER BY number) FROM unnest(%s::oid[]) WITH ORDINALITY AS noted(leaf, number)",
            (delimited_identifier(piece.schema, piece.name), [oid for oid, _ in piece.files]),
        ).fetchall()
        if rows != [(piece.oid, [file for _, file in piece.files])]:
            raise rewritten(f"{self.query.schema}.{self.query.table}")

    def _fail(self, result: pq.abc.PGresult | None) -> NoReturn:
        field = pq.DiagnosticField
        if result is None:
            raise _lost()
        sqlstate = _text(result.error_field(field.SQLSTATE)) or "08006"
        message = _text(result.error_field(field.MESSAGE_PRIMARY)) or "the connection was lost"
        hint = _text(result.error_field(field.MESSAGE_HINT)) or None
        if is_unreadable_text(sqlstate):
            message = UNREADABLE_TEXT
        elif sqlstate.startswith("22") and self.query.casts:
            names = ", ".join(name for name, _ in self.query.casts)
            message = f"a value is not one of the type that the target's column has (SQLSTATE {sqlstate})"
            hint = (
                f"Look at the columns {names}: correct the value at the publisher, or the type of the target's column."
            )
            if self.query.filters:
                hint = f"{hint} Or a row filter cannot be evaluated for some row."
        elif sqlstate.startswith("22"):
            # A row filter failed on a value, and the server's message may show that value.
            message = f"a row filter cannot be evaluated for some row (SQLSTATE {sqlstate})"
        qualified = f"{self.query.schema}.{self.query.table}"
        # A copy has no casts: this is a comparison.
        failed = "could not read" if self.query.casts else "could not start initial contents copy for"
        error = server_error(f'{failed} table "{qualified}": {message}', sqlstate, hint=hint)
        raise error.replace(relation=qualified)


def next_step(slots: int, size: int) -> int:
    wanted = slots * STEP_BYTES // size if size else slots * _GROWTH
    return max(1, min(wanted, slots * _GROWTH))


def _wait(pgconn: pq.abc.PGconn, stop: threading.Event | None) -> None:
    """Wait for more data of a COPY; 57014 if ``stop`` was set."""
    if stop is not None and stop.is_set():
        raise PublisherError("the initial copy was stopped", sqlstate="57014")
    select.select([pgconn.socket], [], [], STOP_SECONDS)
    pgconn.consume_input()


def _lost() -> PublisherError:
    return PublisherUnavailable(
        "the connection to the publisher was lost",
        hint="Give the command again; `subscriber run` tries again by itself.",
    )


def _text(message: bytes | None) -> str:
    return (message or b"").decode("utf-8", "replace").strip()


# Reading without a snapshot -----------------------------------------------------------------------

_CANCELED: Final = "57014"
_SCANNED_BYTES: Final = 4 * 1024 * 1024


@contextlib.contextmanager
def _copying(connection: Connection, query: str, relation: str) -> Iterator[psycopg.Copy]:
    """A COPY whose error, unless the connection is lost, has the relation."""
    try:
        with connection.cursor() as cursor, cursor.copy(query.encode()) as copy:
            yield copy
    except psycopg.Error as error:
        if connection.broken or error.sqlstate is None:
            raise
        raise error_of(error).replace(relation=relation) from error


def read_values(
    connection: Connection, table: PublishedTable, columns: Sequence[str], conditions: Sequence[str]
) -> Iterator[bytes]:
    """Columns of rows that meet a condition: whole lines of COPY, some megabytes at a time."""
    only = "" if table.kind == "partitioned table" else "ONLY "
    source = f"{only}{delimited_identifier(*table.key)} AS {delimited_identifier(table.name)}"
    where = f"({' OR '.join(conditions)})"
    if table.filters:
        where = f"({' OR '.join(table.filters)}) AND {where}"
    query = f"COPY (SELECT {', '.join(map(delimited_identifier, columns))} FROM {source} WHERE {where}) TO STDOUT"
    waiting = bytearray()
    with _copying(connection, query, table.qualified_name) as copy:
        for data in copy:
            waiting += data
            if len(waiting) >= _SCANNED_BYTES and waiting.endswith(b"\n"):
                yield bytes(waiting)
                waiting.clear()
    if waiting:
        yield bytes(waiting)


@dataclass(frozen=True, slots=True)
class ReadingSpeed:
    """How fast COPY has sent a table, and whether all of it."""

    text_bytes: int
    rows: int
    seconds: float
    is_whole: bool = False


def sample_reading(connection: Connection, schema: str, name: str, seconds: float = 1.0) -> ReadingSpeed:
    """Read a table with COPY until it ends or the time is over, and drop the rows."""
    text_bytes = rows = 0
    began = time.monotonic()
    taken: float | None = None
    query = f"COPY (SELECT * FROM {delimited_identifier(schema, name)}) TO STDOUT"
    try:
        with _copying(connection, query, f"{schema}.{name}") as copy:
            for block in copy:
                if taken is not None:
                    continue  # what the server has sent before it has noticed the cancel request
                text_bytes += len(block)
                rows += bytes(block).count(b"\n")
                if time.monotonic() - began >= seconds:
                    taken = time.monotonic() - began
                    # Leaving the block here would leave the connection with a command in progress.
                    connection.cancel_safe()
    except PublisherError as error:
        if taken is None or error.sqlstate != _CANCELED:
            raise
    return ReadingSpeed(text_bytes, rows, max(taken or time.monotonic() - began, 1e-6), is_whole=taken is None)

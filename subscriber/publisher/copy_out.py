r"""Reading a table's rows from the publisher in steps of limited size.

::

    CopyRange ──read_range──▶ steps, a COPY each ──▶ blocks of whole rows, and the rest of the range

*Steps* limit memory where the average row size is misleading. The blocks of a step are held back
until the step is complete. A step that grows too large is abandoned and read again in smaller
steps. A single row that is too large is returned as a separate range, for a reader that does not
hold it back (:meth:`CopyReader.read_whole`). A reader that has returned enough bytes ends, and
returns the rest of its range.
"""

from __future__ import annotations

import contextlib
import select
import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Final, NoReturn

from psycopg import pq

from subscriber.errors import PublisherError, PublisherUnavailable
from subscriber.publisher.connection import STOP_SECONDS
from subscriber.publisher.copy_plan import CopyFormat, CopyQuery, CopyRange, Piece, quoted, rewritten
from subscriber.publisher.server_errors import UNREADABLE_TEXT, is_unreadable_text, server_error
from subscriber.publisher.snapshot import snapshot_session
from subscriber.publisher.sql_connection import Connection, next_result

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
    """Reads ranges of one table, each in a separate session.

    Attributes:
        conninfo: the publisher's connection string, which the repr leaves out because of its
            password.
        application_name: the application name of the sessions.
        snapshot: the snapshot's name.
        query: the table, columns and filters to read.
        copy_format: the format of the blocks.
    """

    conninfo: str
    application_name: str
    snapshot: str
    query: CopyQuery
    copy_format: CopyFormat

    def __repr__(self) -> str:
        return f"CopyReader({self.query.schema}.{self.query.table})"

    def read_range(self, part: CopyRange, most_bytes: int) -> Iterator[CopyBlock | CopyRange]:
        """The blocks of a range. After ``most_bytes``, the last item is the rest of the range.

        Giant rows are among the items as ranges, which are to be read with :meth:`read_whole`.

        Raises:
            PublisherUnavailable: the connection was lost, or the snapshot is gone.
            PublisherError: the server refused the COPY (rule D10), or the table was rewritten
                (``transient``).
        """
        position, given = part.first, 0
        step = max(1, int(_FIRST_STEP_BYTES / max(part.piece.page_bytes, 1.0) * part.piece.row_slots))
        while position < part.end:
            with self._session() as connection:
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

    def read_whole(self, part: CopyRange, stop: threading.Event) -> Generator[CopyBlock, None, None]:
        """The blocks of a range, each as soon as it is complete.

        Raises:
            PublisherError: as :meth:`read_range`; 57014 when ``stop`` was set.
        """
        with self._session() as connection:
            with contextlib.closing(self._copy(connection, part, stop)) as blocks:
                yield from blocks
            self._check_files(connection, part.piece)

    def _session(self) -> contextlib.AbstractContextManager[Connection]:
        return snapshot_session(self.conninfo, self.application_name, self.snapshot)

    def _step(self, connection: Connection, part: CopyRange) -> tuple[list[CopyBlock] | None, int]:
        """The blocks of a step and their size; None in place of the blocks if the step is too large
        to hold back.
        """
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
        """One COPY command, in blocks. A caller that does not take all blocks loses the
        connection.
        """
        try:
            yield from self._blocks(connection.pgconn, part, stop)
        except GeneratorExit:
            connection.close()
            raise

    def _blocks(self, pgconn: pq.abc.PGconn, part: CopyRange, stop: threading.Event | None) -> Iterator[CopyBlock]:
        result: pq.abc.PGresult | None = pgconn.exec_(self.query.command(part, self.copy_format).encode())
        if result is None or result.status != pq.ExecStatus.COPY_OUT:
            self._fail(result)
        size = 0
        header = _BINARY_HEADER if self.copy_format == "binary" else 0
        while size >= 0:
            rows: list[bytes] = []
            block_size = 0
            while block_size < BLOCK_BYTES:
                size, data = pgconn.get_copy_data(1)
                if size > 0:  # the server sends each row in a separate message
                    # Copied at once: to keep thousands of libpq's buffers costs three times as
                    # much.
                    rows.append(bytes(data))
                    block_size += size
                elif size < 0:
                    break
                else:
                    _wait(pgconn, stop)
            if header and rows:  # the header comes with the first row, or with the end if there are no rows
                rows[0], header = rows[0][header:], 0
            if self.copy_format == "binary" and rows and rows[-1] == _BINARY_END:
                rows.pop()
            if rows:
                yield CopyBlock(b"".join(rows), len(rows))
        result = next_result(pgconn)
        while next_result(pgconn) is not None:
            pass  # all results must be read, or the following rollback fails
        if result is None or result.status != pq.ExecStatus.COMMAND_OK:
            self._fail(result)

    def _check_files(self, connection: Connection, piece: Piece) -> None:
        """Refuse a table whose files are not those from before the snapshot. Call it while a COPY
        holds the lock on the table.
        """
        rows = connection.execute(
            "SELECT COALESCE(to_regclass(%s)::oid::int8, 0), array_agg(COALESCE(pg_relation_filenode(leaf), 0)::int8"
            " ORDER BY number) FROM unnest(%s::oid[]) WITH ORDINALITY AS noted(leaf, number)",
            (quoted(piece.schema, piece.name), [oid for oid, _ in piece.files]),
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
    """The number of positions in the next step, after a step of ``slots`` positions that had
    ``size`` bytes.
    """
    wanted = slots * STEP_BYTES // size if size else slots * _GROWTH
    return max(1, min(wanted, slots * _GROWTH))


def _wait(pgconn: pq.abc.PGconn, stop: threading.Event | None) -> None:
    """Wait for more data of a COPY.

    Raises:
        PublisherError: 57014, ``stop`` was set.
    """
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

r"""Reading a table's rows from the publisher: how much of it at once.

::

    CopyRange ──read_range──▶ steps, a COPY each ──▶ blocks of whole rows, and the rest of the range

*Steps* bound memory where the average says nothing: a step is held back until it is complete, and
one that grows too large is given up and taken again in smaller ones. A row that is too large by
itself is handed back as a range of its own, for whoever does not hold it back. A reader that has
given enough ends, and hands back the rest of its range.
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
from subscriber.publisher.connection import STOP_SECONDS, UNREADABLE_TEXT, is_unreadable_text, server_error
from subscriber.publisher.copy_plan import CopyFormat, CopyQuery, CopyRange, Piece, quoted, rewritten
from subscriber.publisher.snapshot import snapshot_session
from subscriber.publisher.sql_connection import Connection

BLOCK_BYTES: Final = 2 * 1024 * 1024
"""About this much COPY text is a block."""

STEP_BYTES: Final = 8 * 1024 * 1024
"""What a step aims at. It is held back until it is complete."""

LARGEST_STEP_BYTES: Final = 4 * STEP_BYTES
"""A step that grows beyond this is given up."""

_FIRST_STEP_BYTES: Final = 1024 * 1024
_GROWTH: Final = 4
_SHRINKING: Final = 16

_BINARY_HEADER: Final = 19
"""Signature, flags and the length of no extension."""
_BINARY_END: Final = b"\xff\xff"


@dataclass(frozen=True, slots=True)
class CopyBlock:
    """Some rows in COPY's format, each one whole."""

    data: bytes
    rows: int


@dataclass(frozen=True, slots=True)
class CopyReader:
    """Reads ranges of one table, each in a session of its own.

    Attributes:
        conninfo: the publisher; a password in it is in no repr.
        application_name: the session's.
        snapshot: the snapshot's name.
        query: what to ask.
        copy_format: of the blocks.
    """

    conninfo: str
    application_name: str
    snapshot: str
    query: CopyQuery
    copy_format: CopyFormat

    def __repr__(self) -> str:
        return f"CopyReader({self.query.schema}.{self.query.table})"

    def read_range(self, part: CopyRange, most_bytes: int) -> Iterator[CopyBlock | CopyRange]:
        """The blocks of a range; when they have come to ``most_bytes``, at last the rest of the
        range.

        Among them are the giant rows, as ranges: these are for :meth:`read_whole`.

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
                        break  # what the server still has to send is left to it, with its session
                    if not checked:
                        self._check_files(connection, part.piece)
                        checked = True
                    yield from blocks
                    given += size
                    step = next_step(end - position, size)
                    position = end

    def read_whole(self, part: CopyRange, stop: threading.Event) -> Generator[CopyBlock, None, None]:
        """The blocks of a range, as they come.

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
        """The blocks of a step and their size; None where it is too large to be held."""
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
        """One COPY, in blocks; whoever does not take them all loses the connection."""
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
                if size > 0:  # the server sends each row in a message of its own
                    # Copied at once: thousands of libpq's buffers at a time cost three times as
                    # much.
                    rows.append(bytes(data))
                    block_size += size
                elif size < 0:
                    break
                else:
                    _wait(pgconn, stop)
            if header and rows:  # it comes with the first row, or with the end where there is none
                rows[0], header = rows[0][header:], 0
            if self.copy_format == "binary" and rows and rows[-1] == _BINARY_END:
                rows.pop()
            if rows:
                yield CopyBlock(b"".join(rows), len(rows))
        result = pgconn.get_result()
        while pgconn.get_result() is not None:
            pass  # nothing must be left, or the rollback to come fails
        if result is None or result.status != pq.ExecStatus.COMMAND_OK:
            self._fail(result)

    def _check_files(self, connection: Connection, piece: Piece) -> None:
        """Refuse what has other files than before the snapshot; to be asked when a COPY holds the
        lock on it.
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
        elif sqlstate.startswith("22"):
            # A row filter met a value that it cannot take, and the message may show it.
            message = f"a row filter cannot be evaluated for some row (SQLSTATE {sqlstate})"
        qualified = f"{self.query.schema}.{self.query.table}"
        error = server_error(
            f'could not start initial contents copy for table "{qualified}": {message}', sqlstate, hint=hint
        )
        raise error.replace(relation=qualified)


def next_step(slots: int, size: int) -> int:
    """How many positions the next step takes, after one of ``slots`` has given ``size`` bytes."""
    wanted = slots * STEP_BYTES // size if size else slots * _GROWTH
    return max(1, min(wanted, slots * _GROWTH))


def _wait(pgconn: pq.abc.PGconn, stop: threading.Event | None) -> None:
    """Wait for more of a COPY.

    Raises:
        PublisherError: 57014, ``stop`` was set.
    """
    if stop is not None and stop.is_set():
        raise PublisherError("the initial copy was stopped", sqlstate="57014")
    select.select([pgconn.socket], [], [], STOP_SECONDS)
    pgconn.consume_input()


def _lost() -> PublisherError:
    return PublisherUnavailable(
        "the connection to the publisher was lost", hint="It is tried again while `subscriber run` runs."
    )


def _text(message: bytes | None) -> str:
    return (message or b"").decode("utf-8", "replace").strip()

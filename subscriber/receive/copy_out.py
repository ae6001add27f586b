r"""Reading a table's rows from the publisher: what to ask for, in which pieces, and how much of it at once (rules D7-D10).

::

    table ──plan_copy──▶ ranges of ctid ──read_range──▶ steps, a COPY each ──▶ blocks of whole rows, and the rest

*What is copied* is what PostgreSQL's table synchronization copies: the published columns, the rows that any of the publications'
filters lets through; a partitioned table through its own filters and columns, whichever partition a row is in.

*Ranges* are cut by the bytes that a page stands for, out-of-line values included. A position within a table is a number,
``page * row_slots + line pointer``, so that a range can also be part of a page: two hundred rows of a page may be two hundred
megabytes.

*Steps* bound memory where the average says nothing: a step is held back until it is complete, and one that grows too large is
given up and taken again in smaller ones. A reader that has given enough ends, and hands back the rest of its range.

*The snapshot is old, the tables are not.* TRUNCATE and everything that writes a table anew (VACUUM FULL, CLUSTER, some of ALTER
TABLE) make it look empty to a snapshot from before, or move its rows to other pages. So a table's files are noted before the
snapshot is made (:func:`table_files`), and looked at again when the first COPY has taken its lock. *Rejected:* holding a lock
for the whole copy, as pg_dump does. Whoever waits for a stronger one then stands in the way of our own next COPY, which
waits for him as he waits for us.
"""

from __future__ import annotations

import contextlib
import select
import threading
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, Literal, NoReturn

import psycopg
from psycopg import pq, sql

from subscriber.errors import PublisherError, PublisherNotReady, PublisherUnavailable
from subscriber.protocol.messages import IDENTITY_FLAG, Relation, RelationColumn
from subscriber.receive.connection import STOP_SECONDS, server_error
from subscriber.receive.snapshot import snapshot_session

Connection = psycopg.Connection[tuple[Any, ...]]
CopyFormat = Literal["text", "csv", "binary"]
"""``csv`` has :data:`CSV_DELIMITER` and :data:`CSV_QUOTE`, which values hardly ever hold; ``binary`` is rows only, without header."""

TableFiles = tuple[tuple[int, int], ...]
"""The oid and file node of each table that holds rows; the file node is 0 where there is no file."""

CSV_DELIMITER: Final = "\x02"
CSV_QUOTE: Final = "\x01"

BLOCK_BYTES: Final = 2 * 1024 * 1024
"""About this much COPY text is a block."""

STEP_BYTES: Final = 8 * 1024 * 1024
"""What a step aims at. It is held back until it is complete."""

LARGEST_STEP_BYTES: Final = 4 * STEP_BYTES
"""A step of more than one row that grows beyond this is given up."""

_FIRST_STEP_BYTES: Final = 1024 * 1024
_GROWTH: Final = 4
_SHRINKING: Final = 16

_FILTERS_SINCE: Final = 150000
_GENERATED_SINCE: Final = 120000
_GENERATED_PUBLISHED_SINCE: Final = 180000
_DETACHING_SINCE: Final = 140000
_ACCESS_METHODS_SINCE: Final = 120000
_TID_RANGE_SINCE: Final = 140000

_BINARY_HEADER: Final = 19
"""Signature, flags and the length of no extension."""
_BINARY_END: Final = b"\xff\xff"

_PAGE_HEADER: Final = 24
_SMALLEST_ROW: Final = 28
"""Of a heap page: header and line pointer."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A table of the publisher that is read by itself: the table, or a partition.

    Attributes:
        schema: its schema.
        name: its name.
        oid: its oid.
        files: what must still be so when it is read.
        row_slots: line pointers that a page may have; 0 where it cannot be read in ranges.
        page_bytes: what a page stands for on average, out-of-line values included.
        only: tables that inherit from it are none of it.
    """

    schema: str
    name: str
    oid: int
    files: TableFiles
    row_slots: int
    page_bytes: float
    only: bool = True


@dataclass(frozen=True, slots=True)
class CopyRange:
    """The rows of ``piece`` at the positions ``first`` to ``end``, the end excluded; all of them where it has no ``row_slots``."""

    piece: Piece
    first: int
    end: int

    @property
    def estimated_bytes(self) -> int:
        """What it stands for on the publisher's disk."""
        slots = self.piece.row_slots
        return int((self.end - self.first) / slots * self.piece.page_bytes) if slots else int(self.piece.page_bytes)


@dataclass(frozen=True, slots=True)
class CopyQuery:
    """What to ask of every piece of a table.

    Attributes:
        schema: the published table's.
        table: the published table's name, which filters may use.
        columns: the published columns in order.
        filters: a row is copied that passes one of them; empty for all rows.
        tid_ranges: the server can scan a range of ctids.
    """

    schema: str
    table: str
    columns: tuple[str, ...]
    filters: tuple[str, ...]
    tid_ranges: bool

    def command(self, part: CopyRange, copy_format: CopyFormat) -> str:
        """The COPY command for a range."""
        piece = part.piece
        columns = ", ".join(map(_quoted, self.columns))
        source = f"{'ONLY ' if piece.only else ''}{_quoted(piece.schema, piece.name)} AS {_quoted(self.table)}"
        conditions = [f"({' OR '.join(self.filters)})"] if self.filters else []
        if piece.row_slots:
            conditions.append(self._positions(part))
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"COPY (SELECT {columns} FROM {source}{where}) TO STDOUT{_OPTIONS[copy_format]}"

    def _positions(self, part: CopyRange) -> str:
        slots = part.piece.row_slots
        if self.tid_ranges:
            first, end = (f"'({at // slots},{at % slots + 1})'::tid" for at in (part.first, part.end))
            return f"ctid >= {first} AND ctid < {end}"
        # Older servers would read the whole table for a range, and go straight to rows that are named.
        return (
            f"ctid = ANY (ARRAY(SELECT ('(' || at / {slots} || ',' || at % {slots} + 1 || ')')::tid"
            f" FROM generate_series({part.first}::int8, {part.end - 1}) at))"
        )


_OPTIONS: Final[dict[CopyFormat, str]] = {
    "text": "",
    "csv": f" (FORMAT csv, DELIMITER E'\\x{ord(CSV_DELIMITER):02x}', QUOTE E'\\x{ord(CSV_QUOTE):02x}')",
    "binary": " (FORMAT binary)",
}


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """How a table is copied.

    Attributes:
        relation: the published columns with their types, as the stream would announce them.
        query: what to ask.
        ranges: the pieces of about ``partition_bytes`` that it is read in.
        estimated_rows: by the publisher's statistics, of the table without filters.
        estimated_bytes: on the publisher's disk, out-of-line values included.
    """

    relation: Relation
    query: CopyQuery
    ranges: tuple[CopyRange, ...]
    estimated_rows: int
    estimated_bytes: int


@dataclass(frozen=True, slots=True)
class CopyBlock:
    """Some rows in COPY's format, each one whole."""

    data: bytes
    rows: int


# What to copy ---------------------------------------------------------------------------------------


def table_files(connection: Connection, tables: Sequence[tuple[str, str]]) -> dict[tuple[str, str], TableFiles]:
    """The files of tables given as (schema, name), to be noted before the snapshot is made; unknown tables are left out.

    Raises:
        psycopg.Error: what the server said.
    """
    rows = connection.execute(
        "WITH RECURSIVE tree(schema, name, leaf) AS (SELECT n.nspname::text, c.relname::text, c.oid FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = c.relnamespace"
        " JOIN unnest(%s::text[], %s::text[]) AS wanted(schema, name)"
        " ON wanted.schema = n.nspname AND wanted.name = c.relname WHERE c.relkind IN ('r', 'p')"
        " UNION ALL SELECT schema, name, i.inhrelid FROM tree JOIN pg_inherits i ON i.inhparent = leaf"
        " JOIN pg_class up ON up.oid = leaf AND up.relkind = 'p')"
        " SELECT schema, name, leaf::int8, COALESCE(pg_relation_filenode(leaf), 0)::int8 FROM tree"
        " JOIN pg_class c ON c.oid = leaf WHERE c.relkind <> 'p' ORDER BY leaf",
        ([schema for schema, _ in tables], [name for _, name in tables]),
    )
    files: dict[tuple[str, str], TableFiles] = {}
    for schema, name, oid, file in rows:
        files[schema, name] = (*files.get((schema, name), ()), (oid, file))
    return files


def plan_copy(
    connection: Connection,
    publications: Sequence[str],
    schema: str,
    table: str,
    partition_bytes: int,
    files: TableFiles,
) -> CopyPlan:
    """How to copy a published table.

    Args:
        connection: a session that sees the snapshot (:func:`~subscriber.receive.snapshot.snapshot_session`).
        publications: all that the subscription names.
        schema: the table's.
        table: its name.
        partition_bytes: about this much of the table is a range.
        files: what :func:`table_files` said of it before the snapshot was made.

    Raises:
        PublisherNotReady: there is no such table (rule D10), or its publications disagree on the columns.
        PublisherError: the table was written anew since the snapshot; another snapshot will do (``transient``).
        psycopg.Error: what the server said.
    """
    row = connection.execute(
        "SELECT c.oid::int8, c.relreplident::text, c.relkind = 'p' FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s",
        (schema, table),
    ).fetchone()
    if row is None:
        raise PublisherNotReady(
            f'table "{schema}.{table}" not found on publisher',
            sqlstate="42704",
            hint="If it was dropped or renamed, ALTER SUBSCRIPTION … REFRESH PUBLICATION.",
            relation=f"{schema}.{table}",
        )
    oid, identity, partitioned = row
    pieces = _pieces(connection, schema, table, oid, dict(files), partitioned=partitioned)
    columns = _published_columns(connection, publications, f"{schema}.{table}", oid)
    query = CopyQuery(
        schema,
        table,
        tuple(column.name for column in columns),
        _filters(connection, publications, oid),
        connection.info.server_version >= _TID_RANGE_SINCE,
    )
    return CopyPlan(
        Relation(oid, schema, table, identity, columns),
        query,
        tuple(part for piece, pages, _ in pieces for part in cut_ranges(piece, pages, partition_bytes)),
        int(sum(rows for _, _, rows in pieces)),
        int(sum(pages * piece.page_bytes for piece, pages, _ in pieces)),
    )


def _published_columns(
    connection: Connection, publications: Sequence[str], qualified: str, oid: int
) -> tuple[RelationColumn, ...]:
    """Those of the one column list that the publications agree on, else all that are not generated (rule D7)."""
    version = connection.info.server_version
    lists: list[list[int] | None] = []
    if version >= _FILTERS_SINCE:
        rows = connection.execute(
            "SELECT DISTINCT CASE WHEN array_length(gpt.attrs, 1) = c.relnatts THEN NULL ELSE gpt.attrs::int2[] END"
            " FROM pg_publication p, LATERAL pg_get_publication_tables(p.pubname) gpt, pg_class c"
            " WHERE gpt.relid = %s AND c.oid = gpt.relid AND p.pubname = ANY (%s)",
            (oid, list(publications)),
        )
        lists = [row[0] for row in rows]
    if len(lists) > 1:
        raise PublisherNotReady(
            f'cannot use different column lists for table "{qualified}" in different publications',
            sqlstate="0A000",
            hint="Give the table one column list in all publications of the subscription.",
            relation=qualified,
        )
    # From 18 on, generated columns may be published; then the list says so.
    stored_only = version >= _GENERATED_SINCE and not (lists and version >= _GENERATED_PUBLISHED_SINCE)
    described = connection.execute(
        "SELECT a.attnum, a.attname::text, a.atttypid::int8, a.atttypmod, COALESCE(a.attnum = ANY (i.indkey), false)"
        " FROM pg_attribute a LEFT JOIN pg_index i ON i.indexrelid = pg_get_replica_identity_index(%s)"
        " WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped"
        + (" AND a.attgenerated = ''" if stored_only else "")
        + " ORDER BY a.attnum",
        (oid, oid),
    )
    chosen = lists[0] if lists else None
    return tuple(
        RelationColumn(IDENTITY_FLAG if is_key else 0, name, type_oid, type_modifier)
        for number, name, type_oid, type_modifier, is_key in described
        if chosen is None or number in chosen
    )


def _filters(connection: Connection, publications: Sequence[str], oid: int) -> tuple[str, ...]:
    """The filters of all publications that hold the table; none where one has none (rule D8)."""
    if connection.info.server_version < _FILTERS_SINCE:
        return ()
    rows = connection.execute(
        "SELECT DISTINCT pg_get_expr(gpt.qual, gpt.relid) FROM pg_publication p,"
        " LATERAL pg_get_publication_tables(p.pubname) gpt WHERE gpt.relid = %s AND p.pubname = ANY (%s) ORDER BY 1",
        (oid, list(publications)),
    )
    filters = [row[0] for row in rows]
    return () if None in filters else tuple(filters)


def _pieces(
    connection: Connection, schema: str, table: str, oid: int, files: dict[int, int], *, partitioned: bool
) -> list[tuple[Piece, int, float]]:
    """What is read by itself, with its pages and estimated rows: the table; of a partitioned one, its partitions."""
    version = connection.info.server_version
    detaching = " AND NOT i.inhdetachpending" if version >= _DETACHING_SINCE else ""
    heap = (
        "(SELECT amname = 'heap' FROM pg_am am WHERE am.oid = c.relam)" if version >= _ACCESS_METHODS_SINCE else "true"
    )
    rows = connection.execute(
        f"WITH RECURSIVE tree AS (SELECT %s::oid AS leaf UNION ALL SELECT i.inhrelid FROM tree"
        f" JOIN pg_inherits i ON i.inhparent = leaf{detaching} JOIN pg_class up ON up.oid = leaf AND up.relkind = 'p')"
        " SELECT c.oid::int8, n.nspname::text, c.relname::text, c.relkind = 'r' AND "
        f"{heap}, COALESCE(pg_relation_filenode(c.oid), 0)::int8, COALESCE(pg_relation_size(c.oid), 0),"
        " COALESCE(pg_table_size(c.oid), 0), c.reltuples / GREATEST(c.relpages, 1), current_setting('block_size')::int,"
        " has_table_privilege(c.oid, 'SELECT') AND NOT row_security_active(c.oid)"
        " FROM tree JOIN pg_class c ON c.oid = leaf JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.relkind <> 'p' ORDER BY c.oid".encode(),
        (oid,),
    ).fetchall()
    if any(files.get(leaf[0]) != leaf[4] for leaf in rows):
        raise _rewritten(f"{schema}.{table}")
    if partitioned and not all(leaf[9] for leaf in rows):
        # Partitions answer for themselves when they are named; what is allowed is decided by the table that is published.
        all_files = tuple((leaf[0], leaf[4]) for leaf in rows)
        piece = Piece(schema, table, oid, all_files, 0, float(sum(leaf[6] for leaf in rows)), only=False)
        return [(piece, 1, sum(_estimated_rows(leaf[7], leaf[5], leaf[8]) for leaf in rows))]
    pieces = []
    for leaf, namespace, name, is_heap, file, main_bytes, all_bytes, rows_a_page, block_size, _ in rows:
        pages = max(1, main_bytes // block_size) if is_heap else 1
        slots = (block_size - _PAGE_HEADER) // _SMALLEST_ROW if is_heap and main_bytes else 0
        piece = Piece(namespace, name, leaf, ((leaf, file),), slots, all_bytes / pages)
        pieces.append((piece, pages, _estimated_rows(rows_a_page, main_bytes, block_size)))
    return pieces


def _estimated_rows(rows_a_page: float, main_bytes: int, block_size: int) -> float:
    """As the planner estimates: the last ANALYZE's density for today's pages; 0 where there was none."""
    return max(rows_a_page, 0.0) * max(1, main_bytes // block_size)


def cut_ranges(piece: Piece, pages: int, partition_bytes: int) -> Iterator[CopyRange]:
    """Ranges of about ``partition_bytes`` that cover every page.

    Rows that the snapshot sees are in pages that were there when it was made, so what the table grows by is of no concern.
    """
    if not piece.row_slots:
        yield CopyRange(piece, 0, 0)
        return
    last = pages * piece.row_slots
    count = max(1, min(round(pages * piece.page_bytes / partition_bytes), last))
    cuts = [last * number // count for number in range(count + 1)]
    yield from (CopyRange(piece, first, end) for first, end in pairwise(cuts))


# Reading --------------------------------------------------------------------------------------------


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
        """The blocks of a range; when they have come to ``most_bytes``, at last the rest of the range.

        Raises:
            PublisherUnavailable: the connection was lost, or the snapshot is gone.
            PublisherError: the server refused the COPY (rule D10), or the table was written anew (``transient``).
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
                if size > LARGEST_STEP_BYTES and part.end - part.first > 1:
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
                    # Copied at once: thousands of libpq's buffers at a time cost three times as much.
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
        if result is None or result.status != pq.ExecStatus.COMMAND_OK:
            self._fail(result)
        while pgconn.get_result() is not None:
            pass

    def _check_files(self, connection: Connection, piece: Piece) -> None:
        """Refuse what has other files than before the snapshot; to be asked when a COPY holds the lock on it."""
        rows = connection.execute(
            "SELECT COALESCE(to_regclass(%s)::oid::int8, 0), array_agg(COALESCE(pg_relation_filenode(leaf), 0)::int8"
            " ORDER BY number) FROM unnest(%s::oid[]) WITH ORDINALITY AS noted(leaf, number)",
            (_quoted(piece.schema, piece.name), [oid for oid, _ in piece.files]),
        ).fetchall()
        if rows != [(piece.oid, [file for _, file in piece.files])]:
            raise _rewritten(f"{self.query.schema}.{self.query.table}")

    def _fail(self, result: pq.abc.PGresult | None) -> NoReturn:
        field = pq.DiagnosticField
        if result is None:
            raise _lost()
        sqlstate = _text(result.error_field(field.SQLSTATE)) or "08006"
        message = _text(result.error_field(field.MESSAGE_PRIMARY)) or "the connection was lost"
        hint = _text(result.error_field(field.MESSAGE_HINT)) or None
        if sqlstate.startswith("22"):
            # A row filter met a value that it cannot take, and the message may show it.
            message = f"a row filter cannot be evaluated for some row (SQLSTATE {sqlstate})"
        qualified = f"{self.query.schema}.{self.query.table}"
        error = server_error(
            f'could not start initial contents copy for table "{qualified}": {message}', sqlstate, hint=hint
        )
        error.relation = qualified
        raise error


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


def _rewritten(qualified: str) -> PublisherError:
    error = PublisherError(
        f'table "{qualified}" was rewritten on the publisher since the snapshot of the initial copy',
        sqlstate="40001",
        detail="TRUNCATE, VACUUM FULL, CLUSTER and some forms of ALTER TABLE give a table new files.",
        hint="The copy starts again with a new snapshot.",
        relation=qualified,
    )
    error.transient = True
    return error


def _quoted(*names: str) -> str:
    return sql.Identifier(*names).as_string(None)


def _text(message: bytes | None) -> str:
    return (message or b"").decode("utf-8", "replace").strip()

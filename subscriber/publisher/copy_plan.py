r"""Which rows and columns of a table are copied, and in which pieces (rules D7-D10).

::

    table ──plan_copy──▶ CopyQuery, and ranges of ctid ──▶ subscriber.publisher.copy_out reads them

*The content of the copy* is what PostgreSQL's table synchronization copies: the published columns,
and the rows that the filter of at least one publication accepts. A partitioned table is copied with
its own filters and columns, for the rows of all partitions. The publications give columns and
filters (:class:`~subscriber.schema.published_table.Publications`). The server evaluates the
filters, also those of emulated publications.

*Ranges* are cut by the average bytes of a page, including out-of-line values. A position within a
table is a number, ``page * row_slots + line pointer``, so that a range can also be a part of a
page: two hundred rows of one page may have two hundred megabytes.

*The snapshot is older than the tables' files.* TRUNCATE and every command that rewrites a table
(VACUUM FULL, CLUSTER, some forms of ALTER TABLE) make the table look empty to an older snapshot, or
move its rows to other pages. A table's files are therefore recorded before the snapshot is made
(:func:`table_files`), and compared when the first COPY has its lock. *Rejected:* holding a lock for
the whole copy, as pg_dump does. Another session that requests a stronger lock would wait for that
lock, and the next COPY of the same copy would wait behind this request: a deadlock. The server
cannot detect it, since the session that holds the lock waits for nothing at the server.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Literal

from psycopg import sql

from subscriber.errors import PublisherError, PublisherNotReady
from subscriber.protocol.messages import IDENTITY_FLAG, Relation, RelationColumn
from subscriber.publisher.privileges import read_refused, unreadable_tables
from subscriber.publisher.sql_connection import Connection, features_of
from subscriber.schema.published_table import Publications

CopyFormat = Literal["text", "csv", "binary"]
"""``csv`` uses :data:`CSV_DELIMITER` and :data:`CSV_QUOTE`, which values hardly ever contain;
``binary`` has the rows only, without a header.
"""

TableFiles = tuple[tuple[int, int], ...]
"""The oid and the file node of each table that has rows; the file node is 0 where there is no
file.
"""

CSV_DELIMITER: Final = "\x02"
CSV_QUOTE: Final = "\x01"


_PAGE_HEADER: Final = 24
_SMALLEST_ROW: Final = 28
"""The bytes that the smallest row takes in a heap page: header and line pointer."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A table of the publisher that is read separately: a published table, or a partition of it.

    Attributes:
        schema: its schema.
        name: its name.
        oid: its oid.
        files: the files that the table must still have when it is read.
        row_slots: the number of line pointers that a page may have; 0 where the table cannot be
            read in ranges.
        page_bytes: the average bytes of data for each page, including out-of-line values.
        only: whether tables that inherit from it are left out.
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
    """The rows of ``piece`` from position ``first`` up to, but excluding, ``end``; all rows if it
    has no ``row_slots``.

    ``giant``: the range is a single row that is larger than a reader may hold back.
    """

    piece: Piece
    first: int
    end: int
    giant: bool = False

    @property
    def estimated_bytes(self) -> int:
        """The estimated bytes of the range on the publisher's disk."""
        slots = self.piece.row_slots
        return int((self.end - self.first) / slots * self.piece.page_bytes) if slots else int(self.piece.page_bytes)


@dataclass(frozen=True, slots=True)
class CopyQuery:
    """The columns and rows to read from every piece of a table.

    Attributes:
        schema: the published table's schema.
        table: the published table's name, which filters may use.
        columns: the published columns in order.
        filters: the row filters; a row is copied if it passes at least one of them. Empty: all
            rows.
        tid_ranges: whether the server can scan a range of ctids.
        casts: pairs of a column and the built-in type as which the server reads the column's text,
            for a comparison with a column of this type; a copy has none.
    """

    schema: str
    table: str
    columns: tuple[str, ...]
    filters: tuple[str, ...]
    tid_ranges: bool
    casts: tuple[tuple[str, str], ...] = ()

    def command(self, part: CopyRange, copy_format: CopyFormat) -> str:
        """The COPY command for a range."""
        piece = part.piece
        casts = dict(self.casts)
        columns = ", ".join(
            f"CAST({quoted(name)}::text AS {casts[name]})" if name in casts else quoted(name) for name in self.columns
        )
        source = f"{'ONLY ' if piece.only else ''}{quoted(piece.schema, piece.name)} AS {quoted(self.table)}"
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
        # Older servers would read the whole table for a range of ctids, but access rows directly
        # whose ctids are listed.
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
    """The plan for the copy of one table.

    Attributes:
        relation: the published columns with their types, as the stream would announce them.
        query: the columns and rows to read.
        ranges: the ranges to read, each of about ``partition_bytes``.
        estimated_rows: by the publisher's statistics, for the table without filters.
        estimated_bytes: on the publisher's disk, including out-of-line values.
        hidden_from: the role from which row security policies hide rows of the table; None where
            they hide none.
    """

    relation: Relation
    query: CopyQuery
    ranges: tuple[CopyRange, ...]
    estimated_rows: int
    estimated_bytes: int
    hidden_from: str | None


def table_files(
    connection: Connection, tables: Sequence[tuple[str, str]], *, of_snapshot: bool = False
) -> dict[tuple[str, str], TableFiles]:
    """The files of tables given as (schema, name). Unknown tables are left out.

    Args:
        connection: a connection to the publisher.
        tables: the tables.
        of_snapshot: the files are those that pg_class has in the snapshot of the connection.
            Otherwise they are those of now: call it before the snapshot is made.

    Raises:
        psycopg.Error: a query failed.
    """
    file = "c.relfilenode" if of_snapshot else "pg_relation_filenode(leaf)"
    rows = connection.execute(
        "WITH RECURSIVE tree(schema, name, leaf) AS (SELECT n.nspname::text, c.relname::text, c.oid FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = c.relnamespace"
        " JOIN unnest(%s::text[], %s::text[]) AS wanted(schema, name)"
        " ON wanted.schema = n.nspname AND wanted.name = c.relname WHERE c.relkind IN ('r', 'p')"
        " UNION ALL SELECT schema, name, i.inhrelid FROM tree JOIN pg_inherits i ON i.inhparent = leaf"
        " JOIN pg_class up ON up.oid = leaf AND up.relkind = 'p')"
        f" SELECT schema, name, leaf::int8, COALESCE({file}, 0)::int8 FROM tree"
        " JOIN pg_class c ON c.oid = leaf WHERE c.relkind <> 'p' ORDER BY leaf".encode(),
        ([schema for schema, _ in tables], [name for _, name in tables]),
    )
    files: dict[tuple[str, str], TableFiles] = {}
    for schema, name, oid, file in rows:
        files[schema, name] = (*files.get((schema, name), ()), (oid, file))
    return files


def plan_copy(
    connection: Connection,
    publications: Publications,
    schema: str,
    table: str,
    partition_bytes: int,
    files: TableFiles,
) -> CopyPlan:
    """The plan for the copy of a published table.

    Args:
        connection: a session that sees the snapshot
            (:func:`~subscriber.publisher.snapshot.snapshot_session`).
        publications: the publications of the subscription, which determine columns and filters.
        schema: the table's schema.
        table: the table's name.
        partition_bytes: the approximate size of a range.
        files: the result of :func:`table_files` from before the snapshot was made.

    Raises:
        PublisherNotReady: there is no such table (rule D10), its publications have different column
            lists, or the role may not read it.
        PublisherError: the table is no longer published; or it was rewritten since the snapshot, so
            that a new snapshot is needed (``transient``).
        psycopg.Error: a query failed.
    """
    row = connection.execute(
        "SELECT c.oid::int8, c.relreplident::text, c.relkind = 'p',"
        " CASE WHEN row_security_active(c.oid) THEN current_user::text END FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s",
        (schema, table),
    ).fetchone()
    if row is None:
        raise PublisherNotReady(
            f'table "{schema}.{table}" not found on publisher',
            sqlstate="42704",
            hint="If it was dropped or renamed, run ALTER SUBSCRIPTION … REFRESH PUBLICATION.",
            relation=f"{schema}.{table}",
        )
    oid, identity, partitioned, hidden_from = row
    pieces = _pieces(connection, schema, table, oid, dict(files), partitioned=partitioned)
    published = publications.published_table(schema, table)
    columns = _columns(connection, oid, published.columns)
    listed = replace(published, columns=tuple(column.name for column in columns))
    for unreadable in unreadable_tables(connection, [listed]):
        raise read_refused(unreadable)
    query = CopyQuery(
        schema,
        table,
        tuple(column.name for column in columns),
        published.filters,
        features_of(connection).tid_range_scans,
    )
    return CopyPlan(
        Relation(oid, schema, table, identity, columns),
        query,
        tuple(part for piece, pages, _ in pieces for part in cut_ranges(piece, pages, partition_bytes)),
        int(sum(rows for _, _, rows in pieces)),
        int(sum(pages * piece.page_bytes for piece, pages, _ in pieces)),
        hidden_from,
    )


def _columns(connection: Connection, oid: int, chosen: tuple[str, ...] | None) -> tuple[RelationColumn, ...]:
    """The published columns as the stream would announce them; None stands for every column that is
    not generated.
    """
    generated = "a.attgenerated <> ''" if features_of(connection).generated_columns else "false"
    described = connection.execute(
        "SELECT a.attname::text, a.atttypid::int8, a.atttypmod, COALESCE(a.attnum = ANY (i.indkey), false),"
        f" {generated} FROM pg_attribute a LEFT JOIN pg_index i ON i.indexrelid = pg_get_replica_identity_index(%s)"
        " WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum".encode(),
        (oid, oid),
    )
    return tuple(
        RelationColumn(IDENTITY_FLAG if is_key else 0, name, type_oid, type_modifier)
        for name, type_oid, type_modifier, is_key, is_generated in described
        if (not is_generated if chosen is None else name in chosen)
    )


def _pieces(
    connection: Connection, schema: str, table: str, oid: int, files: dict[int, int], *, partitioned: bool
) -> list[tuple[Piece, int, float]]:
    """The pieces of a table, with their pages and estimated rows: the table itself, or the
    partitions of a partitioned table.
    """
    features = features_of(connection)
    detaching = " AND NOT i.inhdetachpending" if features.detach_concurrently else ""
    heap = "(SELECT amname = 'heap' FROM pg_am am WHERE am.oid = c.relam)" if features.table_access_methods else "true"
    rows = connection.execute(
        f"WITH RECURSIVE tree AS (SELECT %s::oid AS leaf UNION ALL SELECT i.inhrelid FROM tree"
        f" JOIN pg_inherits i ON i.inhparent = leaf{detaching} JOIN pg_class up ON up.oid = leaf AND up.relkind = 'p')"
        " SELECT c.oid::int8, n.nspname::text, c.relname::text, c.relkind = 'r' AND "
        f"{heap}, COALESCE(pg_relation_filenode(c.oid), 0)::int8, COALESCE(pg_relation_size(c.oid), 0),"
        " COALESCE(pg_table_size(c.oid), 0), c.reltuples / GREATEST(c.relpages, 1), current_setting('block_size')::int,"
        " has_table_privilege(c.oid, 'SELECT') AND NOT row_security_active(c.oid),"
        " has_table_privilege(c.oid, 'SELECT') FROM tree JOIN pg_class c ON c.oid = leaf JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.relkind <> 'p' ORDER BY c.oid".encode(),
        (oid,),
    ).fetchall()
    if any(files.get(leaf[0]) != leaf[4] for leaf in rows):
        raise rewritten(f"{schema}.{table}")
    if partitioned and not all(leaf[9] for leaf in rows):
        # A partition that is read by name is checked against its own privileges and policies. Those
        # of the published table are to count, so the rows are read through that table.
        all_files = tuple((leaf[0], leaf[4]) for leaf in rows)
        piece = Piece(schema, table, oid, all_files, 0, float(sum(leaf[6] for leaf in rows)), only=False)
        return [(piece, 1, sum(_estimated_rows(leaf[7], leaf[5], leaf[8]) for leaf in rows))]
    pieces = []
    for leaf, namespace, name, is_heap, file, main_bytes, all_bytes, rows_a_page, block_size, _, may_read in rows:
        # A role that may read only some columns may not read ctid.
        in_ranges = is_heap and may_read
        pages = max(1, main_bytes // block_size) if in_ranges else 1
        slots = (block_size - _PAGE_HEADER) // _SMALLEST_ROW if in_ranges and main_bytes else 0
        piece = Piece(namespace, name, leaf, ((leaf, file),), slots, all_bytes / pages)
        pieces.append((piece, pages, _estimated_rows(rows_a_page, main_bytes, block_size)))
    return pieces


def _estimated_rows(rows_a_page: float, main_bytes: int, block_size: int) -> float:
    """An estimate like the planner's: the density at the last ANALYZE, for the current number of
    pages; 0 where there was no ANALYZE.
    """
    return max(rows_a_page, 0.0) * max(1, main_bytes // block_size)


def cut_ranges(piece: Piece, pages: int, partition_bytes: int) -> Iterator[CopyRange]:
    """Ranges of about ``partition_bytes`` that cover every page.

    The rows that the snapshot sees are in pages that existed when it was made. Pages that are added
    later need not be read.
    """
    if not piece.row_slots:
        yield CopyRange(piece, 0, 0)
        return
    last = pages * piece.row_slots
    count = max(1, min(round(pages * piece.page_bytes / partition_bytes), last))
    cuts = [last * number // count for number in range(count + 1)]
    yield from (CopyRange(piece, first, end) for first, end in pairwise(cuts))


def rewritten(qualified: str) -> PublisherError:
    """The error for a table whose files are not those from before the snapshot."""
    return PublisherError(
        f'table "{qualified}" was rewritten on the publisher since the snapshot was taken',
        sqlstate="40001",
        detail="TRUNCATE, VACUUM FULL, CLUSTER and some forms of ALTER TABLE give a table new files.",
        hint="It is read again with a new snapshot.",
        relation=qualified,
    ).replace(transient=True)


def quoted(*names: str) -> str:
    """A name, or a name with its schema, quoted for SQL."""
    return sql.Identifier(*names).as_string(None)

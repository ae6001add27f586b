r"""What of a table is copied, and in which pieces (rules D7-D10).

::

    table ──plan_copy──▶ CopyQuery, and ranges of ctid ──▶ subscriber.publisher.copy_out reads them

*What is copied* is what PostgreSQL's table synchronization copies: the published columns, the rows
that any of the publications' filters lets through; a partitioned table through its own filters and
columns, whichever partition a row is in. The publications are asked
(:class:`~subscriber.schema.published_table.Publications`); the server filters, also for emulated
publications.

*Ranges* are cut by the bytes that a page stands for, out-of-line values included. A position within
a table is a number, ``page * row_slots + line pointer``, so that a range can also be part of a
page: two hundred rows of a page may be two hundred megabytes.

*The snapshot is old, the tables are not.* TRUNCATE and everything that rewrites a table (VACUUM
FULL, CLUSTER, some of ALTER TABLE) make it look empty to a snapshot from before, or move its rows
to other pages. So a table's files are noted before the snapshot is made (:func:`table_files`), and
looked at again when the first COPY has taken its lock. *Rejected:* holding a lock for the whole
copy, as pg_dump does. Whoever waits for a stronger one then stands in the way of our own next COPY,
which waits for him as he waits for us.
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
"""``csv`` has :data:`CSV_DELIMITER` and :data:`CSV_QUOTE`, which values hardly ever hold;
``binary`` is rows only, without header.
"""

TableFiles = tuple[tuple[int, int], ...]
"""The oid and file node of each table that holds rows; the file node is 0 where there is no file.
"""

CSV_DELIMITER: Final = "\x02"
CSV_QUOTE: Final = "\x01"


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
        only: tables that inherit from it are left out.
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
    """The rows of ``piece`` at the positions ``first`` to ``end``, the end excluded; all of them
    where it has no ``row_slots``.

    ``giant``: it is one row, larger than a reader may hold back.
    """

    piece: Piece
    first: int
    end: int
    giant: bool = False

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
        columns = ", ".join(map(quoted, self.columns))
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
        # Older servers would read the whole table for a range, and go straight to rows that are
        # named.
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
        hidden_from: the role from which policies of row security hide rows of the table; None where
            none do.
    """

    relation: Relation
    query: CopyQuery
    ranges: tuple[CopyRange, ...]
    estimated_rows: int
    estimated_bytes: int
    hidden_from: str | None


def table_files(connection: Connection, tables: Sequence[tuple[str, str]]) -> dict[tuple[str, str], TableFiles]:
    """The files of tables given as (schema, name), to be noted before the snapshot is made; unknown
    tables are left out.

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
    publications: Publications,
    schema: str,
    table: str,
    partition_bytes: int,
    files: TableFiles,
) -> CopyPlan:
    """How to copy a published table.

    Args:
        connection: a session that sees the snapshot
            (:func:`~subscriber.publisher.snapshot.snapshot_session`).
        publications: the subscription's, which say what of the table is copied.
        schema: the table's.
        table: its name.
        partition_bytes: about this much of the table is a range.
        files: what :func:`table_files` said of it before the snapshot was made.

    Raises:
        PublisherNotReady: there is no such table (rule D10), its publications disagree on the
            columns, or the role may not read it.
        PublisherError: the table is not published any more; or it was rewritten since the snapshot,
            and another snapshot will do (``transient``).
        psycopg.Error: what the server said.
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
            hint="If it was dropped or renamed, ALTER SUBSCRIPTION … REFRESH PUBLICATION.",
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
    """The published columns as the stream would announce them; None: every one that is not
    generated.
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
    """What is read by itself, with its pages and estimated rows: the table; of a partitioned one,
    its partitions.
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
        # Partitions answer for themselves when they are named; what is allowed is decided by the
        # table that is published.
        all_files = tuple((leaf[0], leaf[4]) for leaf in rows)
        piece = Piece(schema, table, oid, all_files, 0, float(sum(leaf[6] for leaf in rows)), only=False)
        return [(piece, 1, sum(_estimated_rows(leaf[7], leaf[5], leaf[8]) for leaf in rows))]
    pieces = []
    for leaf, namespace, name, is_heap, file, main_bytes, all_bytes, rows_a_page, block_size, _, may_read in rows:
        # A role that may read some columns only cannot ask for ctid.
        in_ranges = is_heap and may_read
        pages = max(1, main_bytes // block_size) if in_ranges else 1
        slots = (block_size - _PAGE_HEADER) // _SMALLEST_ROW if in_ranges and main_bytes else 0
        piece = Piece(namespace, name, leaf, ((leaf, file),), slots, all_bytes / pages)
        pieces.append((piece, pages, _estimated_rows(rows_a_page, main_bytes, block_size)))
    return pieces


def _estimated_rows(rows_a_page: float, main_bytes: int, block_size: int) -> float:
    """As the planner estimates: the last ANALYZE's density for today's pages; 0 where there was
    none.
    """
    return max(rows_a_page, 0.0) * max(1, main_bytes // block_size)


def cut_ranges(piece: Piece, pages: int, partition_bytes: int) -> Iterator[CopyRange]:
    """Ranges of about ``partition_bytes`` that cover every page.

    Rows that the snapshot sees are in pages that were there when it was made, so what the table
    grows by is of no concern.
    """
    if not piece.row_slots:
        yield CopyRange(piece, 0, 0)
        return
    last = pages * piece.row_slots
    count = max(1, min(round(pages * piece.page_bytes / partition_bytes), last))
    cuts = [last * number // count for number in range(count + 1)]
    yield from (CopyRange(piece, first, end) for first, end in pairwise(cuts))


def rewritten(qualified: str) -> PublisherError:
    """The error for a table that has other files than before the snapshot."""
    return PublisherError(
        f'table "{qualified}" was rewritten on the publisher since the snapshot of the initial copy',
        sqlstate="40001",
        detail="TRUNCATE, VACUUM FULL, CLUSTER and some forms of ALTER TABLE give a table new files.",
        hint="The copy starts again with a new snapshot.",
        relation=qualified,
    ).replace(transient=True)


def quoted(*names: str) -> str:
    """A name, or a name in a schema, for SQL."""
    return sql.Identifier(*names).as_string(None)

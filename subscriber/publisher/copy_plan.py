"""Which rows and columns of a table are copied, and in which pieces (rules D7-D10).

::

    table ──plan_copy──▶ CopyQuery, and ranges of ctid ──▶ subscriber.publisher.copy_out reads them

*The content:* a partitioned table is copied with its own filters and columns, for the rows of all
partitions. The server evaluates the filters, also those of emulated publications.

*Ranges* are cut by the average bytes of a page, including out-of-line values. A position within a
table is a number, ``page * row_slots + line pointer``: two hundred rows of one page may have two
hundred megabytes.

*The snapshot is older than the tables' files.* TRUNCATE and every command that rewrites a table
(VACUUM FULL, CLUSTER, some forms of ALTER TABLE) make the table look empty to an older snapshot, or
move its rows to other pages. So a table's files are recorded before the snapshot is made
(:func:`table_files`), and compared when the first COPY has its lock.

*Rejected:* holding a lock for the whole copy, as pg_dump does. A session that requests a stronger
lock would wait for it, and the next COPY would wait behind this request: a deadlock that the server
cannot detect, since the holder waits for nothing at the server.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Literal

from subscriber.base.errors import PublisherError, PublisherNotReady
from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.schema.published_table import Publications
from subscriber.postgres.sql.quoting import delimited_identifier
from subscriber.publisher.catalog import announced_relations
from subscriber.publisher.connection import Connection, features_of
from subscriber.publisher.table_checks import read_refused, unreadable_tables

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
    """A published table, or a partition of it, read separately. ``files`` must still be the table's
    when it is read. A page has up to ``row_slots`` line pointers (0: no ranges) and on average
    ``page_bytes`` of data, out-of-line values included. ``only`` leaves out tables that inherit
    from it.
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
    """Rows from ``first`` to ``end`` (excluded); all without ``row_slots``. ``giant``: one row."""

    piece: Piece
    first: int
    end: int
    giant: bool = False

    @property
    def estimated_bytes(self) -> int:
        """On the publisher's disk."""
        slots = self.piece.row_slots
        return int((self.end - self.first) / slots * self.piece.page_bytes) if slots else int(self.piece.page_bytes)


@dataclass(frozen=True, slots=True)
class CopyQuery:
    """The columns and rows to read from every piece of a table. ``filters`` may use the ``table``'s
    name; a row is copied if it passes one of them, or if there is none. ``tid_ranges``: the server
    can scan a range of ctids. ``casts``: for a comparison, the built-in type as which the server
    reads a column's text. ``constants``: SQL of columns that the table does not have.
    """

    schema: str
    table: str
    columns: tuple[str, ...]
    filters: tuple[str, ...]
    tid_ranges: bool
    casts: tuple[tuple[str, str], ...] = ()
    constants: tuple[str, ...] = ()

    def command(self, part: CopyRange, copy_format: CopyFormat) -> str:
        piece = part.piece
        casts = dict(self.casts)
        read = [
            f"CAST({delimited_identifier(name)}::text AS {casts[name]})"
            if name in casts
            else delimited_identifier(name)
            for name in self.columns
        ]
        columns = ", ".join((*read, *self.constants))
        source = f"{'ONLY ' if piece.only else ''}{delimited_identifier(piece.schema, piece.name)} AS {delimited_identifier(self.table)}"
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
    """``relation`` has the published columns as the stream would announce them. The estimates are
    the publisher's: rows without filters, bytes on disk with out-of-line values. Row security hides
    rows from the role ``hidden_from``.
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
    """The files of existing tables, now (before the snapshot) or in the session's snapshot."""
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
    """The plan for the copy of a published table, in a session that sees the snapshot. ``files``
    are from before the snapshot, ``partition_bytes`` is the approximate size of a range.
    PublisherNotReady: there is no such table (rule D10), its column lists differ, or the role may
    not read it. PublisherError: it is no longer published, or was rewritten since the snapshot
    (``transient``).
    """
    row = connection.execute(
        "SELECT c.oid::int8, c.relkind = 'p',"
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
    oid, partitioned, hidden_from = row
    pieces = _pieces(connection, schema, table, oid, dict(files), partitioned=partitioned)
    published = publications.published_table(schema, table)
    (relation,) = announced_relations(connection, [published])
    columns = tuple(column.name for column in relation.columns)
    for unreadable in unreadable_tables(connection, [replace(published, columns=columns)]):
        raise read_refused(unreadable)
    return CopyPlan(
        relation,
        CopyQuery(schema, table, columns, published.filters, features_of(connection).tid_range_scans),
        tuple(part for piece, pages, _ in pieces for part in cut_ranges(piece, pages, partition_bytes)),
        int(sum(rows for _, _, rows in pieces)),
        int(sum(pages * piece.page_bytes for piece, pages, _ in pieces)),
        hidden_from,
    )


def _pieces(
    connection: Connection, schema: str, table: str, oid: int, files: dict[int, int], *, partitioned: bool
) -> list[tuple[Piece, int, float]]:
    """The table itself, or the partitions of a partitioned one, with pages and estimated rows."""
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
    """An estimate like the planner's, by the density at the last ANALYZE; 0 without one."""
    return max(rows_a_page, 0.0) * max(1, main_bytes // block_size)


def cut_ranges(piece: Piece, pages: int, partition_bytes: int) -> Iterator[CopyRange]:
    """Ranges that cover every page. The snapshot sees no rows in pages that are added later."""
    if not piece.row_slots:
        yield CopyRange(piece, 0, 0)
        return
    last = pages * piece.row_slots
    count = max(1, min(round(pages * piece.page_bytes / partition_bytes), last))
    cuts = [last * number // count for number in range(count + 1)]
    yield from (CopyRange(piece, first, end) for first, end in pairwise(cuts))


def rewritten(qualified: str) -> PublisherError:
    return PublisherError(
        f'table "{qualified}" was rewritten on the publisher since the snapshot was taken',
        sqlstate="40001",
        detail="TRUNCATE, VACUUM FULL, CLUSTER and some forms of ALTER TABLE give a table new files.",
        hint="It is read again with a new snapshot.",
        relation=qualified,
    ).replace(transient=True)

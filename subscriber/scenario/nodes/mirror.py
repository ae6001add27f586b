"""The PostgreSQL database in which the statements of a session on our subscriber really run.

::

    target ──1 refill──▶ mirror ──2 the statement runs──▶ what psql prints
       ▲                    │
       └────3 write back────┘

Whatever the target stores, types, numeric scale, NULL, arrays, order, sums and error texts are
PostgreSQL's own, because PostgreSQL prints them. Before a statement the mirror gets the rows that
replication has brought into the target; after it the target gets what the statement did: a table
whose shape changed is made anew from the mirror's catalog (:mod:`subscriber.targets.ddl`), and a
table whose rows changed gets the mirror's rows, written as apply would write them.

Both ways begin with a look whether there is anything to do: the target's rows are compared with
those it had, and a server that has given out no transaction id since has changed nothing.

*Rejected:* running the statements on the target, transpiled. Its types would print, and its
arithmetic would count.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import psycopg
import sqlalchemy as sa
from psycopg import sql
from sqlalchemy.schema import CreateSchema, DropSchema

from subscriber.errors import NotSupportedError, SubscriberError, TargetError, UsageError
from subscriber.publisher.shapes import read_shapes
from subscriber.scenario.nodes.mirrored_rows import (
    Bag,
    empty_table,
    read_rows,
    read_target_rows,
    replace_target_rows,
    stored_columns,
    writable_columns,
    write_rows,
)
from subscriber.scenario.nodes.partitions import Parents, families, split
from subscriber.scenario.nodes.session_database import read_identity
from subscriber.scenario.servers.postgresql_server import PostgreSQL
from subscriber.schema.shape import ColumnShape, TableShape
from subscriber.targets import Target
from subscriber.targets.ddl import create_table, drop_table

logger = logging.getLogger(__name__)

_OPTIONS: Final = (
    "-c datestyle=ISO,MDY -c intervalstyle=postgres -c timezone=UTC -c extra_float_digits=3 -c bytea_output=hex"
    " -c session_replication_role=replica -c row_security=off -c client_min_messages=error"
)
"""Texts as replication sends them, and nothing of the session's own that fires, is enforced or
hidden when rows are moved.
"""


@dataclass(frozen=True, slots=True)
class _Catalog:
    """What tables the mirror has.

    Attributes:
        shapes: of those that a target can have, by oid.
        parents: of partitions.
        views: their schemas and names.
    """

    shapes: Mapping[int, TableShape]
    parents: Parents
    views: frozenset[tuple[str, str]]

    def family_of(self, table: int) -> frozenset[int]:
        """All tables of the same tree; none for an ordinary table."""
        return next((family for family in families(self.parents) if table in family), frozenset())

    def in_families(self) -> frozenset[int]:
        """Partitioned tables and partitions."""
        partitioned = (oid for oid, shape in self.shapes.items() if shape.partitioned)
        return frozenset(self.parents).union(partitioned)


class Mirror:
    """See the module.

    Args:
        name: of the database; a leftover of that name is dropped first.
        server: where it is made.
        target: what it mirrors; it has none of the session's tables yet.
        on_change: called after each change of the target.
    """

    is_target: ClassVar[bool] = False

    def __init__(self, name: str, server: PostgreSQL, target: Target, on_change: Callable[[], None]) -> None:
        self.name = name
        self._server = server
        self._target = target
        self._on_change = on_change
        self._catalog = _Catalog({}, {}, frozenset())
        self._in_target: dict[int, Bag] = {}
        """The rows of every table as they were last seen in the target."""
        self._in_mirror: dict[int, Bag] = {}
        """The rows of every table that has rows in the mirror, as they were last seen there."""
        self._made_schemas: list[str] = []
        server.drop_database(name)
        server.create_database(name)
        self._connection = psycopg.connect(server.conninfo(name, options=_OPTIONS), autocommit=True)
        self._next_xid = self._read_next_xid()

    @property
    def conninfo(self) -> str:
        """Where sessions connect to."""
        return self._server.conninfo(self.name)

    def identity(self) -> tuple[int, int]:
        """See :meth:`SessionDatabase.identity`."""
        return read_identity(self._connection)

    def close(self) -> None:
        """Drop the database, and the tables that were made in the target; sessions must
        have ended.
        """
        self._connection.close()
        self._server.drop_database(self.name)
        with self._target.begin() as connection:
            self._drop_views(connection, self._catalog.views)
            for shape in self._catalog.shapes.values():
                connection.execute(drop_table(self._target, shape.schema, shape.name))
            for schema in self._made_schemas:
                connection.execute(DropSchema(schema, if_exists=True))

    # 1 Refill -------------------------------------------------------------------------------------

    def is_stale(self) -> bool:
        """Whether the target's rows have changed since the mirror was made equal."""
        return bool(self._changed(self._read_target()))

    def refill(self) -> None:
        """Give the mirror the target's rows; no transaction may be open in the mirror.

        Raises:
            TargetError: the target's rows do not fit the mirror's tables, or cannot be read.
        """
        seen = self._read_target()
        changed = self._changed(seen)
        for oid in list(changed):
            changed |= self._catalog.family_of(oid)
        if changed:
            self._load({oid: seen[oid] for oid in changed})
        self._in_target = seen
        self._next_xid = self._read_next_xid()

    def _changed(self, seen: Mapping[int, Bag]) -> set[int]:
        return {oid for oid, rows in seen.items() if self._in_target.get(oid) != rows}

    def _read_target(self) -> dict[int, Bag]:
        with self._target.reporting(), self._target.engine.connect() as connection:
            return {
                oid: Counter(read_target_rows(self._target, connection, shape))
                for oid, shape in self._catalog.shapes.items()
            }

    def _load(self, rows: Mapping[int, Bag]) -> None:
        shapes = self._catalog.shapes
        try:
            with self._connection.transaction():
                for oid in rows:
                    empty_table(self._connection, shapes[oid])
                for oid, bag in rows.items():
                    write_rows(self._connection, shapes[oid], stored_columns(shapes[oid]), bag.elements())
        except psycopg.Error as error:
            raise _does_not_fit(error) from None
        in_families = self._catalog.in_families()
        for oid, bag in rows.items():
            # What has gone through a root is in a partition now.
            self._in_mirror[oid] = self._read_mirror(shapes[oid]) if oid in in_families else Counter(bag)

    # 3 Write back ---------------------------------------------------------------------------------

    def write_back(self, *, reshaping: bool) -> SubscriberError | None:
        """Let the target be as the mirror is after a statement, or a transaction, that is
        committed.

        Args:
            reshaping: it was TRUNCATE or DDL, the only commands that may change the rows of
                partitioned tables.

        Returns:
            Why the statement was undone: the target cannot hold its rows, or partitioned tables
            cannot be changed so.

        Raises:
            SubscriberError: the target could not follow, and what was done cannot be undone: shapes
                have changed.
        """
        if self._read_next_xid() == self._next_xid:
            return None
        after = self._read_catalog()
        rows = self._rows_after(after, every=reshaping)
        reshaped = after != self._catalog
        try:
            if not reshaping:
                self._check_families(after, rows)
            in_target = self._write(after, rows)
        except SubscriberError as error:
            if reshaped:
                raise
            self._in_target = {}  # the next refill undoes the statement in the mirror
            return error
        self._catalog = after
        self._in_target = in_target
        self._in_mirror = rows
        self._next_xid = self._read_next_xid()
        return None

    def _rows_after(self, after: _Catalog, *, every: bool) -> dict[int, Bag]:
        """The rows of every table in the mirror; read are those of tables that have changed, or may
        have.
        """
        known = {} if every else {oid: rows for oid, rows in self._in_mirror.items() if oid in after.shapes}
        for oid in self._touched({oid: after.shapes[oid] for oid in known}):
            del known[oid]
        return {oid: known[oid] if oid in known else self._read_mirror(shape) for oid, shape in after.shapes.items()}

    def _touched(self, shapes: Mapping[int, TableShape]) -> list[int]:
        """Tables with rows that are newer than the last refill, or with another number of rows, or
        another shape.
        """
        reshaped = [oid for oid, shape in shapes.items() if shape != self._catalog.shapes.get(oid)]
        if not shapes:
            return reshaped
        counts = sql.SQL(" UNION ALL ").join(
            sql.SQL("SELECT {}, count(*), count(*) FILTER (WHERE xmin::text::int8 >= {}) FROM ONLY {}").format(
                sql.Literal(oid), sql.Literal(self._next_xid), sql.Identifier(shape.schema, shape.name)
            )
            for oid, shape in shapes.items()
        )
        found = self._connection.execute(counts).fetchall()
        return list({*reshaped, *(oid for oid, rows, new in found if new or rows != self._in_mirror[oid].total())})

    def _check_families(self, after: _Catalog, rows: Mapping[int, Bag]) -> None:
        for oid in sorted(after.in_families()):
            shape = after.shapes[oid]
            if rows[oid] != self._in_mirror.get(oid, Counter()):
                raise NotSupportedError(
                    f'changing rows of partition "{shape.qualified_name}" is not supported on this subscriber',
                    detail="Here a partitioned table and its partitions are plain tables side by side: what is written into one "
                    "could not be found by a change that is replicated into the other.",
                )

    def _write(self, after: _Catalog, rows: Mapping[int, Bag]) -> dict[int, Bag]:
        """Make the target's tables, and fill those whose rows have changed, in one transaction;
        gives all rows of the target.
        """
        before = self._catalog.shapes
        gone = [oid for oid, shape in before.items() if after.shapes.get(oid) != shape]
        made = [oid for oid, shape in after.shapes.items() if before.get(oid) != shape]
        wanted = self._rows_for_target(after, rows)
        filled = [oid for oid in after.shapes if oid in made or wanted[oid] != self._in_target.get(oid)]
        if not (gone or filled) and after.views == self._catalog.views:
            return wanted
        with self._target.begin() as connection:
            self._check_unmoved(connection, before.keys() & {*gone, *filled})
            self._drop_views(connection, self._catalog.views - after.views)
            for oid in gone:
                connection.execute(drop_table(self._target, before[oid].schema, before[oid].name))
            for oid in made:
                self._make(connection, after.shapes[oid])
            for oid in filled:
                shape = after.shapes[oid]
                columns, bag = self._rows_to_write(connection, shape, wanted[oid], plain=oid not in after.in_families())
                replace_target_rows(self._target, connection, shape, columns, list(bag.elements()))
            for schema, name in sorted(after.views - self._catalog.views):
                self._make_view(connection, schema, name)
        self._on_change()
        return wanted

    def _rows_for_target(self, after: _Catalog, rows: Mapping[int, Bag]) -> dict[int, Bag]:
        wanted = dict(rows)
        for family in families(after.parents):
            leaves = {oid: rows[oid] for oid in family if not after.shapes[oid].partitioned}
            above = {oid: self._in_target.get(oid, Counter()) for oid in family if after.shapes[oid].partitioned}
            columns = {oid: stored_columns(after.shapes[oid]) for oid in family}
            columns_above = {oid: stored_columns(self._catalog.shapes.get(oid, after.shapes[oid])) for oid in above}
            wanted |= split(leaves, above, after.parents, columns, columns_above)
        return wanted

    def _rows_to_write(
        self, connection: sa.Connection, shape: TableShape, bag: Bag, *, plain: bool
    ) -> tuple[tuple[ColumnShape, ...], Bag]:
        """A generated column that is a plain one in the target gets what PostgreSQL has
        computed.
        """
        stored = stored_columns(shape)
        columns = writable_columns(self._target, connection, shape)
        if columns == stored or not plain:
            return stored, bag
        return columns, Counter(read_rows(self._connection, shape, columns))

    def _check_unmoved(self, connection: sa.Connection, tables: Collection[int]) -> None:
        """Nobody else may have changed what is about to be written over."""
        for oid in tables:
            shape = self._catalog.shapes[oid]
            if Counter(read_target_rows(self._target, connection, shape)) != self._in_target.get(oid):
                raise NotSupportedError(
                    f'rows of "{shape.qualified_name}" have been replicated while they were changed here',
                    detail="On this subscriber a transaction sees the rows that were there when it began, and no others.",
                )

    def _make(self, connection: sa.Connection, shape: TableShape) -> None:
        self._claim(connection, shape.schema, shape.name)
        table = create_table(self._target, shape, identity=True)
        for note in table.notes:
            logger.info('table "%s" in the target: %s', shape.qualified_name, note)
        table.create(connection)

    def _claim(self, connection: sa.Connection, schema: str, name: str) -> None:
        """See that nothing of that name is there, and note its schema if that is new."""
        if self._target.shapes.reflect(connection, schema, name) is not None:
            raise UsageError(
                f'the target has a table "{schema}.{name}" already',
                hint="A session makes its own tables, and drops them at its end; use a database without them.",
            )
        place, _ = self._target.ddl.place(schema, name)
        if place is not None and place not in sa.inspect(connection).get_schema_names():
            self._made_schemas.append(place)

    def _make_view(self, connection: sa.Connection, schema: str, name: str) -> None:
        """A view without anything in it: sessions read it in the mirror, and nothing can be
        replicated into it (C3, D13).
        """
        self._claim(connection, schema, name)
        place, _ = self._target.ddl.place(schema, name)
        if place is not None:
            connection.execute(CreateSchema(place, if_not_exists=True))
        connection.exec_driver_sql(f"CREATE VIEW {self._in_sql(schema, name)} AS SELECT 1 AS stub")

    def _drop_views(self, connection: sa.Connection, views: Collection[tuple[str, str]]) -> None:
        for schema, name in sorted(views):
            connection.exec_driver_sql(f"DROP VIEW {self._in_sql(schema, name)}")

    def _in_sql(self, schema: str, name: str) -> str:
        target_schema, target_name = self._target.ddl.place(schema, name)
        table = sa.Table(target_name, sa.MetaData(), schema=target_schema)
        return self._target.engine.dialect.identifier_preparer.format_table(table)

    # The mirror's catalogs ------------------------------------------------------------------------

    def _read_catalog(self) -> _Catalog:
        # A table without columns cannot be made elsewhere, and has nothing to replicate.
        shapes = {oid: shape for oid, shape in read_shapes(self._connection).items() if shape.columns}
        found = self._connection.execute(
            "SELECT inhrelid::int8, inhparent::int8 FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid WHERE c.relispartition"
            " AND c.relkind IN ('r', 'p')"
        ).fetchall()
        views = self._connection.execute(
            "SELECT nspname::text, relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
            " WHERE relkind IN ('v', 'm') AND relpersistence <> 't' AND nspname !~ '^pg_' AND nspname <> 'information_schema'"
        ).fetchall()
        return _Catalog(shapes, dict(found), frozenset(views))

    def _read_mirror(self, shape: TableShape) -> Bag:
        if shape.partitioned:
            return Counter()
        return Counter(read_rows(self._connection, shape, stored_columns(shape)))

    def _read_next_xid(self) -> int:
        ((xid,),) = self._connection.execute("SELECT txid_snapshot_xmax(txid_current_snapshot())").fetchall()
        return int(xid)


def _does_not_fit(error: psycopg.Error) -> TargetError:
    # The message of a constraint names the constraint; others may quote a value.
    constraint = (error.sqlstate or "").startswith("23")
    return TargetError(
        "the target's rows do not fit PostgreSQL's tables",
        detail=error.diag.message_primary if constraint else f"SQLSTATE {error.sqlstate}",
        hint="Replication has brought rows that PostgreSQL's subscriber would have refused.",
    )

"""The mirror: the PostgreSQL database in which the statements of a session on a target run.

::

    target ──1 refill──▶ mirror ──2 the statement runs──▶ what psql prints
       ▲                    │
       └────3 write back────┘

Types, numeric scale, NULL, arrays, order, sums and error texts are PostgreSQL's for every target,
because PostgreSQL prints the results. Before a statement the mirror gets the rows that replication
has written to the target. After it, a table whose shape has changed is recreated in the target from
the mirror's catalog (:mod:`subscriber.targets.ddl`), and a table whose rows have changed gets the
mirror's rows, written as apply would write them.

Both directions first check whether there is anything to do. Before a refill, the target's rows are
compared with the rows that were last read or written. Before a write back, the server is asked for
its next transaction ID: if it is still the same, the statement has changed nothing.

*Rejected:* running the statements on the target, translated to its dialect. The results would have
the target's types and arithmetic.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Container, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import psycopg
import sqlalchemy as sa
from psycopg import sql
from sqlalchemy.schema import CreateSchema, DropSchema

from subscriber.base.errors import NotSupportedError, SubscriberError, TargetError, UsageError
from subscriber.catalog.subscriptions import list_subscriptions
from subscriber.catalog.table_states import relations_of
from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable
from subscriber.publisher.shapes import read_shapes
from subscriber.targets import Target
from subscriber.targets.ddl import create_table, drop_table
from subscriber.testing.nodes import mirrored_rows
from subscriber.testing.nodes.session_database import read_identity
from subscriber.testing.servers.postgresql_server import PostgreSQL

logger = logging.getLogger(__name__)

_OPTIONS: Final = (
    "-c datestyle=ISO,MDY -c intervalstyle=postgres -c timezone=UTC -c extra_float_digits=3 -c bytea_output=hex"
    " -c session_replication_role=replica -c row_security=off -c client_min_messages=error"
)
"""Texts are as in replication, and no trigger, foreign key or row security acts on moved rows."""


@dataclass(frozen=True, slots=True)
class _Catalog:
    """The tables that a target can have and the parents of partitions, by oid; names of views."""

    shapes: Mapping[int, PublisherTable]
    parents: mirrored_rows.Parents
    views: frozenset[tuple[str, str]]

    def family_of(self, table: int) -> frozenset[int]:
        """All tables of the tree that ``table`` is part of. Empty for an ordinary table."""
        return next((family for family in mirrored_rows.families(self.parents) if table in family), frozenset())

    def in_families(self) -> frozenset[int]:
        """The partitioned tables and the partitions."""
        partitioned = (oid for oid, shape in self.shapes.items() if shape.is_partitioned)
        return frozenset(self.parents).union(partitioned)


class Mirror:
    """A :class:`SessionDatabase` beside any target: it is kept equal to the target."""

    is_target: ClassVar[bool] = False

    def __init__(self, name: str, server: PostgreSQL, target: Target, on_change: Callable[[], None]) -> None:
        self.name = name
        self._server = server
        self._target = target
        self._on_change = on_change
        self._catalog = _Catalog({}, {}, frozenset())
        self._in_target: dict[int, mirrored_rows.Bag] = {}
        """The rows of every table in the target, as they were last read or written."""
        self._in_mirror: dict[int, mirrored_rows.Bag] = {}
        """The same of the mirror, of tables that have rows."""
        self._apart: frozenset[int] = frozenset()
        """The tables of the trees whose partitions were loaded without the rows of their root."""
        self._made_schemas: list[str] = []
        server.drop_database(name)
        server.create_database(name)
        self._connection = psycopg.connect(server.conninfo(name, options=_OPTIONS), autocommit=True)
        self._next_xid = self._read_next_xid()

    @property
    def conninfo(self) -> str:
        return self._server.conninfo(self.name)

    def identity(self) -> tuple[int, int]:
        return read_identity(self._connection)

    def close(self) -> None:
        """Drop the database, and the tables that were created in the target, after the sessions."""
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
        return bool(self._changed(self._read_target()))

    def refill(self, read: Container[str] = ()) -> None:
        """Copy the target's rows into the mirror. No transaction may be open in the mirror."""
        seen = self._read_target()
        apart = self._read_apart(read)
        changed = self._changed(seen) | (apart ^ self._apart)
        for oid in list(changed):
            changed |= self._catalog.family_of(oid)
        if changed:
            shapes = self._catalog.shapes
            self._load(
                {oid: Counter() if oid in apart and shapes[oid].is_partitioned else seen[oid] for oid in changed}
            )
        self._in_target = seen
        self._apart = apart
        self._next_xid = self._read_next_xid()

    def _read_apart(self, names: Container[str]) -> frozenset[int]:
        """The tables of trees of which ``names`` has only partitions that are replicated apart."""
        shapes, found = self._catalog.shapes, set[int]()
        for family in mirrored_rows.families(self._catalog.parents):
            named = {_key(shapes[oid]) for oid in family if shapes[oid].name in names}
            partitioned = {_key(shapes[oid]) for oid in family if shapes[oid].is_partitioned}
            if named and named.isdisjoint(partitioned) and named <= self._read_replicated():
                found |= family
        return frozenset(found)

    def _read_replicated(self) -> set[tuple[str, str]]:
        with self._target.reporting(), self._target.engine.connect() as connection:
            return {
                one.options.map.in_target(table.schema, table.name)
                for one in list_subscriptions(connection)
                for table in relations_of(connection, one.subid)
            }

    def _changed(self, seen: Mapping[int, mirrored_rows.Bag]) -> set[int]:
        return {oid for oid, rows in seen.items() if self._in_target.get(oid) != rows}

    def _read_target(self) -> dict[int, mirrored_rows.Bag]:
        with self._target.reporting(), self._target.engine.connect() as connection:
            return {
                oid: Counter(mirrored_rows.read_target_rows(self._target, connection, shape))
                for oid, shape in self._catalog.shapes.items()
            }

    def _load(self, rows: Mapping[int, mirrored_rows.Bag]) -> None:
        shapes = self._catalog.shapes
        try:
            with self._connection.transaction():
                for oid in rows:
                    mirrored_rows.empty_table(self._connection, shapes[oid])
                for oid, bag in rows.items():
                    mirrored_rows.write_rows(
                        self._connection, shapes[oid], mirrored_rows.stored_columns(shapes[oid]), bag.elements()
                    )
        except psycopg.Error as error:
            raise _does_not_fit(error) from None
        in_families = self._catalog.in_families()
        for oid, bag in rows.items():
            # A row that was inserted into a root is now in a partition.
            self._in_mirror[oid] = self._read_mirror(shapes[oid]) if oid in in_families else Counter(bag)

    # 3 Write back ---------------------------------------------------------------------------------

    def write_back(self, *, reshaping: bool) -> SubscriberError | None:
        """Make the target equal to the mirror after a commit; returns why the statement was undone
        (the target cannot hold its rows, or it changed rows of partitioned tables). One that
        changed the shape of tables cannot be undone, and raises.
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
            self._in_target = {}  # so the next refill undoes the statement in the mirror
            return error
        self._catalog = after
        self._in_target = in_target
        self._in_mirror = rows
        self._next_xid = self._read_next_xid()
        return None

    def _rows_after(self, after: _Catalog, *, every: bool) -> dict[int, mirrored_rows.Bag]:
        """The rows of every table in the mirror. Only tables that may have changed are read."""
        known = {} if every else {oid: rows for oid, rows in self._in_mirror.items() if oid in after.shapes}
        for oid in self._touched({oid: after.shapes[oid] for oid in known}):
            del known[oid]
        return {oid: known[oid] if oid in known else self._read_mirror(shape) for oid, shape in after.shapes.items()}

    def _touched(self, shapes: Mapping[int, PublisherTable]) -> list[int]:
        """The tables with a newer row, another number of rows or another shape than before."""
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

    def _check_families(self, after: _Catalog, rows: Mapping[int, mirrored_rows.Bag]) -> None:
        for oid in sorted(after.in_families()):
            shape = after.shapes[oid]
            if rows[oid] != self._in_mirror.get(oid, Counter()):
                raise NotSupportedError(
                    f'changing rows of partition "{shape.qualified_name}" is not supported on this subscriber',
                    detail="On this subscriber a partitioned table and its partitions are separate ordinary tables: a change that is "
                    "replicated into one would not find the rows that were written into the other.",
                )

    def _write(self, after: _Catalog, rows: Mapping[int, mirrored_rows.Bag]) -> dict[int, mirrored_rows.Bag]:
        """Create the target's tables, replace the rows that have changed, and return all rows."""
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
        # In Firebird, rows cannot be written to a table in the transaction that creates it.
        with self._target.begin() as connection:
            for oid in filled:
                shape = after.shapes[oid]
                columns, bag = self._rows_to_write(connection, shape, wanted[oid], plain=oid not in after.in_families())
                mirrored_rows.replace_target_rows(self._target, connection, shape, columns, list(bag.elements()))
            for schema, name in sorted(after.views - self._catalog.views):
                self._make_view(connection, schema, name)
        self._on_change()
        return wanted

    def _rows_for_target(self, after: _Catalog, rows: Mapping[int, mirrored_rows.Bag]) -> dict[int, mirrored_rows.Bag]:
        wanted = dict(rows)
        for family in mirrored_rows.families(after.parents):
            if family & self._apart:
                wanted |= {oid: self._in_target.get(oid, Counter()) for oid in family}
                continue
            leaves = {oid: rows[oid] for oid in family if not after.shapes[oid].is_partitioned}
            above = {oid: self._in_target.get(oid, Counter()) for oid in family if after.shapes[oid].is_partitioned}
            columns = {oid: mirrored_rows.stored_columns(after.shapes[oid]) for oid in family}
            columns_above = {
                oid: mirrored_rows.stored_columns(self._catalog.shapes.get(oid, after.shapes[oid])) for oid in above
            }
            for leaf, bag in leaves.items():
                root = self._replicated_root(after, leaf)
                if root is not None and after.parents[leaf] != self._catalog.parents.get(leaf):
                    above[root] = above[root] + mirrored_rows.in_columns(bag, columns[leaf], columns_above[root])
            wanted |= mirrored_rows.split(leaves, above, after.parents, columns, columns_above)
        return wanted

    def _replicated_root(self, after: _Catalog, leaf: int) -> int | None:
        """The root through which a partition's rows are replicated, also when it is attached."""
        replicated = self._read_replicated()
        if leaf not in after.parents or _key(after.shapes[leaf]) in replicated:
            return None
        return next(
            (one for one in mirrored_rows.ancestors(leaf, after.parents) if _key(after.shapes[one]) in replicated), None
        )

    def _rows_to_write(
        self, connection: sa.Connection, shape: PublisherTable, bag: mirrored_rows.Bag, *, plain: bool
    ) -> tuple[tuple[PublisherColumn, ...], mirrored_rows.Bag]:
        """Columns and rows to write, with the values of columns that only the mirror generates."""
        stored = mirrored_rows.stored_columns(shape)
        columns = mirrored_rows.writable_columns(self._target, connection, shape)
        if columns == stored or not plain:
            return stored, bag
        return columns, Counter(mirrored_rows.read_rows(self._connection, shape, columns))

    def _check_unmoved(self, connection: sa.Connection, tables: Collection[int]) -> None:
        """Check that replication has not changed the tables whose rows will be replaced."""
        for oid in tables:
            shape = self._catalog.shapes[oid]
            if Counter(mirrored_rows.read_target_rows(self._target, connection, shape)) != self._in_target.get(oid):
                raise NotSupportedError(
                    f'rows of "{shape.qualified_name}" have been replicated while they were changed here',
                    detail="On this subscriber a transaction sees the rows that were there when it began, and no others.",
                )

    def _make(self, connection: sa.Connection, shape: PublisherTable) -> None:
        self._claim(connection, shape.schema, shape.name)
        table = create_table(self._target, shape, identity=True)
        for note in table.notes:
            logger.info('table "%s" in the target: %s', shape.qualified_name, note)
        table.create(connection)

    def _claim(self, connection: sa.Connection, schema: str, name: str) -> None:
        """Check that the target has no table of this name, and note the schema if it is new."""
        if self._target.shapes.reflect(connection, schema, name) is not None:
            raise UsageError(
                f'the target has a table "{schema}.{name}" already',
                hint="A session creates its tables, and drops them at its end; use a database without these tables.",
            )
        place, _ = self._target.ddl.qualified(schema, name)
        if place is not None and place not in sa.inspect(connection).get_schema_names():
            self._made_schemas.append(place)

    def _make_view(self, connection: sa.Connection, schema: str, name: str) -> None:
        """Create a view without content: nothing can be replicated into it (C3, D13)."""
        self._claim(connection, schema, name)
        place, _ = self._target.ddl.qualified(schema, name)
        if place is not None:
            connection.execute(CreateSchema(place, if_not_exists=True))
        connection.exec_driver_sql(f"CREATE VIEW {self._in_sql(schema, name)} AS SELECT 1 AS stub")

    def _drop_views(self, connection: sa.Connection, views: Collection[tuple[str, str]]) -> None:
        for schema, name in sorted(views):
            connection.exec_driver_sql(f"DROP VIEW {self._in_sql(schema, name)}")

    def _in_sql(self, schema: str, name: str) -> str:
        target_schema, target_name = self._target.ddl.qualified(schema, name)
        table = sa.Table(target_name, sa.MetaData(), schema=target_schema)
        return self._target.engine.dialect.identifier_preparer.format_table(table)

    # The mirror's catalogs ------------------------------------------------------------------------

    def _read_catalog(self) -> _Catalog:
        # A table without columns cannot be created in other databases, and has nothing to
        # replicate.
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

    def _read_mirror(self, shape: PublisherTable) -> mirrored_rows.Bag:
        if shape.is_partitioned:
            return Counter()
        return Counter(mirrored_rows.read_rows(self._connection, shape, mirrored_rows.stored_columns(shape)))

    def _read_next_xid(self) -> int:
        ((xid,),) = self._connection.execute("SELECT txid_snapshot_xmax(txid_current_snapshot())").fetchall()
        return int(xid)


def _key(shape: PublisherTable) -> tuple[str, str]:
    return shape.schema, shape.name


def _does_not_fit(error: psycopg.Error) -> TargetError:
    # The message for a constraint violation only names the constraint. Other messages may contain a
    # value.
    constraint = (error.sqlstate or "").startswith("23")
    return TargetError(
        "the target's rows do not fit PostgreSQL's tables",
        detail=error.diag.message_primary if constraint else f"SQLSTATE {error.sqlstate}",
        hint="Replication has brought rows that PostgreSQL's subscriber would have refused.",
    )

"""A small publisher in memory: sessions write to tables, and the WAL is a list of records.

::

    MemoryDatabase ── Session ── RowSession ── TransactionSession     (this module, memory_transactions)
        │               DDL        rows          BEGIN … COMMIT, savepoints, prepared transactions
        └──────────── MemoryState ──┘   the WAL, the catalogs, the rows, the counters (memory_state)

    publisher = MemoryDatabase()
    publisher.create_table("t", {"a": "integer", "b": "text"}, primary_key=["a"])
    one, two = publisher.session(), publisher.session()
    one.begin()
    one.insert("t", a=1, b="x")
    two.insert("t", a=2, b="y")              # without begin() a statement is a transaction
    one.commit()
    with LogicalDecoding(plugin, slot, writer) as decoding:
        for record in publisher.records:
            decoding.process(record)

It is no database: it knows the primary key, and neither other constraints nor defaults, triggers,
expressions or locks. Transaction numbers, the old tuples that are logged (section B.3), the
partition that gets a row and what a session sees are as in PostgreSQL. DDL is transactional; every
command is one change of the catalogs in the WAL.

The first transaction is 731, the first table has the OID 16384, and time advances by one
millisecond with each record that has a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from subscriber.base.errors import UsageError
from subscriber.postgres.logical_decoding import memory_tables
from subscriber.postgres.logical_decoding import wal_records as wal
from subscriber.postgres.logical_decoding.heap_tuples import new_tuple
from subscriber.postgres.logical_decoding.historic_catalog import CatalogChange, RelationData, type_line
from subscriber.postgres.logical_decoding.memory_state import MemoryState, Partitioning
from subscriber.postgres.logical_decoding.memory_tables import Column, Columns, base_type, datum, resolve_type
from subscriber.postgres.logical_decoding.memory_transactions import RowSession, ordered
from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.schema.publisher_tables import Identity, Persistence


class Session(RowSession):
    """A session; without :meth:`begin` every statement is a transaction. Errors have SQLSTATEs."""

    # Tables ---------------------------------------------------------------------------------------

    def create_table(
        self,
        name: str,
        columns: Columns,
        primary_key: Sequence[str] = (),
        *,
        persistence: Persistence = "permanent",
        partition_by: str | None = None,
    ) -> None:
        """CREATE TABLE, whose primary key is the replica identity; ``partition_by`` is for LIST."""
        with self._statement():
            self._create(name, columns, primary_key, persistence=persistence, partitioned=partition_by is not None)
            if partition_by is not None:
                oid = memory_tables.find(self.catalog, name).oid
                self._state.partitioning[oid] = Partitioning(partition_by)

    def create_partition(
        self,
        name: str,
        of: str,
        values: Sequence[Any] | None = None,
        *,
        columns: Columns | None = None,
        partition_by: str | None = None,
    ) -> None:
        """CREATE TABLE … PARTITION OF, DEFAULT without values; ``columns`` if in another order."""
        with self._statement():
            parent = memory_tables.find(self.catalog, of)
            partitioning = self._state.partitioning.get(parent.oid)
            if partitioning is None:
                raise UsageError(
                    f'"{parent.name}" is not partitioned', sqlstate="42P17", hint="Create it with partition_by."
                )
            key = [column.name for column in parent.columns if column.number in self._state.keys.get(parent.oid, ())]
            same = [self._column(parent, number) for number in range(len(parent.columns))]
            leaf = self._create(name, columns or same, key, parent=parent, partitioned=partition_by is not None)
            column = parent.table.column(partitioning.column)
            assert column is not None
            base = base_type(column.type_oid, self.catalog.tables)
            texts = None if values is None else frozenset(getattr(datum(one, base), "text", b"") for one in values)
            partitioning.partitions[leaf.oid] = texts
            if partition_by is not None:
                self._state.partitioning[leaf.oid] = Partitioning(partition_by)

    def _column(self, parent: RelationData, place: int) -> Column:
        column = parent.columns[place]
        compute = self._state.computes.get((parent.oid, column.number))
        return Column(column.name, column.type_name, column.generated, column.expression, compute)

    def _create(self, name: str, columns: Columns, key: Sequence[str], **properties: Any) -> RelationData:
        oid = self._state.new_oid()
        relation = memory_tables.new_relation(self.catalog.tables, oid, name, columns, primary_key=key, **properties)
        self._state.keys[oid] = tuple(one.number for one in relation.columns if one.name in key)
        for number, column in enumerate(memory_tables.columns_of(columns), 1):
            if column.compute is not None:
                self._state.computes[oid, number] = column.compute
        self._change_catalog(CatalogChange(relations=(relation,)))
        return relation

    def drop_table(self, name: str) -> None:
        with self._statement():
            oids = tuple(relation.oid for relation in self._tree(memory_tables.find(self.catalog, name)))
            self._change_catalog(CatalogChange(dropped_relations=oids))

    def add_column(self, table: str, column: Column) -> None:
        """ALTER TABLE … ADD COLUMN; existing rows have NULL there."""
        with self._statement():
            relation = memory_tables.add_column(self.catalog.tables, memory_tables.find(self.catalog, table), column)
            if column.compute is not None:
                self._state.computes[relation.oid, relation.columns[-1].number] = column.compute
            self._change_catalog(CatalogChange(relations=(relation,)))

    def drop_column(self, table: str, column: str) -> None:
        with self._statement():
            relation = memory_tables.drop_column(memory_tables.find(self.catalog, table), column)
            self._change_catalog(CatalogChange(relations=(relation,)))

    def rename_column(self, table: str, column: str, new_name: str) -> None:
        with self._statement():
            relation = memory_tables.rename_column(memory_tables.find(self.catalog, table), column, new_name)
            self._change_catalog(CatalogChange(relations=(relation,)))

    def rename_table(self, table: str, new_name: str) -> None:
        """ALTER TABLE … RENAME TO, and with another schema SET SCHEMA."""
        with self._statement():
            relation = memory_tables.renamed(memory_tables.find(self.catalog, table), new_name)
            self._change_catalog(CatalogChange(relations=(relation,)))

    def replica_identity(self, table: str, identity: Identity, columns: Sequence[str] = ()) -> None:
        """The identity that the table has already changes nothing: it is not described again."""
        with self._statement():
            relation = memory_tables.find(self.catalog, table)
            key = [one.name for one in relation.columns if one.number in self._state.keys.get(relation.oid, ())]
            changed = memory_tables.replica_identity(relation, identity, columns, key)
            if changed != relation:
                self._change_catalog(CatalogChange(relations=(changed,)))

    def rewrite_table(self, table: str) -> None:
        """An ALTER TABLE that inserts the rows into a temporary heap (rule E17)."""
        with self._statement():
            relation = memory_tables.find(self.catalog, table)
            described = replace(relation.table, oid=self._state.new_oid(), name=f"pg_temp_{relation.oid}")
            heap = RelationData(described, relation.dropped, relrewrite=relation.oid)
            self._change_catalog(CatalogChange(relations=(heap,)))
            xid = self._assigned()
            for row in self._state.rows.visible(relation.oid, self._own()):
                new = new_tuple(heap, ordered(heap, row))
                self._log(wal.InsertRecord, xid=xid, relation_oid=heap.oid, new=new)
            self._change_catalog(CatalogChange(relations=(relation,), dropped_relations=(heap.oid,)))

    # Origins, types and publications ------------------------------------------------------------

    def change_origin(self, number: int, name: str | None) -> None:
        """Create a replication origin; without a name, drop it."""
        with self._statement():
            self._assigned()
            self._state.log(wal.OriginChangeRecord, number=number, name=name)
            self._change_catalog(CatalogChange())

    def create_enum(self, name: str) -> None:
        schema, bare = memory_tables.split_name(name)
        with self._statement():
            oid, array = self._state.new_oid(), self._state.new_oid()
            lines = (type_line(oid, schema, bare, "e", "E", array=array), _array_line(array, schema, bare, oid))
            self._change_catalog(CatalogChange(types=lines))

    def create_domain(self, name: str, type_name: str) -> None:
        schema, bare = memory_tables.split_name(name)
        with self._statement():
            base, modifier, _ = resolve_type(type_name, self.catalog.tables)
            oid, array = self._state.new_oid(), self._state.new_oid()
            domain = type_line(oid, schema, bare, "d", "U", array=array, base=base, modifier=modifier)
            self._change_catalog(CatalogChange(types=(domain, _array_line(array, schema, bare, oid))))

    def create_publication(self, publication: Publication) -> None:
        with self._statement():
            before = self.catalog.publications.get(publication.name)
            oids = self._members(publication) if before is None else self._changed_members(before, publication)
            self._change_catalog(CatalogChange(publications=(publication,), invalidated=oids))

    def drop_publication(self, name: str) -> None:
        with self._statement():
            publication = self.catalog.publications.get(name)
            if publication is None:
                raise UsageError(
                    f'publication "{name}" does not exist', sqlstate="42704", hint="Call create_publication first."
                )
            oids = self._members(publication)
            self._change_catalog(CatalogChange(dropped_publications=(name,), invalidated=oids))

    def _changed_members(self, before: Publication, after: Publication) -> frozenset[int]:
        """What ALTER PUBLICATION touches: all if it sets an option, else what it adds, drops or
        changes.
        """
        same = replace(after, tables=before.tables, schemas=before.schemas, excepted=before.excepted)
        if same != before or after.excepted != before.excepted:
            return self._members(before) | self._members(after)
        tables = set(before.tables) ^ set(after.tables)
        schemas = set(before.schemas) ^ set(after.schemas)
        return self._members(Publication(after.name, tables=tuple(tables), schemas=tuple(schemas)))

    def _members(self, publication: Publication) -> frozenset[int]:
        named = [
            one
            for one in self.catalog.relations.values()
            if publication.all_tables or one.schema in publication.schemas or publication.entry(*one.table.key)
        ]
        return frozenset(below.oid for one in named for below in self._tree(one))


def _array_line(oid: int, schema: str, name: str, element: int) -> str:
    return type_line(oid, schema, f"_{name}", "b", "A", element=element)


class MemoryDatabase(MemoryState):
    """The database. ``first_catalog`` holds before the first of ``records``."""

    # Sessions -------------------------------------------------------------------------------------

    def session(self) -> Session:
        return Session(self)

    def select(self, table: str) -> list[dict[str, str | None]]:
        """Committed rows, also of the partitions, in the order in which they were written."""
        return self.session().select(table)

    def take(self) -> list[wal.WalRecord]:
        """The records since the last call; the WAL is empty afterwards."""
        taken, self.records = self.records, []
        self.first_catalog = self.catalog
        return taken

    # DDL and others, each in a transaction of its own ---------------------------------------------

    def create_table(
        self,
        name: str,
        columns: Columns,
        primary_key: Sequence[str] = (),
        *,
        persistence: Persistence = "permanent",
        partition_by: str | None = None,
    ) -> None:
        self.session().create_table(name, columns, primary_key, persistence=persistence, partition_by=partition_by)

    def create_publication(self, publication: Publication) -> None:
        self.session().create_publication(publication)

    def create_origin(self, name: str) -> int:
        number = self.origins[name] = max(self.origins.values(), default=0) + 1
        self.session().change_origin(number, name)
        return number

    def drop_origin(self, name: str) -> None:
        self.session().change_origin(self.origin(name), None)
        del self.origins[name]

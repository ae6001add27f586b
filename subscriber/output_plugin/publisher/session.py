"""A session of the publisher in memory, with DDL.

DDL is transactional: a session sees its own, others see it after the commit. Every command is one
change of the catalogs in the WAL, and PostgreSQL's many rows of catalogs are not imitated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from subscriber.errors import UsageError
from subscriber.output_plugin import wal_records as wal
from subscriber.output_plugin.historic_catalog import CatalogChange, Relation
from subscriber.output_plugin.publisher import tables
from subscriber.output_plugin.publisher.state import Partitioning
from subscriber.output_plugin.publisher.statements import RowSession, ordered
from subscriber.output_plugin.publisher.tables import Column, Columns
from subscriber.output_plugin.publisher.values import base_type, datum, resolve_type
from subscriber.output_plugin.replica_identity import new_tuple
from subscriber.publication.definition import Publication
from subscriber.schema.publisher_tables import Identity, Persistence


class Session(RowSession):
    """A session. Without :meth:`begin` every statement is a transaction of its own."""

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
        """CREATE TABLE

        Args:
            name: the name, ``public`` unless it has a schema.
            columns: the columns.
            primary_key: the columns of the primary key, which is the replica identity.
            persistence: permanent, unlogged or temporary.
            partition_by: the column of PARTITION BY LIST.

        Raises:
            UsageError: 42P07, the name is in use; 42704, 42703, a type or column does not exist.
        """
        with self._statement():
            self._create(name, columns, primary_key, persistence=persistence, partitioned=partition_by is not None)
            if partition_by is not None:
                oid = tables.find(self.catalog, name).oid
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
        """CREATE TABLE … PARTITION OF … FOR VALUES IN (…), or DEFAULT without values.

        Args:
            name: the name.
            of: the partitioned table.
            values: the values of the partition.
            columns: the columns, if they are in another order (as after ATTACH PARTITION).
            partition_by: as in :meth:`create_table`.

        Raises:
            UsageError: 42P17, the other table is not partitioned; and as :meth:`create_table`.
        """
        with self._statement():
            parent = tables.find(self.catalog, of)
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

    def _column(self, parent: Relation, place: int) -> Column:
        column = parent.columns[place]
        compute = self._state.computes.get((parent.oid, column.number))
        return Column(column.name, column.type_name, column.generated, column.expression, compute)

    def _create(self, name: str, columns: Columns, key: Sequence[str], **properties: Any) -> Relation:
        oid = self._state.new_oid()
        relation = tables.new_relation(self.catalog.tables, oid, name, columns, primary_key=key, **properties)
        self._state.keys[oid] = tuple(one.number for one in relation.columns if one.name in key)
        for number, column in enumerate(tables.columns_of(columns), 1):
            if column.compute is not None:
                self._state.computes[oid, number] = column.compute
        self._change_catalog(CatalogChange(relations=(relation,)))
        return relation

    def drop_table(self, name: str) -> None:
        """DROP TABLE, with its partitions.

        Raises:
            UsageError: 42P01, there is no such table.
        """
        with self._statement():
            oids = tuple(relation.oid for relation in self._tree(tables.find(self.catalog, name)))
            self._change_catalog(CatalogChange(dropped_relations=oids))

    def add_column(self, table: str, column: Column) -> None:
        """ALTER TABLE … ADD COLUMN; existing rows have NULL there.

        Raises:
            UsageError: 42P01, 42704, no such table or type; 42701, there is a column of that name.
        """
        with self._statement():
            relation = tables.add_column(self.catalog.tables, tables.find(self.catalog, table), column)
            if column.compute is not None:
                self._state.computes[relation.oid, relation.columns[-1].number] = column.compute
            self._change_catalog(CatalogChange(relations=(relation,)))

    def drop_column(self, table: str, column: str) -> None:
        """ALTER TABLE … DROP COLUMN

        Raises:
            UsageError: 42P01, 42703, no such table or column.
        """
        with self._statement():
            relation = tables.drop_column(tables.find(self.catalog, table), column)
            self._change_catalog(CatalogChange(relations=(relation,)))

    def rename_column(self, table: str, column: str, new_name: str) -> None:
        """ALTER TABLE … RENAME COLUMN

        Raises:
            UsageError: 42P01, 42703, no such table or column; 42701, the new name is in use.
        """
        with self._statement():
            relation = tables.rename_column(tables.find(self.catalog, table), column, new_name)
            self._change_catalog(CatalogChange(relations=(relation,)))

    def rename_table(self, table: str, new_name: str) -> None:
        """ALTER TABLE … RENAME TO, and with another schema SET SCHEMA.

        Raises:
            UsageError: 42P01, there is no such table.
        """
        with self._statement():
            relation = tables.renamed(tables.find(self.catalog, table), new_name)
            self._change_catalog(CatalogChange(relations=(relation,)))

    def replica_identity(self, table: str, identity: Identity, columns: Sequence[str] = ()) -> None:
        """ALTER TABLE … REPLICA IDENTITY

        Args:
            table: the table.
            identity: default, nothing, full or index.
            columns: the columns of the index.

        Raises:
            UsageError: 42P01, 42703, no such table or column.
        """
        with self._statement():
            relation = tables.find(self.catalog, table)
            key = [one.name for one in relation.columns if one.number in self._state.keys.get(relation.oid, ())]
            changed = tables.replica_identity(relation, identity, columns, key)
            self._change_catalog(CatalogChange(relations=(changed,)))

    def rewrite_table(self, table: str) -> None:
        """An ALTER TABLE that rewrites the table (rule E17).

        The rows are inserted into a temporary heap, which most plugins never see.

        Raises:
            UsageError: 42P01, there is no such table.
        """
        with self._statement():
            relation = tables.find(self.catalog, table)
            described = replace(relation.table, oid=self._state.new_oid(), name=f"pg_temp_{relation.oid}")
            heap = Relation(described, relation.dropped, relrewrite=relation.oid)
            self._change_catalog(CatalogChange(relations=(heap,)))
            xid = self._assigned()
            for row in self._state.rows.visible(relation.oid, self._own()):
                new = new_tuple(heap, ordered(heap, row))
                self._log(wal.Insert, xid=xid, relation_oid=heap.oid, new=new)
            self._change_catalog(CatalogChange(relations=(relation,), dropped_relations=(heap.oid,)))

    # Origins, types and publications ------------------------------------------------------------

    def change_origin(self, number: int, name: str | None) -> None:
        """Create a replication origin; without a name, drop it. This changes a catalog."""
        with self._statement():
            self._assigned()
            self._state.log(wal.OriginChange, number=number, name=name)
            self._change_catalog(CatalogChange())

    def create_enum(self, name: str) -> None:
        """CREATE TYPE … AS ENUM, with its array type. The labels are not checked."""
        schema, bare = tables.split_name(name)
        with self._statement():
            oid, array = self._state.new_oid(), self._state.new_oid()
            lines = (_type_line(oid, schema, bare, "e", "E", array=array), _array_line(array, schema, bare, oid))
            self._change_catalog(CatalogChange(types=lines))

    def create_domain(self, name: str, type_name: str) -> None:
        """CREATE DOMAIN, with its array type.

        Raises:
            UsageError: 42704, the base type does not exist.
        """
        schema, bare = tables.split_name(name)
        with self._statement():
            base, modifier, _ = resolve_type(type_name, self.catalog.tables)
            oid, array = self._state.new_oid(), self._state.new_oid()
            domain = _type_line(oid, schema, bare, "d", "U", array=array, base=base, modifier=modifier)
            self._change_catalog(CatalogChange(types=(domain, _array_line(array, schema, bare, oid))))

    def create_publication(self, publication: Publication) -> None:
        """CREATE PUBLICATION, and ALTER PUBLICATION if it exists."""
        with self._statement():
            before = self.catalog.publications.get(publication.name)
            oids = self._members(publication) if before is None else self._changed_members(before, publication)
            self._change_catalog(CatalogChange(publications=(publication,), invalidated=oids))

    def drop_publication(self, name: str) -> None:
        """DROP PUBLICATION

        Raises:
            UsageError: 42704, there is none.
        """
        with self._statement():
            publication = self.catalog.publications.get(name)
            if publication is None:
                raise UsageError(
                    f'publication "{name}" does not exist', sqlstate="42704", hint="Call create_publication first."
                )
            oids = self._members(publication)
            self._change_catalog(CatalogChange(dropped_publications=(name,), invalidated=oids))

    def _changed_members(self, before: Publication, after: Publication) -> frozenset[int]:
        """The relations that ALTER PUBLICATION touches: all, if it sets an option; else those that
        are added, dropped, or get another filter or column list.
        """
        same = replace(after, tables=before.tables, schemas=before.schemas, excepted=before.excepted)
        if same != before or after.excepted != before.excepted:
            return self._members(before) | self._members(after)
        tables = set(before.tables) ^ set(after.tables)
        schemas = set(before.schemas) ^ set(after.schemas)
        return self._members(Publication(after.name, tables=tuple(tables), schemas=tuple(schemas)))

    def _members(self, publication: Publication) -> frozenset[int]:
        """The relations that a publication may publish, with partitions."""
        named = [
            one
            for one in self.catalog.relations.values()
            if publication.all_tables or one.schema in publication.schemas or publication.entry(*one.table.key)
        ]
        return frozenset(below.oid for one in named for below in self._tree(one))


def _type_line(
    oid: int, schema: str, name: str, kind: str, category: str, *, array: int, base: int = 0, modifier: int = -1
) -> str:
    """A type as a line of :attr:`PublisherTables.own_objects`."""
    return "\t".join(map(str, ("type", oid, schema, name, kind, category, 0, 0, array, 0, base, modifier, 0, 0)))


def _array_line(oid: int, schema: str, name: str, element: int) -> str:
    return "\t".join(map(str, ("type", oid, schema, f"_{name}", "b", "A", 0, element, 0, 0, 0, -1, 0, 0)))

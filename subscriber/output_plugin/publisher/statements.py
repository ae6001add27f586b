"""The statements of a session that change or read rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from subscriber.errors import UsageError
from subscriber.output_plugin import wal_records as wal
from subscriber.output_plugin.heap_tuples import ColumnDatum
from subscriber.output_plugin.historic_catalog import CatalogChange, Relation
from subscriber.output_plugin.publisher.rows import RowVersion, matches
from subscriber.output_plugin.publisher.tables import find
from subscriber.output_plugin.publisher.transactions import TransactionSession
from subscriber.output_plugin.publisher.values import base_type, datum
from subscriber.output_plugin.replica_identity import extract_replica_identity, key_is_required, new_tuple
from subscriber.protocol.messages import NULL


class RowSession(TransactionSession):
    """The statements that change rows."""

    def insert(
        self, table: str, row: Mapping[str, Any] | None = None, /, *, on_conflict: bool = False, **values: Any
    ) -> None:
        """INSERT one row. Columns that are not given are NULL.

        Args:
            table: the table, or a partitioned table.
            row: the values, by column; for columns whose names are no Python names.
            on_conflict: whether it is INSERT … ON CONFLICT DO NOTHING, which leaves two records.
            values: the values, by column.

        Raises:
            UsageError: 42P01, 42703, no such table or column; 23505, the key exists; 23514, no
                partition for the row.
        """
        with self._statement():
            relation = find(self.catalog, table)
            given = self._by_number(relation, {**(row or {}), **values})
            self._insert(relation, given, speculative=on_conflict)

    def update(self, table: str, where: Mapping[str, Any], /, **values: Any) -> int:
        """UPDATE the rows whose columns have the values of ``where``; returns how many. A row that
        belongs to another partition afterwards is deleted and inserted.

        Raises:
            UsageError: as :meth:`insert`; or 55P03, another session has changed a row.
        """
        with self._statement():
            found = list(self._found(table, where))
            for relation, row in found:
                self._update(relation, row, self._by_number(relation, values))
            return len(found)

    def delete(self, table: str, where: Mapping[str, Any], /) -> int:
        """DELETE the rows whose columns have the values of ``where``; returns how many.

        Raises:
            UsageError: 42P01, 42703, 55P03.
        """
        with self._statement():
            found = list(self._found(table, where))
            for relation, row in found:
                self._delete(relation, row)
            return len(found)

    def truncate(self, *tables: str, cascade: bool = False, restart_identity: bool = False) -> None:
        """TRUNCATE; a partitioned table is truncated with its partitions.

        A table gets a new file, which is a change of the catalogs. Plugins describe it again.

        Raises:
            UsageError: 42P01, there is no such table.
        """
        with self._statement():
            oids: dict[int, None] = {}
            for table in tables:
                oids |= {relation.oid: None for relation in self._tree(find(self.catalog, table))}
            xid = self._assigned()
            own = self._own()
            stored = frozenset(oid for oid in oids if self.catalog.relation(oid).table.kind == "table")
            self._change_catalog(CatalogChange(invalidated=stored))
            for oid in oids:
                for row in self._state.rows.visible(oid, own):
                    self._state.rows.end(row, xid)
            logged = tuple(oid for oid in oids if self.catalog.relation(oid).is_logically_logged)
            if logged:
                self._log(wal.Truncate, xid=xid, relation_oids=logged, cascade=cascade, restart_seqs=restart_identity)

    def message(self, prefix: str, content: bytes | str, *, transactional: bool = True) -> int:
        """``pg_logical_emit_message``; returns its LSN."""
        data = content.encode() if isinstance(content, str) else content
        if not transactional:
            self._check_not_aborted()
            xid = self._levels[-1].xid if self._levels else 0
            return self._log(wal.LogicalMessage, xid=xid, transactional=False, prefix=prefix, content=data).end_lsn
        with self._statement():
            xid = self._assigned()
            return self._log(wal.LogicalMessage, xid=xid, transactional=True, prefix=prefix, content=data).end_lsn

    def select(self, table: str) -> list[dict[str, str | None]]:
        """The rows of a table and its partitions as this session sees them, as text by column.

        Raises:
            UsageError: 42P01, there is no such table; 25P02, the transaction is aborted.
        """
        self._check_not_aborted()
        found = []
        for relation, row in self._found(table, {}):
            shown = {column.name: row.values.get(column.number, NULL) for column in relation.columns}
            found.append({name: _shown(value) for name, value in shown.items()})
        return found

    # One row --------------------------------------------------------------------------------------

    def _insert(self, relation: Relation, given: dict[int, Any], *, speculative: bool = False) -> None:
        names = {column.name: given.get(column.number) for column in relation.columns}
        leaf = self._leaf(relation, names)
        given = given if leaf is relation else self._by_number(leaf, names, generated=True)
        row = self._row(leaf, given, {})
        self._check_key(leaf, row)
        xid = self._assigned()
        row.xmin = xid
        self._state.rows.add(leaf.oid, row)
        if leaf.is_logically_logged:
            new = new_tuple(leaf, ordered(leaf, row))
            self._log(wal.Insert, xid=xid, relation_oid=leaf.oid, new=new, speculative=speculative)
            if speculative:
                self._log(wal.SpeculativeConfirm, xid=xid, relation_oid=leaf.oid)

    def _update(self, relation: Relation, row: RowVersion, changed: dict[int, Any]) -> None:
        given = {**row.given, **changed}
        names = {column.name: given.get(column.number) for column in relation.columns}
        root = self.catalog.ancestors(relation)
        if root and self._leaf(root[-1], names).oid != relation.oid:
            self._delete(relation, row)
            self._insert(root[-1], self._by_number(root[-1], names, generated=True))
            return
        kept = {number: value for number, value in row.values.items() if number not in changed}
        new = self._row(relation, given, kept)
        self._check_key(relation, new, replaces=row)
        xid = self._assigned()
        self._state.rows.end(row, xid)
        new.xmin = xid
        self._state.rows.add(relation.oid, new)
        if relation.is_logically_logged:
            before, after = ordered(relation, row), ordered(relation, new)
            old = extract_replica_identity(relation, before, key_required=key_is_required(relation, before, after))
            self._log(wal.Update, xid=xid, relation_oid=relation.oid, old=old, new=new_tuple(relation, after, before))

    def _delete(self, relation: Relation, row: RowVersion) -> None:
        xid = self._assigned()
        self._state.rows.end(row, xid)
        if relation.is_logically_logged:
            old = extract_replica_identity(relation, ordered(relation, row), key_required=True)
            self._log(wal.Delete, xid=xid, relation_oid=relation.oid, old=old)

    def _row(self, relation: Relation, given: dict[int, Any], kept: Mapping[int, ColumnDatum]) -> RowVersion:
        """A row version, with the values ``kept`` of the row before and generated columns."""
        values: dict[int, ColumnDatum] = {}
        names = {column.name: given.get(column.number) for column in relation.columns}
        tables = self.catalog.tables
        for column in relation.columns:
            value = given.get(column.number)
            if column.generated == "virtual":
                value = None
            elif column.generated == "stored":
                value = self._state.computes[relation.oid, column.number](names)
            elif column.number in kept:
                values[column.number] = kept[column.number]
                continue
            values[column.number] = datum(value, base_type(column.type_oid, tables), tables)
        return RowVersion(values, dict(given), 0)

    def _check_key(self, relation: Relation, row: RowVersion, replaces: RowVersion | None = None) -> None:
        numbers = self._state.keys.get(relation.oid, ())
        key = {number: row.values[number] for number in numbers if number in row.values}
        if not key or len(key) < len(numbers):
            return  # no primary key, or one of its columns was dropped
        for other in self._state.rows.visible(relation.oid, self._own()):
            if other is not replaces and matches(other, key):
                raise UsageError(
                    f'duplicate key value violates unique constraint "{relation.name}_pkey"',
                    sqlstate="23505",
                    relation=relation.qualified_name,
                    hint="Give the row another key.",
                )

    # Tables ---------------------------------------------------------------------------------------

    def _by_number(self, relation: Relation, values: Mapping[str, Any], *, generated: bool = False) -> dict[int, Any]:
        """Values by column number. ``generated``: ignore the values of generated columns."""
        found = {}
        for name, value in values.items():
            column = relation.table.column(name)
            if column is None or (column.generated and not generated):
                what = "does not exist" if column is None else "can only be updated to DEFAULT"
                raise UsageError(
                    f'column "{name}" of relation "{relation.name}" {what}',
                    sqlstate="42703" if column is None else "428C9",
                    relation=relation.qualified_name,
                    hint="Give values for columns of the table that are not generated.",
                )
            if not column.generated:
                found[column.number] = value
        return found

    def _found(self, table: str, where: Mapping[str, Any]) -> Iterator[tuple[Relation, RowVersion]]:
        """The rows that match, each with the table or partition that it is in."""
        tables = self.catalog.tables
        own = self._own()
        for relation in self._tree(find(self.catalog, table)):
            wanted = {}
            for number, value in self._by_number(relation, where).items():
                column = next(one for one in relation.columns if one.number == number)
                wanted[number] = datum(value, base_type(column.type_oid, tables))
            for row in self._state.rows.visible(relation.oid, own):
                if matches(row, wanted):
                    yield relation, row

    def _tree(self, relation: Relation) -> list[Relation]:
        catalog = self.catalog
        return [relation, *(catalog.relation(one.oid) for one in catalog.tables.children(relation.table))]

    def _leaf(self, relation: Relation, names: Mapping[str, Any]) -> Relation:
        """The partition of a row; the table itself if it is not partitioned."""
        partitioning = self._state.partitioning.get(relation.oid)
        if partitioning is None:
            return relation
        catalog = self.catalog
        column = relation.table.column(partitioning.column)
        assert column is not None
        key = datum(names.get(column.name), base_type(column.type_oid, catalog.tables))
        text = getattr(key, "text", None)
        default = None
        for oid, values in partitioning.partitions.items():
            if oid not in catalog.relations:
                continue
            if values is None:
                default = oid
            elif text in values:
                return self._leaf(catalog.relation(oid), names)
        if default is None:
            raise UsageError(
                f'no partition of relation "{relation.name}" found for row',
                sqlstate="23514",
                relation=relation.qualified_name,
                hint="Create a partition for the value, or a default partition.",
            )
        return self._leaf(catalog.relation(default), names)


def ordered(relation: Relation, row: RowVersion) -> list[ColumnDatum]:
    """The values of a row in the order of the relation's columns."""
    return [row.values.get(column.number, NULL) for column in relation.columns]


def _shown(value: ColumnDatum) -> str | None:
    text: bytes | None = getattr(value, "text", None)
    return None if text is None else text.decode()

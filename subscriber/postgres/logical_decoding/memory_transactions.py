"""The transactions of a session (numbers, savepoints, prepared transactions, their records) and its
statements that change rows.

A transaction gets its number with its first change, and a savepoint with its first change after it,
as in PostgreSQL (``AssignTransactionId``). So a savepoint without a change leaves nothing in the
WAL.

After an error in a statement the transaction takes no other statement, and COMMIT rolls it back, as
in PostgreSQL. ROLLBACK TO SAVEPOINT goes back to before the error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from subscriber.base.errors import UsageError
from subscriber.postgres.logical_decoding import heap_tuples
from subscriber.postgres.logical_decoding import wal_records as wal
from subscriber.postgres.logical_decoding.historic_catalog import CatalogChange, HistoricCatalog, RelationData
from subscriber.postgres.logical_decoding.memory_state import HeapRow, MemoryState, PreparedChanges, matches
from subscriber.postgres.logical_decoding.memory_tables import base_type, datum, find
from subscriber.postgres.protocol.messages import NULL

_Record = TypeVar("_Record", bound=wal.WalRecord)


@dataclass(slots=True)
class _Level:
    """A level of a transaction: the transaction itself, or a savepoint."""

    name: str = ""
    xid: int = 0
    children: list[int] = field(default_factory=list)
    changes: list[CatalogChange] = field(default_factory=list)

    @property
    def xids(self) -> list[int]:
        return [*([self.xid] if self.xid else []), *self.children]


class TransactionSession:
    def __init__(self, state: MemoryState) -> None:
        self._state = state
        self._levels: list[_Level] = []
        self._origin = ""
        self._origin_xact: tuple[int, int | None] = (0, None)
        self._is_aborted = False

    @property
    def catalog(self) -> HistoricCatalog:
        return self._state.catalog.apply_all(change for level in self._levels for change in level.changes)

    @property
    def xid(self) -> int:
        return self._levels[0].xid if self._levels else 0

    def begin(self) -> None:
        if self._levels:
            raise UsageError("there is already a transaction in progress", sqlstate="25001", hint="End it first.")
        self._levels = [_Level()]

    def commit(self) -> None:
        """COMMIT; after an error it is ROLLBACK."""
        if self._is_aborted:
            self.rollback()
            return
        top = self._merged()
        if top.xid:
            self._finish(wal.CommitRecord, top.xid, top.children)
            self._ended(top.xids, committed=True)
            self._state.catalog = self._state.catalog.apply_all(top.changes)

    def rollback(self) -> None:
        top = self._merged()
        if top.xid:
            self._finish(wal.AbortRecord, top.xid, top.children)
            self._ended(top.xids, committed=False)

    def prepare(self, gid: str) -> None:
        """PREPARE TRANSACTION; after an error it is ROLLBACK.

        A transaction that has written nothing gets its number now. A server writes its records,
        too, but does not decode them, because it has seen no change (``ReorderBufferPrepare``).
        """
        if self._is_aborted:
            self.rollback()
            return
        if gid in self._state.prepared:
            raise UsageError(
                f'transaction identifier "{gid}" is already in use', sqlstate="42710", hint="Choose another identifier."
            )
        top = self._merged()
        if top.xid:
            self._finish(wal.PrepareRecord, top.xid, top.children, gid=gid)
        else:
            self._state.new_xid()
        self._state.prepared[gid] = PreparedChanges(top.xid, tuple(top.children), tuple(top.changes))

    def commit_prepared(self, gid: str) -> None:
        prepared = self._take_prepared(gid)
        if not prepared.xid:
            return
        self._finish(wal.CommitPreparedRecord, prepared.xid, prepared.subxids, gid=gid)
        self._ended([prepared.xid, *prepared.subxids], committed=True)
        self._state.catalog = self._state.catalog.apply_all(prepared.changes)

    def rollback_prepared(self, gid: str) -> None:
        prepared = self._take_prepared(gid)
        if not prepared.xid:
            return
        self._finish(wal.RollbackPreparedRecord, prepared.xid, prepared.subxids, gid=gid)
        self._ended([prepared.xid, *prepared.subxids], committed=False)

    def savepoint(self, name: str) -> None:
        self._require()
        self._check_not_aborted()
        self._levels.append(_Level(name))

    def release(self, name: str) -> None:
        """RELEASE SAVEPOINT: the changes now belong to what surrounds the savepoint."""
        self._check_not_aborted()
        place = self._place(name)
        while len(self._levels) > place:
            level = self._levels.pop()
            self._levels[-1].children += level.xids
            self._levels[-1].changes += level.changes
            if level.xid:
                self._state.log(wal.SubtransactionCommitRecord, xid=level.xid)

    def rollback_to(self, name: str) -> None:
        """ROLLBACK TO SAVEPOINT: undo what was done since; the savepoint stays."""
        place = self._place(name)
        gone = self._levels[place:]
        self._levels[place:] = [_Level(name)]
        for level in reversed(gone):
            if level.xid:
                self._log(
                    wal.SubtransactionAbortRecord,
                    xid=level.xid,
                    subxids=tuple(level.children),
                    timestamp=self._state.now(),
                )
            self._ended(level.xids, committed=False)
        self._is_aborted = False

    def replicate_origin(self, name: str) -> None:
        """``pg_replication_origin_session_setup``; an empty name ends it."""
        if name:
            self._state.origin(name)
        self._origin = name
        self._origin_xact = (0, None)

    def origin_xact(self, lsn: int, timestamp: int | None = None) -> None:
        """``pg_replication_origin_xact_setup``; it holds until another call."""
        self._origin_xact = (lsn, timestamp)

    # For statements -------------------------------------------------------------------------------

    @contextmanager
    def _statement(self) -> Iterator[None]:
        self._check_not_aborted()
        if self._levels:
            try:
                yield
            except BaseException:
                self._is_aborted = True
                raise
            return
        self.begin()
        try:
            yield
        except BaseException:
            self.rollback()
            raise
        self.commit()

    def _assigned(self) -> int:
        for depth, level in enumerate(self._levels):
            if level.xid:
                continue
            level.xid = self._state.new_xid()
            if depth:
                self._log(wal.SubtransactionStartRecord, xid=level.xid, top_xid=self.xid)
            else:
                self._log(wal.BeginRecord, xid=level.xid)
        return self._levels[-1].xid

    def _own(self) -> frozenset[int]:
        return frozenset(xid for level in self._levels for xid in level.xids)

    def _log(self, kind: Callable[..., _Record], **fields: Any) -> _Record:
        origin = self._state.origin(self._origin) if self._origin else 0
        return self._state.log(kind, origin_id=origin, **fields)

    def _change_catalog(self, change: CatalogChange) -> None:
        self._log(wal.SchemaChangeRecord, xid=self._assigned(), change=change)
        self._levels[-1].changes.append(change)

    def _finish(self, kind: Callable[..., _Record], xid: int, subxids: Any, **fields: Any) -> None:
        now = self._state.now()
        lsn, timestamp = self._origin_xact
        if self._origin and timestamp is None and kind is not wal.PrepareRecord:
            timestamp = now
            self._origin_xact = (lsn, now)
        self._log(
            kind,
            xid=xid,
            subxids=tuple(subxids),
            timestamp=now,
            origin_lsn=lsn,
            origin_timestamp=timestamp,
            **fields,
        )

    def _ended(self, xids: list[int], *, committed: bool) -> None:
        for xid in xids:
            self._state.rows.set_status(xid, "committed" if committed else "aborted")

    def _merged(self) -> _Level:
        self._require()
        top, *savepoints = self._levels
        for level in savepoints:
            top.children += level.xids
            top.changes += level.changes
        self._levels = []
        self._is_aborted = False
        return top

    def _check_not_aborted(self) -> None:
        if self._is_aborted:
            raise UsageError(
                "current transaction is aborted, commands ignored until end of transaction block",
                sqlstate="25P02",
                hint="Call rollback(), or rollback_to() with a savepoint.",
            )

    def _require(self) -> None:
        if not self._levels:
            raise UsageError("there is no transaction in progress", sqlstate="25P01", hint="Call begin() first.")

    def _place(self, name: str) -> int:
        for place in range(len(self._levels) - 1, 0, -1):
            if self._levels[place].name == name:
                return place
        self._is_aborted = bool(self._levels)
        raise UsageError(f'savepoint "{name}" does not exist', sqlstate="3B001", hint="Call savepoint() first.")

    def _take_prepared(self, gid: str) -> PreparedChanges:
        prepared = self._state.prepared.pop(gid, None)
        if prepared is None:
            raise UsageError(
                f'prepared transaction with identifier "{gid}" does not exist',
                sqlstate="42704",
                hint="Call prepare() first.",
            )
        return prepared


class RowSession(TransactionSession):
    def insert(
        self, table: str, row: Mapping[str, Any] | None = None, /, *, on_conflict: bool = False, **values: Any
    ) -> None:
        """INSERT one row, with ``row`` for columns whose names are no Python names. Columns that
        are not given are NULL. ``on_conflict``: INSERT … ON CONFLICT DO NOTHING, which leaves two
        records.
        """
        with self._statement():
            relation = find(self.catalog, table)
            given = self._by_number(relation, {**(row or {}), **values})
            self._insert(relation, given, speculative=on_conflict)

    def update(self, table: str, where: Mapping[str, Any], /, **values: Any) -> int:
        """UPDATE the rows that ``where`` selects; a row that changes its partition is moved."""
        with self._statement():
            found = list(self._found(table, where))
            for relation, row in found:
                self._update(relation, row, self._by_number(relation, values))
            return len(found)

    def delete(self, table: str, where: Mapping[str, Any], /) -> int:
        with self._statement():
            found = list(self._found(table, where))
            for relation, row in found:
                self._delete(relation, row)
            return len(found)

    def truncate(self, *tables: str, cascade: bool = False, restart_identity: bool = False) -> None:
        """A table gets a new file, which is a change of the catalogs: plugins describe it again."""
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
                self._log(
                    wal.TruncateRecord, xid=xid, relation_oids=logged, cascade=cascade, restart_seqs=restart_identity
                )

    def message(self, prefix: str, content: bytes | str, *, transactional: bool = True) -> int:
        data = content.encode() if isinstance(content, str) else content
        if not transactional:
            self._check_not_aborted()
            xid = self._levels[-1].xid if self._levels else 0
            return self._log(
                wal.LogicalMessageRecord, xid=xid, transactional=False, prefix=prefix, content=data
            ).end_lsn
        with self._statement():
            xid = self._assigned()
            return self._log(wal.LogicalMessageRecord, xid=xid, transactional=True, prefix=prefix, content=data).end_lsn

    def select(self, table: str) -> list[dict[str, str | None]]:
        self._check_not_aborted()
        found = []
        for relation, row in self._found(table, {}):
            shown = {column.name: row.values.get(column.number, NULL) for column in relation.columns}
            found.append({name: _shown(value) for name, value in shown.items()})
        return found

    # One row --------------------------------------------------------------------------------------

    def _insert(self, relation: RelationData, given: dict[int, Any], *, speculative: bool = False) -> None:
        names = {column.name: given.get(column.number) for column in relation.columns}
        leaf = self._leaf(relation, names)
        given = given if leaf is relation else self._by_number(leaf, names, generated=True)
        row = self._row(leaf, given, {})
        self._check_key(leaf, row)
        xid = self._assigned()
        row.xmin = xid
        self._state.rows.add(leaf.oid, row)
        if leaf.is_logically_logged:
            new = heap_tuples.new_tuple(leaf, ordered(leaf, row))
            self._log(wal.InsertRecord, xid=xid, relation_oid=leaf.oid, new=new, speculative=speculative)
            if speculative:
                self._log(wal.SpeculativeConfirmRecord, xid=xid, relation_oid=leaf.oid)

    def _update(self, relation: RelationData, row: HeapRow, changed: dict[int, Any]) -> None:
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
            old = heap_tuples.extract_replica_identity(
                relation, before, key_required=heap_tuples.key_is_required(relation, before, after)
            )
            self._log(
                wal.UpdateRecord,
                xid=xid,
                relation_oid=relation.oid,
                old=old,
                new=heap_tuples.new_tuple(relation, after, before),
            )

    def _delete(self, relation: RelationData, row: HeapRow) -> None:
        xid = self._assigned()
        self._state.rows.end(row, xid)
        if relation.is_logically_logged:
            old = heap_tuples.extract_replica_identity(relation, ordered(relation, row), key_required=True)
            self._log(wal.DeleteRecord, xid=xid, relation_oid=relation.oid, old=old)

    def _row(
        self, relation: RelationData, given: dict[int, Any], kept: Mapping[int, heap_tuples.ColumnDatum]
    ) -> HeapRow:
        values: dict[int, heap_tuples.ColumnDatum] = {}
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
        return HeapRow(values, dict(given), 0)

    def _check_key(self, relation: RelationData, row: HeapRow, replaces: HeapRow | None = None) -> None:
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

    def _by_number(
        self, relation: RelationData, values: Mapping[str, Any], *, generated: bool = False
    ) -> dict[int, Any]:
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

    def _found(self, table: str, where: Mapping[str, Any]) -> Iterator[tuple[RelationData, HeapRow]]:
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

    def _tree(self, relation: RelationData) -> list[RelationData]:
        catalog = self.catalog
        return [relation, *(catalog.relation(one.oid) for one in catalog.tables.children(relation.table))]

    def _leaf(self, relation: RelationData, names: Mapping[str, Any]) -> RelationData:
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


def ordered(relation: RelationData, row: HeapRow) -> list[heap_tuples.ColumnDatum]:
    return [row.values.get(column.number, NULL) for column in relation.columns]


def _shown(value: heap_tuples.ColumnDatum) -> str | None:
    text: bytes | None = getattr(value, "text", None)
    return None if text is None else text.decode()

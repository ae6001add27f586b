"""How pgoutput publishes each relation, and which descriptions the client has
(``get_rel_sync_entry``).

::

    publications at the change's position ──┐
    the relation, and its ancestors ────────┴─▶ RelationSyncEntry ──▶ describe ──▶ Y … R of the ancestor, Y … R
                                                   │ operations, target, columns, filters
                                                   └ what was described: to the session, or in which streams

An entry is made at the first change of its relation, with the catalogs of that position. Whatever
may make it wrong removes it; then the relation is described again (rule A24), in every stream, as
in PostgreSQL.

PostgreSQL keeps the columns of an entry as numbers of the ancestor's columns, and uses them for the
description of the leaf, too. If a leaf has its columns in another order, its description has other
columns than the list names. That is imitated; no subscriber uses the description of the leaf.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import pyarrow as pa

from subscriber.base.errors import NotSupportedError, PublisherError, RowFilterError, WalRecordError
from subscriber.postgres.logical_decoding.heap_tuples import ColumnDatum, Datum, HeapTuple
from subscriber.postgres.logical_decoding.historic_catalog import HistoricCatalog, Invalidation, RelationData
from subscriber.postgres.logical_decoding.reorder_txn import Action
from subscriber.postgres.protocol import messages
from subscriber.postgres.protocol.changes import Action as Letter
from subscriber.postgres.protocol.messages import NULL, UNCHANGED, BinaryValue, ColumnValue, TextValue, TupleData
from subscriber.postgres.publication import combine
from subscriber.postgres.publication.definition import Operation, Publication
from subscriber.postgres.publication.publishing import compile_any
from subscriber.postgres.publication.transform import SENT, RowFilter
from subscriber.postgres.schema.publisher_tables import PublisherColumn
from subscriber.postgres.schema.server_features import ServerFeatures
from subscriber.postgres.types.registry import WITHOUT_BINARY_FORM, decode_column

logger = logging.getLogger(__name__)

_FIRST_GENBKI_OID: Final = 10000
"""``FirstGenbkiObjectId``: types below are built in, and have the same OID everywhere."""


@dataclass(slots=True, eq=False)
class RelationSyncEntry:
    """How a relation is published: as ``target``, itself or an ancestor. ``columns`` are numbers of
    the target's columns in the column list; if None, ``stored`` says whether stored generated
    columns are sent. ``places`` has for each column of the target its place in the relation's rows,
    None if they are the same. ``streamed_txns`` are those in whose streams the description was
    sent.
    """

    relation: RelationData
    target: RelationData
    operations: frozenset[Operation] = frozenset()
    columns: frozenset[int] | None = None
    stored: bool = False
    filters: Mapping[Operation, RowFilter] = field(default_factory=dict)
    places: tuple[int, ...] | None = None
    schema_sent: bool = False
    streamed_txns: set[int] = field(default_factory=set)

    def is_sent(self, column: PublisherColumn) -> bool:
        """Whether a column is sent (``logicalrep_should_publish_column``)."""
        if self.columns is not None:
            return column.number in self.columns
        return not column.generated or (column.generated == "stored" and self.stored)

    def describe(self, catalog: HistoricCatalog, xid: int | None) -> Iterator[messages.Type | messages.Relation]:
        """The messages that describe the relation, after its ancestor's (rules A13, A23)."""
        if self.target.oid != self.relation.oid:
            yield from self._described(self.target, catalog, xid)
        yield from self._described(self.relation, catalog, xid)

    def _described(
        self, relation: RelationData, catalog: HistoricCatalog, xid: int | None
    ) -> Iterator[messages.Type | messages.Relation]:
        columns = [column for column in relation.columns if self.is_sent(column)]
        for column in columns:
            if column.type_oid >= _FIRST_GENBKI_OID:
                base = catalog.type_description(catalog.type_description(column.type_oid).base)
                yield messages.Type(column.type_oid, base.schema, base.name, xid)
        yield messages.Relation(
            relation.oid,
            relation.schema,
            relation.name,
            relation.replica_identity,
            tuple(_described_column(relation, column) for column in columns),
            xid,
        )


def _described_column(relation: RelationData, column: PublisherColumn) -> messages.RelationColumn:
    flags = messages.IDENTITY_FLAG if column.name in relation.identity_columns else 0
    return messages.RelationColumn(flags, column.name, column.type_oid, column.type_modifier)


class RelationSyncCache:
    def __init__(self, publication_names: tuple[str, ...]) -> None:
        self._names = publication_names
        self._publications: tuple[Publication, ...] | None = None
        self._entries: dict[int, RelationSyncEntry] = {}
        self._server_version = 0

    def entry(self, relation: RelationData, catalog: HistoricCatalog) -> RelationSyncEntry:
        """The entry of a relation. NotSupportedError (0A000) if columns differ (rules B39, B41) or
        a filter cannot be evaluated; PublisherError (42704) without a publication before 18 (rule
        A32).
        """
        found = self._entries.get(relation.oid)
        if found is None:
            self._server_version = catalog.tables.server_version
            if self._publications is None:
                self._publications = load_publications(self._names, catalog)
            # Their tables may have other names now, of which no change of a publication tells.
            now = tuple(catalog.publications.get(one.name, one) for one in self._publications)
            found = self._entries[relation.oid] = _make(relation, catalog, now)
        if found.target.oid != relation.oid:
            # A new name or identity of the ancestor does not remove the entry of the leaf.
            found.target = catalog.relation(found.target.oid)
        return found

    def invalidate(self, invalidation: Invalidation) -> None:
        """Forget what may be wrong now (rules A24, B7): before 18 a publication's change removes
        all.
        """
        if invalidation.publications:
            self._publications = None
        if invalidation.schemas or (invalidation.publications and self._server_version < 180000):
            self._entries.clear()
        for oid in invalidation.relations:
            self._entries.pop(oid, None)

    def stream_ended(self, xid: int, *, committed: bool) -> None:
        """A client that has applied a stream has its descriptions (``cleanup_rel_sync_cache``)."""
        for entry in self._entries.values():
            if xid in entry.streamed_txns:
                entry.streamed_txns.discard(xid)
                entry.schema_sent = entry.schema_sent or committed


def load_publications(names: tuple[str, ...], catalog: HistoricCatalog) -> tuple[Publication, ...]:
    """The publications with these names (rule A32; ``LoadPublications``)."""
    found = []
    for name in names:
        publication = catalog.publications.get(name)
        if publication is not None:
            found.append(publication)
        elif ServerFeatures(catalog.tables.server_version).missing_publications:
            logger.warning(
                'skipped loading publication "%s": The publication does not exist at this point in the WAL.', name
            )
        else:
            raise PublisherError(
                f'publication "{name}" does not exist',
                sqlstate="42704",
                hint="Create the publication before the changes that are decoded.",
            )
    return tuple(found)


def _make(relation: RelationData, catalog: HistoricCatalog, publications: tuple[Publication, ...]) -> RelationSyncEntry:
    found = combine.published_as(publications, catalog.tables, relation.table)
    if found is None:
        return RelationSyncEntry(relation, relation)
    target = catalog.relation(found.table.oid)
    entry = RelationSyncEntry(relation, target, found.operations)
    if found.operations.isdisjoint(combine.ROW_OPERATIONS):
        return entry
    entry.places = _places(relation, target)
    entry.filters = _filters(found, catalog)
    _set_columns(entry, found, ServerFeatures(catalog.tables.server_version))
    return entry


def _places(relation: RelationData, target: RelationData) -> tuple[int, ...] | None:
    """Where the target's columns are in the relation's rows, matched by name (rule B12)."""
    if relation is target:
        return None
    places = {column.name: place for place, column in enumerate(relation.columns)}
    for column in target.columns:
        if column.name not in places:
            raise WalRecordError(
                "could not convert row type",
                sqlstate="42804",
                detail=f'Attribute "{column.name}" of type {target.name} does not exist in type {relation.name}.',
                hint="A partition must have all columns of its table. Change the catalogs of both together.",
                relation=relation.qualified_name,
                column=column.name,
            )
    return tuple(places[column.name] for column in target.columns)


def _filters(found: combine.PublishedAs, catalog: HistoricCatalog) -> dict[Operation, RowFilter]:
    """The filters, combined with OR for each operation (rules B8-B10a)."""
    filters = {}
    for operation, each in combine.publication_filters(found).items():
        texts = [one.where for one in each if one.where is not None]
        if operation in found.operations and texts and len(texts) == len(each):
            filters[operation] = compile_any(tuple(dict.fromkeys(texts)), found.table, catalog.tables)
    return filters


def _set_columns(entry: RelationSyncEntry, found: combine.PublishedAs, features: ServerFeatures) -> None:
    target = entry.target
    attributes = len(target.columns) + len(target.dropped)
    if not features.lists_of_live_columns:
        found = replace(found, table=replace(found.table, attributes=attributes))
    sent = combine.sent_columns(found)
    plain = frozenset(column.name for column in target.columns if not column.generated)
    listed = sent.listed
    if listed and not features.published_generated_columns:
        # These versions take a list of all columns for no list.
        listed = sent.names != plain if features.lists_of_live_columns else len(sent.names) != attributes
    if listed:
        entry.columns = frozenset(column.number for column in target.columns if column.name in sent.names)
    else:
        entry.stored = sent.names != plain


PublishedRow: TypeAlias = tuple[ColumnDatum, ...]

OPERATION_OF: Final[Mapping[Action, Operation]] = {
    Action.INSERT: "insert",
    Action.UPDATE: "update",
    Action.DELETE: "delete",
}

_LETTERS: Final[Mapping[Action, Letter]] = {Action.INSERT: "I", Action.UPDATE: "U", Action.DELETE: "D"}
_ACTIONS: Final = {letter: action for action, letter in _LETTERS.items()}


@dataclass(frozen=True, slots=True)
class RowChange:
    action: Action
    old: PublishedRow | None
    new: PublishedRow | None


def row_change(
    action: Action, old: HeapTuple | None, new: HeapTuple | None, entry: RelationSyncEntry
) -> RowChange | None:
    change = RowChange(action, _converted(old, entry), _converted(new, entry))
    row_filter = entry.filters.get(OPERATION_OF[action])
    return change if row_filter is None else _filtered(change, row_filter, entry.target)


def _converted(row: HeapTuple | None, entry: RelationSyncEntry) -> PublishedRow | None:
    if row is None or entry.places is None:
        return None if row is None else row.values
    return tuple(row.values[place] for place in entry.places)


def _filtered(change: RowChange, row_filter: RowFilter, target: RelationData) -> RowChange | None:
    old, new = change.old, change.new
    completed = _completed(new, old) if old is not None and new is not None else new
    sent = SENT[
        _LETTERS[change.action],
        None if old is None else _matches(row_filter, old, target),
        None if completed is None else _matches(row_filter, completed, target),
    ]
    if sent is None:
        return None
    if _LETTERS[change.action] == "U" and sent == "I":
        return RowChange(Action.INSERT, None, completed)
    return replace(change, action=_ACTIONS[sent])


def _completed(new: PublishedRow, old: PublishedRow) -> PublishedRow:
    """The new row, with the unchanged out-of-line values that the old row has (rule B17)."""
    return tuple(
        before if after is UNCHANGED and isinstance(before, Datum) else after
        for after, before in zip(new, old, strict=True)
    )


def _matches(row_filter: RowFilter, row: PublishedRow, target: RelationData) -> bool:
    """Whether a row matches: the result is true, and neither false nor NULL (rule B11)."""
    arrays = {}
    for number, (column, value) in enumerate(zip(target.columns, row, strict=True), 1):
        if column.name not in row_filter.columns:
            continue
        if value is UNCHANGED:
            raise RowFilterError(
                f'row filter of table "{target.qualified_name}" needs column "{column.name}",'
                " whose unchanged value is not in the WAL",
                sqlstate="42P10",
                detail="Column used in the publication WHERE expression is not part of the replica identity.",
                hint="Run ALTER TABLE ... REPLICA IDENTITY FULL before the change.",
                relation=target.qualified_name,
                column=column.name,
            )
        text = value.text if isinstance(value, Datum) else None
        arrays[column.name] = decode_column(column.type_oid, pa.array([text], pa.binary()), binary=False, column=number)
    result = row_filter.evaluate(arrays, 1)[0].as_py()
    return bool(result)


# Messages ---------------------------------------------------------------------------------------


def row_message(
    change: RowChange, entry: RelationSyncEntry, xid: int | None, *, catalog: HistoricCatalog | None
) -> messages.Insert | messages.Update | messages.Delete:
    """The message of a change (rules A9-A12)."""
    target = entry.target
    old = None if change.old is None else _tuple(change.old, entry, catalog)
    new = None if change.new is None else _tuple(change.new, entry, catalog)
    # The relation that the message names decides, not the one that has logged the row (rule A10).
    kind: messages.OldKind = "O" if target.replica_identity == "f" else "K"
    if change.action is Action.DELETE:
        assert old is not None
        return messages.Delete(target.oid, kind, old, xid)
    assert new is not None
    if change.action is Action.INSERT:
        return messages.Insert(target.oid, new, xid)
    return messages.Update(target.oid, None if old is None else kind, old, new, xid)


def _tuple(row: Sequence[ColumnDatum], entry: RelationSyncEntry, catalog: HistoricCatalog | None) -> TupleData:
    return tuple(
        _value(value, column, catalog)
        for column, value in zip(entry.target.columns, row, strict=True)
        if entry.is_sent(column)
    )


def _value(value: ColumnDatum, column: PublisherColumn, catalog: HistoricCatalog | None) -> ColumnValue:
    if not isinstance(value, Datum):
        return NULL if value is NULL else UNCHANGED
    if catalog is None:
        return TextValue(value.text)
    if value.binary is not None:
        return BinaryValue(value.binary)
    # A value of a type without a send function is text. An array has one, which fails.
    types = catalog.types()
    element = types.base_element(column.type_oid)
    if element and types.base(element) in WITHOUT_BINARY_FORM:
        raise NotSupportedError(
            f"no binary output function available for type {types.name(element)}",
            sqlstate="42883",
            column=column.name,
            hint="Decode without the option binary.",
        )
    return TextValue(value.text)

"""How pgoutput publishes each relation, and which descriptions the client has
(``get_rel_sync_entry``).

::

    publications at the change's position ──┐
    the relation, and its ancestors ────────┴─▶ RelationSyncEntry ──▶ describe ──▶ Y … R of the ancestor, Y … R
                                                   │ operations, target, columns, filters
                                                   └ what was described: to the session, or in which streams

An entry is made at the first change of its relation, with the catalogs of that position, and kept.
Whatever may make it wrong removes it; then the relation is described again (rule A24). So an entry
that was removed has also forgotten in which streams it was described, as in PostgreSQL.

PostgreSQL keeps the columns of an entry as numbers of the ancestor's columns, and uses them for the
description of the leaf, too. If a leaf has its columns in another order, its description has other
columns than the list names. That is imitated; no subscriber uses the description of the leaf.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from subscriber.errors import PublisherError, WalRecordError
from subscriber.output_plugin.historic_catalog import HistoricCatalog, Invalidation, Relation
from subscriber.protocol import messages
from subscriber.publication.combine import ROW_OPERATIONS, PublishedAs, opinions, published_as, sent_columns
from subscriber.publication.definition import Operation, Publication
from subscriber.publication.publishing import compile_any
from subscriber.publication.transform import RowFilter
from subscriber.schema.publisher_tables import PublisherColumn
from subscriber.schema.server_features import ServerFeatures

logger = logging.getLogger(__name__)

_FIRST_GENBKI_OID: Final = 10000
"""``FirstGenbkiObjectId``: types below are built in, and have the same OID everywhere."""


@dataclass(slots=True, eq=False)
class RelationSyncEntry:
    """How a relation is published.

    Attributes:
        relation: the relation.
        target: the relation as which its changes are published: itself, or an ancestor.
        operations: the operations that are published.
        columns: the numbers of the target's columns in the column list; None if there is no list.
        stored: without a list, whether stored generated columns are sent.
        filters: the filters of the operations that are filtered.
        places: for each column of the target, its place in the relation's rows; None if the rows
            need not be converted.
        schema_sent: whether the client has the description.
        streamed_txns: the top-level transactions in whose streams it was sent.
    """

    relation: Relation
    target: Relation
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
        """The messages that describe the relation; those of the ancestor come first (rules A13,
        A23).

        Args:
            catalog: the catalogs at the change.
            xid: the transaction of the change, inside of a stream.
        """
        if self.target.oid != self.relation.oid:
            yield from self._described(self.target, catalog, xid)
        yield from self._described(self.relation, catalog, xid)

    def _described(
        self, relation: Relation, catalog: HistoricCatalog, xid: int | None
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


def _described_column(relation: Relation, column: PublisherColumn) -> messages.RelationColumn:
    flags = messages.IDENTITY_FLAG if column.name in relation.identity_columns else 0
    return messages.RelationColumn(flags, column.name, column.type_oid, column.type_modifier)


class RelationSyncCache:
    """The entries of a session.

    Args:
        publication_names: the publications that the client asked for.
    """

    def __init__(self, publication_names: tuple[str, ...]) -> None:
        self._names = publication_names
        self._publications: tuple[Publication, ...] | None = None
        self._entries: dict[int, RelationSyncEntry] = {}
        self._server_version = 0

    def entry(self, relation: Relation, catalog: HistoricCatalog) -> RelationSyncEntry:
        """The entry of a relation.

        Args:
            relation: the relation, which must be publishable.
            catalog: the catalogs at the change.

        Raises:
            NotSupportedError: 0A000, the publications differ in the columns (rules B39, B41); or
                a filter cannot be evaluated here.
            PublisherError: 42704, before PostgreSQL 18: a publication does not exist (rule A32).
            SubscriberError: a filter is not valid.
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
        """Forget what a change of the catalogs may have made wrong (rules A24, B7).

        Before PostgreSQL 18 any change of a publication removes every entry.
        """
        if invalidation.publications:
            self._publications = None
        if invalidation.schemas or (invalidation.publications and self._server_version < 180000):
            self._entries.clear()
        for oid in invalidation.relations:
            self._entries.pop(oid, None)

    def stream_ended(self, xid: int, *, committed: bool) -> None:
        """The streamed top-level transaction ``xid`` has ended: a client that has applied it knows
        what was described in it (rule A24; ``cleanup_rel_sync_cache``).
        """
        for entry in self._entries.values():
            if xid in entry.streamed_txns:
                entry.streamed_txns.discard(xid)
                entry.schema_sent = entry.schema_sent or committed


def load_publications(names: tuple[str, ...], catalog: HistoricCatalog) -> tuple[Publication, ...]:
    """The publications with these names (rule A32; ``LoadPublications``).

    Raises:
        PublisherError: 42704, there is none of that name, before PostgreSQL 18. Since then a
            warning is logged.
    """
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


def _make(relation: Relation, catalog: HistoricCatalog, publications: tuple[Publication, ...]) -> RelationSyncEntry:
    found = published_as(publications, catalog.tables, relation.table)
    if found is None:
        return RelationSyncEntry(relation, relation)
    target = catalog.relation(found.table.oid)
    entry = RelationSyncEntry(relation, target, found.operations)
    if found.operations.isdisjoint(ROW_OPERATIONS):
        return entry
    entry.places = _places(relation, target)
    entry.filters = _filters(found, catalog)
    _set_columns(entry, found, ServerFeatures(catalog.tables.server_version))
    return entry


def _places(relation: Relation, target: Relation) -> tuple[int, ...] | None:
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


def _filters(found: PublishedAs, catalog: HistoricCatalog) -> dict[Operation, RowFilter]:
    """The filters, combined with OR for each operation (rules B8-B10a)."""
    filters = {}
    for operation, said in opinions(found).items():
        texts = [one.where for one in said if one.where is not None]
        if operation in found.operations and texts and len(texts) == len(said):
            filters[operation] = compile_any(tuple(dict.fromkeys(texts)), found.table, catalog.tables)
    return filters


def _set_columns(entry: RelationSyncEntry, found: PublishedAs, features: ServerFeatures) -> None:
    """Find the column list (rules B39-B41)."""
    target = entry.target
    attributes = len(target.columns) + len(target.dropped)
    if not features.lists_of_live_columns:
        found = replace(found, table=replace(found.table, attributes=attributes))
    sent = sent_columns(found)
    plain = frozenset(column.name for column in target.columns if not column.generated)
    listed = sent.listed
    if listed and not features.published_generated_columns:
        # These versions take a list of all columns for no list.
        listed = sent.names != plain if features.lists_of_live_columns else len(sent.names) != attributes
    if listed:
        entry.columns = frozenset(column.number for column in target.columns if column.name in sent.names)
    else:
        entry.stored = sent.names != plain

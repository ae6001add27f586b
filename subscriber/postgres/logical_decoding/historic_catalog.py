"""The catalogs of the publisher as they were at a position in the WAL (a historic snapshot).

::

    committed catalog ──apply(change)──▶ committed catalog ──▶ …        one for each commit that changed catalogs
          │ at its first change
          ▼
    a transaction's catalog ──apply(own change, changes that commit meanwhile)──▶ …

A plugin sees every row with the tables, types and publications of that row's position, not with
those of today (rules B7, B12b). A catalog is never modified.

*Rejected: the commands themselves* (ALTER TABLE …) as content of the WAL. PostgreSQL's WAL contains
changed rows of catalogs, and a plugin never sees a command.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from subscriber.base.errors import WalRecordError
from subscriber.postgres.expressions.analyze.typeinfo import Types
from subscriber.postgres.expressions.builtin_catalog import catalog_of
from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable, PublisherTables

_RELREPLIDENT: Final = {"default": "d", "nothing": "n", "full": "f", "index": "i"}
_BYTEWISE: Final = frozenset({950})


@dataclass(frozen=True, slots=True)
class RelationData:
    """A relation, as a plugin receives it: its row in the catalogs, and the numbers of its dropped
    columns. For the temporary heap of a command that rewrites a table, ``relrewrite`` is the
    table's OID (rule E17).
    """

    table: PublisherTable
    dropped: tuple[int, ...] = ()
    relrewrite: int = 0

    @property
    def oid(self) -> int:
        return self.table.oid

    @property
    def schema(self) -> str:
        return self.table.schema

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def qualified_name(self) -> str:
        return self.table.qualified_name

    @property
    def columns(self) -> tuple[PublisherColumn, ...]:
        return self.table.columns

    @property
    def replica_identity(self) -> str:
        """``pg_class.relreplident``: ``d``, ``n``, ``f`` or ``i`` (rule A8)."""
        return _RELREPLIDENT[self.table.identity]

    @property
    def identity_columns(self) -> frozenset[str]:
        """The columns of the replica identity; none for ``nothing``, all for ``full``."""
        if self.table.identity == "nothing":
            return frozenset()
        if self.table.identity == "full":
            return frozenset(column.name for column in self.table.columns)
        return frozenset(self.table.identity_columns)

    @property
    def is_logically_logged(self) -> bool:
        """Whether the WAL has its rows (``RelationIsLogicallyLogged``, rule B1)."""
        return self.table.persistence == "permanent" and not self.table.is_system


@dataclass(frozen=True, slots=True)
class TypeDescription:
    oid: int
    schema: str
    name: str
    base: int
    sql: str


@dataclass(frozen=True, slots=True)
class Invalidation:
    """What a plugin must forget when catalogs have changed (rule A24); relations by OID."""

    relations: frozenset[int] = frozenset()
    publications: bool = False
    schemas: bool = False


@dataclass(frozen=True, slots=True)
class CatalogChange:
    """Rows of the catalogs that a command has written.

    ``types`` are lines to add to :attr:`PublisherTables.own_objects`. ``schemas``: a schema was
    created, renamed or dropped. ``invalidated`` are further relations that depend on the change,
    such as the tables that a publication begins or ceases to publish.
    """

    relations: tuple[RelationData, ...] = ()
    dropped_relations: tuple[int, ...] = ()
    publications: tuple[Publication, ...] = ()
    dropped_publications: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    schemas: bool = False
    invalidated: frozenset[int] = frozenset()

    @property
    def invalidation(self) -> Invalidation:
        changed = {relation.oid for relation in self.relations}.union(self.dropped_relations)
        return Invalidation(
            self.invalidated | changed, bool(self.publications or self.dropped_publications), self.schemas
        )


def _empty_tables() -> PublisherTables:
    return PublisherTables(180000, {}, _BYTEWISE)


def types_in(tables: PublisherTables) -> Types:
    return Types(catalog_of(tables.server_version, tables.own_objects, tables.search_path))


def type_line(oid: int, schema: str, name: str, kind: str, category: str = "U", **numbers: int) -> str:
    """A line of :attr:`PublisherTables.own_objects`, with array, element, base and modifier."""
    of = {"array": 0, "element": 0, "base": 0, "modifier": -1} | numbers
    fields = (oid, schema, name, kind, category, 0, of["element"], of["array"], 0, of["base"], of["modifier"], 0, 0)
    return "\t".join(map(str, ("type", *fields)))


@dataclass(frozen=True, slots=True)
class HistoricCatalog:
    """The catalogs at one position."""

    tables: PublisherTables = field(default_factory=_empty_tables)
    relations: Mapping[int, RelationData] = field(default_factory=dict)
    publications: Mapping[str, Publication] = field(default_factory=dict)

    def relation(self, oid: int) -> RelationData:
        found = self.relations.get(oid)
        if found is None:
            raise WalRecordError(
                f"could not open relation with OID {oid}",
                hint="A record must follow the change of the catalogs that creates its relation.",
            )
        return found

    def ancestors(self, relation: RelationData) -> tuple[RelationData, ...]:
        return tuple(self.relations[table.oid] for table in self.tables.ancestors(relation.table))

    def types(self) -> Types:
        return types_in(self.tables)

    def type_description(self, oid: int) -> TypeDescription:
        types = self.types()
        if oid not in types.catalog.types:
            raise WalRecordError(
                f"cache lookup failed for type {oid}", hint="Create the type before the table that has it."
            )
        found = types.get(oid)
        return TypeDescription(oid, found.schema, found.name, types.base(oid), types.name(oid))

    def apply(self, change: CatalogChange) -> HistoricCatalog:
        """The catalogs after a change.

        A publication and a partition name their tables, and follow a table that gets another name.
        PostgreSQL's catalogs have OIDs there.
        """
        gone = {relation.oid for relation in change.relations}.union(change.dropped_relations)
        before = {oid: one for oid, one in self.relations.items() if oid in gone}
        relations = {oid: one for oid, one in self.relations.items() if oid not in gone}
        relations |= {relation.oid: relation for relation in change.relations}
        publications = {name: one for name, one in self.publications.items() if name not in change.dropped_publications}
        names = {
            old.table.key: None if oid in change.dropped_relations else relations[oid].table.key
            for oid, old in before.items()
        }
        if any(key != new for key, new in names.items()):
            relations = {oid: _child_of(one, names) for oid, one in relations.items()}
            publications = {name: _publication_of(one, names) for name, one in publications.items()}
        publications |= {one.name: one for one in change.publications}
        tables = replace(
            self.tables,
            tables={one.table.key: one.table for _, one in sorted(relations.items()) if not one.relrewrite},
            schemas=self.tables.schemas | {relation.schema for relation in change.relations},
            own_objects="\n".join(filter(None, (self.tables.own_objects, *change.types))),
        )
        return HistoricCatalog(tables, relations, publications)

    def apply_all(self, changes: Iterable[CatalogChange]) -> HistoricCatalog:
        catalog = self
        for change in changes:
            catalog = catalog.apply(change)
        return catalog


_Key: TypeAlias = tuple[str, str]


def _child_of(relation: RelationData, names: Mapping[_Key, _Key | None]) -> RelationData:
    parents = tuple(names.get(one) or one for one in relation.table.parents)
    return (
        relation
        if parents == relation.table.parents
        else replace(relation, table=replace(relation.table, parents=parents))
    )


def _publication_of(publication: Publication, names: Mapping[_Key, _Key | None]) -> Publication:
    moved = [(entry, names.get(entry.key, entry.key)) for entry in publication.tables]
    if all(entry.key == key for entry, key in moved):
        return publication
    entries = tuple(replace(entry, schema=key[0], name=key[1]) for entry, key in moved if key is not None)
    return replace(publication, tables=entries)

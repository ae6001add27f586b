"""The tables of a publisher: what publications and filters depend on, which JSON can store
(:class:`PublisherTables`), and what is needed to create an equal table elsewhere.

In an expression, every name of a user-defined object has its schema, which shows what the
expression depends on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final, Literal

from subscriber.postgres.schema.server_features import ServerFeatures
from subscriber.postgres.schema.shape import (
    ColumnIdentity,
    ForeignKey,
    IndexShape,
    Partition,
    UniqueKey,
    UserType,
)

Generated = Literal["", "stored", "virtual"]
Identity = Literal["default", "nothing", "index", "full"]
Kind = Literal["table", "partitioned table", "view", "materialized view", "foreign table", "sequence", "other"]
Persistence = Literal["permanent", "unlogged", "temporary"]


@dataclass(frozen=True, slots=True)
class PublisherColumn:
    """A column of a table of the publisher. What follows ``expression`` is only read to create an
    equal column.

    ``type_oid`` is that of a domain or enum itself, ``type_name`` is as ``format_type`` writes it.
    ``collation`` is an OID, 0 for none. ``expression`` belongs to a generated column; ``default``
    is None for a generated or identity column. ``constant`` is the default's value as text, if it
    is a constant that is not NULL; ``serial`` says that the default is a sequence's next value,
    whoever owns the sequence.
    """

    name: str
    number: int
    type_oid: int
    type_modifier: int = -1
    type_name: str = ""
    collation: int = 0
    generated: Generated = ""
    expression: str | None = None
    nullable: bool = True
    default: str | None = None
    constant: str | None = None
    identity: ColumnIdentity = ""
    serial: bool = False

    @property
    def generation(self) -> str:
        """The publisher's clause of a generated column; empty for another one."""
        return f"GENERATED ALWAYS AS ({self.expression}) {self.generated.upper()}" if self.generated else ""


@dataclass(frozen=True, slots=True)
class PublisherTable:
    """A table of the publisher. An unknown transaction ID is 0.

    ::

        up to attributes              read_publisher_tables, read_shapes, read_table_objects
        created_by to altered_by      read_publisher_tables
        key_columns to definitions    read_shapes, read_table_objects
        from indexes on               read_table_objects

    Attributes:
        identity_columns: the columns of the replica identity: of its index, of the primary key for
            ``default``, all for ``full``.
        parents: (schema, name) of the tables that it inherits from, or is a partition of.
        attributes: on PostgreSQL 15, the number of columns including dropped ones: there a column
            list with fewer columns never counts as no list (rule B40). 0 on other versions.
        created_by: the ID of the transaction that created the table.
        placed_by: that of the transaction that attached the partition; of another table, of the
            last one that altered all its columns, as DETACH does.
        altered_by: that of the last transaction that altered the table itself, such as by RENAME.
        key_columns: those of the replica identity index, or else of the primary key (rule C11).
        unique: every other unique key without a condition or an expression, also the primary key.
        checks: the expressions of CHECK constraints that all rows meet.
        unmet: those of CHECK and NOT NULL constraints that are NOT VALID or NOT ENFORCED.
        others: the names of exclusion constraints and of the other unique indexes.
        definitions: name and DDL of ``checks`` and ``unmet`` by expression, of ``others`` by name.
        types: by column, the user-defined type of the column or of its elements, and whether it is
            an array.
        partitions: parents before their partitions.
        identity_index: the index of REPLICA IDENTITY USING INDEX.
        calls: the user-defined functions that an object calls, as ``regprocedure`` writes them, by
            kind and name of the object: "default" and a column (which may be generated), "check",
            "index" or "trigger" and its name, "partitions" and no name.
    """

    oid: int
    schema: str
    name: str
    kind: Kind
    columns: tuple[PublisherColumn, ...]
    identity: Identity = "default"
    identity_columns: tuple[str, ...] = ()
    parents: tuple[tuple[str, str], ...] = ()
    is_partition: bool = False
    persistence: Persistence = "permanent"
    is_system: bool = False
    attributes: int = 0
    created_by: int = 0
    placed_by: int = 0
    altered_by: int = 0
    key_columns: tuple[str, ...] = ()
    unique: tuple[UniqueKey, ...] = ()
    checks: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    others: tuple[str, ...] = ()
    definitions: Mapping[str, tuple[str, str]] = field(default_factory=dict, compare=False)
    indexes: tuple[IndexShape, ...] = field(default=(), compare=False)
    types: Mapping[str, tuple[UserType, bool]] = field(default_factory=dict, compare=False)
    comment: str | None = field(default=None, compare=False)
    column_comments: Mapping[str, str] = field(default_factory=dict, compare=False)
    partition_key: str = field(default="", compare=False)
    partitions: tuple[Partition, ...] = field(default=(), compare=False)
    identity_index: str = field(default="", compare=False)
    calls: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict, compare=False)

    @property
    def key(self) -> tuple[str, str]:
        return self.schema, self.name

    @property
    def qualified_name(self) -> str:
        return f"{self.schema}.{self.name}"

    def column(self, name: str) -> PublisherColumn | None:
        return next((column for column in self.columns if column.name == name), None)

    @property
    def is_partitioned(self) -> bool:
        """Whether it is a partitioned table, which has no rows itself."""
        return self.kind == "partitioned table"

    @property
    def inherits_from(self) -> tuple[tuple[str, str], ...]:
        return () if self.is_partition else self.parents

    def computing(self, sent: Container[str]) -> PublisherTable:
        """The table for which a filter is compiled, if the stream has the columns ``sent``.

        A stored generated column that is not sent (none is before 18) is computed like a virtual
        one. Its expression is immutable, so the value is the same (rules B12a, B29).
        """
        columns = tuple(
            replace(column, generated="virtual") if column.generated == "stored" and column.name not in sent else column
            for column in self.columns
        )
        return replace(self, columns=columns)


@dataclass(frozen=True, slots=True)
class TableAttributes:
    """The columns of a table at one moment, by number, and how the table has changed. They
    determine the value of a column in older rows
    (:mod:`subscriber.apply.relations.missing_columns`).

    ``last`` is the highest number that was ever used (``relnatts``). ``files`` has the file nodes,
    by OID, of the table or of its partitions that have rows. One that equals the OID is left out:
    it does until the table is rewritten (TRUNCATE, VACUUM FULL, some ALTER TABLE). ``whole``: no
    publication of the subscription has a column list for the table. ``missing`` is by column
    ``attmissingval`` as text: the value in rows that are older than the column. A partitioned table
    has its partitions' values; a table that was rewritten has none.
    """

    columns: tuple[PublisherColumn, ...]
    last: int
    files: Mapping[int, int]
    whole: bool = True
    oid: int | None = None
    missing: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Placement:
    """The place of a table in the partition tree, which decides as what its changes are published.
    ``parent`` is an OID, 0 for none. ``altered_by`` is 0 for tables that are not partitioned: their
    relation messages tell what was altered.
    """

    key: tuple[str, str]
    parent: int
    placed_by: int
    altered_by: int


@dataclass(frozen=True, slots=True)
class PublisherCollation:
    """A collation of the publisher, or the default collation of its database (OID 100).

    ``provider`` is ``c`` for libc, ``i`` for ICU, ``b`` for the server. Text is ordered by
    ``locale``, and the case of letters is that of ``ctype``. ``version`` is that of the library's
    rules, or of the server's Unicode, in use; None if the server does not know it. ``rules`` are
    ICU's, added to those of the locale.
    """

    oid: int
    name: str
    provider: str
    locale: str
    ctype: str
    version: str | None = None
    rules: str | None = None


@dataclass(frozen=True, slots=True)
class PublisherTables:
    """All tables of a publisher's database, by schema and name.

    Attributes:
        server_version: as libpq reports it, such as 180004.
        bytewise_collations: OIDs of the collations that compare by bytes, as the collation C does.
        own_objects: user-defined types, operators, functions and others, as
            :func:`subscriber.postgres.expressions.builtin_catalog.own_objects` lists them.
        schemas: all schemas, including those without tables.
        current_schema, role: CURRENT_SCHEMA, None where there is none; CURRENT_ROLE.
        known_until: the WAL position before the tables were read: what was written up to there was
            written with these tables, unless they were altered before.
        read_at: the WAL position after the tables were read.
        has_known_hashes: whether the server's hash functions give the results of
            :mod:`subscriber.postgres.expressions.functions.hashes`.
        collations: the default collation and those of columns that do not compare by bytes.
    """

    server_version: int
    tables: dict[tuple[str, str], PublisherTable]
    bytewise_collations: frozenset[int]
    search_path: tuple[str, ...] = ("public",)
    own_objects: str = ""
    schemas: frozenset[str] = frozenset({"public"})
    current_schema: str | None = "public"
    database: str = ""
    role: str = ""
    encoding: str = "UTF8"
    known_until: int = 0
    read_at: int = 0
    has_known_hashes: bool = False
    collations: tuple[PublisherCollation, ...] = ()

    @property
    def features(self) -> ServerFeatures:
        return ServerFeatures(self.server_version)

    def find(self, schema: str | None, name: str) -> PublisherTable | None:
        """The table with that name; without a schema it is searched in the search path."""
        schemas = self.search_path if schema is None else (schema,)
        return next((self.tables[one, name] for one in schemas if (one, name) in self.tables), None)

    def without_system(self) -> PublisherTables:
        """The tables without system tables, which no publication can publish."""
        return replace(self, tables={key: table for key, table in self.tables.items() if not table.is_system})

    def placements(self) -> dict[int, Placement]:
        """The places of the permanent tables, by OID."""
        found = {}
        for table in self.tables.values():
            if (
                table.kind in ("table", "partitioned table")
                and table.persistence == "permanent"
                and not table.is_system
            ):
                above = self.tables.get(table.parents[0]) if table.is_partition and table.parents else None
                altered = table.altered_by if table.kind == "partitioned table" else 0
                found[table.oid] = Placement(table.key, above.oid if above else 0, table.placed_by, altered)
        return found

    def ancestors(self, table: PublisherTable) -> list[PublisherTable]:
        """The tables that it is a partition of: the nearest first, the root last."""
        found = []
        while table.is_partition and table.parents and table.parents[0] in self.tables:
            table = self.tables[table.parents[0]]
            found.append(table)
        return found

    def children(self, table: PublisherTable) -> list[PublisherTable]:
        """Its partitions and inheriting tables at all levels, ordered by OID."""
        found: list[PublisherTable] = []
        pending = [table.key]
        while pending:
            parent = pending.pop()
            below = [one for one in self.tables.values() if parent in one.parents and one not in found]
            found += below
            pending += [one.key for one in below]
        return sorted(found, key=lambda one: one.oid)


# JSON -------------------------------------------------------------------------------------------


def to_json(tables: PublisherTables) -> str:
    """The tables as text that :func:`from_json` reads; equal tables have equal text."""
    kept = {field.name: getattr(tables, field.name) for field in fields(tables)}
    kept["tables"] = [stored_values(table) for _, table in sorted(tables.tables.items())]
    kept["collations"] = [asdict(collation) for collation in tables.collations]
    return json.dumps(kept, default=sorted, ensure_ascii=False, separators=(",", ":"))


def _names(kind: type[Any], last: str) -> list[str]:
    names = [one.name for one in fields(kind)]
    return names[: names.index(last) + 1]


_STORED: Final = _names(PublisherTable, "altered_by")
_STORED_OF_COLUMN: Final = _names(PublisherColumn, "expression")


def stored_values(table: PublisherTable) -> dict[str, Any]:
    """The fields of a table that are stored, as JSON can have them."""
    columns = [{name: getattr(one, name) for name in _STORED_OF_COLUMN} for one in table.columns]
    return {name: getattr(table, name) for name in _STORED} | {"columns": columns}


def from_json(text: str) -> PublisherTables:
    read = json.loads(text)
    collations = tuple(PublisherCollation(**one) for one in read.pop("collations", ()))
    kept = _made(PublisherTables, read)
    found = [table_from(table) for table in kept["tables"]]
    return PublisherTables(**kept | {"tables": {table.key: table for table in found}, "collations": collations})


def table_from(kept: dict[str, Any]) -> PublisherTable:
    """One table from what JSON has made of its fields."""
    columns = tuple(PublisherColumn(**_made(PublisherColumn, one)) for one in kept["columns"])
    return PublisherTable(**_made(PublisherTable, kept) | {"columns": columns})


def _made(kind: type[Any], kept: dict[str, Any]) -> dict[str, Any]:
    """Convert lists to the types of the class's fields: JSON has neither tuples nor sets."""
    made: dict[str, Callable[[list[Any]], Any]] = {
        "tuple": _tuple,
        "frozenset": lambda values: frozenset(_tuple(values)),
    }
    types = {field.name: str(field.type).partition("[")[0] for field in fields(kind)}
    return {name: made[types[name]](value) if types[name] in made else value for name, value in kept.items()}


def _tuple(values: list[Any]) -> tuple[Any, ...]:
    return tuple(_tuple(value) if isinstance(value, list) else value for value in values)

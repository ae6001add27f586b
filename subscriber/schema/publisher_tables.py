"""The properties of a publisher's tables that publications depend on, as plain data that can be
stored as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from subscriber.schema.server_features import ServerFeatures

Generated = Literal["", "stored", "virtual"]
Identity = Literal["default", "nothing", "index", "full"]
Kind = Literal["table", "partitioned table", "view", "materialized view", "foreign table", "sequence", "other"]
Persistence = Literal["permanent", "unlogged", "temporary"]


@dataclass(frozen=True, slots=True)
class PublisherColumn:
    """A column of a table of the publisher.

    Attributes:
        name: the column's name.
        number: ``attnum``.
        type_oid: the type's OID.
        type_modifier: ``atttypmod``.
        type_name: the type's name, as ``format_type`` writes it.
        collation: the collation's OID, 0 for none.
        generated: whether the column is generated, and whether it is stored or virtual.
        expression: the expression of a generated column, as ``pg_get_expr`` writes it.
    """

    name: str
    number: int
    type_oid: int
    type_modifier: int = -1
    type_name: str = ""
    collation: int = 0
    generated: Generated = ""
    expression: str | None = None


@dataclass(frozen=True, slots=True)
class PublisherTable:
    """A table of the publisher.

    Attributes:
        oid: the table's OID at the publisher.
        schema: the table's schema.
        name: the table's name.
        kind: the kind of relation.
        columns: the columns that are not dropped, in order.
        identity: the replica identity.
        identity_columns: names of the columns of the replica identity: those of the index, those of
            the primary key for ``default``, all for ``full``.
        parents: (schema, name) of the tables that it inherits from, or of the table that it is a
            partition of.
        is_partition: whether it is a partition.
        persistence: permanent, unlogged or temporary.
        is_system: whether it is in a system schema.
        attributes: on PostgreSQL 15, the number of columns including dropped ones: there a column
            list with fewer columns never counts as no list (rule B40). 0 on other versions.
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

    @property
    def key(self) -> tuple[str, str]:
        """Schema and name."""
        return self.schema, self.name

    @property
    def qualified_name(self) -> str:
        """``schema.table``, for messages."""
        return f"{self.schema}.{self.name}"

    def column(self, name: str) -> PublisherColumn | None:
        """The column with that name; None if there is none."""
        return next((column for column in self.columns if column.name == name), None)

    def computing(self, sent: Container[str]) -> PublisherTable:
        """The table for which a filter is compiled, if the stream has the columns ``sent``.

        A stored generated column that is not sent is computed like a virtual one (before PostgreSQL
        18 no generated column is sent). Its expression is immutable, so the value is the same
        (rules B12a, B29).
        """
        columns = tuple(
            replace(column, generated="virtual") if column.generated == "stored" and column.name not in sent else column
            for column in self.columns
        )
        return replace(self, columns=columns)


@dataclass(frozen=True, slots=True)
class PublisherTables:
    """All tables of a publisher's database.

    Attributes:
        server_version: the version as libpq reports it, such as 180004.
        tables: the tables, by schema and name.
        bytewise_collations: OIDs of the collations that compare by bytes, as the collation C does.
        search_path: the schemas in which a table without a schema is searched, in order.
        own_objects: user-defined types, operators, functions and other objects (see
            :func:`subscriber.filters.builtins.catalog_query.own_objects`).
        schemas: all schemas, including those without tables.
        current_schema: CURRENT_SCHEMA; None where there is none.
        database: the database's name.
        role: the role that read the tables: CURRENT_ROLE.
        encoding: the database's encoding: ``server_encoding``.
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

    @property
    def features(self) -> ServerFeatures:
        """The features of the publisher's server."""
        return ServerFeatures(self.server_version)

    def find(self, schema: str | None, name: str) -> PublisherTable | None:
        """The table with that name; without a schema it is searched in the search path."""
        schemas = self.search_path if schema is None else (schema,)
        return next((self.tables[one, name] for one in schemas if (one, name) in self.tables), None)

    def without_system(self) -> PublisherTables:
        """The tables without system tables, which no publication can publish."""
        return replace(self, tables={key: table for key, table in self.tables.items() if not table.is_system})

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
    kept["tables"] = [asdict(table) for _, table in sorted(tables.tables.items())]
    return json.dumps(kept, default=sorted, ensure_ascii=False, separators=(",", ":"))


def from_json(text: str) -> PublisherTables:
    """The tables from the text that :func:`to_json` wrote."""
    kept = _made(PublisherTables, json.loads(text))
    found = [
        PublisherTable(
            **_made(PublisherTable, table)
            | {"columns": tuple(PublisherColumn(**_made(PublisherColumn, one)) for one in table["columns"])}
        )
        for table in kept["tables"]
    ]
    return PublisherTables(**kept | {"tables": {table.key: table for table in found}})


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

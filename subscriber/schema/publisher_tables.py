"""What the publisher's tables are like, as far as publications depend on it: read once, kept as data (JSON), used everywhere."""

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
        name: its name.
        number: ``attnum``.
        type_oid: its type.
        type_modifier: ``atttypmod``.
        type_name: ``format_type``'s name of it.
        collation: its OID, 0 for none.
        generated: how.
        expression: of a generated column, as ``pg_get_expr`` writes it.
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
        oid: of the publisher.
        schema: its schema.
        name: its name.
        kind: what it is.
        columns: those that are not dropped, in order.
        identity: REPLICA IDENTITY.
        identity_columns: names of the columns of the replica identity index: the primary key's for ``default``; all for ``full``.
        parents: (schema, name) of what it inherits from, or of the one it is a partition of.
        is_partition: it is a partition.
        persistence: permanent, unlogged or temporary.
        is_system: in a schema of the system's.
        attributes: on PostgreSQL 15, how many columns it has, with those that are dropped: there a list of fewer is never taken for
            none (rule B40); 0 on other versions.
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
        """The column of that name."""
        return next((column for column in self.columns if column.name == name), None)

    def computing(self, sent: Container[str]) -> PublisherTable:
        """The table for whose columns a filter is compiled, where a stream has the columns ``sent``.

        A stored generated column that is not sent (none is before PostgreSQL 18) is computed as a virtual one is: what it is generated
        by is immutable, so the value is the same (rules B12a, B29).
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
        server_version: as libpq gives it, such as 180004.
        tables: by schema and name.
        bytewise_collations: OIDs of the collations that compare as C does: by bytes.
        search_path: schemas in which a table without one is looked for, in order.
        own_objects: types, operators, functions and the like that its users have made
            (see :func:`subscriber.filters.builtins.catalog_query.own_objects`).
        schemas: all schemas, also those without tables.
        current_schema: CURRENT_SCHEMA; None where there is none.
        database: the database's name.
        role: who asked: CURRENT_ROLE.
        encoding: the database's: ``server_encoding``.
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
        """What the publisher's server can do."""
        return ServerFeatures(self.server_version)

    def find(self, schema: str | None, name: str) -> PublisherTable | None:
        """The table of that name, looked for in the search path where no schema is given."""
        schemas = self.search_path if schema is None else (schema,)
        return next((self.tables[one, name] for one in schemas if (one, name) in self.tables), None)

    def without_system(self) -> PublisherTables:
        """The tables but those of the system, which nothing can publish."""
        return replace(self, tables={key: table for key, table in self.tables.items() if not table.is_system})

    def ancestors(self, table: PublisherTable) -> list[PublisherTable]:
        """What it is a partition of, the nearest first, the root last."""
        found = []
        while table.is_partition and table.parents and table.parents[0] in self.tables:
            table = self.tables[table.parents[0]]
            found.append(table)
        return found

    def children(self, table: PublisherTable) -> list[PublisherTable]:
        """Partitions and inheriting tables of it, and theirs, in the order of their OIDs."""
        found: list[PublisherTable] = []
        pending = [table.key]
        while pending:
            parent = pending.pop()
            below = [one for one in self.tables.values() if parent in one.parents and one not in found]
            found += below
            pending += [one.key for one in below]
        return sorted(found, key=lambda one: one.oid)


# Kept as text -----------------------------------------------------------------------------------


def to_json(tables: PublisherTables) -> str:
    """The tables as text that :func:`from_json` reads back; equal tables have equal text."""
    kept = {field.name: getattr(tables, field.name) for field in fields(tables)}
    kept["tables"] = [asdict(table) for _, table in sorted(tables.tables.items())]
    return json.dumps(kept, default=sorted, ensure_ascii=False, separators=(",", ":"))


def from_json(text: str) -> PublisherTables:
    """What :func:`to_json` made text of."""
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
    """Lists as what the class has: JSON knows neither tuples nor sets."""
    made: dict[str, Callable[[list[Any]], Any]] = {
        "tuple": _tuple,
        "frozenset": lambda values: frozenset(_tuple(values)),
    }
    types = {field.name: str(field.type).partition("[")[0] for field in fields(kind)}
    return {name: made[types[name]](value) if types[name] in made else value for name, value in kept.items()}


def _tuple(values: list[Any]) -> tuple[Any, ...]:
    return tuple(_tuple(value) if isinstance(value, list) else value for value in values)

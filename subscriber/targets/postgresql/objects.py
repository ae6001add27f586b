"""Objects of PostgreSQL's tables: the publisher's own DDL, for the target's names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import sqlalchemy as sa
from typing_extensions import override

from subscriber.base.errors import SubscriberError
from subscriber.postgres.schema.publisher_tables import Identity
from subscriber.postgres.schema.server_features import ServerFeatures
from subscriber.postgres.schema.shape import after_using
from subscriber.postgres.sql.quoting import quote_literal
from subscriber.targets import table_changes
from subscriber.targets.base.catalog import by_table
from subscriber.targets.base.objects import Objects
from subscriber.targets.postgresql.ddl import has_virtual_columns
from subscriber.targets.target_table import TargetColumn, TargetTable

_OF: Final = "= ANY (CAST(:oids AS oid[]))"
_TABLES: Final = sa.text(
    "SELECT n.nspname::text AS schema, c.relname::text AS name, c.oid::int8, pg_catalog.obj_description(c.oid, 'pg_class') AS comment,"
    " c.relreplident::text AS identity,"
    " ARRAY(SELECT g.tgname::text FROM pg_catalog.pg_trigger g WHERE g.tgrelid = c.oid AND NOT g.tgisinternal) AS triggers,"
    " (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(m.nspname, p.relname)) FROM pg_catalog.pg_inherits i"
    "  JOIN pg_catalog.pg_class p ON p.oid = i.inhparent JOIN pg_catalog.pg_namespace m ON m.oid = p.relnamespace"
    "  WHERE i.inhrelid = c.oid) AS parents"
    " FROM unnest(CAST(:schemas AS text[]), CAST(:tables AS text[])) AS w (schema, name)"
    " JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema"
    " JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name"
)
_INDEXES: Final = sa.text(
    "SELECT i.indrelid::int8 AS place, x.relname::text AS name, i.indisunique AS is_unique, i.indpred IS NOT NULL AS partial, m.amname::text AS method,"
    " ARRAY(SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS u (attnum, place)"
    " LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = u.attnum"
    " WHERE u.place <= i.indnkeyatts ORDER BY u.place) AS keys, pg_catalog.pg_get_indexdef(i.indexrelid) AS definition,"
    " (SELECT pg_catalog.pg_get_constraintdef(k.oid) FROM pg_catalog.pg_constraint k WHERE k.conindid = i.indexrelid"
    " AND k.conrelid = i.indrelid AND k.contype IN ('p', 'u', 'x')) AS constraint_definition"
    f" FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid JOIN pg_catalog.pg_am m ON m.oid = x.relam WHERE i.indrelid {_OF} AND i.indisvalid"
)
_NAMES: Final = (
    "ARRAY(SELECT a.attname::text FROM unnest({}) WITH ORDINALITY AS u (attnum, place)"
    " JOIN pg_catalog.pg_attribute a ON a.attrelid = {} AND a.attnum = u.attnum ORDER BY place)"
)
_CONSTRAINTS: Final = sa.text(
    f"SELECT k.conrelid::int8 AS place, k.contype::text AS kind, k.conname::text AS name, {_NAMES.format('k.conkey', 'k.conrelid')} AS keys, r.relname::text AS other,"
    f" {_NAMES.format('k.confkey', 'k.confrelid')} AS referenced, k.confdeltype::text AS deleted, k.confupdtype::text AS updated,"
    " pg_catalog.pg_get_expr(k.conbin, k.conrelid) AS text"
    f" FROM pg_catalog.pg_constraint k LEFT JOIN pg_catalog.pg_class r ON r.oid = k.confrelid WHERE k.conrelid {_OF} AND k.contype IN ('c', 'f')"
)
_COLUMNS: Final = sa.text(
    "SELECT a.attrelid::int8 AS place, a.attname::text AS name, pg_catalog.pg_get_expr(d.adbin, d.adrelid) AS value,"
    " a.attidentity <> '' OR pg_catalog.pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%' AS counted,"
    " pg_catalog.col_description(a.attrelid, a.attnum) AS comment, a.attgenerated = 'v' AS virtual"
    " FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
    f" WHERE a.attrelid {_OF} AND a.attnum > 0 AND NOT a.attisdropped"
)
_EXISTS: Final = sa.text(
    "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace"
    " WHERE n.nspname = :schema AND t.typname = :name)"
    " OR EXISTS (SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = :schema AND c.relname = :name)"
)
_FUNCTIONS: Final = sa.text(
    "SELECT p.oid::pg_catalog.regprocedure::text, pg_catalog.pg_get_functiondef(p.oid) FROM pg_catalog.pg_proc p"
    " WHERE p.oid >= 16384 AND p.prokind IN ('f', 'p', 'w')"
    " UNION ALL SELECT p.oid::pg_catalog.regprocedure::text, '' FROM pg_catalog.pg_proc p WHERE p.oid >= 16384 AND p.prokind = 'a'"
    " UNION ALL SELECT 'collation ' || quote_ident(n.nspname) || '.' || quote_ident(o.collname), ''"
    "  FROM pg_catalog.pg_collation o JOIN pg_catalog.pg_namespace n ON n.oid = o.collnamespace WHERE o.oid >= 16384"
    " UNION ALL SELECT 'text search configuration ' || oid::pg_catalog.regconfig::text, ''"
    "  FROM pg_catalog.pg_ts_config WHERE oid >= 16384"
    " UNION ALL SELECT 'text search dictionary ' || oid::pg_catalog.regdictionary::text, ''"
    "  FROM pg_catalog.pg_ts_dict WHERE oid >= 16384"
)
_PROBE: Final = "subscriber probe"
_HAS_SCHEMA: Final = sa.text("SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = :schema)")
_NO_VIRTUAL: Final = "the column is STORED: PostgreSQL has no VIRTUAL columns before version 18"
_IDENTITIES: Final[Mapping[str, Identity]] = {"d": "default", "n": "nothing", "f": "full", "i": "index"}
_ACTIONS: Final = {"a": "NO ACTION", "r": "RESTRICT", "c": "CASCADE", "n": "SET NULL", "d": "SET DEFAULT"}
_INTEGERS: Final = frozenset({"smallint", "integer", "bigint"})


class PostgreSQLObjects(Objects):
    @override
    def find(self, connection: sa.Connection, tables: Sequence[TargetTable]) -> list[table_changes.FoundObjects]:
        places = {"schemas": [one.schema for one in tables], "tables": [one.name for one in tables]}
        with self._errors.reporting():
            path = _set_path(connection, "")
            there = {(row.schema, row.name): row for row in connection.execute(_TABLES, places)}
            oids = {"oids": [row.oid for row in there.values()]}
            indexes, constraints, columns = (
                by_table(connection.execute(query, oids)) for query in (_INDEXES, _CONSTRAINTS, _COLUMNS)
            )
            _set_path(connection, path)
        found = []
        for table in tables:
            itself = there.get((table.schema, table.name))
            oid = None if itself is None else itself.oid
            of_table = _found(table, indexes[oid], constraints[oid], columns[oid])
            if itself is not None:
                of_table = replace(
                    of_table,
                    comment=itself.comment,
                    identity=_IDENTITIES[itself.identity],
                    triggers=frozenset(itself.triggers),
                    parents=frozenset((one[0], one[1]) for one in itself.parents or ()),
                )
            found.append(of_table)
        return found

    @override
    def exists(self, connection: sa.Connection, schema: str, name: str | None = None) -> bool:
        with self._errors.reporting():
            if name is None:
                return bool(connection.execute(_HAS_SCHEMA, {"schema": schema}).scalar_one())
            return bool(connection.execute(_EXISTS, {"schema": schema, "name": name}).scalar_one())

    @override
    def expression(
        self,
        text: str,
        columns: Mapping[str, tuple[int, TargetColumn]],
        *,
        inexact: Collection[str] = (),
        enums: Collection[str] = (),
        loose: bool = False,
    ) -> str:
        return text

    @override
    def statements(
        self,
        connection: sa.Connection,
        table: TargetTable,
        change: table_changes.TableChange,
        earlier: Sequence[table_changes.TableChange] = (),
    ) -> table_changes.Statements:
        # The statements do not depend on what the table has.
        name = self.qualified(table)
        match change:
            case table_changes.NewIndex() if change.index.constraint:
                add = f"ADD CONSTRAINT {self.quote(change.name)} {change.index.ddl}"
                return table_changes.Statements((f"ALTER TABLE {name} {add}",))
            case table_changes.NewIndex():
                unique = "UNIQUE " if change.index.unique else ""
                return table_changes.Statements(
                    (f"CREATE {unique}INDEX {self.quote(change.name)} ON {name} USING {change.index.ddl}",)
                )
            case table_changes.NewForeignKey():
                return table_changes.Statements(
                    (f"ALTER TABLE {name} ADD CONSTRAINT {self.quote(change.name)} {self._foreign_key(change)}",)
                )
            case table_changes.NewGenerated() if change.virtual and not has_virtual_columns(self._engine):
                return replace(self.standard(table, replace(change, virtual=False)), note=_NO_VIRTUAL)
            case table_changes.NewIdentity():
                return self._identity(table, change.column)
            case table_changes.NewType():
                column = self.quote(change.column)
                using = f"USING {column}::pg_catalog.text::{change.type_name}"
                alter = f"ALTER TABLE {name} ALTER COLUMN {column}"
                default = () if change.default is None else (f"{alter} SET DEFAULT {change.default}",)
                return table_changes.Statements(
                    (f"{alter} DROP DEFAULT", f"{alter} TYPE {change.type_name} {using}", *default)
                )
            case table_changes.NewPartitions():
                return self._partitions(table, change)
            case table_changes.NewPartitionedTable():
                return self._partitioned_table(connection, change)
            case table_changes.NewPartition():
                return self._attached(change)
            case table_changes.NewParent():
                return table_changes.Statements((f"ALTER TABLE {name} INHERIT {self.qualified(change.parent)}",))
            case table_changes.NewReplicaIdentity():
                identity = f"USING INDEX {self.quote(change.index)}" if change.index else change.identity.upper()
                return table_changes.Statements((f"ALTER TABLE {name} REPLICA IDENTITY {identity}",))
            case table_changes.NewSequence():
                create = f"CREATE SEQUENCE {self.quote(change.schema)}.{self.quote(change.name)} {change.options}"
                return table_changes.Statements((*self._schema(connection, change.schema), create))
            case table_changes.NewUserType():
                return table_changes.Statements((*self._schema(connection, change.schema), change.ddl))
        return self.standard(table, change)  # a partitioned table takes the place of a view

    @override
    def removal(self, table: TargetTable, change: table_changes.Definition, name: str) -> tuple[str, ...]:
        alter = f"ALTER TABLE {self.qualified(table)}"
        match change:
            case table_changes.NewIndex() if not change.index.constraint:
                return (f"DROP INDEX {self.quote(str(table.schema))}.{self.quote(name)}",)
            case table_changes.NewIndex() | table_changes.NewCheck():
                return (f"{alter} DROP CONSTRAINT {self.quote(name)}",)
            case table_changes.NewGenerated():
                return (f"{alter} DROP COLUMN {self.quote(name)}",)
            case table_changes.NewDefault():
                return ()

    @override
    def shown(self, connection: sa.Connection, table: TargetTable, change: table_changes.Definition) -> str:
        """A temporary table, rolled back, shows the casts that the columns' types need."""
        written = change.index.ddl if isinstance(change, table_changes.NewIndex) else change.expression
        name = self.quote(_PROBE)
        raw = connection.execution_options(no_parameters=True)
        savepoint = connection.begin_nested()
        try:
            raw.exec_driver_sql(f"CREATE TEMPORARY TABLE {name} (LIKE {self.qualified(table)})")
            schema = raw.exec_driver_sql(
                "SELECT nspname::text FROM pg_catalog.pg_namespace WHERE oid = pg_catalog.pg_my_temp_schema()"
            ).scalar_one()
            probe = replace(table, schema=schema, name=_PROBE)
            if isinstance(change, table_changes.NewGenerated):
                raw.exec_driver_sql(f"ALTER TABLE {name} DROP COLUMN IF EXISTS {self.quote(change.column)}")
            for statement in self.statements(connection, probe, change).sql:
                raw.exec_driver_sql(statement)
            (found,) = self.find(connection, [probe])
        except (sa.exc.SQLAlchemyError, SubscriberError):  # no right to create it, or no such function
            return written
        finally:
            savepoint.rollback()
        return _definition(found, change)

    @override
    def same_constant(self, connection: sa.Connection, column: TargetColumn, first: str, second: str) -> bool:
        """A value is compared in its text form."""
        values = (f"(({one})::{column.declared_type})::pg_catalog.text" for one in (first, second))
        raw = connection.execution_options(no_parameters=True)
        with self._errors.reporting():
            return bool(raw.exec_driver_sql(f"SELECT {' IS NOT DISTINCT FROM '.join(values)}").scalar_one())

    @override
    def functions(self, connection: sa.Connection) -> Mapping[str, str]:
        with self._errors.reporting():
            path = _set_path(connection, "")
            found = {row[0]: str(row[1]) for row in connection.execute(_FUNCTIONS)}
            _set_path(connection, path)
        return found

    def _schema(self, connection: sa.Connection, schema: str) -> tuple[str, ...]:
        return () if self.exists(connection, schema) else (f"CREATE SCHEMA IF NOT EXISTS {self.quote(schema)}",)

    def _partitions(self, table: TargetTable, change: table_changes.NewPartitions) -> table_changes.Statements:
        """Replace the table by a partitioned one, with a copy of its definition as the model."""

        def qualified(schema: str, name: str) -> str:
            return f"{self.quote(schema)}.{self.quote(name)}"

        assert table.schema is not None
        name, model = self.qualified(table), qualified(table.schema, f"{table.name} (model)")
        # The lock is held until the transaction ends, so no row can arrive before the table is
        # dropped.
        guard = (
            f"BEGIN LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE; IF EXISTS (SELECT FROM {name}) THEN"
            " RAISE EXCEPTION 'the table has rows'; END IF; END"
        )
        schemas = sorted({one.schema for one in change.partitions} - {table.schema})
        return table_changes.Statements(
            (
                f"DO {quote_literal(guard)}",
                f"CREATE TABLE {model} (LIKE {name} INCLUDING ALL)",
                f"DROP TABLE {name}",
                f"CREATE TABLE {name} (LIKE {model} INCLUDING ALL) PARTITION BY {change.key}",
                f"DROP TABLE {model}",
                *(f"CREATE SCHEMA IF NOT EXISTS {self.quote(schema)}" for schema in schemas),
                *(
                    f"CREATE TABLE {qualified(one.schema, one.name)} PARTITION OF {qualified(*one.parent)} {one.bound}"
                    + (f" PARTITION BY {one.key}" if one.key else "")
                    for one in change.partitions
                ),
            ),
            needs_empty=True,
        )

    def _partitioned_table(
        self, connection: sa.Connection, change: table_changes.NewPartitionedTable
    ) -> table_changes.Statements:
        assert change.table.schema is not None
        name = self.qualified(change.table)
        create = (
            f"CREATE TABLE {name} (LIKE {self.qualified(change.model)} INCLUDING GENERATED) PARTITION BY {change.key}"
        )
        relaxed = (f"ALTER TABLE {name} ALTER COLUMN {self.quote(column)} DROP NOT NULL" for column in change.nullable)
        return table_changes.Statements((*self._schema(connection, change.table.schema), create, *relaxed))

    def _attached(self, change: table_changes.NewPartition) -> table_changes.Statements:
        """Since version 17, a partition has its root's identity, and may not bring its own."""
        table, parent = self.qualified(change.table), self.qualified(change.parent)
        version: tuple[int, ...] = getattr(self._engine.dialect, "server_version_info", None) or (0,)
        counted = change.counted if version[0] >= ServerFeatures.identity_of_partitions // 10000 else ()
        own = (f"ALTER TABLE {table} ALTER COLUMN {self.quote(column)} DROP IDENTITY IF EXISTS" for column in counted)
        return table_changes.Statements((*own, f"ALTER TABLE {parent} ATTACH PARTITION {table} {change.bound}"))

    def _foreign_key(self, change: table_changes.NewForeignKey) -> str:
        """The publisher's clause with the target's name of the referenced table."""
        before, word, after = change.key.ddl.partition(" REFERENCES ")
        place, quoted = 0, False
        while quoted or after[place : place + 1] not in ("(", ""):
            quoted ^= after[place] == '"'
            place += 1
        return f"{before}{word}{self.qualified(change.references)}{after[place:]}"

    def _identity(self, table: TargetTable, column: str) -> table_changes.Statements:
        found = table.column(column)
        if found is None or found.declared_type not in _INTEGERS:
            raise table_changes.CannotBuild("an identity column has type smallint, integer or bigint")
        alter, name = f"ALTER TABLE {self.qualified(table)} ALTER COLUMN", self.quote(column)
        not_null = (f"{alter} {name} SET NOT NULL",) if found.nullable else ()
        return table_changes.Statements((*not_null, f"{alter} {name} ADD GENERATED BY DEFAULT AS IDENTITY"))


def _found(
    table: TargetTable,
    indexes: Sequence[sa.Row[Any]],
    constraints: Sequence[sa.Row[Any]],
    columns: Sequence[sa.Row[Any]],
) -> table_changes.FoundObjects:
    generated = {column.name for column in table.columns if column.generated}
    values = {row.name: row.value for row in columns if row.value is not None}
    return table_changes.FoundObjects(
        indexes=tuple(
            table_changes.FoundIndex(
                row.name,
                tuple(row.keys),
                row.is_unique,
                row.partial,
                row.method,
                row.constraint_definition or after_using(row.definition),
                row.constraint_definition is not None,
            )
            for row in indexes
        ),
        foreign_keys=tuple(
            table_changes.FoundForeignKey(
                tuple(row.keys), row.other, tuple(row.referenced), _ACTIONS[row.deleted], _ACTIONS[row.updated]
            )
            for row in constraints
            if row.kind == "f"
        ),
        checks=tuple((row.name, row.text) for row in constraints if row.kind == "c"),
        defaults={name: text for name, text in values.items() if name not in generated},
        generated={name: text for name, text in values.items() if name in generated},
        virtual=frozenset(row.name for row in columns if row.virtual),
        counted=frozenset(row.name for row in columns if row.counted),
        column_comments={row.name: row.comment for row in columns if row.comment},
        partitioned=table.kind == "partitioned table",
    )


def _definition(found: table_changes.FoundObjects, change: table_changes.Definition) -> str:
    match change:
        case table_changes.NewIndex():
            return next(one.definition for one in found.indexes if one.name == change.name)
        case table_changes.NewCheck():
            return next(text for name, text in found.checks if name == change.name)
        case table_changes.NewDefault():
            return found.defaults[change.column]
        case table_changes.NewGenerated():
            # The reflected table is older than the column.
            return {**found.defaults, **found.generated}[change.column]


def _set_path(connection: sa.Connection, path: str) -> str:
    before = connection.execute(sa.text("SELECT pg_catalog.current_setting('search_path')")).scalar_one()
    connection.execute(sa.text("SELECT pg_catalog.set_config('search_path', :path, false)"), {"path": path})
    return str(before)

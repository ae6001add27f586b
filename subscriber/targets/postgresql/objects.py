"""Objects of PostgreSQL's tables: the publisher's own DDL, for the target's names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

import sqlalchemy as sa

from subscriber.errors import SubscriberError
from subscriber.schema.table_objects import after_using
from subscriber.targets.generic.objects import GenericObjects
from subscriber.targets.table_changes import (
    CannotBuild,
    Definition,
    FoundForeignKey,
    FoundIndex,
    FoundObjects,
    NewCheck,
    NewComment,
    NewDefault,
    NewForeignKey,
    NewGenerated,
    NewIdentity,
    NewIndex,
    NewPartitions,
    NewSequence,
    NewType,
    NewUserType,
    Statements,
    TableChange,
)
from subscriber.targets.target_table import TargetColumn, TargetTable

_OID: Final = "(SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = :schema AND c.relname = :table)"
_INDEXES: Final = sa.text(
    "SELECT x.relname::text AS name, i.indisunique AS is_unique, i.indpred IS NOT NULL AS partial, m.amname::text AS method,"
    " ARRAY(SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS u (attnum, place)"
    " LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = u.attnum"
    " WHERE u.place <= i.indnkeyatts ORDER BY u.place) AS keys, pg_catalog.pg_get_indexdef(i.indexrelid) AS definition,"
    " (SELECT pg_catalog.pg_get_constraintdef(k.oid) FROM pg_catalog.pg_constraint k WHERE k.conindid = i.indexrelid"
    " AND k.conrelid = i.indrelid AND k.contype IN ('p', 'u', 'x')) AS constraint_definition"
    f" FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid JOIN pg_catalog.pg_am m ON m.oid = x.relam WHERE i.indrelid = {_OID} AND i.indisvalid"
)
_NAMES: Final = (
    "ARRAY(SELECT a.attname::text FROM unnest({}) WITH ORDINALITY AS u (attnum, place)"
    " JOIN pg_catalog.pg_attribute a ON a.attrelid = {} AND a.attnum = u.attnum ORDER BY place)"
)
_CONSTRAINTS: Final = sa.text(
    f"SELECT k.contype::text AS kind, k.conname::text AS name, {_NAMES.format('k.conkey', 'k.conrelid')} AS keys, r.relname::text AS other,"
    f" {_NAMES.format('k.confkey', 'k.confrelid')} AS referenced, k.confdeltype::text AS deleted, k.confupdtype::text AS updated,"
    " pg_catalog.pg_get_expr(k.conbin, k.conrelid) AS text"
    f" FROM pg_catalog.pg_constraint k LEFT JOIN pg_catalog.pg_class r ON r.oid = k.confrelid WHERE k.conrelid = {_OID} AND k.contype IN ('c', 'f')"
)
_COLUMNS: Final = sa.text(
    "SELECT a.attname::text AS name, pg_catalog.pg_get_expr(d.adbin, d.adrelid) AS value,"
    " a.attidentity <> '' OR pg_catalog.pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%' AS counted,"
    " pg_catalog.col_description(a.attrelid, a.attnum) AS comment"
    " FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
    f" WHERE a.attrelid = {_OID} AND a.attnum > 0 AND NOT a.attisdropped"
)
_COMMENT: Final = sa.text(f"SELECT pg_catalog.obj_description({_OID}, 'pg_class')")
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
)
_PROBE: Final = "subscriber probe"
"""The name of a temporary table."""
_HAS_SCHEMA: Final = sa.text("SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = :schema)")
_ACTIONS: Final = {"a": "NO ACTION", "r": "RESTRICT", "c": "CASCADE", "n": "SET NULL", "d": "SET DEFAULT"}
_INTEGERS: Final = frozenset({"smallint", "integer", "bigint"})


class PostgreSQLObjects(GenericObjects):
    """See :class:`~subscriber.targets.roles.objects.Objects`."""

    def find(self, connection: sa.Connection, table: TargetTable) -> FoundObjects:
        """See :meth:`Objects.find`; expressions name user-defined objects with their schema."""
        place = {"schema": table.schema, "table": table.name}
        with self._errors.reporting():
            path = _set_path(connection, "")
            indexes = connection.execute(_INDEXES, place).all()
            constraints = connection.execute(_CONSTRAINTS, place).all()
            columns = connection.execute(_COLUMNS, place).all()
            comment = connection.execute(_COMMENT, place).scalar_one_or_none()
            _set_path(connection, path)
        generated = {column.name for column in table.columns if column.generated}
        values = {row.name: row.value for row in columns if row.value is not None}
        return FoundObjects(
            indexes=tuple(
                FoundIndex(
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
                FoundForeignKey(
                    tuple(row.keys), row.other, tuple(row.referenced), _ACTIONS[row.deleted], _ACTIONS[row.updated]
                )
                for row in constraints
                if row.kind == "f"
            ),
            checks=tuple((row.name, row.text) for row in constraints if row.kind == "c"),
            defaults={name: text for name, text in values.items() if name not in generated},
            generated={name: text for name, text in values.items() if name in generated},
            counted=frozenset(row.name for row in columns if row.counted),
            comment=comment,
            column_comments={row.name: row.comment for row in columns if row.comment},
            partitioned=table.kind == "partitioned table",
        )

    def exists(self, connection: sa.Connection, schema: str, name: str | None = None) -> bool:
        """See :meth:`Objects.exists`."""
        with self._errors.reporting():
            if name is None:
                return bool(connection.execute(_HAS_SCHEMA, {"schema": schema}).scalar_one())
            return bool(connection.execute(_EXISTS, {"schema": schema, "name": name}).scalar_one())

    def expression(
        self,
        text: str,
        columns: Mapping[str, tuple[int, TargetColumn]],
        *,
        inexact: Collection[str] = (),
        enums: Collection[str] = (),
        loose: bool = False,
    ) -> str:
        """See :meth:`Objects.expression`; the expression itself."""
        del columns, inexact, enums, loose
        return text

    def statements(
        self, connection: sa.Connection, table: TargetTable, change: TableChange, earlier: Sequence[TableChange] = ()
    ) -> Statements:
        """See :meth:`Objects.statements`."""
        del earlier  # the statements do not depend on what the table has
        name = self.qualified(table)
        match change:
            case NewIndex() if change.index.constraint:
                add = f"ADD CONSTRAINT {self.quote(change.name)} {change.index.ddl}"
                return Statements((f"ALTER TABLE {name} {add}",))
            case NewIndex():
                unique = "UNIQUE " if change.index.unique else ""
                return Statements(
                    (f"CREATE {unique}INDEX {self.quote(change.name)} ON {name} USING {change.index.ddl}",)
                )
            case NewForeignKey():
                return Statements(
                    (f"ALTER TABLE {name} ADD CONSTRAINT {self.quote(change.name)} {self._foreign_key(change)}",)
                )
            case NewCheck():
                check = f"CHECK ({change.expression}) {change.unmet}".rstrip()
                return Statements((f"ALTER TABLE {name} ADD CONSTRAINT {self.quote(change.name)} {check}",))
            case NewDefault():
                column = self.quote(change.column)
                return Statements((f"ALTER TABLE {name} ALTER COLUMN {column} SET DEFAULT {change.expression}",))
            case NewGenerated():
                made = f"{self.quote(change.column)} {change.declared} GENERATED ALWAYS AS ({change.expression}) STORED"
                return Statements((f"ALTER TABLE {name} ADD COLUMN {made}",))
            case NewIdentity():
                return self._identity(table, change.column)
            case NewComment():
                place = f"TABLE {name}" if change.column is None else f"COLUMN {name}.{self.quote(change.column)}"
                return Statements((f"COMMENT ON {place} IS {_text(change.text)}",))
            case NewType():
                column = self.quote(change.column)
                using = f"USING {column}::pg_catalog.text::{change.type_name}"
                alter = f"ALTER TABLE {name} ALTER COLUMN {column}"
                default = () if change.default is None else (f"{alter} SET DEFAULT {change.default}",)
                return Statements((f"{alter} DROP DEFAULT", f"{alter} TYPE {change.type_name} {using}", *default))
            case NewPartitions():
                return self._partitions(table, change)
            case NewSequence():
                create = f"CREATE SEQUENCE {self.quote(change.schema)}.{self.quote(change.name)} {change.options}"
                return Statements((*self._schema(connection, change.schema), create))
            case NewUserType():
                return Statements((*self._schema(connection, change.schema), change.ddl))

    def removal(self, table: TargetTable, change: Definition, name: str) -> tuple[str, ...]:
        """See :meth:`Objects.removal`."""
        alter = f"ALTER TABLE {self.qualified(table)}"
        match change:
            case NewIndex() if not change.index.constraint:
                return (f"DROP INDEX {self.quote(str(table.schema))}.{self.quote(name)}",)
            case NewIndex() | NewCheck():
                return (f"{alter} DROP CONSTRAINT {self.quote(name)}",)
            case NewGenerated():
                return (f"{alter} DROP COLUMN {self.quote(name)}",)
            case NewDefault():
                return ()

    def shown(self, connection: sa.Connection, table: TargetTable, change: Definition) -> str:
        """See :meth:`Objects.shown`; a temporary table, which is rolled back, shows the casts that
        the types of the target's columns need.
        """
        written = change.index.ddl if isinstance(change, NewIndex) else change.expression
        name = self.quote(_PROBE)
        raw = connection.execution_options(no_parameters=True)
        savepoint = connection.begin_nested()
        try:
            raw.exec_driver_sql(f"CREATE TEMPORARY TABLE {name} (LIKE {self.qualified(table)})")
            schema = raw.exec_driver_sql(
                "SELECT nspname::text FROM pg_catalog.pg_namespace WHERE oid = pg_catalog.pg_my_temp_schema()"
            ).scalar_one()
            probe = replace(table, schema=schema, name=_PROBE)
            if isinstance(change, NewGenerated):
                raw.exec_driver_sql(f"ALTER TABLE {name} DROP COLUMN IF EXISTS {self.quote(change.column)}")
            for statement in self.statements(connection, probe, change).sql:
                raw.exec_driver_sql(statement)
            found = self.find(connection, probe)
        except (sa.exc.SQLAlchemyError, SubscriberError):  # no right to create it, or no such function
            return written
        finally:
            savepoint.rollback()
        return _definition(found, change)

    def same_constant(self, connection: sa.Connection, column: TargetColumn, first: str, second: str) -> bool:
        """See :meth:`Objects.same_constant`; a value is compared in its text form."""
        values = (f"(({one})::{column.declared_type})::pg_catalog.text" for one in (first, second))
        raw = connection.execution_options(no_parameters=True)
        with self._errors.reporting():
            return bool(raw.exec_driver_sql(f"SELECT {' IS NOT DISTINCT FROM '.join(values)}").scalar_one())

    def functions(self, connection: sa.Connection) -> Mapping[str, str]:
        """See :meth:`Objects.functions`."""
        with self._errors.reporting():
            path = _set_path(connection, "")
            found = {row[0]: str(row[1]) for row in connection.execute(_FUNCTIONS)}
            _set_path(connection, path)
        return found

    def _schema(self, connection: sa.Connection, schema: str) -> tuple[str, ...]:
        """The statement that creates a schema, unless the target has it."""
        return () if self.exists(connection, schema) else (f"CREATE SCHEMA IF NOT EXISTS {self.quote(schema)}",)

    def _partitions(self, table: TargetTable, change: NewPartitions) -> Statements:
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
        return Statements(
            (
                f"DO {_text(guard)}",
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

    def _foreign_key(self, change: NewForeignKey) -> str:
        """The publisher's clause with the target's name of the referenced table."""
        before, word, after = change.key.ddl.partition(" REFERENCES ")
        place, quoted = 0, False
        while quoted or after[place : place + 1] not in ("(", ""):
            quoted ^= after[place] == '"'
            place += 1
        return f"{before}{word}{self.qualified(change.references)}{after[place:]}"

    def _identity(self, table: TargetTable, column: str) -> Statements:
        found = table.column(column)
        if found is None or found.declared_type not in _INTEGERS:
            raise CannotBuild("an identity column has type smallint, integer or bigint")
        alter, name = f"ALTER TABLE {self.qualified(table)} ALTER COLUMN", self.quote(column)
        not_null = (f"{alter} {name} SET NOT NULL",) if found.nullable else ()
        return Statements((*not_null, f"{alter} {name} ADD GENERATED BY DEFAULT AS IDENTITY"))


def _definition(found: FoundObjects, change: Definition) -> str:
    """The definition of a change among what was found."""
    match change:
        case NewIndex():
            return next(one.definition for one in found.indexes if one.name == change.name)
        case NewCheck():
            return next(text for name, text in found.checks if name == change.name)
        case NewDefault():
            return found.defaults[change.column]
        case NewGenerated():
            # The reflected table is older than the column.
            return {**found.defaults, **found.generated}[change.column]


def _set_path(connection: sa.Connection, path: str) -> str:
    """Set the search path of the session; returns the path before."""
    before = connection.execute(sa.text("SELECT pg_catalog.current_setting('search_path')")).scalar_one()
    connection.execute(sa.text("SELECT pg_catalog.set_config('search_path', :path, false)"), {"path": path})
    return str(before)


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"

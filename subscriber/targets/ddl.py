"""From the definition of a publisher's table to a target's table that stores its rows exactly.

::

    TableShape ──▶ place, column_type, … of the target ──▶ NewTable: CREATE TABLE, and differences

A column is declared so that every value of its type is read back unchanged (the target's
``check_column`` would accept the declaration). The other properties of a table are declared only if
they have the same meaning in the target. If they do not, the table is created without them, and
:attr:`NewTable.differences` reports this: a constraint that is only nearly right would refuse rows
that PostgreSQL accepts.

=========================  =======================================================================
key, NOT NULL              always; the key consists of the columns by which the publisher
                           identifies rows (rule C11)
other unique keys          if the target has this kind (deferrable, NULLS NOT DISTINCT)
defaults                   constants; others if :meth:`DDL.expression` finds the same meaning
generated columns, CHECK   if :meth:`DDL.expression` finds the same meaning; otherwise a
                           generated column becomes a plain column; not those that are NOT VALID or
                           NOT ENFORCED, which rows may violate
foreign keys               if they can be declared and are not enforced on apply's connections,
                           with ON DELETE and ON UPDATE: they change no rows while changes are
                           applied, and an application that enforces them later has the same
                           foreign keys as at the publisher
identity, serial           the target's own auto-increment if the caller asks for it; otherwise
                           the column only stores the publisher's values
=========================  =======================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.schema import CreateSchema, CreateTable, DropTable, ExecutableDDLElement

from subscriber.errors import NotSupportedError, UnsupportedValue
from subscriber.schema.shape import ColumnShape, ForeignKey, SchemaDifference, TableShape
from subscriber.targets.declared_columns import Declared
from subscriber.targets.target import Target
from subscriber.targets.target_table import AutoIncrement, TargetColumn
from subscriber.types import decode_column


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table that is to be created.

    Attributes:
        statements: the statements that :meth:`create` executes, in this order.
        differences: the properties of the publisher's table that the new table does not have.
    """

    statements: tuple[ExecutableDDLElement, ...]
    differences: tuple[SchemaDifference, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """The reasons of the differences, one sentence for each."""
        return tuple(difference.reason for difference in self.differences)

    def create(self, connection: sa.Connection) -> None:
        """Create the table in the caller's transaction.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database refused a statement. The target's boundary
                (:meth:`Errors.reporting`) translates this error.
        """
        for statement in self.statements:
            connection.execute(statement)


References = Mapping[tuple[str, str], frozenset[frozenset[str]] | None]
"""The tables that foreign keys may reference, by schema and name, each with its unique keys. The
value is None if the unique keys are not known.
"""


def create_table(
    target: Target, shape: TableShape, *, identity: bool = False, references: References | None = None
) -> NewTable:
    """The target's table for a table of the publisher (see the module); no statement is executed.

    Args:
        target: the target in which the table is to be created.
        shape: the publisher's table.
        identity: whether identity and serial columns also generate values in the target, for rows
            that are inserted there.
        references: the tables that will exist in the target; a foreign key to any other table is
            left out. None means that every table will exist.

    Raises:
        NotSupportedError: the publisher's table has no columns, or columns whose names differ only
            in the case of their letters, and the target has no such tables.
    """
    if not shape.columns and not target.capabilities.empty_tables:
        raise NotSupportedError(
            f'table "{shape.qualified_name}" has no columns, and {target.capabilities.database} has no such tables',
            hint="Publish the other tables by name.",
        )
    _check_names(target, shape)
    schema, name = target.ddl.place(shape.schema, shape.name)
    left: list[SchemaDifference] = []
    increments = _auto_increments(target, shape) if identity else {}
    items = [_column(target, shape, column, increments.get(column.name), left) for column in shape.columns]
    has_key = any(increment.is_key for increment in increments.values())
    constraints = [
        *_keys(target, shape, has_key=has_key),
        *_checks(target, shape, left),
        *_foreign_keys(target, shape, references, left),
    ]
    for other in shape.others:
        _, ddl = shape.definitions.get(other, (other, ""))
        left.append(
            SchemaDifference("unique index", other, ddl, f'"{other}" is left out: it is not an ordinary unique key')
        )
    table = sa.Table(name, sa.MetaData(), *items, *constraints, schema=schema)
    statements: list[ExecutableDDLElement] = []
    if schema is not None:
        statements.append(CreateSchema(schema, if_not_exists=True))
    statements += [statement for increment in increments.values() for statement in increment.before]
    return NewTable((*statements, CreateTable(table), *_indexes(target, shape, table, left)), tuple(left))


def table_identity(target: Target, schema: str, name: str) -> tuple[str | None, str]:
    """The table that a schema and a name denote in the target. Two names denote the same table if
    the results are equal.

    Args:
        target: the target.
        schema: the schema of the name.
        name: the name.
    """
    place, local = target.ddl.place(schema, name)
    if target.capabilities.table_case:
        return place, local
    return None if place is None else _folded(place), _folded(local)


def _folded(name: str) -> str:
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)


def _check_names(target: Target, shape: TableShape) -> None:
    if target.capabilities.column_case:
        return
    names: dict[str, str] = {}
    for column in shape.columns:
        first = names.setdefault(column.name.lower(), column.name)
        if first != column.name:
            raise NotSupportedError(
                f'columns "{first}" and "{column.name}" of table "{shape.qualified_name}" have the same name in'
                f" {target.capabilities.database}, which does not distinguish upper and lower case",
                relation=shape.qualified_name,
                column=column.name,
                hint="Publish the table with a column list that has one of them, or rename one at the publisher.",
            )


def new_columns(target: Target, shape: TableShape) -> tuple[TargetColumn, ...]:
    """The columns of the table that :func:`create_table` creates with identity columns, as far as
    they decide which values they hold.

    Args:
        target: the target in which the table is to be created.
        shape: the publisher's table.
    """
    increments = _auto_increments(target, shape)
    found = []
    for column in shape.columns:
        increment = increments.get(column.name)
        declared = _declared(target, shape, column) if increment is None else increment.declared
        nullable = _allows_null(shape, column)
        found.append(TargetColumn(column.name, declared, target.ddl.storage(declared), nullable=nullable))
    return tuple(found)


def drop_table(target: Target, schema: str, name: str) -> ExecutableDDLElement:
    """DROP TABLE for the table that :func:`create_table` creates for this name."""
    target_schema, target_name = target.ddl.place(schema, name)
    return DropTable(sa.Table(target_name, sa.MetaData(), schema=target_schema))


# Columns ----------------------------------------------------------------------------------------


def _declared(target: Target, shape: TableShape, column: ColumnShape) -> str:
    return target.ddl.column_type(column.type_oid, column.type_name, key=_is_in_key(shape, column.name))


def _auto_increments(target: Target, shape: TableShape) -> dict[str, AutoIncrement]:
    """The identity and serial columns that the target can generate values for."""
    found = {
        column.name: target.ddl.auto_increment(shape, column, _declared(target, shape, column))
        for column in shape.columns
        if column.identity or column.serial
    }
    return {name: increment for name, increment in found.items() if increment is not None}


def _column(
    target: Target,
    shape: TableShape,
    column: ColumnShape,
    increment: AutoIncrement | None,
    left: list[SchemaDifference],
) -> sa.Column[Any]:
    nullable = _allows_null(shape, column)
    if increment is not None:
        if column.identity == "a":
            reason = f'column "{column.name}" is GENERATED BY DEFAULT, so that replicated values can be stored'
            left.append(SchemaDifference("generated always", column.name, _identity(column), reason))
        return sa.Column(column.name, Declared(increment.declared), nullable=nullable, autoincrement=False)
    declared = _declared(target, shape, column)
    generated = _generated(target, shape, column, left)
    return sa.Column(
        column.name,
        Declared(declared),
        *([] if generated is None else [sa.Computed(sa.literal_column(generated), persisted=True)]),
        nullable=nullable,
        autoincrement=False,
        server_default=_default(target, shape, column, declared, left),
    )


def _allows_null(shape: TableShape, column: ColumnShape) -> bool:
    return column.nullable and column.name not in shape.key


def _is_in_key(shape: TableShape, name: str) -> bool:
    return any(name in columns for columns in (shape.key, *(key.columns for key in shape.unique)))


def _generated(target: Target, shape: TableShape, column: ColumnShape, left: list[SchemaDifference]) -> str | None:
    if column.generated is None:
        return None
    expression = None
    if target.capabilities.stored_columns:
        expression = target.ddl.expression(column.generated, _types(shape))
    if expression is None:
        reason = f'column "{column.name}" is an ordinary column: {target.capabilities.database} does not support its expression'
        ddl = f"GENERATED ALWAYS AS ({column.generated})"
        left.append(SchemaDifference("generated column", column.name, ddl, reason))
    return expression


def _default(
    target: Target, shape: TableShape, column: ColumnShape, declared: str, left: list[SchemaDifference]
) -> sa.ColumnElement[Any] | None:
    if column.identity:
        reason = f'column "{column.name}" is not an identity column'
        left.append(SchemaDifference("identity", column.name, _identity(column), reason))
    if column.default is None:
        return None
    expression = None
    if column.constant is None or target.capabilities.postgresql_expressions:
        expression = target.ddl.expression(column.default, _types(shape))
    if expression is None and column.constant is not None:
        place = TargetColumn(column.name, declared, target.ddl.storage(declared))
        expression = constant(target, column.type_oid, place, column.constant)
    if expression is None:
        reason = f'column "{column.name}" has no default'
        left.append(SchemaDifference("default", column.name, f"DEFAULT {column.default}", reason))
        return None
    return sa.literal_column(expression)


def _identity(column: ColumnShape) -> str:
    return f"GENERATED {'ALWAYS' if column.identity == 'a' else 'BY DEFAULT'} AS IDENTITY"


def constant(target: Target, type_oid: int, column: TargetColumn, text: str) -> str | None:
    """A constant as replication would store it in a column, as a literal of the target's SQL.

    None if the target's SQL has no such literal, or the column cannot store the value.

    Args:
        target: the target.
        type_oid: the constant's type at the publisher.
        column: the target's column.
        text: the constant, as the type's output function writes it.
    """
    value = pa.array([text.encode()], pa.binary())
    decoded = decode_column(type_oid, value, binary=False, column=1)
    try:
        (bound,) = target.values.bind_values(type_oid, column, decoded)
    except UnsupportedValue:
        return None
    return target.ddl.literal(bound)


def _types(shape: TableShape) -> dict[str, int]:
    return {column.name: column.type_oid for column in shape.columns}


# Constraints ------------------------------------------------------------------------------------


def _keys(target: Target, shape: TableShape, *, has_key: bool) -> Iterator[sa.Constraint]:
    if shape.key and not has_key:
        yield sa.PrimaryKeyConstraint(*shape.key)
    for key in shape.unique:
        constraint = target.ddl.unique_constraint(key)
        if constraint is not None:
            yield constraint


def _indexes(
    target: Target, shape: TableShape, table: sa.Table, left: list[SchemaDifference]
) -> Iterator[ExecutableDDLElement]:
    """The unique keys that cannot be constraints in the target, as unique indexes."""
    for key in shape.unique:
        if target.ddl.unique_constraint(key) is not None:
            continue
        index = target.ddl.unique_index(table, key)
        if index is None:
            columns = ", ".join(key.columns)
            ddl = f"UNIQUE {'' if key.nulls_distinct else 'NULLS NOT DISTINCT '}({columns}){' DEFERRABLE' if key.deferrable else ''}"
            reason = f"the unique key ({columns}) is left out: it is deferrable, or has NULLS NOT DISTINCT"
            left.append(SchemaDifference("unique key", f"({columns})", ddl, reason))
        else:
            yield index


def _checks(target: Target, shape: TableShape, left: list[SchemaDifference]) -> Iterator[sa.Constraint]:
    for check in shape.checks:
        expression = target.ddl.expression(check, _types(shape))
        name, ddl = shape.definitions.get(check, ("", f"CHECK ({check})"))
        if expression is None:
            left.append(SchemaDifference("check constraint", name, ddl, "a CHECK constraint is left out"))
        else:
            yield sa.CheckConstraint(sa.literal_column(expression), name=name or None)
    for check in shape.unmet:
        name, ddl = shape.definitions.get(check, ("", f"CHECK ({check}) NOT VALID"))
        reason = "a constraint is left out that rows of the publisher may violate"
        left.append(SchemaDifference("check constraint", name, ddl, reason))


def _foreign_keys(
    target: Target, shape: TableShape, references: References | None, left: list[SchemaDifference]
) -> Iterator[sa.Constraint]:
    for key in shape.foreign_keys:
        obstacle = _obstacle(target, key, references)
        if obstacle is not None:
            left.append(SchemaDifference("foreign key", key.name, key.ddl, obstacle))
            continue
        actions = {"ON DELETE": key.on_delete, "ON UPDATE": key.on_update}
        if key.set_columns:
            del actions["ON DELETE"]  # a list of columns, which only PostgreSQL supports
            columns = ", ".join(key.set_columns)
            reason = f"ON DELETE {key.on_delete} ({columns}) is left out: {target.capabilities.database} supports it for all columns only"
            left.append(SchemaDifference("referential action", key.name, key.ddl, reason))
        if key.match_full and len(key.columns) > 1:
            reason = f"MATCH FULL becomes MATCH SIMPLE: {target.capabilities.database} supports no other"
            left.append(SchemaDifference("referential action", key.name, key.ddl, reason))
        taken = {name: action for name, action in actions.items() if action != "NO ACTION"}
        yield sa.ForeignKeyConstraint(
            key.columns,
            _referenced(target, key),
            ondelete=taken.get("ON DELETE"),
            onupdate=taken.get("ON UPDATE"),
            deferrable=key.deferrable or None,
            initially="DEFERRED" if key.deferred else None,
        )


def _obstacle(target: Target, key: ForeignKey, references: References | None) -> str | None:
    """The reason why a foreign key is left out; None if it is declared."""
    name = f'"{key.schema}.{key.table}"'
    left_out = f"the reference to {name} is left out"
    if not target.capabilities.unenforced_foreign_keys:
        return left_out
    if not key.plain:
        return f"{left_out}: {target.capabilities.database} enforces every foreign key, and does not support PERIOD"
    if references is None:
        return None
    place = key.schema, key.table
    if place not in references:
        return f"{left_out}: the target has no such table"
    unique = references[place]
    if unique is not None and frozenset(key.referenced) not in unique:
        return f"{left_out}: the columns that it refers to are not a key there"
    return None


def _referenced(target: Target, key: ForeignKey) -> list[sa.Column[Any]]:
    # The columns of a placeholder table. Only their names are used: the referenced table may be
    # created later, or may be the same table.
    schema, name = target.ddl.place(key.schema, key.table)
    columns = [sa.Column(column, Declared("")) for column in key.referenced]
    sa.Table(name, sa.MetaData(), *columns, schema=schema)
    return columns

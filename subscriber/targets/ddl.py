"""From the definition of a publisher's table to a target's table that stores its rows exactly.

A column is declared so that every value of its type is read back unchanged (``check_column`` would
accept it), and so that the table has room in the target (:meth:`DDL.fit`). Other properties are
declared only if they mean the same in the target: a constraint that is only nearly right would
refuse rows that PostgreSQL accepts. :attr:`NewTable.differences` reports what is left out.

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
from typing import Any, Final

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.schema import CreateSchema, CreateTable, DropTable, ExecutableDDLElement

from subscriber.base.errors import NotSupportedError, UnsupportedValue
from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable
from subscriber.postgres.schema.shape import ForeignKey, SchemaDifference
from subscriber.postgres.types.registry import decode_column
from subscriber.targets.declared_columns import Declared
from subscriber.targets.statements import AddColumn
from subscriber.targets.target import Target
from subscriber.targets.target_table import AutoIncrement, Declarations, TargetColumn, TargetTable


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table that is to be created, and the properties of the publisher's that it lacks."""

    statements: tuple[ExecutableDDLElement, ...]
    differences: tuple[SchemaDifference, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(difference.reason for difference in self.differences)

    def create(self, connection: sa.Connection) -> None:
        """Create the table in the caller's transaction. Errors are SQLAlchemy's."""
        for statement in self.statements:
            connection.execute(statement)


References = Mapping[tuple[str, str], frozenset[frozenset[str]] | None]
"""By schema and name, the tables that foreign keys may reference, with their unique keys if known.
"""


def create_table(
    target: Target, shape: PublisherTable, *, identity: bool = False, references: References | None = None
) -> NewTable:
    """The target's table for a table of the publisher (see the module); no statement is executed.

    With ``identity``, identity and serial columns also generate values in the target, for rows that
    are inserted there. A foreign key to a table that is not among ``references`` is left out; None
    means that every table will exist. NotSupportedError if the target can have no such table: it
    has no columns, or too many, or a row of it is too large, or the target does not take a name.
    """
    check_columns(target, shape)
    _check_names(target, shape)
    declarations = _declarations(target, shape)
    _check_limits(target, shape, declarations)
    schema, name = target.ddl.qualified(shape.schema, shape.name)
    left = list(declarations.differences)
    increments = _auto_increments(target, shape, declarations) if identity else {}
    items = [
        _column(target, shape, column, increments.get(column.name, declarations.declared[column.name]), left)
        for column in shape.columns
    ]
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
    """Two names denote the same table of the target if the results are equal."""
    place, local = target.ddl.qualified(schema, name)
    if target.capabilities.table_case:
        return place, local
    return None if place is None else _folded(place), _folded(local)


def _folded(name: str) -> str:
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)


def check_columns(target: Target, shape: PublisherTable) -> None:
    """Refuse a table without columns (NotSupportedError), if the target has no such tables."""
    if not shape.columns and not target.capabilities.empty_tables:
        raise NotSupportedError(
            f'table "{shape.qualified_name}" has no columns, and {target.capabilities.database} has no such tables',
            relation=shape.qualified_name,
            hint=f'Leave "{shape.qualified_name}" out of the publication.',
        )


def _check_names(target: Target, shape: PublisherTable) -> None:
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


def _check_limits(target: Target, shape: PublisherTable, declarations: Declarations) -> None:
    limits, database = target.capabilities.limits, target.capabilities.database
    keys = tuple(columns for columns in (shape.key_columns, *(key.columns for key in shape.unique)) if columns)
    reasons = [*limits.obstacles(columns=len(shape.columns), keys=keys)]
    if declarations.obstacle is not None:
        reasons.append(declarations.obstacle)
    if reasons:
        raise NotSupportedError(
            f'table "{shape.qualified_name}" cannot be created in {database}: {"; ".join(reasons)}',
            relation=shape.qualified_name,
            hint=f'Publish "{shape.qualified_name}" with a column list, or leave it out of the publication. Or create the'
            " table in the target yourself, with columns that take less space.",
        )
    tables = [(name, None) for name in target.ddl.qualified(shape.schema, shape.name) if name is not None]
    for name, column in (*tables, *((one.name, one.name) for one in shape.columns)):
        reason = limits.obstacle_of_name(name, is_table=column is None)
        if reason is not None:
            raise NotSupportedError(
                f'table "{shape.qualified_name}" cannot be created in {database}: {reason}',
                relation=shape.qualified_name,
                column=column,
                hint=_NAME_OF_TABLE if column is None else _NAME_OF_COLUMN,
            )


_NAME_OF_TABLE: Final = "Use option map to replicate the table into a table of another name."
_NAME_OF_COLUMN: Final = (
    "Rename the column at the publisher, or publish the table with a column list that leaves it out."
)


def new_columns(target: Target, shape: PublisherTable) -> tuple[TargetColumn, ...]:
    """The columns of a :func:`create_table` with identity, as far as they decide what they hold."""
    declarations = _declarations(target, shape)
    increments = _auto_increments(target, shape, declarations)
    found = []
    for column in shape.columns:
        increment = increments.get(column.name)
        declared = declarations.declared[column.name] if increment is None else increment.declared
        nullable = _allows_null(shape, column)
        found.append(TargetColumn(column.name, declared, target.ddl.storage(declared), nullable=nullable))
    return tuple(found)


def drop_table(target: Target, schema: str, name: str) -> ExecutableDDLElement:
    target_schema, target_name = target.ddl.qualified(schema, name)
    return DropTable(sa.Table(target_name, sa.MetaData(), schema=target_schema))


# Columns ----------------------------------------------------------------------------------------


def _declarations(target: Target, shape: PublisherTable) -> Declarations:
    of_keys = (
        shape.key_columns,
        *(key.columns for key in shape.unique),
        *(key.columns for key in shape.foreign_keys),
    )
    in_keys = {name for columns in of_keys for name in columns}
    declared = {
        column.name: target.ddl.column_type(column.type_oid, column.type_name, key=column.name in in_keys)
        for column in shape.columns
    }
    return target.ddl.fit(shape, declared)


def _auto_increments(target: Target, shape: PublisherTable, declarations: Declarations) -> dict[str, AutoIncrement]:
    found = {
        column.name: target.ddl.auto_increment(shape, column, declarations.declared[column.name])
        for column in shape.columns
        if column.identity or column.serial
    }
    return {name: increment for name, increment in found.items() if increment is not None}


def _column(
    target: Target,
    shape: PublisherTable,
    column: PublisherColumn,
    declared: str | AutoIncrement,
    left: list[SchemaDifference],
) -> sa.Column[Any]:
    nullable = _allows_null(shape, column)
    if isinstance(declared, AutoIncrement):
        if column.identity == "a":
            reason = f'column "{column.name}" is GENERATED BY DEFAULT, so that replicated values can be stored'
            left.append(SchemaDifference("generated always", column.name, _identity(column), reason))
        return sa.Column(column.name, Declared(declared.declared), nullable=nullable, autoincrement=False)
    generated = _generated(target, shape, column, left)
    is_virtual = generated is not None and target.ddl.is_virtual(column)
    if is_virtual:  # SQLAlchemy does not write VIRTUAL for every database
        declared = f"{declared} GENERATED ALWAYS AS ({generated}) VIRTUAL"
    return sa.Column(
        column.name,
        Declared(declared),
        *([] if generated is None or is_virtual else [sa.Computed(sa.literal_column(generated), persisted=True)]),
        nullable=nullable,
        autoincrement=False,
        server_default=_default(target, shape, column, declared, left),
    )


def _allows_null(shape: PublisherTable, column: PublisherColumn) -> bool:
    return column.nullable and column.name not in shape.key_columns


def _generated(
    target: Target, shape: PublisherTable, column: PublisherColumn, left: list[SchemaDifference]
) -> str | None:
    if column.expression is None:
        return None
    expression = None
    if target.capabilities.stored_columns:
        expression = target.ddl.expression(column.expression, _types(shape))
    if expression is None:
        reason = f'column "{column.name}" is an ordinary column: {target.capabilities.database} does not support its expression'
        left.append(SchemaDifference("generated column", column.name, column.generation, reason))
    return expression


def _default(
    target: Target, shape: PublisherTable, column: PublisherColumn, declared: str, left: list[SchemaDifference]
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
    if expression is not None:
        expression = target.ddl.default(expression, declared)
    if expression is None:
        reason = f'column "{column.name}" has no default'
        left.append(SchemaDifference("default", column.name, f"DEFAULT {column.default}", reason))
        return None
    return sa.literal_column(expression)


def _identity(column: PublisherColumn) -> str:
    return f"GENERATED {'ALWAYS' if column.identity == 'a' else 'BY DEFAULT'} AS IDENTITY"


def constant(target: Target, type_oid: int, column: TargetColumn, text: str) -> str | None:
    """A constant, in the text of its type's output function, as a literal of the target's SQL that
    replication would store in a column; None if there is none, or the column cannot store it.
    """
    value = pa.array([text.encode()], pa.binary())
    decoded = decode_column(type_oid, value, binary=False, column=1)
    try:
        (bound,) = target.values.bind_values(type_oid, column, decoded)
    except UnsupportedValue:
        return None
    return target.ddl.literal(bound)


def _types(shape: PublisherTable) -> dict[str, int]:
    return {column.name: column.type_oid for column in shape.columns}


# Constraints ------------------------------------------------------------------------------------


def _keys(target: Target, shape: PublisherTable, *, has_key: bool) -> Iterator[sa.Constraint]:
    if shape.key_columns and not has_key:
        yield sa.PrimaryKeyConstraint(*shape.key_columns)
    for key in shape.unique:
        constraint = target.ddl.unique_constraint(key)
        if constraint is not None:
            yield constraint


def _indexes(
    target: Target, shape: PublisherTable, table: sa.Table, left: list[SchemaDifference]
) -> Iterator[ExecutableDDLElement]:
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


def _checks(target: Target, shape: PublisherTable, left: list[SchemaDifference]) -> Iterator[sa.Constraint]:
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
    target: Target, shape: PublisherTable, references: References | None, left: list[SchemaDifference]
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
    name = f'"{key.schema}.{key.table}"'
    left_out = f"the reference to {name} is left out"
    if not target.capabilities.unenforced_foreign_keys:
        return left_out
    if not key.plain:
        return f"{left_out}: {target.capabilities.database} enforces every foreign key, and does not support PERIOD"
    pair = None if target.capabilities.postgresql_types else key.written_differently
    if pair is not None:
        return f"{left_out}: equal values of {pair[0]} and {pair[1]} may be different texts"
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
    schema, name = target.ddl.qualified(key.schema, key.table)
    columns = [sa.Column(column, Declared("")) for column in key.referenced]
    sa.Table(name, sa.MetaData(), *columns, schema=schema)
    return columns


# Tables that exist -------------------------------------------------------------------------------


def as_typed(target: Target, statement: ExecutableDDLElement) -> str:
    """As a user would type it: SQLAlchemy doubles percent signs in names for some drivers."""
    written = str(statement.compile(target.engine))
    return written.replace("%%", "%") if target.engine.dialect.paramstyle in ("format", "pyformat") else written


def fill_column(
    target: Target, connection: sa.Connection, table: TargetTable, column: TargetColumn, type_oid: int, text: str
) -> None:
    """Set a column to one value, in the text of its type's output function, in every row of the
    table and of tables that inherit from it; of all partitions, if it is a partition. Raises
    UnsupportedValue, and SQLAlchemy's errors.
    """
    array = pa.array([text.encode()], pa.binary())
    if target.capabilities.postgresql_text:
        values: pa.Array = array.cast(pa.string())
    else:
        values = decode_column(type_oid, array, binary=False, column=1)
    (value,) = target.values.bind_values(type_oid, column, values)
    schema, name = table.altered
    clause = sa.table(name, sa.column(column.name), schema=schema)
    bound: sa.BindParameter[Any] = sa.bindparam("subscriber_value", value, type_=sa.types.NullType())
    statement = sa.update(clause).values({clause.c[column.name]: bound}).compile(dialect=target.engine.dialect)
    parameters: Any = (value,) if statement.positiontup is not None else {"subscriber_value": value}
    connection.exec_driver_sql(str(statement), parameters)


def add_column(target: Target, table: TargetTable, name: str, type_oid: int, type_name: str) -> AddColumn:
    """The statement that adds a nullable column, which stores every value of a PostgreSQL type."""
    column = sa.Column(name, Declared(target.ddl.column_type(type_oid, type_name)), nullable=True)
    schema, place = table.altered
    return AddColumn(sa.Table(place, sa.MetaData(), column, schema=schema), column)

"""The SQL of one shape of change, and the rows to bind to it.

SQLAlchemy Core writes the statement (names are quoted there, and nowhere by hand); it is compiled once
per shape and then run as driver SQL on lists of tuples, because Core's own parameter processing costs more than
the statement. NULL, unchanged and not-sent stay different here (invariant absence_is_typed)::

    column          INSERT     UPDATE ... SET     search by key    search by whole row
    value           bound      bound              = bound          IS NOT DISTINCT FROM bound
    NULL            bound      bound              = NULL, none     IS NOT DISTINCT FROM bound
    'u', unchanged  NULL (C6)  left alone (C9)    = NULL (C6)      IS NULL (C6)
    not published   default    left alone         -                IS NULL (C15)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

import pyarrow as pa
import sqlalchemy as sa

from subscriber.apply.identity import RowIdentity
from subscriber.apply.relations import LocalRelation
from subscriber.errors import ConflictError, TargetRelationError
from subscriber.protocol.changes import ChangeGroup
from subscriber.target import Target, TargetColumn, TargetTable

Rows = list[tuple[Any, ...]] | list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One bound value: from which tuple, which column; ``side`` is None for a NULL that was not sent."""

    side: Literal["old", "new"] | None
    column: TargetColumn
    type_oid: int


@dataclass(frozen=True, slots=True)
class Statement:
    """Compiled SQL and where its parameters come from, in the order of the SQL.

    Attributes:
        sql: in the driver's parameter style.
        parameters: what to bind.
        names: the parameters' names where the driver's style is by name, else None.
    """

    sql: str
    parameters: tuple[Parameter, ...]
    names: tuple[str, ...] | None


def build_statement(
    target: Target, local: LocalRelation, group: ChangeGroup, identity: RowIdentity | None
) -> Statement:
    """The statement for every change of ``group``; ``identity`` is needed for UPDATE and DELETE.

    Raises:
        TargetRelationError: an UPDATE would have to change an identity column that cannot be set.
    """
    builder = _Builder(local)
    if group.action == "I":
        statement: sa.UpdateBase = builder.insert(group)
    elif identity is None:
        raise TypeError("UPDATE and DELETE need an identity")
    elif group.action == "U":
        statement = builder.update(group, identity)
    else:
        statement = builder.delete(group, identity)
    compiled = statement.compile(dialect=target.engine.dialect)
    sql = str(compiled)
    if group.action == "I" and local.table.has_identity_always:
        sql = target.override_identity(sql)
    names = tuple(compiled.positiontup or builder.parameters)
    return Statement(
        sql, tuple(builder.parameters[name] for name in names), None if compiled.positiontup is not None else names
    )


def bind_rows(target: Target, statement: Statement, group: ChangeGroup) -> Rows:
    """The parameters of ``statement`` for each change of ``group``, converted column by column.

    Raises:
        UnsupportedValue: a value that its column cannot hold.
        ConflictError: 23502, a NULL for a column that would make a value of its own of it.
    """
    if not statement.parameters:
        return [()] * len(group)
    columns = [_bind_column(target, parameter, group) for parameter in statement.parameters]
    if statement.names is None:
        return list(zip(*columns, strict=True))
    return [dict(zip(statement.names, row, strict=True)) for row in zip(*columns, strict=True)]


def _bind_column(target: Target, parameter: Parameter, group: ChangeGroup) -> list[Any]:
    batch = {"old": group.old, "new": group.new, None: None}[parameter.side]
    column = parameter.column
    values = None if batch is None else batch.column(column.name)
    if column.null_is_generated and parameter.side != "old" and (values is None or values.null_count):
        raise ConflictError(
            f'null value in column "{column.name}" violates not-null constraint',
            sqlstate="23502",
            column=column.name,
            detail="The target would put a generated value in the place of the null.",
        )
    if values is None:
        return [None] * len(group)
    return target.bind_values(parameter.type_oid, column, values)


class _Builder:
    """Builds one statement and remembers what its parameters are."""

    def __init__(self, local: LocalRelation) -> None:
        self.local = local
        self.table = local.table.clause()
        self.parameters: dict[str, Parameter] = {}
        self._types = {column.name: column.type_oid for column in local.remote.columns}
        self._names = _parameter_names(local.table)

    def insert(self, group: ChangeGroup) -> sa.Insert:
        sent = _columns_of(group.new)
        values = {
            column.name: self._bind("new" if column.name in sent else None, column) for column in self.local.columns
        }
        # "inline": no RETURNING for values that nobody reads.
        return sa.insert(self.table).values(values).inline()

    def update(self, group: ChangeGroup, identity: RowIdentity) -> sa.Update:
        sent = _columns_of(group.new)
        values: dict[str, Any] = {
            column.name: self._bind("new", column)
            for column in self.local.columns
            if column.name in sent and not _is_untouched_identity(column, group)
        }
        if not values:
            # Everything is unchanged, yet the row must be there (C18).
            name = self.local.table.columns[0].name
            values = {name: self.table.c[name]}
        return sa.update(self.table).where(*self._search(group, identity)).values(values)

    def delete(self, group: ChangeGroup, identity: RowIdentity) -> sa.Delete:
        return sa.delete(self.table).where(*self._search(group, identity))

    def _search(self, group: ChangeGroup, identity: RowIdentity) -> Iterator[sa.ColumnElement[bool]]:
        """The search tuple is the old tuple when it was sent, else the new one (rule C8)."""
        side: Literal["old", "new"] = "new" if group.old is None else "old"
        sent = _columns_of(group.new if group.old is None else group.old)
        if identity.whole_row:
            yield self._first_match(side, sent, identity)
            return
        for name in identity.columns:
            column = self._column(name)
            yield self.table.c[name] == self._bind(side if name in sent else None, column)

    def _first_match(self, side: Literal["old", "new"], sent: set[str], identity: RowIdentity) -> Any:
        locator = str(self.local.table.locator)
        inner = self.table.alias("subscriber_search")
        conditions = [
            inner.c[name].is_not_distinct_from(self._bind(side, self._column(name)))
            if name in sent
            else inner.c[name].is_(None)
            for name in identity.columns
        ]
        # Literals, since a dialect may add parameters of its own for a limit without an offset.
        one: sa.ColumnClause[int] = sa.literal_column("1")
        zero: sa.ColumnClause[int] = sa.literal_column("0")
        first = sa.select(inner.c[locator]).where(*conditions).limit(one).offset(zero)
        return self.table.c[locator] == first.scalar_subquery()

    def _bind(self, side: Literal["old", "new"] | None, column: TargetColumn) -> sa.BindParameter[Any]:
        name = next(self._names)
        self.parameters[name] = Parameter(side, column, self._types[column.name])
        # NullType: no cast is rendered, the driver and the column decide.
        return sa.bindparam(name, type_=sa.types.NullType())

    def _column(self, name: str) -> TargetColumn:
        return next(column for column in self.local.table.columns if column.name == name)


def _columns_of(batch: pa.RecordBatch | None) -> set[str]:
    return set() if batch is None else set(batch.schema.names)


def _parameter_names(table: TargetTable) -> Iterator[str]:
    # Core keeps the names of columns for itself.
    prefix = "p"
    while any(column.name.startswith(prefix) for column in table.columns):
        prefix += "_"
    return (f"{prefix}{number}" for number in count())


def _is_untouched_identity(column: TargetColumn, group: ChangeGroup) -> bool:
    """Whether the column is GENERATED ALWAYS AS IDENTITY and keeps its value, so that SET can leave it out.

    Raises:
        TargetRelationError: it would get another value, which the target's SQL does not allow.
    """
    if not column.identity_always:
        return False
    if group.old is None or group.new is None or column.name not in group.old.schema.names:
        return True
    if group.old.column(column.name).equals(group.new.column(column.name)):
        return True
    raise TargetRelationError(
        f'column "{column.name}" can only be updated to DEFAULT',
        sqlstate="428C9",
        detail=f'Column "{column.name}" is an identity column defined as GENERATED ALWAYS.',
        hint="Declare it GENERATED BY DEFAULT in the target.",
        column=column.name,
    )


def shape_of(group: ChangeGroup) -> tuple[object, ...]:
    """What two groups of one relation must share to share a statement."""
    old = None if group.old is None else tuple(group.old.schema.names)
    new = None if group.new is None else tuple(group.new.schema.names)
    return group.action, old, new

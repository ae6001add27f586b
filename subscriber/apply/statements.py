"""The SQL of one shape of change, and the rows to bind to it.

SQLAlchemy Core writes the statement (names are quoted there, and nowhere by hand); it is compiled
once per shape and then run as driver SQL on lists of tuples, because Core's own parameter
processing costs more than the statement. NULL, unchanged and not-sent stay different here
(invariant absence_is_typed)::

    column          INSERT     UPDATE ... SET     search by key    search by whole row
    value           bound      bound              = bound          IS NOT DISTINCT FROM bound
    NULL            bound      bound              = NULL, none     IS NOT DISTINCT FROM bound
    'u', unchanged  NULL (C6)  left alone (C9)    = NULL (C6)      IS NULL (C6)
    not published   default    left alone         -                IS NULL (C15)
    no equality     bound      bound              -                IS NULL (C17)
    key, the same   -          left out           = bound          -

An UPDATE that leaves its row's key as it is does not set it, where the row is known to have just
that (:func:`unchanged_key`). The statement compares values as the target stores them. Where that is
not how their type compares them, :class:`Search` says what else there is to do for a row that is
not found (:mod:`subscriber.apply.search`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal, TypeVar

import pyarrow as pa
import sqlalchemy as sa

from subscriber.apply.identity import RowIdentity
from subscriber.apply.leaves import in_leaf
from subscriber.apply.local_relations import LocalRelation
from subscriber.errors import ConflictError, TargetRelationError
from subscriber.protocol.changes import ChangeGroup
from subscriber.targets import Target, TargetColumn, TargetTable
from subscriber.types.equality import EXACT, Equality

Row = tuple[Any, ...] | dict[str, Any]
Rows = list[tuple[Any, ...]] | list[dict[str, Any]]
_Change = TypeVar("_Change", sa.Update, sa.Delete)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One bound value: from which tuple, which column; ``side`` is None for a NULL that was not
    sent.

    ``finds``: the value is compared, rather than written.
    """

    side: Literal["old", "new"] | None
    column: TargetColumn
    type_oid: int
    finds: bool = False


@dataclass(frozen=True, slots=True)
class ComparedColumn:
    """A column that finds rows.

    Attributes:
        name: the target's.
        parameter: the value to look for; None is NULL.
        equality: what makes two values equal.
    """

    name: str
    parameter: Parameter | None
    equality: Equality


@dataclass(frozen=True, slots=True)
class Search:
    """How rows are found, where a value can equal one that is stored otherwise, or cannot be
    compared at all (rules C14, C17).

    Attributes:
        table: where to look.
        columns: what is compared, in the table's order.
        whole_row: NULL equals NULL.
    """

    table: TargetTable
    columns: tuple[ComparedColumn, ...]
    whole_row: bool


@dataclass(frozen=True, slots=True)
class Statement:
    """Compiled SQL and where its parameters come from, in the order of the SQL.

    Attributes:
        sql: in the driver's parameter style.
        parameters: what to bind.
        names: the parameters' names where the driver's style is by name, else None.
        search: for UPDATE and DELETE, unless the statement itself finds every row that there is.
    """

    sql: str
    parameters: tuple[Parameter, ...]
    names: tuple[str, ...] | None
    search: Search | None = None


def unchanged_key(
    target: Target, local: LocalRelation, group: ChangeGroup, identity: RowIdentity | None
) -> frozenset[str]:
    """The columns of the key that no change of ``group`` changes, and that SET therefore leaves
    out.

    Without an old tuple the key has not changed; with one, its values are compared, bit by bit.
    Whether a row that was found by such a value has it to the letter, the target knows
    (:meth:`Matching.found_as_written`). Of rows that are found whole nothing is left out.
    """
    if group.action != "U" or identity is None or identity.whole_row or group.new is None:
        return frozenset()
    types = {column.name: column.type_oid for column in local.remote.columns}
    sent = _columns_of(group.new) & (_columns_of(group.new) if group.old is None else _columns_of(group.old))
    return frozenset(
        column.name
        for column in local.table.columns
        if column.name in identity.columns
        and column.name in sent
        and target.matching.found_as_written(types[column.name], local.table, column)
        and (group.old is None or group.old.column(column.name).equals(group.new.column(column.name)))
    )


def build_statement(
    target: Target,
    local: LocalRelation,
    group: ChangeGroup,
    identity: RowIdentity | None,
    unchanged: Collection[str] = (),
) -> Statement:
    """The statement for every change of ``group``.

    Args:
        target: where it runs.
        local: the group's relation.
        group: changes of one shape.
        identity: how rows are found; needed for UPDATE and DELETE.
        unchanged: what :func:`unchanged_key` gives.

    Raises:
        TargetRelationError: an UPDATE would have to change an identity column that cannot be set,
            or one of several equal rows, and the target has no way to say which.
    """
    builder = _Builder(target, local)
    if group.action == "I":
        statement: sa.UpdateBase = builder.insert(group)
    elif identity is None:
        raise TypeError("UPDATE and DELETE need an identity")
    elif group.action == "U":
        statement = builder.update(group, identity, unchanged)
    else:
        statement = builder.delete(group, identity)
    compiled = statement.compile(dialect=target.engine.dialect)
    sql = str(compiled)
    if group.action == "I" and local.table.has_identity_always:
        sql = target.writing.override_identity(sql)
    names = tuple(compiled.positiontup or builder.parameters)
    return Statement(
        sql,
        tuple(builder.parameters[name] for name in names),
        None if compiled.positiontup is not None else names,
        builder.search_of(identity),
    )


def bind_rows(target: Target, statement: Statement, group: ChangeGroup) -> Rows:
    """The parameters of ``statement`` for each change of ``group``, converted column by column.

    Raises:
        UnsupportedValue: a value that its column cannot hold.
        ConflictError: 23502, a NULL for a column that would make a value of its own of it.
    """
    if not statement.parameters:
        return [()] * len(group)
    columns = [bind_column(target, parameter, group) for parameter in statement.parameters]
    if statement.names is None:
        return list(zip(*columns, strict=True))
    return [dict(zip(statement.names, row, strict=True)) for row in zip(*columns, strict=True)]


def bind_column(target: Target, parameter: Parameter, group: ChangeGroup) -> list[Any]:
    """One parameter's values for each change of ``group``; see :func:`bind_rows`.

    Raises:
        ConflictError: 23502, a NULL that the target would replace by a generated value.
        UnsupportedValue: the target cannot hold a value exactly.
    """
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
    return target.values.bind_values(parameter.type_oid, column, values)


class _Builder:
    """Builds one statement and remembers what its parameters are."""

    def __init__(self, target: Target, local: LocalRelation) -> None:
        self.target = target
        self.local = local
        self.table = local.table.clause()
        self.parameters: dict[str, Parameter] = {}
        self.compared: list[ComparedColumn] = []
        self._types = {column.name: column.type_oid for column in local.remote.columns}
        self._names = _parameter_names(local.table)

    def insert(self, group: ChangeGroup) -> sa.Insert:
        sent = _columns_of(group.new)
        values = {
            column.name: self._bind("new" if column.name in sent else None, column) for column in self.local.columns
        }
        # "inline": no RETURNING for values that nobody reads.
        return self.target.writing.or_fail(self.local.table, sa.insert(self.table).values(values).inline())

    def update(self, group: ChangeGroup, identity: RowIdentity, unchanged: Collection[str]) -> sa.Update:
        sent = _columns_of(group.new)
        values: dict[str, Any] = {
            column.name: self._bind("new", column)
            for column in self.local.columns
            if column.name in sent and column.name not in unchanged and not _is_untouched_identity(column, group)
        }
        if not values:
            # Everything is unchanged, yet the row must be there (C18), and triggers fire.
            name = self._any_column(identity)
            values = {name: self.table.c[name]}
        found = self._own(sa.update(self.table).where(*self._search(group, identity)).values(values))
        return self._limited(self.target.writing.or_fail(self.local.table, found), identity)

    def _any_column(self, identity: RowIdentity) -> str:
        """A column to set to itself; one of the key only where there is no other."""
        columns = self.local.table.columns
        writable = [column.name for column in columns if not column.generated and not column.identity_always]
        others = [name for name in writable if identity.whole_row or name not in identity.columns]
        return (others or writable or [columns[0].name])[0]

    def delete(self, group: ChangeGroup, identity: RowIdentity) -> sa.Delete:
        return self._limited(self._own(sa.delete(self.table).where(*self._search(group, identity))), identity)

    def _own(self, statement: _Change) -> _Change:
        return self.target.matching.own_rows(self.local.table, statement, self.table)

    def search_of(self, identity: RowIdentity | None) -> Search | None:
        if identity is None:
            return None
        if (
            all(column.equality == EXACT for column in self.compared)
            and not self.target.capabilities.statement_snapshots
        ):
            return None
        return Search(self.local.table, tuple(self.compared), identity.whole_row)

    def _limited(self, statement: _Change, identity: RowIdentity) -> _Change:
        if not identity.whole_row or self.local.table.locators:
            return statement
        limited = self.target.matching.change_first(statement)
        if limited is None:
            raise TargetRelationError(
                f'rows of relation "{self.local.qualified_name}" cannot be told apart in the target',
                sqlstate="0A000",
                detail="It has no primary key, and no row locator to change only one of several equal rows.",
                hint="Give the target's table a primary key.",
            )
        return limited

    def _search(self, group: ChangeGroup, identity: RowIdentity) -> Iterator[sa.ColumnElement[bool]]:
        """The search tuple is the old tuple when it was sent, else the new one (rule C8)."""
        side: Literal["old", "new"] = "new" if group.old is None else "old"
        sent = _columns_of(group.new if group.old is None else group.old)
        self.compared = [
            self._compared(name, side if name in sent else None, whole_row=identity.whole_row)
            for name in identity.columns
        ]
        if not identity.whole_row:
            for column in self.compared:
                target = self._column(column.name)
                parameter = Parameter(None, target, self._types[column.name], finds=True)
                bound = self._bound(column.parameter or parameter)
                yield self.target.matching.finds(target, self.table.c[column.name], bound)
            yield from in_leaf(self.target, self.local, self.table, sent, lambda column: self._bind(side, column))
        elif not self.local.table.locators:
            yield from self._equal_rows(self.table)
        else:
            yield self._first_match(self.local.table.locators)

    def _compared(self, name: str, side: Literal["old", "new"] | None, *, whole_row: bool) -> ComparedColumn:
        if side is None:
            return ComparedColumn(name, None, EXACT)
        column = self._column(name)
        parameter = Parameter(side, column, self._types[name], finds=True)
        equality = self.target.matching.equality(parameter.type_oid, column)
        # What PostgreSQL has no key of, the target may.
        return ComparedColumn(name, parameter, equality if equality.exists or whole_row else EXACT)

    def _first_match(self, locators: Sequence[str]) -> sa.ColumnElement[bool]:
        inner = self.table.alias("subscriber_search")
        # Literals, since a dialect may add parameters of its own for a limit without an offset.
        one: sa.ColumnClause[int] = sa.literal_column("1")
        zero: sa.ColumnClause[int] = sa.literal_column("0")
        equal = sa.select(*(inner.c[name] for name in locators)).where(*self._equal_rows(inner))
        first = self.target.matching.own_rows(self.local.table, equal, inner).limit(one).offset(zero)
        if len(locators) == 1:
            return self.table.c[locators[0]] == first.scalar_subquery()
        return sa.tuple_(*(self.table.c[name] for name in locators)).in_(first)

    def _equal_rows(self, table: sa.FromClause) -> list[sa.ColumnElement[bool]]:
        return [
            table.c[column.name].is_(None)
            if column.parameter is None or not column.equality.exists
            else self.target.matching.is_same(
                column.parameter.column, table.c[column.name], self._bound(column.parameter)
            )
            for column in self.compared
        ]

    def _bind(self, side: Literal["old", "new"] | None, column: TargetColumn) -> sa.BindParameter[Any]:
        return self._bound(Parameter(side, column, self._types[column.name]))

    def _bound(self, parameter: Parameter) -> sa.BindParameter[Any]:
        name = next(self._names)
        self.parameters[name] = parameter
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
    """Whether the column is GENERATED ALWAYS AS IDENTITY and keeps its value, so that SET can leave
    it out.

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

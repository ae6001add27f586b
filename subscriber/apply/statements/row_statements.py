"""The SQL for one shape of change.

SQLAlchemy Core writes the statement; it quotes all names, and no name is quoted elsewhere. The
statement is compiled once for each shape, and then executed as driver SQL on lists of tuples,
because Core's parameter processing costs more than the statement. NULL, unchanged and not sent stay
different here (invariant absence_is_typed)::

    column          INSERT     UPDATE ... SET     search by key    search by whole row
    value           bound      bound              = bound          IS NOT DISTINCT FROM bound
    NULL            bound      bound              = NULL, none     IS NOT DISTINCT FROM bound
    'u', unchanged  NULL (C6)  left alone (C9)    = NULL (C6)      IS NULL (C6)
    not published   default    left alone         -                IS NULL (C15)
    no equality     bound      bound              -                IS NULL (C17)
    key, the same   -          left out           = bound          -

An UPDATE that does not change the key of its row does not set the key's columns, if the row is
known to have exactly these values (:func:`unchanged_key`). The statement compares values as the
target stores them. If the type compares its values differently, :class:`Search` describes how to
search again for a row that is not found (:mod:`subscriber.apply.statements.search`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal, TypeVar

import pyarrow as pa
import sqlalchemy as sa

from subscriber.apply.relations.local_relations import LocalRelation
from subscriber.apply.statements.identity import RowIdentity
from subscriber.apply.statements.leaves import in_leaf
from subscriber.errors import TargetRelationError
from subscriber.protocol.changes import ChangeGroup
from subscriber.targets import Target, TargetColumn, TargetTable
from subscriber.types.equality import EXACT, Equality

_Change = TypeVar("_Change", sa.Update, sa.Delete)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A bound value: its tuple, its column and its type. ``side`` is None for a NULL that was not
    sent.

    ``finds`` is True for a value that is compared, and False for a value that is written.
    """

    side: Literal["old", "new"] | None
    column: TargetColumn
    type_oid: int
    finds: bool = False


@dataclass(frozen=True, slots=True)
class ComparedColumn:
    """A column by which rows are found.

    Attributes:
        name: the target's name of the column.
        parameter: the value to search for; None is NULL.
        equality: decides whether two values are equal.
    """

    name: str
    parameter: Parameter | None
    equality: Equality


@dataclass(frozen=True, slots=True)
class Search:
    """How rows are found, if a value can equal a value that is stored differently, or cannot be
    compared at all (rules C14, C17).

    Attributes:
        table: the table to search in.
        columns: the columns to compare, in the table's order.
        whole_row: whether NULL equals NULL.
    """

    table: TargetTable
    columns: tuple[ComparedColumn, ...]
    whole_row: bool


@dataclass(frozen=True, slots=True)
class Statement:
    """Compiled SQL, and the origin of its parameters in the order of the SQL.

    Attributes:
        sql: the SQL, in the driver's parameter style.
        parameters: the values to bind.
        names: the parameters' names if the driver's style uses names, otherwise None.
        search: how to search again, for UPDATE and DELETE; None if the statement itself finds every
            existing row.
    """

    sql: str
    parameters: tuple[Parameter, ...]
    names: tuple[str, ...] | None
    search: Search | None = None

    @property
    def finds_exactly(self) -> bool:
        """Whether the statement finds every row that exists, unless other sessions change it."""
        search = self.search
        return search is None or (not search.whole_row and all(one.equality == EXACT for one in search.columns))

    @property
    def key(self) -> tuple[Parameter, ...]:
        """The parameters that find rows."""
        return tuple(parameter for parameter in self.parameters if parameter.finds)

    @property
    def written(self) -> tuple[Parameter, ...]:
        """The parameters that are written."""
        return tuple(parameter for parameter in self.parameters if not parameter.finds)


def unchanged_key(
    target: Target, local: LocalRelation, group: ChangeGroup, identity: RowIdentity | None
) -> frozenset[str]:
    """The key columns that no change of ``group`` changes; SET leaves them out.

    Without an old tuple the key has not changed. With an old tuple, its values are compared bit by
    bit. The target reports whether a row that was found by such a value has stored exactly this
    value (:meth:`Matching.found_as_written`). If rows are compared whole, no column is left out.
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
        target: the target that executes it.
        local: the group's relation.
        group: changes of one shape.
        identity: how rows are found; needed for UPDATE and DELETE.
        unchanged: the result of :func:`unchanged_key`.

    Raises:
        TargetRelationError: an UPDATE would have to change an identity column that cannot be set;
            or the statement would have to change one of several equal rows, and the target cannot
            select one of them.
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


def build_probe(
    target: Target,
    local: LocalRelation,
    group: ChangeGroup,
    identity: RowIdentity,
    condition: sa.ColumnElement[bool],
    count: int,
) -> Statement:
    """A query that returns a row if one of the rows of ``count`` changes fulfils a condition.

    Its parameters are those that find the row of one change, ``count`` times.

    Args:
        target: the target that executes it.
        local: the relation of the changes.
        group: UPDATEs or DELETEs of one shape.
        identity: how their rows are found; not by comparing whole rows.
        condition: a condition without parameters.
        count: the number of changes.
    """
    builder = _Builder(target, local)
    compiled = builder.probe(group, identity, condition, count).compile(dialect=target.engine.dialect)
    names = tuple(compiled.positiontup or builder.parameters)
    parameters = tuple(builder.parameters[name] for name in names)
    return Statement(str(compiled), parameters, None if compiled.positiontup is not None else names)


class _Builder:
    """Builds one statement and records its parameters."""

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
        # "inline": no RETURNING, because nothing reads the values.
        return self.target.writing.or_fail(self.local.table, sa.insert(self.table).values(values).inline())

    def update(self, group: ChangeGroup, identity: RowIdentity, unchanged: Collection[str]) -> sa.Update:
        sent = _columns_of(group.new)
        values: dict[str, Any] = {
            column.name: self._bind("new", column)
            for column in self.local.columns
            if column.name in sent and column.name not in unchanged and not _is_untouched_identity(column, group)
        }
        if not values:
            # No value changes, but the row must exist (C18), and triggers must fire.
            name = self._any_column(identity)
            values = {name: self.table.c[name]}
        found = self._own(sa.update(self.table).where(*self._search(group, identity)).values(values))
        return self._limited(self.target.writing.or_fail(self.local.table, found), identity)

    def _any_column(self, identity: RowIdentity) -> str:
        """A column to set to itself; a column of the key only if there is no other column."""
        columns = self.local.table.columns
        writable = [column.name for column in columns if not column.generated and not column.identity_always]
        others = [name for name in writable if identity.whole_row or name not in identity.columns]
        return (others or writable or [columns[0].name])[0]

    def delete(self, group: ChangeGroup, identity: RowIdentity) -> sa.Delete:
        return self._limited(self._own(sa.delete(self.table).where(*self._search(group, identity))), identity)

    def probe(
        self, group: ChangeGroup, identity: RowIdentity, condition: sa.ColumnElement[bool], count: int
    ) -> sa.Select[Any]:
        searches = [sa.and_(*self._search(group, identity)) for _ in range(count)]
        query: sa.Select[Any] = sa.select(sa.literal_column("1")).select_from(self.table)
        return self.target.matching.own_rows(self.local.table, query, self.table).where(sa.or_(*searches), condition)

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
                f'rows of relation "{self.local.qualified_name}" cannot be distinguished in the target',
                sqlstate="0A000",
                detail="The table has no primary key, and the target has no row locator, so one of several equal rows cannot be changed alone.",
                hint="Give the target's table a primary key.",
            )
        return limited

    def _search(self, group: ChangeGroup, identity: RowIdentity) -> Iterator[sa.ColumnElement[bool]]:
        """The conditions of the search. The search tuple is the old tuple if it was sent, otherwise
        the new tuple (rule C8).
        """
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
        # In the target, a type that has no equality in PostgreSQL may be part of a key.
        return ComparedColumn(name, parameter, equality if equality.exists or whole_row else EXACT)

    def _first_match(self, locators: Sequence[str]) -> sa.ColumnElement[bool]:
        inner = self.table.alias("subscriber_search")
        # Literals, because a dialect may add its own parameters for a limit without an offset.
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
        # NullType: no cast is rendered; the driver and the column decide about the type.
        return sa.bindparam(name, type_=sa.types.NullType())

    def _column(self, name: str) -> TargetColumn:
        return next(column for column in self.local.table.columns if column.name == name)


def _columns_of(batch: pa.RecordBatch | None) -> set[str]:
    return set() if batch is None else set(batch.schema.names)


def _parameter_names(table: TargetTable) -> Iterator[str]:
    # SQLAlchemy Core reserves the names of columns for its own parameters.
    prefix = "p"
    while any(column.name.startswith(prefix) for column in table.columns):
        prefix += "_"
    return (f"{prefix}{number}" for number in count())


def _is_untouched_identity(column: TargetColumn, group: ChangeGroup) -> bool:
    """Whether the column is GENERATED ALWAYS AS IDENTITY and keeps its value, so that SET can leave
    it out.

    Raises:
        TargetRelationError: the column would get another value, which the target's SQL does not
            allow.
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
    """The properties that two groups of one relation must share to use the same statement."""
    old = None if group.old is None else tuple(group.old.schema.names)
    new = None if group.new is None else tuple(group.new.schema.names)
    return group.action, old, new

"""Find the unique keys that a change violates, and the existing rows that conflict with it (rules
C20-C22).

A database names at most one violated key, in words of its own. So the program searches for the
existing row by every unique index, in a transaction, immediately before the change::

    INSERT (10, 'x', 34)     SELECT … FROM t WHERE a = 10                      t_pkey
                             SELECT … FROM t WHERE c = 34                      t_c_key
    UPDATE … WHERE a = 41    SELECT … FROM t WHERE c = 54 AND NOT (a = 41)     a row does not conflict with itself

For an UPDATE, a key column that the change does not contain has the value of the existing row. For
an INSERT, it gets a default whose value is not known yet, so its index is left out. *Rejected:* a
savepoint before each change. It would slow down all changes because of a single one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import pyarrow as pa
import sqlalchemy as sa

from subscriber.apply.conflicts.conflict import Conflict, RowText, SearchKey, ViolatedKey, row_text
from subscriber.apply.relations.target_relations import TargetRelation
from subscriber.apply.statements.execute import bind_column
from subscriber.apply.statements.identity import RowIdentity, in_leaf
from subscriber.apply.statements.row_statements import Parameter, all_of
from subscriber.catalog.own_tables import ConflictKind
from subscriber.postgres.protocol.changes import ChangeGroup
from subscriber.postgres.schema.relation_names import QualifiedName
from subscriber.postgres.types.arrays import output_text
from subscriber.targets import Target, TargetColumn, UniqueIndex
from subscriber.targets.declared_columns import Declared

_DEFAULT: Final = "default"
"""Shown for a column that the publisher does not have and that would get its default."""

_ONE: Final[sa.ColumnClause[int]] = sa.literal_column("1")
_ZERO: Final[sa.ColumnClause[int]] = sa.literal_column("0")
"""Literals, because a dialect may add its own parameters for a limit without an offset."""


@dataclass(frozen=True, slots=True)
class Collisions:
    """The result of :func:`find_collisions`, with the search key of an UPDATE and the publisher's
    row.

    Attributes:
        leaf: schema and name of the partition that contains the first conflicting row.
        hint: what to do if the target refuses the change although no row conflicts with it.
        columns: the names of the columns of rows.
    """

    violated: tuple[ViolatedKey, ...]
    search: SearchKey | None = None
    remote_row: RowText | None = None
    leaf: tuple[str, str] | None = None
    hint: str | None = None
    columns: tuple[str, ...] = ()


def sent_texts(batch: pa.RecordBatch | None) -> dict[str, str | None]:
    """The values of a batch with one row that were sent, in PostgreSQL's text form."""
    if batch is None:
        return {}
    return {name: output_text(column[0]) for name, column in zip(batch.schema.names, batch.columns, strict=True)}


def search_key(identity: RowIdentity, change: ChangeGroup, *, values: bool) -> SearchKey:
    """The key by which a change searches for its row (rules C8, C21)."""
    columns = () if identity.whole_row else identity.columns
    if not values:
        return SearchKey(columns)
    sent = sent_texts(_search_tuple(change))
    found = tuple(sent.get(name) for name in identity.columns)
    return SearchKey(columns, found) if columns else SearchKey((), row_text(found), identity.columns)


def new_row(local: TargetRelation, change: ChangeGroup) -> RowText | None:
    """The new row of a change, with only the values that were sent; None for DELETE."""
    if change.new is None:
        return None
    sent = sent_texts(change.new)
    return row_text(sent.get(column.name) for column in local.table.columns)


def row_columns(local: TargetRelation) -> tuple[str, ...]:
    """The names of the columns of a row that :func:`new_row` returns."""
    return tuple(column.name for column in local.table.columns)


def find_collisions(
    target: Target,
    connection: sa.Connection,
    local: TargetRelation,
    change: ChangeGroup,
    identity: RowIdentity | None,
    *,
    values: bool,
) -> Collisions:
    """The unique keys that ``change``, one INSERT or UPDATE, would violate now. The connection is
    in its transaction, immediately before it. Keys and rows are shown only with ``values``.
    """
    with target.reporting():
        look = KeyLookup(target, connection, local, change)
        own = None
        if identity is not None:
            own = look.own_row(identity)
            if own is None:
                return Collisions(())
        return look.collisions(look.rows_in_the_way(own), own, identity, values=values)


def refined(conflict: Conflict, collisions: Collisions | None) -> Conflict | None:
    """The conflict with the keys that were found. More than one key changes its kind (C22)."""
    if collisions is None or not (collisions.violated or collisions.hint):
        return None
    return replace(
        conflict,
        kind=ConflictKind.MULTIPLE_UNIQUE_CONFLICTS if len(collisions.violated) > 1 else conflict.kind,
        relation=conflict.relation if collisions.leaf is None else QualifiedName.of(*collisions.leaf),
        violated=collisions.violated,
        search=collisions.search,
        remote_row=collisions.remote_row,
        columns=collisions.columns,
        hint=collisions.hint,
    )


@dataclass(frozen=True, slots=True)
class OwnRow:
    """The row that an UPDATE changes, and the condition that selects all other rows."""

    stored: Mapping[str, Any]
    texts: Mapping[str, str | None]
    others: sa.ColumnElement[bool]


@dataclass(frozen=True, slots=True)
class RowInTheWay:
    """The values of the index's key, those of all columns, and what tells the row's version."""

    keys: RowText
    columns: RowText
    version: RowText


class KeyLookup:
    """Looks for the rows in the way of ``change``, one INSERT or UPDATE, and its own row. Where
    several sessions can write, it ``locks`` them.
    """

    def __init__(
        self,
        target: Target,
        connection: sa.Connection,
        local: TargetRelation,
        change: ChangeGroup,
        *,
        locks: bool = False,
    ) -> None:
        # A database without savepoints, such as DuckDB, has no locks of rows either.
        self.locks = locks and target.capabilities.savepoints and not target.capabilities.single_writer
        self.target = target
        self.connection = connection
        self.local = local
        self.change = change
        self.table = local.table.clause()
        self.types = {column.name: column.type_oid for column in local.remote.columns}
        self.sent = {} if change.new is None else {name: self._bound(name) for name in change.new.schema.names}

    def _bound(self, name: str) -> Any:
        return bind_column(self.target, Parameter("new", _column(self.local, name), self.types[name]), self.change)[0]

    def own_row(self, identity: RowIdentity) -> OwnRow | None:
        columns, locators = self.local.table.columns, self.local.table.locators
        stored = [self._raw(column.name) for column in columns]
        query = sa.select(*map(self._raw, locators), *stored).where(
            search_condition(self.target, self.table, self.local, self.change, identity)
        )
        row = self.connection.execute(self._own(query).limit(_ONE).offset(_ZERO)).first()
        if row is None:
            return None
        place, values = tuple(row)[: len(locators)], tuple(row)[len(locators) :]
        by_name = dict(zip((column.name for column in columns), values, strict=True))
        if locators and identity.whole_row:
            here = (self.table.c[name] == _value(at) for name, at in zip(locators, place, strict=True))
            others = sa.not_(sa.and_(*here))
        else:
            others = sa.not_(sa.and_(*(self._equals(name, by_name[name]) for name in identity.columns)))
        shown = sa.select(*(self.target.values.readable(column) for column in columns)).select_from(self.table)
        texts = self._texts(self._own(shown.where(sa.not_(others))))[0]
        return OwnRow(by_name, dict(zip(by_name, texts, strict=True)), others)

    def _own(self, query: sa.Select[Any]) -> sa.Select[Any]:
        found = self.target.matching.own_rows(self.local.table, query, self.table)
        return found.with_for_update() if self.locks else found

    def _equals(self, name: str, value: Any) -> sa.ColumnElement[bool]:
        return self.target.matching.equals(_column(self.local, name), self.table.c[name], _value(value))

    def _raw(self, name: str) -> sa.ColumnElement[Any]:
        """A stored value in a form that can be bound as a parameter again."""
        column = self.table.c[name]
        return sa.cast(column, sa.Text()).label(name) if self.target.capabilities.postgresql_types else column

    def rows_in_the_way(self, own: OwnRow | None) -> list[tuple[UniqueIndex, RowInTheWay]]:
        """The unique indexes that the change would violate, each with the row that has the key."""
        return [
            (index, row)
            for index in self.target.shapes.unique_indexes(self.connection, self.local.table)
            if (row := self._row_in_the_way(index, own)) is not None
        ]

    def _row_in_the_way(self, index: UniqueIndex, own: OwnRow | None) -> RowInTheWay | None:
        conditions = self.conditions(index, own)
        if conditions is None:
            return None
        keys = [sa.literal_column(key) if key in index.expressions else self._readable(key) for key in index.keys]
        columns = [self.target.values.readable(column) for column in self.local.table.columns]
        # Explicit labels are needed, since two columns with the same name would become a single
        # column.
        wanted = [
            column.label(f"subscriber_{number}")
            for number, column in enumerate([*keys, *columns, *self.target.row_versions.columns()])
        ]
        # There is at most one such row, because the index is unique. DuckDB 2.0 fails with a limit
        # on rows that its rowid excludes.
        found = self._texts(self._own(sa.select(*wanted).select_from(self.table).where(*conditions)))
        if not found:
            return None
        row, rest = found[0][: len(keys)], found[0][len(keys) :]
        return RowInTheWay(row, rest[: len(columns)], rest[len(columns) :])

    def _readable(self, name: str) -> sa.ColumnElement[Any]:
        return self.target.values.readable(_column(self.local, name))

    def conditions(self, index: UniqueIndex, own: OwnRow | None) -> list[sa.ColumnElement[bool]] | None:
        """The conditions for a row to conflict; None where no row can, or that is not known."""
        conditions = []
        for key in index.keys:
            if key in index.expressions:
                conditions.append(sa.literal_column(key) == self._of_new_row(key, own))
                continue
            known = self.sent if key in self.sent or own is None else own.stored
            if key not in known:
                return None
            if known[key] is None:
                if index.nulls_distinct:
                    return None
                conditions.append(self.table.c[key].is_(None))
            else:
                conditions.append(self._equals(key, known[key]))
        if index.predicate is not None:
            conditions += [sa.literal_column(index.predicate), self._of_new_row(index.predicate, own)]
        return conditions if own is None else [*conditions, own.others]

    def _of_new_row(self, expression: str, own: OwnRow | None) -> sa.ColumnElement[Any]:
        """The value of an expression for the new row, for PostgreSQL's indexes."""
        known = {**({} if own is None else own.stored), **self.sent}
        row = sa.select(
            *(
                sa.cast(_value(known.get(column.name)), Declared(column.declared_type)).label(column.name)
                for column in self.local.table.columns
            )
        ).subquery("subscriber_new")
        return sa.select(sa.literal_column(expression)).select_from(row).scalar_subquery()

    def _texts(self, query: sa.Select[Any]) -> list[RowText]:
        return self.target.read_result(self.connection.execute(query)).rows

    def collisions(
        self,
        found: Sequence[tuple[UniqueIndex, RowInTheWay]],
        own: OwnRow | None,
        identity: RowIdentity | None,
        *,
        values: bool,
    ) -> Collisions:
        texts = sent_texts(self.change.new)
        table, leaf = self.local.table, None
        violated = []
        for index, row in found:
            version = self.target.row_versions.read(self.connection, table, row.version)
            name = index.name
            if version is not None and version.leaf is not None:
                leaf = leaf or version.leaf
                name = self.target.row_versions.index_of_partition(self.connection, table, name, version.leaf)
            shown = tuple(texts.get(key, text) for key, text in zip(index.keys, row.keys, strict=True))
            violated.append(
                ViolatedKey(
                    name, index.keys, shown if values else None, row_text(row.columns) if values else None, version
                )
            )
        search = None if identity is None else search_key(identity, self.change, values=values)
        kept = dict.fromkeys((column.name for column in table.columns), _DEFAULT) if own is None else own.texts
        remote_row = row_text({**kept, **texts}.values()) if values else None
        names = row_columns(self.local) if values else ()
        return Collisions(tuple(violated), search, remote_row, leaf, columns=names)


def search_condition(
    target: Target, table: sa.FromClause, local: TargetRelation, change: ChangeGroup, identity: RowIdentity
) -> sa.ColumnElement[bool]:
    """The condition that finds the row of one UPDATE or DELETE in ``table`` (rules C8, C14)."""
    side: Literal["old", "new"] = "new" if change.old is None else "old"
    batch = _search_tuple(change)
    sent = () if batch is None else batch.schema.names
    types = {column.name: column.type_oid for column in local.remote.columns}
    conditions: list[sa.ColumnElement[bool]] = []
    for name in identity.columns:
        column = _column(local, name)
        value = bind_column(target, Parameter(side, column, types[name]), change)[0] if name in sent else None
        # A value that cannot be compared matches no row (rule C17). Executing the change shows
        # whether that is an error.
        if value is None or (identity.whole_row and not target.matching.equality(types[name], column).exists):
            conditions.append(table.c[name].is_(None))
        elif identity.whole_row:
            conditions.append(target.matching.is_same(column, table.c[name], _value(value)))
        else:
            conditions.append(target.matching.finds(column, table.c[name], _value(value)))
    if not identity.whole_row:
        conditions += in_leaf(
            target,
            local,
            table,
            sent,
            lambda column: _value(bind_column(target, Parameter(side, column, types[column.name]), change)[0]),
        )
    return all_of(conditions)


def _column(local: TargetRelation, name: str) -> TargetColumn:
    column = local.table.column(name)
    assert column is not None
    return column


def _search_tuple(change: ChangeGroup) -> pa.RecordBatch | None:
    """The old tuple if it was sent, otherwise the new tuple (rule C8)."""
    return change.new if change.old is None else change.old


def _value(value: Any) -> sa.BindParameter[Any]:
    # NullType: no cast is rendered; the driver and the column decide about the type.
    return sa.bindparam(None, value, type_=sa.types.NullType(), unique=True)

"""Which table of the target a change is for, and which of its columns (rules C1-C5).

A relation is looked up when the first change for it arrives and is remembered for one batch only: between
batches the target's tables may change, and looking again costs a millisecond. A relation message with
another shape is another key, so a change is always applied by the shape that was announced before it.

With ``schema_changes = 'add_columns'`` a table gets the columns that it lacks, here and at this place in the stream: in the
batch's transaction, where the target's DDL is part of one. Where DDL commits (MariaDB), the batch is taken back, the table altered
by itself, and the batch applied once more. The columns may then be there before the changes that need them, which nobody can tell
from later: they are nullable, and NULL in every row that an earlier change writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import sqlalchemy as sa

from subscriber.apply.names import SAME_NAMES, RelationNames
from subscriber.errors import ColumnsToAdd, SubscriberError, TargetRelationError, UnsupportedValue
from subscriber.protocol.changes import ChangeGroup
from subscriber.protocol.messages import Relation, RelationColumn
from subscriber.target import Target, TargetColumn, TargetTable
from subscriber.target.binary import refused_binary
from subscriber.target.ddl import AddColumn, add_column
from subscriber.types import BUILT_IN_TYPES, declared_type

_TEXT: Final = 25
_NOT_NULL_VIOLATION: Final = "23502"


@dataclass(frozen=True, slots=True)
class LocalRelation:
    """A publisher's relation together with the target's table.

    Attributes:
        remote: as announced.
        table: the target's.
        columns: the target's column for each remote column, in remote order (rule C2).
        qualified_name: ``schema.table`` for messages: the publisher's name, or what the subscription maps it to.
    """

    remote: Relation
    table: TargetTable
    columns: tuple[TargetColumn, ...]
    qualified_name: str


class RelationMap:
    """The relations of one batch, looked up at their first change (rule C1).

    Args:
        target: where the tables are.
        connection: of the batch's transaction.
        names: the target's names of relations.
        add_columns: columns that a table lacks are added to it.
        alone: nothing else is in the transaction, so that DDL may commit it.
    """

    def __init__(
        self,
        target: Target,
        connection: sa.Connection,
        names: RelationNames = SAME_NAMES,
        *,
        add_columns: bool = False,
        alone: bool = False,
    ) -> None:
        self._target = target
        self._connection = connection
        self._names = names
        self._adds_columns = add_columns
        self._may_alter = alone or target.capabilities.transactional_ddl
        self._open: dict[Relation, LocalRelation] = {}
        self._looked_up: set[Relation] = set()

    def open(self, remote: Relation) -> LocalRelation:
        """The target's side of ``remote``.

        Raises:
            TargetRelationError: with PostgreSQL's text (rule C3): no such table, not a table, columns
                missing, columns generated; or a column that would change values.
            ColumnsToAdd: columns are to be added, and not in this transaction.
        """
        local = self._open.get(remote)
        if local is None:
            try:
                local = self._open[remote] = self._resolve(remote)
            except SubscriberError as error:
                error.relation = error.relation or self._name(remote)
                raise
        return local

    def look_up(self, remote: Relation) -> None:
        """Find the table of a relation whose changes are ignored: PostgreSQL's worker opens it before it asks (rule C4).

        Whether its columns could hold the values does not matter then; nor what columns it lacks, where missing ones are added.

        Raises:
            TargetRelationError: as :meth:`open`.
        """
        if remote in self._open or remote in self._looked_up or self._names.is_own(remote.namespace, remote.name):
            return
        table = self._find(remote)
        if not self._adds_columns:
            self._match_columns(remote, table)
        self._looked_up.add(remote)

    def compare(self, remote: Relation) -> LocalRelation:
        """What :meth:`open` gives, of a table that is left as it is: a column that :meth:`open` would add is left out.

        Raises:
            TargetRelationError: as :meth:`open`.
        """
        table = self._find(remote)
        if self._adds_columns:
            there = {column.name for column in table.columns}
            remote = replace(remote, columns=tuple(column for column in remote.columns if column.name in there))
        return self._fit(remote, table)

    def with_shapes(self, error: SubscriberError, remote: Relation) -> None:
        """Add the two shapes to an error that may be about them (:func:`add_shapes`).

        Args:
            error: of a change that was written.
            remote: the relation, which has been opened.
        """
        local = self._open.get(remote)
        if local is not None:
            add_shapes(error, local)

    def _name(self, remote: Relation) -> str:
        return self._names.qualified(remote.namespace, remote.name)

    def _find(self, remote: Relation) -> TargetTable:
        if self._names.is_own(remote.namespace, remote.name):
            raise TargetRelationError(
                f'cannot use relation "{self._name(remote)}" as logical replication target',
                sqlstate="42809",
                detail="Subscribers keep their state in tables of this name.",
                hint="Use ALTER SUBSCRIPTION ... REFRESH PUBLICATION, which leaves it out.",
            )
        table = self._target.reflect(self._connection, *self._names.local(remote.namespace, remote.name))
        if table is None:
            raise TargetRelationError(
                f'logical replication target relation "{self._name(remote)}" does not exist',
                hint="Create the table in the target; the change waits until then.",
            )
        if table.kind not in ("table", "partitioned table"):
            raise TargetRelationError(
                f'cannot use relation "{self._name(remote)}" as logical replication target',
                sqlstate="42809",
                detail=f"This operation is not supported for {table.kind}s." if table.kind != "other" else None,
            )
        return table

    def _resolve(self, remote: Relation) -> LocalRelation:
        table = self._find(remote)
        missing = _missing(remote, table)
        if missing and self._adds_columns:
            if not self._may_alter:
                raise ColumnsToAdd(f'relation "{self._name(remote)}" is to get {_named(missing)}', shape=remote)
            table = self._alter(remote, table, missing)
        return self._fit(remote, table)

    def _fit(self, remote: Relation, table: TargetTable) -> LocalRelation:
        """The relation with the target's columns, each of which holds the values of its own."""
        columns = self._match_columns(remote, table)
        for column, announced in zip(columns, remote.columns, strict=True):
            try:
                self._target.check_column(announced.type_oid, column)
            except TargetRelationError as error:
                error.detail = _joined(error.detail, side_by_side(remote, table))
                raise
        return LocalRelation(remote, table, columns, self._name(remote))

    def _alter(self, remote: Relation, table: TargetTable, missing: Sequence[RelationColumn]) -> TargetTable:
        """Add columns, and look again."""
        try:
            with self._target.reporting():
                for statement in _additions(self._target, table, missing):
                    self._connection.execute(statement)
        except SubscriberError as error:
            if error.transient:
                raise
            refused = self._missing_error(remote, table, missing)
            refused.detail = _joined(f"They could not be added: {error.message}.", refused.detail)
            raise refused from None
        return self._find(remote)

    def _match_columns(self, remote: Relation, table: TargetTable) -> tuple[TargetColumn, ...]:
        """Columns by exact name; what is missing is reported before what is generated (rule C3)."""
        missing = _missing(remote, table)
        if missing:
            raise self._missing_error(remote, table, missing)
        by_name = {column.name: column for column in table.columns}
        columns = tuple(by_name[column.name] for column in remote.columns)
        generated = [column for column in columns if column.generated]
        if generated:
            raise TargetRelationError(
                f'logical replication target relation "{self._name(remote)}" has incompatible generated {_named(generated)}',
                detail=side_by_side(remote, table),
                hint="Make them ordinary columns of the target, or publish the table without them.",
            )
        return columns

    def _missing_error(
        self, remote: Relation, table: TargetTable, missing: Sequence[RelationColumn]
    ) -> TargetRelationError:
        alike = self._alike(table, missing)
        hint = None
        if len(alike) < len(missing):
            additions = _additions(self._target, table, [column for column in missing if column.name not in alike])
            commands = "; ".join(_as_typed(self._target, one) for one in additions)
            option = "" if self._adds_columns else ", or ALTER SUBSCRIPTION ... SET (schema_changes = 'add_columns')"
            hint = f"Use {commands} in the target{option}."
        for name, there in alike.items():
            hint = _joined(
                hint,
                f'{self._target.capabilities.database} takes "{name}" and "{there}" for one name, PostgreSQL for two:'
                f' rename the target\'s column to "{name}", or publish the table without one of them.',
            )
        return TargetRelationError(
            f'logical replication target relation "{self._name(remote)}" is missing replicated {_named(missing)}',
            detail=side_by_side(remote, table),
            hint=hint,
        )

    def _alike(self, table: TargetTable, missing: Sequence[RelationColumn]) -> dict[str, str]:
        """Of the columns that ``table`` lacks those that it cannot be given, each with the column whose name is in the way."""
        if self._target.capabilities.column_case:
            return {}
        there = {column.name.lower(): column.name for column in table.columns}
        return {one.name: there[one.name.lower()] for one in missing if one.name.lower() in there}


def add_shapes(error: SubscriberError, local: LocalRelation) -> None:
    """Add what publisher and target say of the columns to an error of a row that was written.

    Of a NULL where the target's table has none, that is both shapes; of a value that a column cannot hold, the two types of the column.
    """
    if error.sqlstate == _NOT_NULL_VIOLATION:
        error.detail = _joined(error.detail, side_by_side(local.remote, local.table))
    if isinstance(error, UnsupportedValue):
        for announced, column in zip(local.remote.columns, local.columns, strict=True):
            if column.name == error.column:
                error.detail = _joined(error.detail, _two_types(announced, column, local.qualified_name))


def _two_types(announced: RelationColumn, column: TargetColumn, table: str) -> str:
    at_publisher = declared_type(announced.type_oid, announced.type_modifier)
    return f'Column "{column.name}" of table "{table}" has type {at_publisher} at the publisher and {column.declared_type} in the target.'


def check_required(local: LocalRelation) -> None:
    """Refuse a table with a column that every new row needs a value for, and that the publisher does not send.

    The database itself refuses such a row; this is for who asks before there is one.

    Raises:
        TargetRelationError: 23502, naming the columns.
    """
    sent = {column.name for column in local.columns}
    left = [column for column in local.table.columns if column.required and column.name not in sent]
    if left:
        raise TargetRelationError(
            f'relation "{local.qualified_name}" of the target requires a value for {_named(left)}',
            sqlstate=_NOT_NULL_VIOLATION,
            detail="The publisher sends none, and in the target the column is NOT NULL without a default. "
            + side_by_side(local.remote, local.table),
            hint="Give the column a default in the target, allow NULL in it, or drop it.",
        )


def check_binary(local: LocalRelation, changes: ChangeGroup) -> None:
    """Refuse values that came in binary form for columns of PostgreSQL's that do not read it (rule C5).

    Old rows count as well, whether rows are looked for by that column or not; NULL is nothing, whatever the types.

    Raises:
        UnsupportedValue: with PostgreSQL's text and SQLSTATE, of the first such column.
    """
    for number, (announced, column) in enumerate(zip(local.remote.columns, local.columns, strict=True), 1):
        if announced.name not in changes.binary:
            continue
        error = refused_binary(announced.type_oid, column, number)
        if error is not None and any(_has_value(batch, announced.name) for batch in (changes.old, changes.new)):
            raise error


def _has_value(batch: pa.RecordBatch | None, name: str) -> bool:
    if batch is None or name not in batch.schema.names:
        return False
    values = batch.column(name)
    return bool(values.null_count < len(values))


def side_by_side(remote: Relation, table: TargetTable) -> str:
    """The two shapes, for DETAIL: names and types of columns.

    Args:
        remote: the publisher's.
        table: the target's.
    """
    at_publisher = ", ".join(
        f"{column.name} {declared_type(column.type_oid, column.type_modifier)}" for column in remote.columns
    )
    in_target = ", ".join(f"{column.name} {column.declared_type}".rstrip() for column in table.columns)
    return f"The publisher has ({at_publisher}), the target ({in_target})."


def _missing(remote: Relation, table: TargetTable) -> list[RelationColumn]:
    names = {column.name for column in table.columns}
    return [column for column in remote.columns if column.name not in names]


def _additions(target: Target, table: TargetTable, missing: Iterable[RelationColumn]) -> list[AddColumn]:
    return [_addition(target, table, column) for column in missing]


def _addition(target: Target, table: TargetTable, column: RelationColumn) -> AddColumn:
    """A type that somebody has made (CREATE TYPE, CREATE DOMAIN, extensions) is its text: the stream has no more of it than a number."""
    if column.type_oid not in BUILT_IN_TYPES:
        return add_column(target, table, column.name, _TEXT, "text")
    return add_column(target, table, column.name, column.type_oid, declared_type(column.type_oid, column.type_modifier))


def _as_typed(target: Target, statement: AddColumn) -> str:
    """The statement for a person; for some drivers a percent sign in a name is two."""
    written = str(statement.compile(target.engine))
    return written.replace("%%", "%") if target.engine.dialect.paramstyle in ("format", "pyformat") else written


def _joined(*parts: str | None) -> str:
    return " ".join(part for part in parts if part)


def _named(columns: Iterable[RelationColumn | TargetColumn]) -> str:
    quoted = [f'"{column.name}"' for column in columns]
    return f"{'column' if len(quoted) == 1 else 'columns'}: {', '.join(quoted)}"

"""Find the target's table for a change, and the table's columns (rules C1-C5).

A relation is looked up when the first change for it arrives, and is cached for one batch only.
Between batches the target's tables may change, and looking them up again takes a millisecond. A
relation message with another shape is another key of the cache. Therefore a change is always
applied with the shape that was announced before it.

A relation message that differs from the last one that was applied is examined
(:mod:`subscriber.apply.added_columns`). A column that may have been renamed stops the subscription.
A column that was replicated until now and has disappeared from the target stops it, too. With
``schema_changes = 'add_columns'``, new columns are added to the target's table::

    open ──▶ ColumnsToAdd ──▶ the publisher is asked for the values of older rows ──▶ the batch is applied again
                                 ├─ DDL is transactional: ALTER TABLE and the values of older rows, at its place in the stream
                                 └─ it is not: ColumnsToAdd; the transactions before are committed, the table is altered separately,
                                    and the batch is applied again

A table is altered in a separate transaction if DDL commits the transaction (MariaDB). The same is
done for a transaction that the target prepares, because that transaction would keep its lock on the
table. In both cases the columns exist before the rows that the same transaction has written with
the previous shape, and these rows get NULL. If the publisher has other values there, the difference
is recorded in the catalog. Columns are added nullable and without a default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
import sqlalchemy as sa

from subscriber import failpoints
from subscriber.apply.added_columns import OlderRows, moved, next_baseline, older_rows, renames
from subscriber.catalog.own_tables import is_own_table
from subscriber.catalog.schema_changes import COPY_AGAIN, Alteration, SchemaChanges
from subscriber.errors import ColumnsToAdd, SubscriberError, TargetRelationError, UnsupportedValue
from subscriber.lsn import LSN
from subscriber.protocol.changes import ChangeGroup
from subscriber.protocol.messages import Relation, RelationColumn
from subscriber.schema.attributes import TableAttributes
from subscriber.schema.kept_shape import KeptShape, columns_of
from subscriber.schema.relation_names import SAME_NAMES, RelationNames
from subscriber.targets import Target, TargetColumn, TargetTable
from subscriber.targets.add_column import AddColumn
from subscriber.targets.ddl import add_column, as_typed, fill_column, rename_column
from subscriber.types import BUILT_IN_TYPES, declared_type

_TEXT: Final = 25
_NOT_NULL_VIOLATION: Final = "23502"


@dataclass(frozen=True, slots=True)
class LocalRelation:
    """A publisher's relation together with the target's table.

    Attributes:
        remote: the publisher's relation, as its relation message announced it.
        table: the target's table.
        columns: the target's column for each remote column, in remote order (rule C2).
        qualified_name: ``schema.table`` for messages: the publisher's name, or the name that the
            subscription maps it to.
    """

    remote: Relation
    table: TargetTable
    columns: tuple[TargetColumn, ...]
    qualified_name: str

    def __hash__(self) -> int:
        """The hash of the publisher's relation: that of the table would take long."""
        return hash(self.remote)


@dataclass(frozen=True, slots=True)
class Answer:
    """The publisher's answer about the columns of a relation message.

    Attributes:
        lsn: the LSN of the transaction that contained the message.
        attributes: the table's attributes; None where the table no longer exists, or the publisher
            could not be asked.
    """

    lsn: LSN | None = None
    attributes: TableAttributes | None = None


@dataclass(frozen=True, slots=True)
class Following:
    """How the publisher's schema changes are followed.

    Attributes:
        changes: the schema changes in the catalog.
        answers: the publisher's answers, by relation message.
        is_shared: whether another subscription also writes to the target's table of a relation.
        copies: the table is about to be copied, so the target has no rows from before.
        mixed: the transaction that is applied next also writes rows of the table with the previous
            shape.
    """

    changes: SchemaChanges
    answers: Mapping[Relation, Answer] = field(default_factory=dict)
    is_shared: Callable[[Relation], bool] = field(default=lambda _relation: False)
    copies: bool = False
    mixed: bool = False


class RelationMap:
    """The relations of one batch, looked up at their first change (rule C1).

    Args:
        target: the target that has the tables.
        connection: the connection of the batch's transaction.
        names: the target's names of relations.
        add_columns: columns that a table lacks are added to it.
        alone: the transaction contains nothing else, so that DDL may commit it.
        prepared: the transaction is to be prepared, so it must lock neither a table nor the
            catalog.
        following: how schema changes are followed; with None, columns are added without comparing
            the message with the previous shape.

    Attributes:
        alterations: the alterations that were recorded in the transaction.
    """

    def __init__(
        self,
        target: Target,
        connection: sa.Connection,
        names: RelationNames = SAME_NAMES,
        *,
        add_columns: bool = False,
        alone: bool = False,
        prepared: bool = False,
        following: Following | None = None,
    ) -> None:
        self._target = target
        self._connection = connection
        self._names = names
        self._adds_columns = add_columns
        self._may_alter = alone or (target.capabilities.transactional_ddl and not prepared)
        self._may_keep = not prepared
        self._following = following
        self._open: dict[Relation, LocalRelation] = {}
        self.alterations: list[Alteration] = []
        self._looked_up: set[Relation] = set()

    def open(self, remote: Relation) -> LocalRelation:
        """The target's relation for ``remote``.

        Raises:
            TargetRelationError: the table does not exist or is not a table, columns are missing or
                generated (with PostgreSQL's text, rule C3), or a column would change values.
            ColumnsToAdd: columns must be added, and the publisher was not asked about them, or they
                cannot be added in this transaction.
        """
        local = self._open.get(remote)
        if local is None:
            try:
                local = self._open[remote] = self._resolve(remote)
            except SubscriberError as error:
                raise error.replace(relation=error.relation or self._name(remote)) from None
        return local

    def open_unchanged(self, remote: Relation) -> LocalRelation | None:
        """The result of :meth:`open` if the table needs no alteration and no examination; else
        None.

        Changes before the message of ``remote`` may still have to be written, so nothing is altered
        here, and errors are left to :meth:`open`.
        """
        local = self._open.get(remote)
        if local is not None:
            return local
        try:
            table = self._find(remote)
            if _missing(remote, table) or not self._has_kept_shape(remote):
                return None
            local = self._open[remote] = self._fit(remote, table)
        except TargetRelationError:
            return None
        return local

    def _has_kept_shape(self, remote: Relation) -> bool:
        """Whether the message has the shape that was last applied, or the first shape, which is
        then stored; also if shapes are not followed.
        """
        following = self._following
        if following is None or following.changes.is_same(remote):
            return True
        before = following.changes.before(self._connection, remote)
        if before is not None:
            return before.columns == columns_of(remote)
        if not self._may_keep or following.changes.unfinished(self._connection, remote):
            return False
        following.changes.keep(self._connection, remote, None)
        return True

    def has_other_shape(self, local: LocalRelation) -> bool:
        """Whether another relation message describes the same table in this transaction: a former
        shape of it, or another table of the publisher that is mapped to it.
        """
        place = (local.table.schema, local.table.name)
        return any(
            (other.table.schema, other.table.name) == place for other in self._open.values() if other is not local
        )

    def look_up(self, remote: Relation) -> None:
        """Find the table of a relation whose changes are ignored.

        PostgreSQL's worker also opens the table before it checks whether to apply its changes (rule
        C4). It does not matter whether the columns could store the values. It does not matter
        either which columns the table lacks, if missing columns are added.

        Raises:
            TargetRelationError: as :meth:`open`.
        """
        if (
            remote in self._open
            or remote in self._looked_up
            or is_own_table(self._names, remote.namespace, remote.name)
        ):
            return
        table = self._find(remote)
        if not self._adds_columns:
            self._match_columns(remote, table)
        self._looked_up.add(remote)

    def compare(self, remote: Relation) -> LocalRelation:
        """The result of :meth:`open`, without altering the table: columns that :meth:`open` would
        add are left out.

        Raises:
            TargetRelationError: as :meth:`open`.
        """
        table = self._find(remote)
        if self._adds_columns:
            there = {column.name for column in table.columns}
            remote = replace(remote, columns=tuple(column for column in remote.columns if column.name in there))
        return self._fit(remote, table)

    def with_shapes(self, error: SubscriberError, remote: Relation) -> SubscriberError:
        """The error with the shapes of the two tables, where the difference may have caused it
        (:func:`with_shapes`).

        Args:
            error: the error of a change that was written.
            remote: the relation, which was opened before.
        """
        local = self._open.get(remote)
        return error if local is None else with_shapes(error, local)

    def _name(self, remote: Relation) -> str:
        return self._names.qualified(remote.namespace, remote.name)

    def _find(self, remote: Relation) -> TargetTable:
        if is_own_table(self._names, remote.namespace, remote.name):
            raise TargetRelationError(
                f'cannot use relation "{self._name(remote)}" as logical replication target',
                sqlstate="42809",
                detail="The table has the name of one of subscriber's catalog tables.",
                hint="Run ALTER SUBSCRIPTION ... REFRESH PUBLICATION, which leaves the table out.",
            )
        table = self._target.shapes.reflect(self._connection, *self._names.local(remote.namespace, remote.name))
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
        return self._fit(remote, self._follow(remote, self._find(remote)))

    def _fit(self, remote: Relation, table: TargetTable) -> LocalRelation:
        """The relation with the target's columns; each column must be able to store the values of
        its remote column.
        """
        columns = self._match_columns(remote, table)
        for column, announced in zip(columns, remote.columns, strict=True):
            try:
                self._target.values.check_column(announced.type_oid, column)
            except TargetRelationError as error:
                raise error.replace(detail=_joined(error.detail, side_by_side(remote, table))) from None
        return LocalRelation(remote, table, columns, self._name(remote))

    def _follow(self, remote: Relation, table: TargetTable) -> TargetTable:
        """The target's table, after the columns that are new in the message were added to it, where
        that is allowed.
        """
        missing = _missing(remote, table)
        following = self._following
        if following is None:
            return self._add(remote, table, missing) if missing and self._adds_columns else table
        if not missing and (not self._may_keep or following.copies or following.changes.is_same(remote)):
            return table
        before = following.changes.before(self._connection, remote)
        if missing:
            self._check_new(remote, table, missing, before)
        elif before is not None and before.columns == columns_of(remote):
            return table
        # If DDL commits the transaction, a process may have been killed after the commit.
        begun = following.changes.unfinished(self._connection, remote)
        new = [column for column in remote.columns if column in missing or column.name in begun]
        if new:
            return self._add(remote, table, new, before)
        if before is not None:
            self._note_moved(remote, table, before)
        following.changes.keep(self._connection, remote, None if before is None else before.baseline)
        return table

    def _check_new(
        self, remote: Relation, table: TargetTable, missing: Sequence[RelationColumn], before: KeptShape | None
    ) -> None:
        """Refuse columns that the publisher may not have added, or that must not be added."""
        replaced = self._replaced(remote, table, before)
        if not self._adds_columns:
            raise self._missing_error(remote, table, missing, before, () if before is None else replaced)
        if self._following is not None and self._following.copies:
            return
        known = set() if before is None else set(before.names)
        if replaced or any(column.name in known for column in missing):
            raise self._missing_error(remote, table, missing, before, replaced)

    def _replaced(self, remote: Relation, table: TargetTable, before: KeptShape | None) -> list[str]:
        """The target's columns that were replicated and are missing in the message. If the previous
        shape is not known, all columns that are missing in the message.
        """
        if self._following is None or self._following.copies:
            return []
        announced = {column.name for column in remote.columns}
        known = None if before is None else set(before.names)
        return [
            column.name
            for column in table.columns
            if column.name not in announced and not column.generated and (known is None or column.name in known)
        ]

    def _note_moved(self, remote: Relation, table: TargetTable, before: KeptShape) -> None:
        """Record changes that the names of columns do not explain: the same columns in another
        order, or a new column while another one has disappeared.
        """
        assert self._following is not None
        announced = {column.name for column in remote.columns}
        there = {column.name for column in table.columns}
        columns = moved(before.columns, columns_of(remote))
        gone = [name for name in before.names if name not in announced and name in there]
        new = [column.name for column in remote.columns if column.name not in before.names]
        if columns:
            reason = f"columns {_quoted(columns)} have another order at the publisher than before"
            difference = (
                "They have exchanged their names there, or were dropped and added again. Earlier rows of the target have"
                " the values of the columns that had these names before."
            )
        elif gone and new:
            reason = f"column {_quoted(new)} was added at the publisher, and {_quoted(gone)} no longer exists there"
            difference = f"The target has all of them. Earlier rows of the target do not have the publisher's values in {_quoted(new)}."
        else:
            return
        answer = self._following.answers.get(remote, Answer())
        note = Alteration(self._name(remote), _sentence(reason), difference=difference, lsn=answer.lsn)
        self._following.changes.note(self._connection, remote, note)
        self.alterations.append(note)

    def _add(
        self, remote: Relation, table: TargetTable, new: Sequence[RelationColumn], before: KeptShape | None = None
    ) -> TargetTable:
        """Add columns, and write their values into the existing rows."""
        following = self._following
        asked = following is None or following.copies or remote in following.answers
        if not asked or not self._may_alter:
            same = (remote.namespace, remote.name)
            mixed = any((one.namespace, one.name) == same for one in self._open)
            raise ColumnsToAdd(
                f'relation "{self._name(remote)}" must get {_named(new)} first',
                shape=remote,
                mixed=mixed,
                relation=self._name(remote),
            )
        missing = _missing(remote, table)
        if following is None:
            return self._alter(remote, table, missing)
        answer = following.answers.get(remote, Answer())
        older = self._older_rows(remote, table, new, before, answer)
        self._write_down(remote, table, new, older, answer)
        failpoints.hit("target.alter.before")
        altered = self._alter(remote, table, missing)
        failpoints.hit("target.alter.after")
        with self._target.reporting():
            for column in new:
                value = older[column.name].value
                place = altered.column(column.name)
                if value is not None and place is not None:
                    fill_column(self._target, self._connection, altered, place, column.type_oid, value)
        following.changes.finish(self._connection, remote)
        if not following.copies:
            baseline = next_baseline(remote, None if before is None else before.baseline, answer.attributes)
            following.changes.keep(self._connection, remote, baseline)
        return altered

    def _older_rows(
        self,
        remote: Relation,
        table: TargetTable,
        new: Sequence[RelationColumn],
        before: KeptShape | None,
        answer: Answer,
    ) -> Mapping[str, OlderRows]:
        assert self._following is not None
        if self._following.copies or not (table.has_rows(self._connection) or self._following.mixed):
            return {column.name: OlderRows() for column in new}
        baseline = None if before is None else before.baseline
        found = {column.name: older_rows(column, remote, baseline, answer.attributes) for column in new}
        if self._following.is_shared(remote):
            others = OlderRows(unknown="another subscription writes to the table, too")
            found = dict.fromkeys(found, others)
        return found

    def _write_down(
        self,
        remote: Relation,
        table: TargetTable,
        new: Sequence[RelationColumn],
        older: Mapping[str, OlderRows],
        answer: Answer,
    ) -> None:
        assert self._following is not None
        alterations = []
        for column in new:
            rows = older[column.name]
            reason = f'Column "{column.name}" was added at the publisher.'
            if rows.value is not None:
                reason += " Existing rows have the value that they have at the publisher."
            difference = None
            if rows.unknown is not None:
                difference = f'Existing rows have NULL in column "{column.name}", and the publisher may have other values: {rows.unknown}.'
            elif rows.value is not None and self._following.mixed:
                difference = (
                    f'Rows that the transaction had already inserted have NULL in column "{column.name}", and the publisher has other values:'
                    f" {self._target.capabilities.database} could not alter the table within the transaction."
                )
            statement = as_typed(self._target, _addition(self._target, table, column))
            alterations.append(Alteration(self._name(remote), reason, column.name, statement, difference, answer.lsn))
        self._following.changes.begin(self._connection, remote, alterations)
        self.alterations += alterations

    def _alter(self, remote: Relation, table: TargetTable, missing: Sequence[RelationColumn]) -> TargetTable:
        """Add columns, and read the table again."""
        try:
            with self._target.reporting():
                for statement in _additions(self._target, table, missing):
                    self._connection.execute(statement)
        except SubscriberError as error:
            if error.transient:
                raise
            refused = self._missing_error(remote, table, missing)
            detail = _joined(f"They could not be added: {error.message}.", refused.detail)
            raise refused.replace(detail=detail) from None
        return self._find(remote)

    def _match_columns(self, remote: Relation, table: TargetTable) -> tuple[TargetColumn, ...]:
        """Match columns by exact name; missing columns are reported before generated ones (rule
        C3).
        """
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
        self,
        remote: Relation,
        table: TargetTable,
        missing: Sequence[RelationColumn],
        before: KeptShape | None = None,
        replaced: Sequence[str] = (),
    ) -> TargetRelationError:
        alike = self._alike(table, missing)
        additions = _additions(self._target, table, [column for column in missing if column.name not in alike])
        commands = "; ".join(as_typed(self._target, one) for one in additions)
        changed = hint = None
        if replaced and not alike:
            changed, hint = self._renamed(remote, table, missing, before, replaced, commands)
        elif additions:
            option = "" if self._adds_columns else ", or ALTER SUBSCRIPTION ... SET (schema_changes = 'add_columns')"
            hint = f"Use {commands} in the target{option}."
            known = set() if before is None else set(before.names)
            if self._adds_columns and any(column.name in known for column in missing):
                changed = "It was replicated before, so the target's table has changed: a column was renamed or dropped there."
                hint = f"Rename the column back, or use {commands} in the target. {COPY_AGAIN}"
        for name, there in alike.items():
            hint = _joined(
                hint,
                f'{self._target.capabilities.database} treats "{name}" and "{there}" as the same name, and PostgreSQL does not:'
                f' rename the target\'s column to "{name}", or publish the table without one of them.',
            )
        return TargetRelationError(
            f'logical replication target relation "{self._name(remote)}" is missing replicated {_named(missing)}',
            detail=_joined(changed, side_by_side(remote, table)),
            hint=hint,
        )

    def _renamed(
        self,
        remote: Relation,
        table: TargetTable,
        missing: Sequence[RelationColumn],
        before: KeptShape | None,
        replaced: Sequence[str],
        commands: str,
    ) -> tuple[str, str]:
        """The description of the change, and the hint: rename the columns, or add others."""
        new = [column.name for column in missing]
        if before is None:
            what = f"It is not known whether {_quoted(replaced)} in the target is the former name of {_quoted(new)}."
            pairs = []
        else:
            shown = ", ".join(f"{one.name} {declared_type(one.type_oid, one.type_modifier)}" for one in before.columns)
            what = (
                f"The publisher had ({shown}) before. Either {_quoted(replaced)} was renamed, or it was dropped, and {_quoted(new)}"
                " is a different column."
            )
            pairs = [
                (old, name)
                for old, name in renames(before.columns, columns_of(remote))
                if old in replaced and name in new
            ]
        statements = "; ".join(as_typed(self._target, rename_column(table, old, name)) for old, name in pairs)
        rename = (
            f"use {statements} in the target"
            if statements
            else "rename it in the target with ALTER TABLE ... RENAME COLUMN"
        )
        return what, (
            f"If it was renamed, {rename}. If not, use {commands} in the target; existing rows then have NULL in it."
            f" The subscription then continues without another command. {COPY_AGAIN}"
        )

    def _alike(self, table: TargetTable, missing: Sequence[RelationColumn]) -> dict[str, str]:
        """The missing columns that cannot be added, each with the existing column whose name
        differs only in case.
        """
        if self._target.capabilities.column_case:
            return {}
        there = {column.name.lower(): column.name for column in table.columns}
        return {one.name: there[one.name.lower()] for one in missing if one.name.lower() in there}


def with_shapes(error: SubscriberError, local: LocalRelation) -> SubscriberError:
    """An error of a row that was written, with the definitions of the columns at the publisher and
    in the target.

    For a NULL in a NOT NULL column of the target, both shapes are added. For a value that a column
    cannot store, the two types of the column are added.
    """
    if error.sqlstate == _NOT_NULL_VIOLATION:
        return error.replace(detail=_joined(error.detail, side_by_side(local.remote, local.table)))
    if isinstance(error, UnsupportedValue):
        for announced, column in zip(local.remote.columns, local.columns, strict=True):
            if column.name == error.column:
                return error.replace(detail=_joined(error.detail, _two_types(announced, column, local.qualified_name)))
    return error


def _two_types(announced: RelationColumn, column: TargetColumn, table: str) -> str:
    at_publisher = declared_type(announced.type_oid, announced.type_modifier)
    return f'Column "{column.name}" of table "{table}" has type {at_publisher} at the publisher and {column.declared_type} in the target.'


def check_required(local: LocalRelation) -> None:
    """Refuse a table that has a column that needs a value in every new row, but is not sent by the
    publisher.

    The database itself would refuse such a row. This function is for callers that check before
    there is a row.

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


def check_binary(target: Target, local: LocalRelation, changes: ChangeGroup) -> None:
    """Refuse values in binary format for PostgreSQL columns whose type cannot read them (rule C5).

    Values of old rows are checked as well, whether the column is used to find rows or not. NULL is
    accepted for every type.

    Raises:
        UnsupportedValue: the first such column, with PostgreSQL's text and SQLSTATE.
    """
    for number, (announced, column) in enumerate(zip(local.remote.columns, local.columns, strict=True), 1):
        if announced.name not in changes.binary:
            continue
        error = target.values.refused_binary(announced.type_oid, column, number)
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
        remote: the publisher's relation.
        table: the target's table.
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
    """The statement that adds a column.

    A user-defined type (CREATE TYPE, CREATE DOMAIN, extensions) becomes text, because the stream
    contains only the number of such a type.
    """
    if column.type_oid not in BUILT_IN_TYPES:
        return add_column(target, table, column.name, _TEXT, "text")
    return add_column(target, table, column.name, column.type_oid, declared_type(column.type_oid, column.type_modifier))


def _joined(*parts: str | None) -> str:
    return " ".join(part for part in parts if part)


def _named(columns: Iterable[RelationColumn | TargetColumn]) -> str:
    quoted = [f'"{column.name}"' for column in columns]
    return f"{'column' if len(quoted) == 1 else 'columns'}: {', '.join(quoted)}"


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."

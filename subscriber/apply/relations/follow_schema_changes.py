"""Follow the publisher's schema changes: relation messages that differ from the shape that was last
applied. What they mean is decided by :mod:`subscriber.apply.relations.missing_columns`.

A column that may have been renamed stops the subscription, and so does a replicated column that has
disappeared from the target. With ``schema_changes = 'add_columns'``, new columns are added,
nullable and without a default::

    open ──▶ ColumnsToAdd ──▶ the publisher is asked for the values of older rows ──▶ the batch is applied again
                                 ├─ DDL is transactional: ALTER TABLE and the values of older rows, at its place in the stream
                                 └─ it is not (MariaDB): ColumnsToAdd; the transactions before are committed, the table is altered separately,
                                    and the batch is applied again

A table is also altered separately for a transaction that the target prepares, because that would
keep its lock on the table. Then the columns exist before the rows that the same transaction has
written with the previous shape, and these rows get NULL. If the publisher has other values there,
the difference is recorded in the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import sqlalchemy as sa

from subscriber.apply.relations.missing_columns import (
    MissingColumns,
    OlderRows,
    addition,
    additions,
    find_table,
    joined,
    missing_columns,
    moved,
    named,
    next_baseline,
    older_rows,
    quoted,
)
from subscriber.base import failpoints
from subscriber.base.errors import ColumnsToAdd, SubscriberError
from subscriber.base.lsn import LSN
from subscriber.catalog.schema_changes import Alteration, SchemaChanges
from subscriber.postgres.protocol.messages import Relation, RelationColumn
from subscriber.postgres.schema.publisher_tables import TableAttributes
from subscriber.postgres.schema.relation_names import RelationNames
from subscriber.postgres.schema.stored_shape import StoredShape, columns_of
from subscriber.targets import Target, TargetTable
from subscriber.targets.ddl import as_typed, fill_column


@dataclass(frozen=True, slots=True)
class Answer:
    """The publisher's answer about a relation message of the transaction at ``lsn``. ``attributes``
    is None where the table no longer exists, or the publisher could not be asked.
    """

    lsn: LSN | None = None
    attributes: TableAttributes | None = None


@dataclass(frozen=True, slots=True)
class Following:
    """How the publisher's schema changes are followed.

    Attributes:
        copies: the table is about to be copied, so the target has no rows from before.
        mixed: the transaction that is applied next also writes rows with the previous shape.
    """

    changes: SchemaChanges
    answers: Mapping[Relation, Answer] = field(default_factory=dict)
    is_shared: Callable[[Relation], bool] = field(default=lambda _relation: False)
    copies: bool = False
    mixed: bool = False


class SchemaFollower:
    """Examines the relation messages of one batch, and alters the target's tables.

    ``opened`` has the relations that were opened before in the transaction. With ``alone`` the
    transaction contains nothing else, so that DDL may commit it; with ``prepared`` it is to be
    prepared, so it must lock neither a table nor the catalog. If ``following`` is None, columns are
    added without comparing the message with the previous shape.
    """

    def __init__(  # noqa: PLR0913 - one argument for each of the rules
        self,
        target: Target,
        connection: sa.Connection,
        names: RelationNames,
        missing: MissingColumns,
        opened: Collection[Relation],
        *,
        adds_columns: bool,
        alone: bool,
        prepared: bool,
        following: Following | None,
    ) -> None:
        self.alterations: list[Alteration] = []
        self._target = target
        self._connection = connection
        self._names = names
        self._missing = missing
        self._opened = opened
        self._adds_columns = adds_columns
        self._may_alter = alone or (target.capabilities.transactional_ddl and not prepared)
        self._may_keep = not prepared
        self._following = following

    def has_stored_shape(self, remote: Relation) -> bool:
        """Whether the message has the shape last applied; a first shape is stored."""
        following = self._following
        if following is None or following.changes.is_same(remote):
            return True
        before = following.changes.before(self._connection, remote)
        if before is not None:
            return before.columns == columns_of(remote) if not self._may_keep else before.is_of(remote)
        if not self._may_keep or following.changes.unfinished(self._connection, remote):
            return False
        following.changes.store(self._connection, remote, None)
        return True

    def follow(self, remote: Relation, table: TargetTable) -> TargetTable:
        """The target's table, after the message's new columns were added, where that is allowed.

        Raises:
            TargetRelationError: a column is missing, and must not be added or may be a renamed one.
            ColumnsToAdd: columns must be added, and the publisher was not asked about them, or they
                cannot be added in this transaction.
        """
        missing = missing_columns(remote, table)
        following = self._following
        if following is None:
            return self._add(remote, table, missing) if missing and self._adds_columns else table
        if not missing and (not self._may_keep or following.copies or following.changes.is_same(remote)):
            return table
        before = following.changes.before(self._connection, remote)
        if before is not None and before.is_of_another_table(remote):
            before = replace(before, baseline=None)  # it is that of the former table
        if missing:
            self._check_new(remote, table, missing, before)
        elif before is not None and before.is_of(remote):
            return table
        # If DDL commits the transaction, a process may have been killed after the commit.
        begun = following.changes.unfinished(self._connection, remote)
        new = [column for column in remote.columns if column in missing or column.name in begun]
        if new:
            return self._add(remote, table, new, before)
        if before is not None:
            self._record_moved(remote, table, before)
            self._record_another_table(remote, before)
        following.changes.store(self._connection, remote, None if before is None else before.baseline)
        return table

    def _check_new(
        self, remote: Relation, table: TargetTable, missing: Sequence[RelationColumn], before: StoredShape | None
    ) -> None:
        """Refuse columns that the publisher may not have added, or that must not be added."""
        replaced = self._replaced(remote, table, before)
        if not self._adds_columns:
            raise self._missing.error(remote, table, missing, before, () if before is None else replaced)
        if self._following is not None and self._following.copies:
            return
        known = set() if before is None else set(before.names)
        if replaced or any(column.name in known for column in missing):
            raise self._missing.error(remote, table, missing, before, replaced)

    def _replaced(self, remote: Relation, table: TargetTable, before: StoredShape | None) -> list[str]:
        """The target's columns that the message lacks, if known only those that were replicated."""
        if self._following is None or self._following.copies:
            return []
        announced = {column.name for column in remote.columns}
        known = None if before is None else set(before.names)
        return [
            column.name
            for column in table.columns
            if column.name not in announced and not column.generated and (known is None or column.name in known)
        ]

    def _record_moved(self, remote: Relation, table: TargetTable, before: StoredShape) -> None:
        """Record changes that names do not explain: another order, or a new and a lost column."""
        assert self._following is not None
        announced = {column.name for column in remote.columns}
        there = {column.name for column in table.columns}
        columns = moved(before.columns, columns_of(remote))
        gone = [name for name in before.names if name not in announced and name in there]
        new = [column.name for column in remote.columns if column.name not in before.names]
        if columns:
            reason = f"columns {quoted(columns)} have another order at the publisher than before"
            difference = (
                "They have exchanged their names there, or were dropped and added again. Earlier rows of the target have"
                " the values of the columns that had these names before."
            )
        elif gone and new:
            reason = f"column {quoted(new)} was added at the publisher, and {quoted(gone)} no longer exists there"
            difference = f"The target has all of them. Earlier rows of the target do not have the publisher's values in {quoted(new)}."
        else:
            return
        self._record(remote, _sentence(reason), difference)

    def _record_another_table(self, remote: Relation, before: StoredShape) -> None:
        """Record that the publisher's table is another one with the same name."""
        if before.is_of_another_table(remote):
            self._record(
                remote,
                f"The publisher's table with this name is another one now, with OID {remote.relation_id} instead of {before.oid}:"
                " it was dropped and created again, or another table was renamed.",
                "The target still has the rows of the former table.",
            )

    def _record(self, remote: Relation, reason: str, difference: str) -> None:
        assert self._following is not None
        lsn = self._following.answers.get(remote, Answer()).lsn
        note = Alteration(self._name(remote), (remote.namespace, remote.name), reason, difference=difference, lsn=lsn)
        self._following.changes.record(self._connection, note)
        self.alterations.append(note)

    def _add(
        self, remote: Relation, table: TargetTable, new: Sequence[RelationColumn], before: StoredShape | None = None
    ) -> TargetTable:
        following = self._following
        asked = following is None or following.copies or remote in following.answers
        if not asked or not self._may_alter:
            same = (remote.namespace, remote.name)
            mixed = any((one.namespace, one.name) == same for one in self._opened)
            raise ColumnsToAdd(
                f'relation "{self._name(remote)}" must get {named(new)} first',
                shape=remote,
                mixed=mixed,
                relation=self._name(remote),
            )
        missing = missing_columns(remote, table)
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
            if before is not None:
                self._record_another_table(remote, before)
            baseline = next_baseline(remote, None if before is None else before.baseline, answer.attributes)
            following.changes.store(self._connection, remote, baseline)
        return altered

    def _older_rows(
        self,
        remote: Relation,
        table: TargetTable,
        new: Sequence[RelationColumn],
        before: StoredShape | None,
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
            statement = as_typed(self._target, addition(self._target, table, column))
            published = (remote.namespace, remote.name)
            alterations.append(
                Alteration(self._name(remote), published, reason, column.name, statement, difference, answer.lsn)
            )
        self._following.changes.begin(self._connection, remote, alterations)
        self.alterations += alterations

    def _alter(self, remote: Relation, table: TargetTable, missing: Sequence[RelationColumn]) -> TargetTable:
        try:
            with self._target.reporting():
                for statement in additions(self._target, table, missing):
                    self._connection.execute(statement)
        except SubscriberError as error:
            if error.transient:
                raise
            refused = self._missing.error(remote, table, missing)
            detail = joined(f"They could not be added: {error.message}.", refused.detail)
            raise refused.replace(detail=detail) from None
        return find_table(self._target, self._connection, self._names, remote)

    def _name(self, remote: Relation) -> str:
        return self._names.qualified(remote.namespace, remote.name)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."

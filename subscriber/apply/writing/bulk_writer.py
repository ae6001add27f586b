"""Changes of many rows, written by one statement of the target, where it has one that is quicker.

The role :class:`~subscriber.targets.roles.bulk.Bulk` of a target has the statements. A bulk write
does not say which of its rows it could not write. So rows are inserted in bulk only where the
insertion can be undone: inside a savepoint, or in an attempt, of which the whole batch is applied
again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from subscriber.apply.regrouping.regroup import attempting
from subscriber.apply.regrouping.reorderable import has_own_columns
from subscriber.apply.relations.local_relations import LocalRelation, RelationMap
from subscriber.apply.statements.bind import bulk_columns
from subscriber.apply.statements.change_statements import ChangeStatements
from subscriber.apply.statements.row_parts import parts
from subscriber.apply.statements.row_statements import Statement
from subscriber.apply.writing.pipelined_changes import PipelinedChanges
from subscriber.errors import Stopped, SubscriberError
from subscriber.protocol.changes import ChangeGroup
from subscriber.targets import Target
from subscriber.targets.loader import LoadColumn

LEAST_IN_BULK: Final = 8
"""For fewer rows the target is not asked about bulk writes: that takes as long as to write them."""

BULK_ROWS_AT_A_TIME: Final = 16_384
"""Rows of one bulk write. It takes as long as a few hundred single statements."""


def may_be_quicker(rows: int) -> bool:
    """Whether there are enough rows to ask the target whether a bulk write is quicker."""
    return rows >= LEAST_IN_BULK


class BulkWriter:
    """Writes many changes of one batch by one statement.

    Args:
        target: the target that changes are written to.
        connection: the connection of the batch's transaction.
        statements: the statements for single rows.
        relations: the target's tables.
        pipelined: the changes that wait.
        check: raises an error when the batch must end.
    """

    def __init__(
        self,
        target: Target,
        connection: sa.Connection,
        statements: ChangeStatements,
        relations: RelationMap,
        pipelined: PipelinedChanges,
        check: Callable[[], None],
    ) -> None:
        self._target = target
        self._connection = connection
        self._statements = statements
        self._relations = relations
        self._pipelined = pipelined
        self._check = check
        self._least_rows: dict[tuple[LocalRelation, bool], int | None] = {}

    def may_write(self, statement: Statement, changes: ChangeGroup) -> bool:
        """Whether the target can execute a statement for all rows at once, and it is quicker.

        Args:
            statement: the statement for each of the changes.
            changes: changes of different rows.
        """
        bulk = self._target.bulk
        if bulk is None or not may_be_quicker(len(changes)) or not statement.finds_exactly or not statement.parameters:
            return False
        local = self._relations.open(changes.relation)
        asked = (local, changes.action == "I")
        if asked not in self._least_rows:
            key = [LoadColumn(parameter.column, parameter.type_oid) for parameter in statement.key]
            self._least_rows[asked] = bulk.least_rows(self._connection, local.table, key)
        least = self._least_rows[asked]
        return least is not None and len(changes) >= least

    def write(self, statement: Statement, changes: ChangeGroup) -> int:
        """Execute a statement for all rows at once; returns how many rows were found.

        Args:
            statement: a statement that :meth:`may_write` allows.
            changes: changes of different rows.

        Raises:
            ApplyError: a change cannot be applied.
            TargetUnavailable: try again.
        """
        bulk, table = self._target.bulk, self._relations.open(changes.relation).table
        assert bulk is not None
        self._statements.check_binary(changes)
        found = 0
        for start, stop in parts(len(changes), self._check, BULK_ROWS_AT_A_TIME):
            part = changes.slice(start, stop)
            keys, written = bulk_columns(statement.key, part), bulk_columns(statement.written, part)
            if changes.action == "I":
                found += bulk.insert(self._connection, table, written)
            elif changes.action == "U":
                found += bulk.update(self._connection, table, keys, written)
            else:
                found += bulk.delete(self._connection, table, keys)
        return found

    def insert(self, changes: ChangeGroup) -> bool:
        """Insert rows at once, where the target can and it is quicker.

        Returns:
            Whether they are inserted. If not, nothing was done.

        Raises:
            OrderMatters: a row cannot be inserted, in an attempt.
            TargetUnavailable: try again.
        """
        local = self._pipelined.open(changes.relation)
        may_undo = self._pipelined.attempts or self._target.capabilities.savepoints
        if not may_undo or has_own_columns(local):
            return False
        statement = self._statements.statement(changes)
        if not self.may_write(statement, changes):
            return False
        self._pipelined.flush()
        if not self._pipelined.attempts:
            return self._insert_under_savepoint(statement, changes)
        with attempting():
            self.write(statement, changes)
        return True

    def _insert_under_savepoint(self, statement: Statement, changes: ChangeGroup) -> bool:
        """Insert rows at once. If that fails, nothing was inserted, and the statements for one row
        find the row that cannot be inserted.
        """
        with self._target.reporting():
            savepoint = self._connection.begin_nested()
        try:
            self.write(statement, changes)
        except SubscriberError as error:
            # After a lost connection the savepoint does not exist. That must not hide the error.
            with suppress(SQLAlchemyError):
                savepoint.rollback()
            if error.transient or isinstance(error, Stopped):
                raise
            return False
        with self._target.reporting():
            savepoint.commit()
        return True

"""Changes of many rows, written by one statement of the target, where it has one that is quicker
(:class:`~subscriber.targets.base.loading.Bulk`).

A bulk write does not say which of its rows it could not write. So rows are inserted in bulk only
where the insertion can be undone: inside a savepoint, or where the whole batch is applied again.

Single changes wait until many of them can be sent in one pipeline (:class:`PipelinedChanges`). At
the flush it is not known which transaction a missing row belongs to. Therefore changes wait only
while the batch may be applied again in the publisher's order
(:class:`~subscriber.apply.reorder.OrderMatters`). Whatever could depend on the changes that wait
comes after a flush: another statement, an alteration of a table, an error.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from subscriber.apply.coalesce import has_own_columns
from subscriber.apply.relations.target_relations import RelationMap, TargetRelation
from subscriber.apply.reorder import OrderMatters, order_may_matter
from subscriber.apply.statements.change_statements import ROWS_AT_A_TIME, ChangeStatements, parts
from subscriber.apply.statements.execute import Rows, bulk_columns
from subscriber.apply.statements.row_statements import CompiledStatement
from subscriber.base.errors import Stopped, SubscriberError
from subscriber.postgres.protocol.changes import ChangeGroup
from subscriber.postgres.protocol.messages import Relation
from subscriber.targets import Target
from subscriber.targets.base.loading import LoadColumn

LEAST_IN_BULK: Final = 8
"""For fewer rows the target is not asked about bulk writes: that takes as long as to write them."""

BULK_ROWS_AT_A_TIME: Final = 16_384
"""Rows of one bulk write. It takes as long as a few hundred single statements."""


def may_be_quicker(rows: int) -> bool:
    """Whether there are enough rows to ask the target whether a bulk write is quicker."""
    return rows >= LEAST_IN_BULK


class BulkWriter:
    """Writes many changes of one batch by one statement."""

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
        self._least_rows: dict[tuple[TargetRelation, bool], int | None] = {}

    def may_write(self, statement: CompiledStatement, changes: ChangeGroup) -> bool:
        """Whether the target can write changes of different rows at once, and that is quicker."""
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

    def write(self, statement: CompiledStatement, changes: ChangeGroup) -> int:
        """Execute a statement that :meth:`may_write` allows; returns how many rows were found."""
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
        """Insert rows at once, where the target can and it is quicker; returns whether it did. It
        raises OrderMatters if a row cannot be inserted, and the batch may be applied again.
        """
        local = self._pipelined.open(changes.relation)
        may_undo = self._pipelined.is_optimistic or self._target.capabilities.savepoints
        if not may_undo or has_own_columns(local):
            return False
        statement = self._statements.statement(changes)
        if not self.may_write(statement, changes):
            return False
        self._pipelined.flush()
        if not self._pipelined.is_optimistic:
            return self._insert_under_savepoint(statement, changes)
        with order_may_matter():
            self.write(statement, changes)
        return True

    def _insert_under_savepoint(self, statement: CompiledStatement, changes: ChangeGroup) -> bool:
        """Insert rows at once, or none; then the statements for one row find the one that fails."""
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


# Changes in a pipeline ----------------------------------------------------------------------------


class PipelinedChanges:
    """The changes of one batch that wait."""

    def __init__(
        self, target: Target, connection: sa.Connection, relations: RelationMap, check: Callable[[], None]
    ) -> None:
        self.is_optimistic = self.waits = False
        self._target = target
        self._connection = connection
        self._relations = relations
        self._check = check
        self._waiting: list[tuple[str, Any]] = []

    def open_frame(self) -> None:
        """If a change that follows fails, it is an error of its transaction."""
        self.is_optimistic = self.waits = False

    def write_optimistically(self) -> None:
        """If a change that follows fails, the batch is applied again in the publisher's order."""
        target = self._target
        others = None if target.origins is None else target.origins.others(self._connection)
        self.is_optimistic = True
        self.waits = target.statement_pipeline is not None and others is None

    def add(self, sql: str, rows: Rows) -> None:
        """Let a statement wait that finds every row that exists; many are flushed."""
        self._waiting += [(sql, row) for row in rows]
        if len(self._waiting) >= ROWS_AT_A_TIME:
            self.flush()

    def flush(self) -> None:
        """Execute the changes that wait. OrderMatters: one fails, or its row does not exist."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        pipeline = self._target.statement_pipeline
        assert pipeline is not None
        with order_may_matter():
            for start, stop in parts(len(waiting), self._check):
                if 0 in pipeline.execute(self._connection, waiting[start:stop]):
                    raise OrderMatters

    def open(self, relation: Relation) -> TargetRelation:
        """Open a relation (:meth:`RelationMap.open`), after a :meth:`flush` if its table may have
        to be altered or cannot be used.
        """
        local = self._relations.open_unchanged(relation) if self._waiting else None
        if local is not None:
            return local
        self.flush()
        return self._relations.open(relation)

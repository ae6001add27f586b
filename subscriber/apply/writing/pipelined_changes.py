"""Changes that wait until many of them can be sent to the target's server in one pipeline.

::

    write, write, write, …   add each statement to those that wait
    flush                    send them all, and read the row counts in one round trip

A change whose row does not exist is found only at the flush, so it is not known which transaction
it belongs to. Therefore changes wait only in an *attempt*: when one of them cannot be applied,
:class:`~subscriber.apply.regrouping.regroup.OrderMatters` is raised, and the batch is applied again
in the publisher's order, where nothing waits. Whatever could depend on the changes that wait comes
after a flush: another statement, an alteration of a table, an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from subscriber.apply.regrouping.regroup import OrderMatters, attempting
from subscriber.apply.relations.local_relations import LocalRelation, RelationMap
from subscriber.apply.statements.bind import Rows
from subscriber.apply.statements.row_parts import ROWS_AT_A_TIME, parts
from subscriber.protocol.messages import Relation
from subscriber.targets import Target


class PipelinedChanges:
    """The changes of one batch that wait.

    Args:
        target: the target that changes are written to.
        connection: the connection of the batch's transaction.
        relations: the target's tables.
        check: raises an error when the batch must end.

    Attributes:
        attempts: the changes are an attempt.
        waits: changes may wait.
    """

    def __init__(
        self, target: Target, connection: sa.Connection, relations: RelationMap, check: Callable[[], None]
    ) -> None:
        self.attempts = self.waits = False
        self._target = target
        self._connection = connection
        self._relations = relations
        self._check = check
        self._waiting: list[tuple[str, Any]] = []

    def open_frame(self) -> None:
        """The changes that follow are no attempt."""
        self.attempts = self.waits = False

    def attempt(self) -> None:
        """The changes that follow are an attempt."""
        target = self._target
        others = None if target.origins is None else target.origins.others(self._connection)
        self.attempts = True
        self.waits = target.pipeline is not None and others is None

    def add(self, sql: str, rows: Rows) -> None:
        """Let a statement wait.

        Args:
            sql: the statement, which finds every row that exists.
            rows: its parameters.

        Raises:
            OrderMatters, TargetUnavailable: as :meth:`flush`.
        """
        self._waiting += [(sql, row) for row in rows]
        if len(self._waiting) >= ROWS_AT_A_TIME:
            self.flush()

    def flush(self) -> None:
        """Execute the changes that wait.

        Raises:
            OrderMatters: a change cannot be applied, or its row does not exist.
            TargetUnavailable: try again.
        """
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        pipeline = self._target.pipeline
        assert pipeline is not None
        with attempting():
            for start, stop in parts(len(waiting), self._check):
                if 0 in pipeline.execute(self._connection, waiting[start:stop]):
                    raise OrderMatters

    def open(self, relation: Relation) -> LocalRelation:
        """Open a relation, after the changes that wait if its table may have to be altered or
        cannot be used.

        Raises:
            TargetRelationError, ColumnsToAdd: as :meth:`RelationMap.open`.
            OrderMatters, TargetUnavailable: as :meth:`flush`.
        """
        local = self._relations.open_unchanged(relation) if self._waiting else None
        if local is not None:
            return local
        self.flush()
        return self._relations.open(relation)

"""The conflicts of UPDATEs and DELETEs with the rows that are in the target: a row that does not
exist (rule C18), and a row that another origin has written (rules C19-C21).

The conflict policy decides which of them stop the transaction. A row count of zero is no conflict
if a trigger has suppressed the change of a row that exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import sqlalchemy as sa

from subscriber.apply.conflicts.collisions import new_row, search_conditions, search_key
from subscriber.apply.conflicts.conflict import MISSING, ChangePlace, Conflict
from subscriber.apply.conflicts.conflict_policy import ConflictPolicy, stopped_by
from subscriber.apply.conflicts.origins import OriginProbe, find_rows_of_others, without_values
from subscriber.apply.relations.local_relations import RelationMap
from subscriber.apply.statements.change_statements import ChangeStatements
from subscriber.protocol.changes import ChangeGroup
from subscriber.targets import Target


class RowConflicts:
    """Finds the conflicts of one batch's changes.

    Args:
        target: the target that changes are written to.
        connection: the connection of the batch's transaction.
        statements: knows how rows are found.
        relations: the target's tables.
        policy: decides about conflicts.
        show_values: conflicts are reported with the values of their rows.
    """

    def __init__(
        self,
        target: Target,
        connection: sa.Connection,
        statements: ChangeStatements,
        relations: RelationMap,
        *,
        policy: ConflictPolicy,
        show_values: bool,
    ) -> None:
        self._target = target
        self._connection = connection
        self._statements = statements
        self._relations = relations
        self._policy = policy
        self._shows_values = show_values

    @cached_property
    def others(self) -> OriginProbe | None:
        """Finds rows that another origin has written; None where the target cannot report
        origins.
        """
        origins = self._target.origins
        differs = None if origins is None else origins.others(self._connection)
        return None if differs is None else OriginProbe(self._target, self._connection, self._statements.cache, differs)

    def of_others(self, changes: ChangeGroup, place: ChangePlace) -> Iterator[tuple[Conflict, int]]:
        """The conflicts of rows that another origin has written, where the target can report
        origins. The rows are changed nevertheless.

        Args:
            changes: UPDATEs or DELETEs of one shape, before they are executed.
            place: the place of the first change.

        Raises:
            ConflictError: the policy stops the transaction at such a conflict.
        """
        return self._unless_stopped(self._of_others(changes, place))

    def of_missing(self, changes: ChangeGroup, place: ChangePlace, number: int) -> Iterator[tuple[Conflict, int]]:
        """The conflict of rows that do not exist (rule C18).

        Args:
            changes: UPDATEs or DELETEs of one shape.
            place: the place of the first change.
            number: how many of their rows do not exist.

        Raises:
            ConflictError: the policy stops the transaction at such a conflict.
        """
        local = self._relations.open(changes.relation)
        missing = Conflict(
            MISSING[changes.action],
            local.qualified_name,
            place,
            search=search_key(self._statements.identity(local), changes, values=self._shows_values),
            remote_row=new_row(local, changes) if self._shows_values else None,
        )
        return self._unless_stopped([(missing, number)])

    def is_suppressed(self, changes: ChangeGroup) -> bool:
        """Whether the row of one change exists although the row count is zero: a trigger has
        suppressed the change.
        """
        local = self._relations.open(changes.relation)
        if not self._target.writing.may_suppress(local.table):
            return False
        table = local.table.clause()
        identity = self._statements.identity(local)
        conditions = search_conditions(self._target, table, local, changes, identity)
        query: sa.Select[Any] = sa.select(sa.literal_column("1")).select_from(table).where(*conditions)
        own_rows = self._target.matching.own_rows(local.table, query, table)
        with self._target.reporting():
            return self._connection.execute(own_rows).first() is not None

    def _of_others(self, changes: ChangeGroup, place: ChangePlace) -> Iterator[tuple[Conflict, int]]:
        if self.others is None:
            return
        local = self._relations.open(changes.relation)
        identity = self._statements.identity(local)
        if self.others.finds(local, changes, identity):
            differs = self.others.differs
            for conflict in find_rows_of_others(
                self._target, self._connection, local, changes, identity, place, differs
            ):
                yield conflict if self._shows_values else without_values(conflict), 1

    def _unless_stopped(self, conflicts: Iterable[tuple[Conflict, int]]) -> Iterator[tuple[Conflict, int]]:
        """The conflicts, up to one that stops the transaction: its error is raised."""
        for conflict, number in conflicts:
            error = stopped_by(conflict, self._policy)
            if error is not None:
                raise error
            yield conflict, number

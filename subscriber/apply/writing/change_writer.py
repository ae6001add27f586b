"""Write the changes of a batch through one connection of the target.

::

    run of changes ─▶ replaced_groups      NULL in the place of values that the target cannot hold
                   ─▶ bulk_writer          many INSERTs, by one statement for all rows
                   ─▶ change_statements    the statement of their shape, and their rows: converted once for a frame
                   ─▶ pipelined_changes    they wait for a round trip
                   ─▶ change_statements    or are executed
                   ─▶ row_conflicts        rows that do not exist, or that another origin has written

Changes whose order does not matter (:mod:`subscriber.apply.regrouping.reorderable`) are written
together, in the order of :mod:`subscriber.apply.regrouping.regroup`; then a row that does not exist
only shows that the order matters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from subscriber.apply.conflicts.conflict import NOWHERE, ChangePlace, Conflict
from subscriber.apply.conflicts.conflict_policy import POSTGRESQL_POLICY, ConflictPolicy
from subscriber.apply.conflicts.row_conflicts import RowConflicts
from subscriber.apply.regrouping.reorderable import Reorderable
from subscriber.apply.relations.local_relations import RelationMap
from subscriber.apply.relations.relation_checks import with_shapes
from subscriber.apply.statements.bind import Rows
from subscriber.apply.statements.change_statements import ChangeStatements, StatementCache
from subscriber.apply.statements.row_statements import Statement
from subscriber.apply.walk import Run
from subscriber.apply.writing.bulk_writer import BulkWriter, may_be_quicker
from subscriber.apply.writing.pipelined_changes import PipelinedChanges
from subscriber.apply.writing.replaced_groups import ReplacedGroups
from subscriber.apply.writing.unrepresentable import ReplacedTally, Replacement
from subscriber.catalog.schema_changes import Alteration
from subscriber.errors import SubscriberError
from subscriber.lsn import LSN
from subscriber.protocol.changes import ChangeGroup, Frame
from subscriber.protocol.messages import Relation
from subscriber.targets import Target


@dataclass(slots=True)
class _Prepared:
    """A group that is ready to be executed.

    Attributes:
        statement: the statement for each change.
        rows: the parameters of all changes; None if one of the rows cannot be converted.
        may_suppress: a trigger may leave a row unchanged without an error.
    """

    statement: Statement
    rows: Rows | None
    may_suppress: bool


class ChangeWriter:
    """Writes the changes of one batch through one connection.

    Args:
        target: the target that changes are written to.
        connection: the connection of the batch's transaction.
        cache: compiled SQL, cached across batches.
        relations: the target's tables.
        show_values: conflicts are reported with the values of their rows.
        policy: decides about conflicts.
        binary: see :class:`~subscriber.apply.batch_rules.Rules`.
        replacement: puts NULL in the place of values that the target cannot hold; None if the
            option does not ask for that.
        check: raises an error when the batch must end; it is called before every part of
            :data:`~subscriber.apply.statements.row_parts.ROWS_AT_A_TIME` rows.
    """

    def __init__(  # noqa: PLR0913 - one argument for each of the rules
        self,
        target: Target,
        connection: sa.Connection,
        cache: StatementCache,
        relations: RelationMap | None = None,
        *,
        show_values: bool = False,
        policy: ConflictPolicy = POSTGRESQL_POLICY,
        binary: bool = True,
        replacement: Replacement | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._target = target
        self._connection = connection
        self._relations = relations = relations or RelationMap(target, connection)
        self._shows_values = show_values
        self._check = check
        self._statements = statements = ChangeStatements(
            target, connection, cache, relations, binary=binary, check=check
        )
        self._pipelined = PipelinedChanges(target, connection, relations, check)
        self._groups = ReplacedGroups(replacement, relations, self._pipelined)
        self._bulk = BulkWriter(target, connection, statements, relations, self._pipelined, check)
        self._conflicts = RowConflicts(
            target, connection, statements, relations, policy=policy, show_values=show_values
        )
        self._reorderable = Reorderable(target, connection, statements, relations)
        self._prepared: dict[int, _Prepared] = {}

    @property
    def alterations(self) -> Sequence[Alteration]:
        """The alterations of tables in the transaction."""
        return self._relations.alterations

    def look_up(self, relation: Relation) -> None:
        """Find the table of a relation whose changes are not applied.

        PostgreSQL's worker also looks up the table before it checks whether to apply its changes
        (rule C4).

        Raises:
            TargetRelationError: as :meth:`RelationMap.look_up`.
        """
        self._pipelined.flush()
        self._relations.look_up(relation)

    def describe(self, error: SubscriberError, relation: Relation) -> SubscriberError:
        """The error with the shapes of the two tables, where the difference may have caused it.

        Args:
            error: the error of a change.
            relation: the relation of the change.
        """
        local = self._relations.opened(relation)
        return error if local is None else with_shapes(error, local)

    def open_frame(self, frame: Frame) -> None:
        """Use ``frame`` for the following runs."""
        self._check()
        self._prepared = {}
        self._groups.open_frame(frame)
        self._pipelined.open_frame()

    def may_replace(self, frame: Frame) -> bool:
        """See :meth:`ReplacedGroups.may_replace`."""
        return self._groups.may_replace(frame)

    def count_replaced(self, run: Run, tally: ReplacedTally, lsn: LSN) -> None:
        """See :meth:`ReplacedGroups.count`."""
        self._groups.count(run, tally, lsn)

    def attempt(self) -> None:
        """The changes of the open frame are an attempt: if one of them cannot be applied,
        OrderMatters is raised, and the batch is applied again in the publisher's order.

        So many rows can be inserted without a savepoint. Other changes need not be executed before
        :meth:`flush`, if the target can then execute them with one round trip.
        """
        self._pipelined.attempt()

    def flush(self) -> None:
        """Execute the changes that wait.

        Raises:
            OrderMatters: a change cannot be applied, or its row does not exist.
            TargetUnavailable: try again.
        """
        self._pipelined.flush()

    def free_key(self, group: ChangeGroup) -> tuple[str, ...] | None:
        """See :meth:`Reorderable.free_key`."""
        return self._reorderable.free_key(group)

    def may_fold(self, group: ChangeGroup) -> bool:
        """See :meth:`Reorderable.may_fold`."""
        return self._reorderable.may_fold(group)

    def write_together(self, changes: ChangeGroup) -> bool:
        """Apply changes whose order does not matter, all of different rows.

        Returns:
            Whether every row was found, and none of them was last written by another origin.

        Raises:
            ApplyError: a change cannot be applied.
            TargetUnavailable: try again.
        """
        self._pipelined.flush()
        statement = self._statements.statement(changes)
        if self._bulk.may_write(statement, changes):
            return self._bulk.write(statement, changes) == len(changes)
        bound = self._statements.bind(statement, changes)
        if changes.action == "I":
            self._statements.execute(statement, bound, count=False)
            return True
        if any(True for _ in self._conflicts.of_others(changes, NOWHERE)):
            return False
        return self._statements.change(statement, bound, changes) == len(changes)

    def write(self, run: Run, place: ChangePlace = NOWHERE) -> Sequence[tuple[Conflict, int]]:
        """Apply a run in order.

        Args:
            run: a run of the open frame.
            place: the place of the run's first change, where it is a change of the publisher.

        Returns:
            The conflicts that do not stop the run, each with the number of times that it occurred.

        Raises:
            ApplyError: a change cannot be applied.
            TargetUnavailable: try again.
        """
        group = self._groups.group(run.group)
        is_insert = group.action == "I"
        if is_insert and may_be_quicker(run.stop - run.start) and self._bulk.insert(group.slice(run.start, run.stop)):
            return ()
        prepared = self._prepared.get(run.group)
        if prepared is None:
            prepared = self._prepared[run.group] = self._prepare(group)
        statement = prepared.statement
        if prepared.rows is None:
            # Another change of the group cannot be converted. Only the transaction of that change
            # may fail.
            self._pipelined.flush()
            rows = self._statements.bind(statement, group.slice(run.start, run.stop))
        else:
            rows = prepared.rows[run.start : run.stop]
        if self._pipelined.waits and statement.finds_exactly and not prepared.may_suppress:
            self._pipelined.add(statement.sql, rows)
            return ()
        self._pipelined.flush()
        if is_insert:
            self._statements.execute(statement, rows, count=False)
            return ()
        one_by_one = self._shows_values or prepared.may_suppress
        if one_by_one or statement.search or self._conflicts.others is not None:
            # A row count does not show which of several rows is missing.
            step = 1 if one_by_one else len(rows)
            return self._change_and_look(statement, rows, group, run, place, step=step)
        missing = len(rows) - self._statements.execute(statement, rows, count=True)
        if not missing:
            return ()
        return [*self._conflicts.of_missing(group.slice(run.start, run.stop), place, missing)]

    def _change_and_look(
        self, statement: Statement, rows: Rows, group: ChangeGroup, run: Run, place: ChangePlace, *, step: int
    ) -> Sequence[tuple[Conflict, int]]:
        """Apply a run of UPDATEs or DELETEs, ``step`` at a time, and look for the conflicts of each
        step.
        """
        conflicts: list[tuple[Conflict, int]] = []
        for start in range(0, len(rows), step):
            changes = group.slice(run.start + start, run.start + start + step)
            conflicts += self._conflicts.of_others(changes, place)
            missing = len(changes) - self._statements.change(statement, rows[start : start + step], changes)
            if missing and not self._conflicts.is_suppressed(changes):
                conflicts += self._conflicts.of_missing(changes, place, missing)
        return conflicts

    def truncate(self, relations: Sequence[Relation], *, restart_identity: bool) -> None:
        """Truncate relations together, without CASCADE (rule C29)."""
        self._pipelined.flush()
        tables = [self._relations.open(relation).table for relation in relations]
        with self._target.reporting():
            self._target.writing.truncate(self._connection, tables, restart_identity=restart_identity)

    def _prepare(self, group: ChangeGroup) -> _Prepared:
        local = self._pipelined.open(group.relation)
        try:
            statement = self._statements.statement(group)
        except SubscriberError:
            self._pipelined.flush()  # an error of a change before is the first one
            raise
        may_suppress = self._target.writing.may_suppress(local.table)
        try:
            return _Prepared(statement, self._statements.bind(statement, group), may_suppress)
        except SubscriberError:
            return _Prepared(statement, None, may_suppress)

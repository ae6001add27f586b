"""Write the changes of a batch through one connection of the target.

::

    run of changes ─▶ unrepresentable      NULL in the place of values that the target cannot hold
                   ─▶ bulk_writer          many INSERTs, by one statement for all rows
                   ─▶ change_statements    the statement of their shape, and their rows: converted once for a frame
                   ─▶ bulk_writer          they wait for a round trip
                   ─▶ change_statements    or are executed
                   ─▶ row_conflicts        rows that do not exist, or that another origin has written
                   ─▶ resolving_writer     the resolvers of conflicts, where the subscription has any

The run that stopped a batch is examined, to find the change that failed and the keys that it
violates::

    run of 1000 changes ─▶ halves, each inside a savepoint ─▶ the first one that fails ─▶ its collisions, before it is tried again

If the target has no savepoints, each change of the run is examined before it is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from subscriber.apply.coalesce import Reorderable
from subscriber.apply.conflicts.collisions import Collisions, find_collisions
from subscriber.apply.conflicts.conflict import (
    NOWHERE,
    POSTGRESQL_POLICY,
    ChangePlace,
    Conflict,
    ConflictPolicy,
    StoppingPolicy,
)
from subscriber.apply.conflicts.row_conflicts import RowConflicts
from subscriber.apply.frame_order import ChangeRun
from subscriber.apply.relations.target_relations import RelationMap, with_shapes
from subscriber.apply.reorder import OrderMatters
from subscriber.apply.statements.change_statements import ChangeStatements, StatementCache
from subscriber.apply.statements.execute import Rows
from subscriber.apply.statements.row_statements import CompiledStatement
from subscriber.apply.writing.bulk_writer import BulkWriter, PipelinedChanges, may_be_quicker
from subscriber.apply.writing.resolving_writer import ResolvingWriter
from subscriber.apply.writing.unrepresentable import ReplacedGroups, ReplacedTally, Replacement
from subscriber.apply.writing.versions import Versions
from subscriber.base.errors import ConflictError, SubscriberError
from subscriber.base.lsn import LSN
from subscriber.catalog.schema_changes import Alteration
from subscriber.postgres.protocol.changes import ChangeGroup, Frame
from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.schema.conflict_resolvers import NO_RESOLVERS, ConflictResolvers
from subscriber.postgres.schema.history_rules import NO_HISTORY, HistoryRules
from subscriber.targets import Target


@dataclass(slots=True)
class _Prepared:
    """A group ready to be executed; ``rows`` is None if one of them cannot be converted."""

    statement: CompiledStatement
    rows: Rows | None
    may_suppress: bool


class ChangeWriter:
    """Writes the changes of one batch through one connection. ``check`` raises an error when the
    batch must end, and is called before every part of ``ROWS_AT_A_TIME`` rows.
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
        retained_for: str | None = None,
        records: bool = False,
        history: HistoryRules = NO_HISTORY,
        resolvers: ConflictResolvers = NO_RESOLVERS,
    ) -> None:
        if resolvers.chosen:
            policy = StoppingPolicy(policy.version, resolvers)
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
        self._versions = Versions(target, statements, relations, history)
        self._conflicts = RowConflicts(
            target,
            connection,
            statements,
            relations,
            policy=policy,
            show_values=show_values,
            retained_for=retained_for,
        )
        self._resolving = None
        if resolvers.chosen:
            self._resolving = ResolvingWriter(
                target,
                connection,
                statements,
                relations,
                self._conflicts,
                resolvers,
                self._groups.group,
                self._write,
                version=policy.version,
                show_values=show_values,
            )
        self._retains, self._records = retained_for is not None, records
        self._reorderable = Reorderable(target, connection, statements, relations)
        self._prepared: dict[int, _Prepared] = {}

    @property
    def alterations(self) -> Sequence[Alteration]:
        return self._relations.alterations

    def read_tables(self, relations: Iterable[Relation]) -> None:
        """Read the tables of relations whose changes come next, together."""
        self._relations.read_together(relations)

    def look_up(self, relation: Relation) -> None:
        """Find the table of a relation whose changes are not applied (rule C4)."""
        self._pipelined.flush()
        self._relations.look_up(relation)

    def describe(self, error: SubscriberError, relation: Relation) -> SubscriberError:
        """The error with the shapes of the two tables, where the difference may have caused it."""
        local = self._relations.opened(relation)
        return error if local is None else with_shapes(error, local)

    def open_frame(self, frame: Frame) -> None:
        self._check()
        self._prepared = {}
        self._groups.open_frame(frame)
        self._pipelined.open_frame()

    def may_replace(self, frame: Frame, is_applied: Callable[[Relation], bool]) -> bool:
        return self._groups.may_replace(frame, is_applied)

    def count_replaced(self, run: ChangeRun, tally: ReplacedTally, lsn: LSN) -> None:
        self._groups.count(run, tally, lsn)

    def write_optimistically(self) -> None:
        """Write the open frame so that a failure raises OrderMatters. Then rows can be inserted
        without a savepoint, and other changes may wait for :meth:`flush`, to be executed with one
        round trip.
        """
        self._pipelined.write_optimistically()

    def flush(self) -> None:
        """Execute the changes that wait, or raise OrderMatters."""
        self._pipelined.flush()

    def independent_key(self, group: ChangeGroup) -> tuple[str, ...] | None:
        return self._reorderable.independent_key(group)

    def may_coalesce(self, group: ChangeGroup) -> bool:
        # A row that is inserted and deleted again is a deleted row, and has had a version.
        if self._records or self._versions.are_kept(group.relation):
            return False
        return self._reorderable.may_coalesce(group)

    def write_together(self, changes: ChangeGroup) -> bool:
        """Apply changes in any order; False if a row was not found, or another origin wrote it."""
        self._pipelined.flush()
        statement = self._statements.statement(changes)
        self._versions.end(changes)
        if self._bulk.may_write(statement, changes):
            return self._bulk.write(statement, changes) == len(changes)
        bound = self._statements.bind(statement, changes)
        if changes.action == "I":
            self._statements.execute(statement, bound, count=False)
            return True
        if any(True for _ in self._conflicts.of_others(changes, NOWHERE)):
            return False
        return self._statements.change(statement, bound, changes) == len(changes)

    def write(self, run: ChangeRun, place: ChangePlace = NOWHERE) -> Sequence[tuple[Conflict, int]]:
        """Apply a run of the open frame in order, from ``place`` on. Returns the conflicts that do
        not stop it, each with the number of times that it occurred.
        """
        if self._resolving is None:
            return self._write(run, place)
        if not self._pipelined.is_optimistic:
            return self._resolving.write(run, place)
        try:
            return self._write(run, place)
        except ConflictError:
            raise OrderMatters from None

    def _write(self, run: ChangeRun, place: ChangePlace) -> Sequence[tuple[Conflict, int]]:
        group = self._groups.group(run.group)
        is_insert = group.action == "I"
        if is_insert and may_be_quicker(run.stop - run.start) and self._bulk.insert(group.slice(run.start, run.stop)):
            return ()
        if self._versions.are_kept(group.relation) and group.action == "D":
            self._pipelined.flush()
            if self._versions.end_all(group.slice(run.start, run.stop)):
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
        ending = self._versions.ending(group)
        if self._pipelined.waits and statement.finds_exactly and not prepared.may_suppress and ending is None:
            self._pipelined.add(statement.sql, rows)
            return ()
        self._pipelined.flush()
        if is_insert:
            self._statements.execute(statement, rows, count=False)
            return ()
        looks_deleted = self._retains and group.action == "U"
        # A row may be changed twice, and each change ends a version.
        one_by_one = self._shows_values or prepared.may_suppress or looks_deleted or ending is not None
        if one_by_one or statement.search or self._conflicts.others is not None:
            # A row count does not show which of several rows is missing.
            step = 1 if one_by_one else len(rows)
            return self._change_and_look(statement, rows, group, run, place, step=step)
        missing = len(rows) - self._statements.execute(statement, rows, count=True)
        if not missing:
            return ()
        return [*self._conflicts.of_missing(group.slice(run.start, run.stop), place, missing)]

    def _change_and_look(
        self,
        statement: CompiledStatement,
        rows: Rows,
        group: ChangeGroup,
        run: ChangeRun,
        place: ChangePlace,
        *,
        step: int,
    ) -> Sequence[tuple[Conflict, int]]:
        conflicts: list[tuple[Conflict, int]] = []
        for start in range(0, len(rows), step):
            changes = group.slice(run.start + start, run.start + start + step)
            conflicts += self._conflicts.of_others(changes, place)
            self._versions.end(changes)
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


# Examining what failed ----------------------------------------------------------------------------


class ExaminedError(Exception):
    """The examination is over, and is to be rolled back; without a result, the conflict is gone."""

    def __init__(self, collisions: Collisions | None = None) -> None:
        super().__init__()
        self.collisions = collisions


class ConflictExaminer(ChangeWriter):
    """Writes changes up to the run that begins at ``failed``, and examines that run."""

    def __init__(self, *arguments: Any, failed: ChangePlace, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._failed = failed

    def write(self, run: ChangeRun, place: ChangePlace = NOWHERE) -> Sequence[tuple[Conflict, int]]:
        """Apply a run, or examine it and raise ExaminedError."""
        passed = (
            place.final_lsn != self._failed.final_lsn or place.changes + run.stop - run.start <= self._failed.changes
        )
        if passed:
            return super().write(run, place)
        raise ExaminedError(self._find(run, place))

    def _find(self, run: ChangeRun, place: ChangePlace) -> Collisions | None:
        if self._target.capabilities.savepoints:
            number = self._first_failure(run, place)
            return None if number is None else self._look_at(run, number)
        table = self._relations.open(self._groups.group(run.group).relation).table
        # The transaction cannot be queried any more when it has refused a change.
        hint = self._target.shapes.refused_key_hint(self._connection, table)
        for number in range(run.start, run.stop):
            found = self._look_at(run, number)
            if found.violated and self._resolving is None:
                return found
            try:
                super().write(ChangeRun(run.group, number, number + 1), place)
            except ConflictError:
                return found if found.violated else replace(found, hint=hint)
        return None

    def _first_failure(self, run: ChangeRun, place: ChangePlace) -> int | None:
        """The number of the first change that fails; the changes before it are executed."""
        start, stop = run.start, run.stop
        if self._succeeds(ChangeRun(run.group, start, stop), place):
            return None
        while stop - start > 1:
            middle = (start + stop) // 2
            if self._succeeds(ChangeRun(run.group, start, middle), place):
                start = middle
            else:
                stop = middle
        return start

    def _succeeds(self, run: ChangeRun, place: ChangePlace) -> bool:
        try:
            with self._connection.begin_nested():
                super().write(run, place)
        except ConflictError:
            return False
        return True

    def _look_at(self, run: ChangeRun, number: int) -> Collisions:
        group = self._groups.group(run.group)
        local = self._relations.open(group.relation)
        identity = None if group.action == "I" else self._statements.identity(local)
        change = group.slice(number, number + 1)
        return find_collisions(self._target, self._connection, local, change, identity, values=self._shows_values)

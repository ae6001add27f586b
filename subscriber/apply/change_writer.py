"""Execute runs of changes as statements on the target's connection.

Results are cached as long as they stay valid: compiled SQL for the life of the applier (the same
shape of change on the same shape of table always has the same SQL), tables for one batch, converted
rows for one frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from subscriber.apply.collisions import new_row, search_conditions, search_key
from subscriber.apply.conflict import MISSING, NOWHERE, ChangePlace, Conflict
from subscriber.apply.conflict_policy import POSTGRESQL_POLICY, ConflictPolicy, stopped_by
from subscriber.apply.execute import DriverCursor
from subscriber.apply.foldable import holds_all
from subscriber.apply.identity import RowIdentity, row_identity
from subscriber.apply.local_relations import LocalRelation, RelationMap, check_binary
from subscriber.apply.origins import OriginProbe, find_rows_of_others, without_values
from subscriber.apply.regroup import OrderMatters, attempting
from subscriber.apply.search import RowSearch
from subscriber.apply.statements import (
    Rows,
    Search,
    Statement,
    bind_rows,
    build_statement,
    bulk_columns,
    shape_of,
    unchanged_key,
)
from subscriber.apply.unrepresentable import Replaced, ReplacedTally, Replacement
from subscriber.apply.walk import Run
from subscriber.catalog.schema_changes import Alteration
from subscriber.errors import Stopped, SubscriberError, TargetRelationError
from subscriber.lsn import LSN
from subscriber.protocol.changes import ChangeGroup, Frame
from subscriber.protocol.messages import Relation
from subscriber.targets import Target
from subscriber.targets.loader import LoadColumn

StatementCache = dict[tuple[LocalRelation, tuple[object, ...]], Statement]

ROWS_AT_A_TIME: Final = 1_024
"""Rows of one ``executemany``. The number is large enough that the cost of a call does not matter,
and small enough that the batch can be rolled back soon between two calls.
"""

LEAST_IN_BULK: Final = 8
"""For fewer rows the target is not asked about bulk writes: that takes as long as to write them."""

BULK_ROWS_AT_A_TIME: Final = 16_384
"""Rows of one bulk write. It takes as long as a few hundred single statements."""

_MOST_STATEMENTS = 1_000
"""The greatest number of compiled statements to cache: far more than the shapes in any real stream,
and a few megabytes at most.
"""

_SAME_BITS: Final = frozenset((16, 17, 18, 19, 20, 21, 23, 25, 26, 774, 829, 1043, 1082, 1083, 1114, 1184, 2950, 3220))
"""The types of which equal values have the same text: boolean, bytea, "char", name, the integer
types, text, oid, macaddr8, macaddr, varchar, date, time, timestamp, timestamptz, uuid and pg_lsn.
"""
_NUMERIC: Final = 1700
"""With a declared scale, equal numerics of a column have the same text."""


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
        statements: compiled SQL, cached across batches.
        relations: the target's tables.
        show_values: conflicts are reported with the values of their rows.
        policy: decides about conflicts.
        binary: see :class:`~subscriber.apply.batch_rules.Rules`.
        replacement: puts NULL in the place of values that the target cannot hold; None if the
            option does not ask for that.
        check: raises an error when the batch must end; it is called before every part of
            :data:`ROWS_AT_A_TIME` rows.
    """

    def __init__(  # noqa: PLR0913 - one argument for each of the rules
        self,
        target: Target,
        connection: sa.Connection,
        statements: StatementCache,
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
        self._cursor = DriverCursor(target, connection)
        self._statements = statements
        self._relations = relations or RelationMap(target, connection)
        self._shows_values = show_values
        self._policy = policy
        self._binary = binary
        self._replacement = replacement
        self._check = check
        self._identities: dict[LocalRelation, RowIdentity] = {}
        self._ordered: dict[LocalRelation, bool] = {}
        self._refuses: dict[LocalRelation, bool] = {}
        self._least_rows: dict[tuple[LocalRelation, bool], int | None] = {}
        self._frame = Frame(())
        self._prepared: dict[int, _Prepared] = {}
        self._replaced: dict[int, Replaced] = {}
        self._attempts = self._writes_later = False
        self._waiting: list[tuple[str, Any]] = []

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
        self.flush()
        self._relations.look_up(relation)

    def describe(self, error: SubscriberError, relation: Relation) -> SubscriberError:
        """The error with the shapes of the two tables, where the difference may have caused it."""
        return self._relations.with_shapes(error, relation)

    def open_frame(self, frame: Frame) -> None:
        """Use ``frame`` for the following runs."""
        self._check()
        self._frame = frame
        self._prepared = {}
        self._replaced = {}
        self._attempts = self._writes_later = False

    def may_replace(self, frame: Frame) -> bool:
        """Whether values of the open frame are replaced by NULL, or may be: the tables of all its
        groups must be known for the answer.
        """
        if self._replacement is None:
            return False
        for number, group in enumerate(frame.groups):
            if not self._replacement.concerns(group.relation):
                continue
            local = self._relations.open_unchanged(group.relation)
            try:
                if local is None or self._replaced_group(number, local).is_changed:
                    return True
            except TargetRelationError:
                return True  # the change itself fails, at its place
        return False

    def count_replaced(self, run: Run, tally: ReplacedTally, lsn: LSN) -> None:
        """Count the values of a run, which was written, that were replaced by NULL."""
        replaced = self._replaced.get(run.group)
        if replaced is None or not replaced.masks or replaced.original.new is None:
            return
        masks = {name: mask[run.start : run.stop] for name, mask in replaced.masks.items()}
        rows = replaced.original.new.slice(run.start, run.stop - run.start)
        tally.add(self._relations.open(replaced.group.relation), masks, rows, lsn)

    def _group(self, number: int) -> ChangeGroup:
        """A group of the open frame, as it is written."""
        group = self._frame.groups[number]
        if self._replacement is None or not self._replacement.concerns(group.relation):
            return group
        if number in self._replaced:
            return self._replaced[number].group
        return self._replaced_group(number, self._open(group.relation)).group

    def _replaced_group(self, number: int, local: LocalRelation) -> Replaced:
        assert self._replacement is not None
        found = self._replaced.get(number)
        if found is None:
            found = self._replaced[number] = self._replacement.replace(local, self._frame.groups[number])
        return found

    def attempt(self) -> None:
        """The changes of the open frame are an attempt: if one of them cannot be applied,
        OrderMatters is raised, and the batch is applied again in the publisher's order.

        So many rows can be inserted without a savepoint. Other changes need not be executed before
        :meth:`flush`, if the target can then execute them with one round trip.
        """
        target = self._target
        others = None if target.origins is None else target.origins.others(self._connection)
        self._attempts = True
        self._writes_later = target.pipeline is not None and others is None

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
            for start, stop in self._parts(len(waiting)):
                if 0 in pipeline.execute(self._connection, waiting[start:stop]):
                    raise OrderMatters

    def free_key(self, group: ChangeGroup) -> tuple[str, ...] | None:
        """The columns by which the rows of a group are told apart, if the order of changes of
        different rows does not matter (:data:`~subscriber.apply.regroup.FreeKey`).
        """
        local = self._relations.open_unchanged(group.relation)
        if local is None or self._order_matters(local):
            return None
        if group.action == "I":
            return local.table.key or ()
        if local.table.key is None or local.table.has_identity_always:
            return None
        return self._identity(local).columns

    def _order_matters(self, local: LocalRelation) -> bool:
        """Whether changes of a table must be written in the publisher's order."""
        matters = self._ordered.get(local)
        if matters is None:
            matters = self._ordered[local] = (
                self._target.shapes.order_matters(self._connection, local.table)
                or not _identifies(self._target, local)
                or _has_own_columns(local)
                or self._relations.has_other_shape(local)
            )
        return matters

    def may_fold(self, group: ChangeGroup) -> bool:
        """Whether changes of a group, which has a :meth:`free_key`, need not be written if later
        changes overwrite them (:data:`~subscriber.apply.regroup.MayFold`).
        """
        local = self._relations.open(group.relation)
        refuses = self._refuses.get(local)
        if refuses is None:
            refuses = self._refuses[local] = self._target.shapes.refuses_rows(self._connection, local.table)
        return not refuses and holds_all(self._target, local, group)

    def write_together(self, changes: ChangeGroup) -> bool:
        """Apply changes whose order does not matter, all of different rows.

        Returns:
            Whether every row was found, and none of them was last written by another origin.

        Raises:
            ApplyError: a change cannot be applied.
            TargetUnavailable: try again.
        """
        self.flush()
        statement = self._statement(changes)
        if self._may_write_in_bulk(statement, changes):
            return self._write_in_bulk(statement, changes) == len(changes)
        bound = self._bind(statement, changes)
        if changes.action == "I":
            self._execute(statement, bound, count=False)
            return True
        if any(True for _ in self._touched(changes, NOWHERE)):
            return False
        return self._change(statement, bound, changes) == len(changes)

    def _may_write_in_bulk(self, statement: Statement, changes: ChangeGroup) -> bool:
        """Whether the target can execute a statement for all rows at once, and it is quicker."""
        bulk = self._target.bulk
        if bulk is None or len(changes) < LEAST_IN_BULK or not statement.finds_exactly or not statement.parameters:
            return False
        local = self._relations.open(changes.relation)
        asked = (local, changes.action == "I")
        if asked not in self._least_rows:
            key = [LoadColumn(parameter.column, parameter.type_oid) for parameter in statement.key]
            self._least_rows[asked] = bulk.least_rows(self._connection, local.table, key)
        least = self._least_rows[asked]
        return least is not None and len(changes) >= least

    def _write_in_bulk(self, statement: Statement, changes: ChangeGroup) -> int:
        """Execute a statement for all rows at once; returns how many rows were found."""
        bulk, table = self._target.bulk, self._relations.open(changes.relation).table
        assert bulk is not None
        self._check_binary(changes)
        found = 0
        for start, stop in self._parts(len(changes), BULK_ROWS_AT_A_TIME):
            part = changes.slice(start, stop)
            keys, written = bulk_columns(statement.key, part), bulk_columns(statement.written, part)
            if changes.action == "I":
                found += bulk.insert(self._connection, table, written)
            elif changes.action == "U":
                found += bulk.update(self._connection, table, keys, written)
            else:
                found += bulk.delete(self._connection, table, keys)
        return found

    def _insert_in_bulk(self, changes: ChangeGroup) -> bool:
        """Insert rows at once, where the target can and it is quicker; returns whether they are
        inserted.

        Raises:
            OrderMatters: a row cannot be inserted, in an attempt.
        """
        local = self._open(changes.relation)
        if not (self._attempts or self._target.capabilities.savepoints) or _has_own_columns(local):
            return False
        statement = self._statement(changes)
        if not self._may_write_in_bulk(statement, changes):
            return False
        self.flush()
        if not self._attempts:
            return self._insert_under_savepoint(statement, changes)
        with attempting():
            self._write_in_bulk(statement, changes)
        return True

    def _insert_under_savepoint(self, statement: Statement, changes: ChangeGroup) -> bool:
        """Insert rows at once. If that fails, nothing was inserted, and the statements for one row
        find the row that cannot be inserted.
        """
        with self._target.reporting():
            savepoint = self._connection.begin_nested()
        try:
            self._write_in_bulk(statement, changes)
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
        group = self._group(run.group)
        is_long = run.stop - run.start >= LEAST_IN_BULK
        if group.action == "I" and is_long and self._insert_in_bulk(group.slice(run.start, run.stop)):
            return ()
        prepared = self._prepared.get(run.group)
        if prepared is None:
            prepared = self._prepared[run.group] = self._prepare(group)
        if prepared.rows is None:
            # Another change of the group cannot be converted. Only the transaction of that change
            # may fail.
            self.flush()
            rows = self._bind(prepared.statement, group.slice(run.start, run.stop))
        else:
            rows = prepared.rows[run.start : run.stop]
        if self._writes_later and prepared.statement.finds_exactly and not prepared.may_suppress:
            self._waiting += [(prepared.statement.sql, row) for row in rows]
            if len(self._waiting) >= ROWS_AT_A_TIME:
                self.flush()
            return ()
        self.flush()
        if group.action == "I":
            self._execute(prepared.statement, rows, count=False)
            return ()
        if not (self._shows_values or prepared.may_suppress or prepared.statement.search or self._others is not None):
            missing = len(rows) - self._execute(prepared.statement, rows, count=True)
            if not missing:
                return ()
            changes = group.slice(run.start, run.stop)
            return [*self._unless_stopped([(self._missing(changes, place), missing)])]
        # A row count does not show which of several rows is missing.
        step = 1 if self._shows_values or prepared.may_suppress else len(rows)
        conflicts: list[tuple[Conflict, int]] = []
        for start in range(0, len(rows), step):
            changes = group.slice(run.start + start, run.start + start + step)
            conflicts += self._unless_stopped(self._touched(changes, place))
            missing = len(changes) - self._change(prepared.statement, rows[start : start + step], changes)
            if missing and not self._is_suppressed(changes):
                conflicts += self._unless_stopped([(self._missing(changes, place), missing)])
        return conflicts

    @cached_property
    def _others(self) -> OriginProbe | None:
        """Finds rows that another origin has written, where the target can report origins."""
        origins = self._target.origins
        differs = None if origins is None else origins.others(self._connection)
        return None if differs is None else OriginProbe(self._target, self._connection, self._statements, differs)

    def _unless_stopped(self, conflicts: Iterable[tuple[Conflict, int]]) -> Iterator[tuple[Conflict, int]]:
        """The conflicts, up to one that stops the transaction: its error is raised."""
        for conflict, number in conflicts:
            error = stopped_by(conflict, self._policy)
            if error is not None:
                raise error
            yield conflict, number

    def _change(self, statement: Statement, rows: Rows, changes: ChangeGroup) -> int:
        """Execute an UPDATE or DELETE for each row; returns how many of the rows were found."""
        if statement.search is not None:
            return self._search(statement, statement.search, rows, changes)
        return self._execute(statement, rows, count=True)

    def _touched(self, changes: ChangeGroup, place: ChangePlace) -> Iterator[tuple[Conflict, int]]:
        """The conflicts of rows that another origin has written, where the target can report
        origins. The rows are changed nevertheless.
        """
        if self._others is None:
            return
        local = self._relations.open(changes.relation)
        identity = self._identity(local)
        if self._others.finds(local, changes, identity):
            differs = self._others.differs
            for conflict in find_rows_of_others(
                self._target, self._connection, local, changes, identity, place, differs
            ):
                yield conflict if self._shows_values else without_values(conflict), 1

    def _is_suppressed(self, changes: ChangeGroup) -> bool:
        """Whether the row of one change exists although the row count is zero: a trigger has
        suppressed the change.
        """
        local = self._relations.open(changes.relation)
        if not self._target.writing.may_suppress(local.table):
            return False
        table = local.table.clause()
        conditions = search_conditions(self._target, table, local, changes, self._identity(local))
        query: sa.Select[Any] = sa.select(sa.literal_column("1")).select_from(table).where(*conditions)
        with self._target.reporting():
            return (
                self._connection.execute(self._target.matching.own_rows(local.table, query, table)).first() is not None
            )

    def _missing(self, changes: ChangeGroup, place: ChangePlace) -> Conflict:
        """The conflict of rows that do not exist (rule C18)."""
        local = self._relations.open(changes.relation)
        return Conflict(
            MISSING[changes.action],
            local.qualified_name,
            place,
            search=search_key(self._identity(local), changes, values=self._shows_values),
            remote_row=new_row(local, changes) if self._shows_values else None,
        )

    def truncate(self, relations: Sequence[Relation], *, restart_identity: bool) -> None:
        """Truncate relations together, without CASCADE (rule C29)."""
        self.flush()
        tables = [self._relations.open(relation).table for relation in relations]
        with self._target.reporting():
            self._target.writing.truncate(self._connection, tables, restart_identity=restart_identity)

    def _open(self, relation: Relation) -> LocalRelation:
        """Open a relation, after the changes before it if its table may have to be altered or
        cannot be used.
        """
        local = self._relations.open_unchanged(relation) if self._waiting else None
        if local is not None:
            return local
        self.flush()
        return self._relations.open(relation)

    def _prepare(self, group: ChangeGroup) -> _Prepared:
        local = self._open(group.relation)
        try:
            statement = self._statement(group)
        except SubscriberError:
            self.flush()  # an error of a change before is the first one
            raise
        may_suppress = self._target.writing.may_suppress(local.table)
        try:
            return _Prepared(statement, self._bind(statement, group), may_suppress)
        except SubscriberError:
            return _Prepared(statement, None, may_suppress)

    def _bind(self, statement: Statement, group: ChangeGroup) -> Rows:
        self._check_binary(group)
        return bind_rows(self._target, statement, group)

    def _check_binary(self, group: ChangeGroup) -> None:
        if group.binary and self._binary:
            check_binary(self._target, self._relations.open(group.relation), group)

    def _statement(self, group: ChangeGroup) -> Statement:
        local = self._relations.open(group.relation)
        identity = None if group.action == "I" else self._identity(local)
        unchanged = unchanged_key(self._target, local, group, identity)
        key = (local, (*shape_of(group), unchanged))
        statement = self._statements.get(key)
        if statement is None:
            statement = build_statement(self._target, local, group, identity, unchanged)
            if len(self._statements) >= _MOST_STATEMENTS:
                self._statements.clear()
            if not local.table.has_identity_always:
                # For such a table the statement depends on values, too: see _is_untouched_identity.
                self._statements[key] = statement
        return statement

    def _identity(self, local: LocalRelation) -> RowIdentity:
        identity = self._identities.get(local)
        if identity is None:
            identity = self._identities[local] = row_identity(local)
        return identity

    def _search(self, statement: Statement, search: Search, rows: Rows, changes: ChangeGroup) -> int:
        """Execute a statement that may have to search for rows more than once; returns how many
        were found.
        """
        look = RowSearch(self._target, self._connection, self._cursor).change_rows
        try:
            return sum(
                look(statement, search, rows[start:stop], changes.slice(start, stop))
                for start, stop in self._parts(len(rows))
            )
        except SQLAlchemyError as error:
            raise self._target.errors.translate(error, [one.column.name for one in statement.parameters]) from None

    def _parts(self, rows: int, size: int | None = None) -> Iterator[tuple[int, int]]:
        """Ranges of rows, small enough that a batch that must end does so soon."""
        size = ROWS_AT_A_TIME if size is None else size
        for start in range(0, rows, size):
            self._check()
            yield start, min(rows, start + size)

    def _execute(self, statement: Statement, rows: Rows, *, count: bool) -> int:
        cursor = self._cursor
        one_by_one = count and not self._target.capabilities.multi_rowcount
        found = 0
        try:
            for start, stop in self._parts(len(rows)):
                part = rows[start:stop]
                if one_by_one:
                    found += sum(cursor.execute_row(statement.sql, row) for row in part)
                else:
                    found += cursor.execute(statement.sql, part)
            return found
        except SQLAlchemyError as error:
            columns = [parameter.column.name for parameter in statement.parameters]
            # The driver's error quotes rows, so it must not be shown as the cause.
            raise self._target.errors.translate(error, columns) from None


def _has_own_columns(local: LocalRelation) -> bool:
    """Whether the target has columns that the publisher does not send.

    Their defaults may depend on the order of the INSERTs: a sequence gives each row the next value.
    """
    announced = {column.name for column in local.remote.columns}
    return any(column.name not in announced and not column.generated for column in local.table.columns)


def _identifies(target: Target, local: LocalRelation) -> bool:
    """Whether two rows of the publisher are the same row of the target exactly if the values in the
    key's columns have the same text.
    """
    if local.table.key is None:
        return True
    announced = {column.name: column for column in local.remote.columns}
    for column in local.table.columns:
        if column.name in local.table.key:
            remote = announced.get(column.name)
            if remote is None or not remote.is_identity:
                return False
            alike = remote.type_oid in _SAME_BITS or (remote.type_oid == _NUMERIC and remote.type_modifier >= 0)
            if not (alike and target.matching.tells_apart(remote.type_oid, column)):
                return False
    return True

"""Runs of changes become statements on the target's connection.

What is worked out once is kept where it stays true: compiled SQL for the life of the applier (a shape of
change on a shape of table never changes its SQL), tables for one batch, converted rows for one frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from subscriber.apply.identity import RowIdentity, row_identity
from subscriber.apply.relations import LocalRelation, RelationMap
from subscriber.apply.statements import Rows, Statement, bind_rows, build_statement, shape_of
from subscriber.apply.walk import Run
from subscriber.errors import SubscriberError
from subscriber.protocol.changes import ChangeGroup, Frame
from subscriber.protocol.messages import Relation
from subscriber.target import Target

StatementCache = dict[tuple[LocalRelation, tuple[object, ...]], Statement]

_MOST_STATEMENTS = 1_000
"""Compiled statements to keep: far more than shapes in any real stream, and some megabytes at most."""


@dataclass(slots=True)
class _Prepared:
    """A group made ready: its statement, and all its rows unless one of them cannot be converted."""

    statement: Statement
    rows: Rows | None


class ChangeWriter:
    """Writes the changes of one batch through one connection."""

    def __init__(self, target: Target, connection: sa.Connection, statements: StatementCache) -> None:
        self._target = target
        self._connection = connection
        self._statements = statements
        self._relations = RelationMap(target, connection)
        self._identities: dict[LocalRelation, RowIdentity] = {}
        self._frame = Frame((), ())
        self._prepared: dict[int, _Prepared] = {}

    def open_frame(self, frame: Frame) -> None:
        """Runs are of ``frame`` from now on."""
        self._frame = frame
        self._prepared = {}

    def write(self, run: Run) -> int:
        """Apply a run in order; returns how many of its rows were there (all, for INSERT).

        Raises:
            ApplyError: a change that cannot be applied.
            TargetUnavailable: try again.
        """
        group = self._frame.groups[run.group]
        prepared = self._prepared.get(run.group)
        if prepared is None:
            prepared = self._prepared[run.group] = self._prepare(group)
        if prepared.rows is None:
            # Some other change of the group cannot be converted; only its own transaction shall suffer.
            rows = bind_rows(self._target, prepared.statement, group.slice(run.start, run.stop))
        else:
            rows = prepared.rows[run.start : run.stop]
        found = self._execute(prepared.statement, rows, count=group.action != "I")
        return len(rows) if group.action == "I" else found

    def truncate(self, relations: Sequence[Relation], *, restart_identity: bool) -> None:
        """Empty relations together, never cascading (rule C29)."""
        tables = [self._relations.open(relation).table for relation in relations]
        with self._target.reporting():
            self._target.truncate(self._connection, tables, restart_identity=restart_identity)

    def _prepare(self, group: ChangeGroup) -> _Prepared:
        statement = self._statement(group)
        try:
            return _Prepared(statement, bind_rows(self._target, statement, group))
        except SubscriberError:
            return _Prepared(statement, None)

    def _statement(self, group: ChangeGroup) -> Statement:
        local = self._relations.open(group.relation)
        key = (local, shape_of(group))
        statement = self._statements.get(key)
        if statement is None:
            identity = None if group.action == "I" else self._identity(local)
            statement = build_statement(self._target, local, group, identity)
            if len(self._statements) >= _MOST_STATEMENTS:
                self._statements.clear()
            if not local.table.has_identity_always:
                # There the statement depends on values too: see _is_untouched_identity.
                self._statements[key] = statement
        return statement

    def _identity(self, local: LocalRelation) -> RowIdentity:
        identity = self._identities.get(local)
        if identity is None:
            identity = self._identities[local] = row_identity(local)
        return identity

    def _execute(self, statement: Statement, rows: Rows, *, count: bool) -> int:
        run = self._connection.exec_driver_sql
        try:
            if not count or len(rows) == 1 or self._target.capabilities.multi_rowcount:
                return run(statement.sql, rows).rowcount
            return sum(run(statement.sql, row).rowcount for row in rows)
        except SQLAlchemyError as error:
            columns = [parameter.column.name for parameter in statement.parameters]
            # The driver's error quotes rows, and must not be printed as the cause.
            raise self._target.translate(error, columns) from None

"""Changes as SQL statements: one statement for each shape of change, compiled once.

::

    group of changes ──▶ statement of its shape (cached) ──▶ rows, converted column by column ──▶ executed in parts

The same shape of change on the same shape of table always has the same SQL. So compiled statements
are cached for the life of the applier. How a table's rows are found is cached for one batch, as the
tables are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from subscriber.apply.relations.local_relations import LocalRelation, RelationMap
from subscriber.apply.relations.relation_checks import check_binary
from subscriber.apply.statements.bind import Rows, bind_rows
from subscriber.apply.statements.execute import DriverCursor
from subscriber.apply.statements.identity import RowIdentity, row_identity
from subscriber.apply.statements.row_parts import parts
from subscriber.apply.statements.row_statements import Search, Statement, build_statement, shape_of, unchanged_key
from subscriber.apply.statements.search import RowSearch
from subscriber.protocol.changes import ChangeGroup
from subscriber.targets import Target

StatementCache = dict[tuple[LocalRelation, tuple[object, ...]], Statement]

_MOST_STATEMENTS: Final = 1_000
"""The greatest number of compiled statements to cache: far more than the shapes in any real stream,
and a few megabytes at most.
"""


class ChangeStatements:
    """Builds and executes the statements for the changes of one batch.

    Args:
        target: the target that changes are written to.
        connection: the connection of the batch's transaction.
        cache: compiled SQL, cached across batches.
        relations: the target's tables.
        binary: see :class:`~subscriber.apply.batch_rules.Rules`.
        check: raises an error when the batch must end.

    Attributes:
        cache: compiled SQL, cached across batches.
    """

    def __init__(
        self,
        target: Target,
        connection: sa.Connection,
        cache: StatementCache,
        relations: RelationMap,
        *,
        binary: bool,
        check: Callable[[], None],
    ) -> None:
        self.cache = cache
        self._target = target
        self._connection = connection
        self._cursor = DriverCursor(target, connection)
        self._relations = relations
        self._binary = binary
        self._check = check
        self._identities: dict[LocalRelation, RowIdentity] = {}

    def identity(self, local: LocalRelation) -> RowIdentity:
        """How the rows of UPDATEs and DELETEs of a table are found."""
        identity = self._identities.get(local)
        if identity is None:
            identity = self._identities[local] = row_identity(local)
        return identity

    def statement(self, group: ChangeGroup) -> Statement:
        """The statement for each change of a group.

        Raises:
            TargetRelationError: as
        :func:`~subscriber.apply.statements.row_statements.build_statement`.
        """
        local = self._relations.open(group.relation)
        identity = None if group.action == "I" else self.identity(local)
        unchanged = unchanged_key(self._target, local, group, identity)
        key = (local, (*shape_of(group), unchanged))
        statement = self.cache.get(key)
        if statement is None:
            statement = build_statement(self._target, local, group, identity, unchanged)
            if len(self.cache) >= _MOST_STATEMENTS:
                self.cache.clear()
            if not local.table.has_identity_always:
                # For such a table the statement depends on values, too: see _is_untouched_identity.
                self.cache[key] = statement
        return statement

    def bind(self, statement: Statement, group: ChangeGroup) -> Rows:
        """The parameters of a statement for each change of a group.

        Raises:
            UnsupportedValue: a column cannot store a value.
            ConflictError: as :func:`~subscriber.apply.statements.bind.bind_rows`.
        """
        self.check_binary(group)
        return bind_rows(self._target, statement, group)

    def check_binary(self, group: ChangeGroup) -> None:
        """Refuse values in binary format for columns whose type cannot read them (rule C5).

        Raises:
            UnsupportedValue: as :func:`~subscriber.apply.relations.relation_checks.check_binary`.
        """
        if group.binary and self._binary:
            check_binary(self._target, self._relations.open(group.relation), group)

    def change(self, statement: Statement, rows: Rows, changes: ChangeGroup) -> int:
        """Execute an UPDATE or DELETE for each row; returns how many of the rows were found.

        Args:
            statement: the statement for the changes.
            rows: the result of :meth:`bind` for the changes.
            changes: the changes.

        Raises:
            SubscriberError: an error of the target, as :meth:`Errors.translate` reports it.
        """
        if statement.search is not None:
            return self._search(statement, statement.search, rows, changes)
        return self.execute(statement, rows, count=True)

    def execute(self, statement: Statement, rows: Rows, *, count: bool) -> int:
        """Execute a statement for each row; returns the row count.

        Args:
            statement: the statement.
            rows: its parameters.
            count: whether the row count must be exact.

        Raises:
            SubscriberError: an error of the target, as :meth:`Errors.translate` reports it.
        """
        cursor = self._cursor
        one_by_one = count and not self._target.capabilities.multi_rowcount
        found = 0
        try:
            for start, stop in parts(len(rows), self._check):
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

    def _search(self, statement: Statement, search: Search, rows: Rows, changes: ChangeGroup) -> int:
        """Execute a statement that may have to search for rows more than once; returns how many
        were found.
        """
        look = RowSearch(self._target, self._connection, self._cursor).change_rows
        try:
            return sum(
                look(statement, search, rows[start:stop], changes.slice(start, stop))
                for start, stop in parts(len(rows), self._check)
            )
        except SQLAlchemyError as error:
            raise self._target.errors.translate(error, [one.column.name for one in statement.parameters]) from None

"""Changes as SQL statements: one statement for each shape of change, compiled once.

::

    group of changes ──▶ statement of its shape (cached) ──▶ rows, converted column by column ──▶ executed in parts

A target that stores PostgreSQL's text finds ``1.0`` by ``1.0``, but not by ``1.00``. Therefore a
row that the statement did not find is searched again by canonical forms
(:mod:`subscriber.postgres.types.equality`; rules C14, C16, C17), and the statement is executed
again with the values that the row has::

    UPDATE … WHERE a = '1.00' AND b = 'x'           no row
    SELECT a FROM … WHERE b = 'x'                   '7', '1.0': the second has the canonical form of '1.00'
    UPDATE … WHERE a = '1.0' AND b = 'x'            one row

The SELECT is restricted by the other columns and by a range of spellings. *Rejected:* storing
canonical forms, because they are not the publisher's values. *Rejected:* searching by canonical
forms at once. It would slow down every change for rows that were written at the subscriber.

A type without equality stops the transaction only if two of its values have to be compared (rule
C17): a row equals the search in every column before that column, and both have a value there.

A statement of PostgreSQL cannot see a row that another session has written in place of a row for
which the statement waited. In this case it is executed a second time. An UPDATE that has to set a
column that is GENERATED ALWAYS AS IDENTITY does not find its row either. The row is then replaced
(:attr:`CompiledStatement.replacement`), if nobody can see the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from subscriber.apply.relations.target_relations import RelationMap, TargetRelation, check_binary
from subscriber.apply.statements import row_statements
from subscriber.apply.statements.execute import DriverCursor, Row, Rows, bind_column, bind_rows
from subscriber.apply.statements.identity import RowIdentity, row_identity
from subscriber.base.errors import TargetRelationError
from subscriber.postgres.protocol.changes import ChangeGroup
from subscriber.postgres.types.equality import EXACT
from subscriber.postgres.types.oids import type_name
from subscriber.targets import Target

StatementCache = dict[tuple[TargetRelation, tuple[object, ...]], row_statements.CompiledStatement]

_MOST_STATEMENTS: Final = 1_000
"""The greatest number of compiled statements to cache: far more than the shapes in any real stream,
and a few megabytes at most.
"""


class ChangeStatements:
    """Builds and executes the statements of one batch; ``cache`` outlives the batch."""

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
        self._identities: dict[TargetRelation, RowIdentity] = {}

    def identity(self, local: TargetRelation) -> RowIdentity:
        identity = self._identities.get(local)
        if identity is None:
            identity = self._identities[local] = row_identity(local)
        return identity

    def statement(self, group: ChangeGroup) -> row_statements.CompiledStatement:
        local = self._relations.open(group.relation)
        identity = None if group.action == "I" else self.identity(local)
        unchanged = row_statements.unchanged_columns(self._target, local, group, identity)
        key = (local, (*row_statements.shape_of(group), unchanged))
        statement = self.cache.get(key)
        if statement is None:
            statement = row_statements.build_statement(self._target, local, group, identity, unchanged)
            if len(self.cache) >= _MOST_STATEMENTS:
                self.cache.clear()
            self.cache[key] = statement
        return statement

    def bind(self, statement: row_statements.CompiledStatement, group: ChangeGroup) -> Rows:
        """The parameters for each change of a group; raises as :func:`bind_rows`."""
        self.check_binary(group)
        return bind_rows(self._target, statement, group)

    def check_binary(self, group: ChangeGroup) -> None:
        """Refuse values in binary format for columns whose type cannot read them (rule C5)."""
        if group.binary and self._binary:
            check_binary(self._target, self._relations.open(group.relation), group)

    def change(self, statement: row_statements.CompiledStatement, rows: Rows, changes: ChangeGroup) -> int:
        """Execute an UPDATE or DELETE for each row; returns how many rows were found."""
        if statement.search is not None:
            return self._search(statement, statement.search, rows, changes)
        return self.execute(statement, rows, count=True)

    def execute(self, statement: row_statements.CompiledStatement, rows: Rows, *, count: bool) -> int:
        """Execute a statement for each row; the row count is exact only with ``count``."""
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

    def _search(
        self,
        statement: row_statements.CompiledStatement,
        search: row_statements.Search,
        rows: Rows,
        changes: ChangeGroup,
    ) -> int:
        look = RowSearch(self._target, self._connection, self._cursor).change_rows
        try:
            return sum(
                look(statement, search, rows[start:stop], changes.slice(start, stop))
                for start, stop in parts(len(rows), self._check)
            )
        except SQLAlchemyError as error:
            raise self._target.errors.translate(error, [one.column.name for one in statement.parameters]) from None


# Rows that a statement did not find ---------------------------------------------------------------

_ROWS_AT_A_TIME: Final = 1_000
_FEW: Final = 4
"""Up to this many changes are executed one by one; for more changes a savepoint costs less."""
_PART: Final = 64
"""If one row of many is not found, parts of this many changes are tried again together before they
are executed one by one.
"""


class RowSearch:
    """Changes rows, and searches again for rows that the statement did not find."""

    def __init__(self, target: Target, connection: sa.Connection, cursor: DriverCursor) -> None:
        self._target = target
        self._connection = connection
        self._cursor = cursor

    def change_rows(
        self,
        statement: row_statements.CompiledStatement,
        search: row_statements.Search,
        rows: Rows,
        changes: ChangeGroup,
    ) -> int:
        """Execute an UPDATE or DELETE for each change in order; returns how many rows were found. A
        TargetRelationError with 42883 tells that values without equality would have to be compared.
        """
        if len(rows) > (_FEW if self._target.capabilities.statement_snapshots else 1) and all(
            column.equality.exists for column in search.columns
        ):
            if self._change_all(statement, rows):
                return len(rows)
            if len(rows) > _PART:
                parts = ((start, start + _PART) for start in range(0, len(rows), _PART))
                return sum(
                    self.change_rows(statement, search, rows[start:stop], changes.slice(start, stop))
                    for start, stop in parts
                )
        return sum(
            self._change_row(statement, search, rows[number], changes.slice(number, number + 1))
            for number in range(len(rows))
        )

    def _change_all(self, statement: row_statements.CompiledStatement, rows: Rows) -> bool:
        """Execute all changes with one call inside a savepoint, or none if a row is not found.
        Nearly always every row is stored as the publisher has it, and one call is many times as
        fast.
        """
        if not (self._target.capabilities.savepoints and self._target.capabilities.multi_rowcount):
            return False
        savepoint = self._connection.begin_nested()
        try:
            found = self._cursor.execute(statement.sql, rows)
        except sa.exc.SQLAlchemyError:
            # After a deadlock or a lost connection the savepoint no longer exists. The error of the
            # rollback must not hide the first error.
            with suppress(sa.exc.SQLAlchemyError):
                savepoint.rollback()
            raise
        if found == len(rows):
            savepoint.commit()
            return True
        savepoint.rollback()
        return False

    def _change_row(
        self, statement: row_statements.CompiledStatement, search: row_statements.Search, row: Row, change: ChangeGroup
    ) -> int:
        run = self._cursor.execute_row
        without = next(
            (c for c in search.columns if not c.equality.exists and self._value(c, change) is not None), None
        )
        if without is not None:
            self._refuse_to_compare(search, without, {one.name: self._value(one, change) for one in search.columns})
            return 0
        for _ in range(2 if self._target.capabilities.statement_snapshots else 1):
            found = run(statement.sql, row)
            if found:
                return found
        if statement.replacement is not None:
            return self._replace(statement.replacement, search, change)
        if all(column.equality == EXACT for column in search.columns):
            return 0
        bound = {one.name: self._value(one, change) for one in search.columns}
        if not search.whole_row and None in bound.values():
            return 0
        alike = self._first_alike(search, search.columns, bound)
        return 0 if alike is None else run(statement.sql, _with_values(statement, row, alike))

    def _replace(
        self, replacement: row_statements.CompiledStatement, search: row_statements.Search, change: ChangeGroup
    ) -> int:
        refused = self._target.writing.replacement_error(self._connection, search.table)
        if refused is None:
            return self._cursor.execute_row(replacement.sql, bind_rows(self._target, replacement, change)[0])
        bound = {one.name: self._value(one, change) for one in search.columns}
        # Neither the columns of a key nor identity columns are NULL.
        present = next((one for one in search.columns if one.name == refused.column), search.columns[0])
        if self._first_alike(search, search.columns, bound, present=present) is None:
            return 0
        raise refused

    def _value(self, column: row_statements.ComparedColumn, change: ChangeGroup) -> Any:
        return None if column.parameter is None else bind_column(self._target, column.parameter, change)[0]

    def _refuse_to_compare(
        self, search: row_statements.Search, column: row_statements.ComparedColumn, bound: dict[str, Any]
    ) -> None:
        """Raise an error for a column without equality, if PostgreSQL would have compared it."""
        before = search.columns[: search.columns.index(column)]
        if self._first_alike(search, before, bound, present=column) is None:
            return
        assert column.parameter is not None
        raise TargetRelationError(
            f"could not identify an equality operator for type {type_name(column.parameter.type_oid)}",
            sqlstate="42883",
            column=column.name,
            hint="Give the target's table a primary key.",
        )

    def _first_alike(
        self,
        search: row_statements.Search,
        columns: Sequence[row_statements.ComparedColumn],
        bound: dict[str, Any],
        *,
        present: row_statements.ComparedColumn | None = None,
    ) -> dict[str, Any] | None:
        """The first row that equals ``bound`` in ``columns``, and has ``present`` not NULL."""
        table = search.table.clause()
        inexact = [one for one in columns if one.equality.canonical is not None and bound[one.name] is not None]
        if present is None and not inexact:
            return None  # the statement has already searched for these values
        conditions = [self._condition(table, search, one, bound[one.name]) for one in columns if one not in inexact]
        conditions.extend(condition for one in inexact for condition in _narrowed(table, one, bound[one.name]))
        if present is not None:
            conditions.append(table.c[present.name].is_not(None))
        wanted = [canonical(one)(str(bound[one.name])) for one in inexact]
        query = sa.select(*(table.c[one.name] for one in inexact)) if inexact else sa.select(sa.literal_column("1"))
        with self._target.reporting():
            options = {"yield_per": _ROWS_AT_A_TIME}
            looked_for = self._target.matching.own_rows(
                search.table, query.select_from(table).where(row_statements.all_of(conditions)), table
            )
            result = self._connection.execute(looked_for, execution_options=options)
            try:
                for row in result:
                    if not inexact or all(
                        canonical(one)(str(value)) == form
                        for one, value, form in zip(inexact, row, wanted, strict=True)
                    ):
                        return dict(zip((one.name for one in inexact), row, strict=False))
            finally:
                result.close()
        return None

    def _condition(
        self, table: sa.TableClause, search: row_statements.Search, column: row_statements.ComparedColumn, value: Any
    ) -> sa.ColumnElement[bool]:
        if value is None or column.parameter is None:
            return table.c[column.name].is_(None)
        equal = self._target.matching.is_same if search.whole_row else self._target.matching.finds
        return equal(column.parameter.column, table.c[column.name], _bound(value))


def _narrowed(
    table: sa.TableClause, column: row_statements.ComparedColumn, value: Any
) -> Iterator[sa.ColumnElement[bool]]:
    yield table.c[column.name].is_not(None)
    if column.equality.spellings is not None:
        first, end = column.equality.spellings(canonical(column)(str(value)))
        yield table.c[column.name] >= _bound(first)
        yield table.c[column.name] < _bound(end)


def canonical(column: row_statements.ComparedColumn) -> Callable[[str], str]:
    """The function that gives the canonical form of a column's values, or else their text."""
    return column.equality.canonical or str


def _bound(value: Any) -> sa.BindParameter[Any]:
    return sa.bindparam(None, value, type_=sa.types.NullType(), unique=True)


def _with_values(statement: row_statements.CompiledStatement, row: Row, stored: dict[str, Any]) -> Row:
    def value(number: int, bound: Any) -> Any:
        parameter = statement.parameters[number]
        return stored.get(parameter.column.name, bound) if parameter.finds else bound

    if isinstance(row, dict):
        return {name: value(number, bound) for number, (name, bound) in enumerate(row.items())}
    return tuple(value(number, bound) for number, bound in enumerate(row))


# Parts of many rows -------------------------------------------------------------------------------

ROWS_AT_A_TIME: Final = 1_024
"""Rows of one ``executemany``. The number is large enough that the cost of a call does not matter,
and small enough that the batch can be rolled back soon between two calls.
"""


def parts(rows: int, check: Callable[[], None], size: int | None = None) -> Iterator[tuple[int, int]]:
    """Ranges of row numbers, which together are all rows; ``check`` is called before every part."""
    size = ROWS_AT_A_TIME if size is None else size
    for start in range(0, rows, size):
        check()
        yield start, min(rows, start + size)

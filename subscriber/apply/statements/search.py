"""Find rows that the statement did not find: stored differently, not comparable, or changed
meanwhile by another session (rules C14, C16, C17).

A target that stores PostgreSQL's text finds ``1.0`` by ``1.0``, but not by ``1.00``. Therefore a
row that the statement did not find is searched again by canonical forms
(:mod:`subscriber.types.equality`). If there is such a row, the statement is executed again with the
values that the row has::

    UPDATE … WHERE a = '1.00' AND b = 'x'           no row
    SELECT a FROM … WHERE b = 'x'                   '7', '1.0': the second has the canonical form of '1.00'
    UPDATE … WHERE a = '1.0' AND b = 'x'            one row

The SELECT is restricted by the other columns and by a range of spellings. It reads the remaining
rows one by one and ends at the first match. *Rejected:* storing canonical forms, because they are
not the publisher's values. *Rejected:* searching by canonical forms at once, because that would
slow down every change for the sake of rows that were written at the subscriber.

A type without equality stops the transaction only if two of its values have to be compared (rule
C17). This is the case if a row equals the search in every column before that column, and has a
value where the search has a value.

A statement of PostgreSQL cannot see a row that another session has written in place of a row for
which the statement waited. In this case the statement is executed a second time. PostgreSQL's
worker, too, searches again for a row that was deleted or updated concurrently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import sqlalchemy as sa

from subscriber.apply.statements.bind import Row, Rows, bind_column
from subscriber.apply.statements.execute import DriverCursor
from subscriber.apply.statements.row_statements import ComparedColumn, Search, Statement
from subscriber.errors import TargetRelationError
from subscriber.protocol.changes import ChangeGroup
from subscriber.targets import Target
from subscriber.types import type_name
from subscriber.types.equality import EXACT

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

    def change_rows(self, statement: Statement, search: Search, rows: Rows, changes: ChangeGroup) -> int:
        """Execute ``statement`` for each change in order; returns how many of the rows were found.

        Args:
            statement: an UPDATE or DELETE.
            search: the search of the statement.
            rows: the parameters of the statement.
            changes: the changes that the parameters come from.

        Raises:
            TargetRelationError: 42883, a row may exist, but values of a type without equality would
                have to be compared.
            SubscriberError: an error of the target, as :meth:`Errors.translate` reports it.
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

    def _change_all(self, statement: Statement, rows: Rows) -> bool:
        """Execute all changes with one call inside a savepoint; if not every row is found, nothing
        is changed.

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

    def _change_row(self, statement: Statement, search: Search, row: Row, change: ChangeGroup) -> int:
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
        if all(column.equality == EXACT for column in search.columns):
            return 0
        bound = {one.name: self._value(one, change) for one in search.columns}
        if not search.whole_row and None in bound.values():
            return 0
        alike = self._first_alike(search, search.columns, bound)
        return 0 if alike is None else run(statement.sql, _with_values(statement, row, alike))

    def _value(self, column: ComparedColumn, change: ChangeGroup) -> Any:
        return None if column.parameter is None else bind_column(self._target, column.parameter, change)[0]

    def _refuse_to_compare(self, search: Search, column: ComparedColumn, bound: dict[str, Any]) -> None:
        """Raise an error for a column without equality. The columns before it show whether
        PostgreSQL would have compared it.
        """
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
        search: Search,
        columns: Sequence[ComparedColumn],
        bound: dict[str, Any],
        *,
        present: ComparedColumn | None = None,
    ) -> dict[str, Any] | None:
        """The values of the first row that equals ``bound`` in ``columns``, for the columns that
        may be stored differently; None where there is no such row.

        ``present`` is a column that must not be NULL in that row.
        """
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
                search.table, query.select_from(table).where(*conditions), table
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
        self, table: sa.TableClause, search: Search, column: ComparedColumn, value: Any
    ) -> sa.ColumnElement[bool]:
        if value is None or column.parameter is None:
            return table.c[column.name].is_(None)
        equal = self._target.matching.is_same if search.whole_row else self._target.matching.finds
        return equal(column.parameter.column, table.c[column.name], _bound(value))


def _narrowed(table: sa.TableClause, column: ComparedColumn, value: Any) -> Iterator[sa.ColumnElement[bool]]:
    yield table.c[column.name].is_not(None)
    if column.equality.spellings is not None:
        first, end = column.equality.spellings(canonical(column)(str(value)))
        yield table.c[column.name] >= _bound(first)
        yield table.c[column.name] < _bound(end)


def canonical(column: ComparedColumn) -> Callable[[str], str]:
    """The function that gives the canonical form of a column's values; without a canonical form,
    the text itself.
    """
    return column.equality.canonical or str


def _bound(value: Any) -> sa.BindParameter[Any]:
    return sa.bindparam(None, value, type_=sa.types.NullType(), unique=True)


def _with_values(statement: Statement, row: Row, stored: dict[str, Any]) -> Row:
    """The parameters, with the values of a row that was found."""

    def value(number: int, bound: Any) -> Any:
        parameter = statement.parameters[number]
        return stored.get(parameter.column.name, bound) if parameter.finds else bound

    if isinstance(row, dict):
        return {name: value(number, bound) for number, (name, bound) in enumerate(row.items())}
    return tuple(value(number, bound) for number, bound in enumerate(row))

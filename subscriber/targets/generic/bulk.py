"""Bulk writes with the statements for one row, for a driver that has a quick way to execute many.

A dialect says how its driver executes one statement for many rows (:meth:`GenericBulk._execute`).
The statements find and store what the single statements find and store, because they are the same.

UPDATE and DELETE go through the table in the order of the key: two rows of one page follow each
other, and the page is read once. On a large table this saves half of the time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from subscriber.targets.loader import LoadColumn, RowStatement, insert_statement, parameter_prefix
from subscriber.targets.roles.bulk import BulkColumn
from subscriber.targets.roles.matching import Matching
from subscriber.targets.roles.writing import Writing
from subscriber.targets.target_table import TargetColumn, TargetTable

_MOST_STATEMENTS: Final = 1_000
"""Compiled statements that are kept of each action."""


class GenericBulk(ABC):
    """See :class:`~subscriber.targets.roles.bulk.Bulk`."""

    def __init__(self, engine: sa.Engine, matching: Matching, writing: Writing) -> None:
        self._dialect = engine.dialect
        self._matching = matching
        self._writing = writing
        self._insert_of = lru_cache(_MOST_STATEMENTS)(self._compile_insert)
        self._update_of = lru_cache(_MOST_STATEMENTS)(self._compile_update)
        self._delete_of = lru_cache(_MOST_STATEMENTS)(self._compile_delete)

    @abstractmethod
    def _execute(self, connection: sa.Connection, statement: RowStatement, columns: Sequence[BulkColumn]) -> int:
        """Execute an UPDATE or DELETE for each row; returns how many rows were found.

        Args:
            connection: a connection of :meth:`Transactions.begin`.
            statement: the statement.
            columns: the columns of its parameters, in the order of ``statement.order``'s indexes.

        Raises:
            UnsupportedValue: a column cannot store a value.
            SubscriberError: as translated by :meth:`Errors.translate`.
        """

    @abstractmethod
    def _insert(self, connection: sa.Connection, statement: RowStatement, columns: Sequence[BulkColumn]) -> int:
        """Execute an INSERT for each row; otherwise as :meth:`_execute`."""

    def insert(self, connection: sa.Connection, table: TargetTable, written: Sequence[BulkColumn]) -> int:
        """See :meth:`Bulk.insert`."""
        statement = self._insert_of(table, tuple(LoadColumn(one.column, one.type_oid) for one in written))
        return self._insert(connection, statement, written)

    def update(
        self, connection: sa.Connection, table: TargetTable, key: Sequence[BulkColumn], written: Sequence[BulkColumn]
    ) -> int:
        """See :meth:`Bulk.update`; if no column is to be set, the key is set to itself."""
        statement = self._update_of(table, _columns(key), _columns(written))
        return self._execute(connection, statement, in_order(key, [*key, *written]))

    def delete(self, connection: sa.Connection, table: TargetTable, key: Sequence[BulkColumn]) -> int:
        """See :meth:`Bulk.delete`."""
        return self._execute(connection, self._delete_of(table, _columns(key)), in_order(key, key))

    def _compile_insert(self, table: TargetTable, written: tuple[LoadColumn, ...]) -> RowStatement:
        return insert_statement(self._dialect, self._writing, table, written)

    def _compile_update(
        self, table: TargetTable, key: tuple[TargetColumn, ...], written: tuple[TargetColumn, ...]
    ) -> RowStatement:
        clause, parameters = table.clause(), _parameters(table, len(key) + len(written))
        new = dict(zip([column.name for column in written], parameters[len(key) :], strict=True))
        unchanged = {key[0].name: clause.c[key[0].name]}
        statement = sa.update(clause).values(new or unchanged).where(*self._found(clause, key, parameters))
        return self._compiled(self._writing.or_fail(table, statement), parameters)

    def _compile_delete(self, table: TargetTable, key: tuple[TargetColumn, ...]) -> RowStatement:
        clause, parameters = table.clause(), _parameters(table, len(key))
        return self._compiled(sa.delete(clause).where(*self._found(clause, key, parameters)), parameters)

    def _found(
        self, clause: sa.TableClause, key: Sequence[TargetColumn], parameters: Sequence[sa.BindParameter[Any]]
    ) -> list[sa.ColumnElement[bool]]:
        """The conditions that the key of a row is equal to the first parameters."""
        return [
            self._matching.finds(column, clause.c[column.name], value)
            for column, value in zip(key, parameters, strict=False)
        ]

    def _compiled(self, statement: sa.Update | sa.Delete, parameters: Sequence[sa.BindParameter[Any]]) -> RowStatement:
        compiled = statement.compile(dialect=self._dialect)
        index_of = {parameter.key: index for index, parameter in enumerate(parameters)}
        names = tuple(index_of if compiled.positiontup is None else compiled.positiontup)
        order = tuple(index_of[name] for name in names)
        return RowStatement(str(compiled), order, names if compiled.positiontup is None else None)


def _columns(columns: Sequence[BulkColumn]) -> tuple[TargetColumn, ...]:
    return tuple(one.column for one in columns)


def _parameters(table: TargetTable, count: int) -> list[sa.BindParameter[Any]]:
    prefix = parameter_prefix(table)
    # NullType: without a cast, so that the driver and the column decide.
    return [sa.bindparam(f"{prefix}{number}", type_=sa.types.NullType()) for number in range(count)]


def in_order(key: Sequence[BulkColumn], columns: Sequence[BulkColumn]) -> list[BulkColumn]:
    """The columns with their rows in the order of the key."""
    names = [str(number) for number in range(len(key))]
    keys = pa.Table.from_arrays([one.values for one in key], names=names)
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in names])
    return [BulkColumn(one.column, one.type_oid, one.values.take(order)) for one in columns]

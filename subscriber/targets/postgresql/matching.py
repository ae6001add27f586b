"""Row matching in PostgreSQL by the server's operators, which are found with an empty search_path
(rule C23).
"""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from subscriber.targets.generic.matching import GenericMatching
from subscriber.targets.postgresql.catalog import (
    PostgreSQLColumn,
    PostgreSQLTable,
)
from subscriber.targets.roles.matching import Touching
from subscriber.targets.target_table import (
    LeafRouting,
    TargetColumn,
    TargetTable,
)
from subscriber.types import BUILT_IN_TYPES, equality_of, type_name
from subscriber.types.equality import EXACT, NONE, Equality

_WITHOUT_EQUALITY: Final = frozenset({type_name(oid) for oid in BUILT_IN_TYPES if not equality_of(oid).exists})

_TEXTS: Final = frozenset({"text", "character varying"})


class PostgreSQLMatching(GenericMatching):
    """See :class:`~subscriber.targets.roles.matching.Matching`."""

    def equality(self, type_oid: int, column: TargetColumn) -> Equality:
        """See :meth:`Matching.equality`.

        The server compares by the type of the target's column, if this type has an equality.
        """
        del type_oid  # the publisher's type
        return NONE if column.storage in _WITHOUT_EQUALITY else EXACT

    def tells_apart(self, type_oid: int, column: TargetColumn) -> bool:
        """See :meth:`Matching.tells_apart`; true for a column of the same type.

        varchar and text are the same type in this respect.
        """
        names = {column.storage, type_name(type_oid)}
        return len(names) == 1 or names <= _TEXTS

    def found_as_written(self, type_oid: int, table: TargetTable, column: TargetColumn) -> bool:
        """Always false, so that every column that was sent is in SET.

        PostgreSQL's apply worker also sets every column that was sent, so a trigger with UPDATE OF
        a key column fires.
        """
        del type_oid, table, column
        return False

    def equals(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """See :meth:`Matching.equals`.

        The operator of a user-defined type (for instance of an extension) is written with its
        schema, because an empty search_path does not find it (rule C23).
        """
        typed = _typed(column, value)
        operator = _own_operator(column)
        if operator is None:
            return clause == typed
        return clause.bool_op(f"OPERATOR({operator})")(typed)

    def is_same(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """See :meth:`Matching.is_same`.

        Values of a user-defined type with its own operator are compared as records. This comparison
        uses the type's equality in any schema, and NULL equals NULL.
        """
        typed = _typed(column, value)
        if _own_operator(column) is None:
            return super().is_same(column, clause, typed)
        return _record(_typed(column, clause)) == _record(typed)

    def routing(self, table: TargetTable) -> LeafRouting | None:
        """See :meth:`Matching.routing`."""
        return table.routing if isinstance(table, PostgreSQLTable) else None

    def own_rows(self, table: TargetTable, statement: Touching, clause: sa.FromClause) -> Touching:
        """See :meth:`Matching.own_rows`; adds ONLY, except for a partitioned table."""
        if table.kind == "partitioned table":
            return statement
        if isinstance(statement, sa.Select):
            return statement.with_hint(clause, "ONLY", "postgresql")
        return statement.with_hint("ONLY", dialect_name="postgresql")


class _Named(sa.types.UserDefinedType[Any]):
    """A type that is given by its SQL."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **_: object) -> str:
        return self.name.replace("%", "%%")


def _typed(column: TargetColumn, value: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """A value as the column would store it, rounded to its scale.

    For most types the operator does this, and the value is returned unchanged.
    """
    compared_as = column.compared_as if isinstance(column, PostgreSQLColumn) else None
    return value if compared_as is None else sa.cast(value, _Named(compared_as))


def _own_operator(column: TargetColumn) -> str | None:
    return column.own_operator if isinstance(column, PostgreSQLColumn) else None


def _record(value: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    return sa.cast(sa.func.row(value), _Named("record"))

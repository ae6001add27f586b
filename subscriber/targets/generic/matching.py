"""Comparisons of texts in a database that ignores blanks at their end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import sqlalchemy as sa
from typing_extensions import override

from subscriber.targets.base.writing import Matching
from subscriber.targets.declared_columns import declared_length
from subscriber.targets.generic.facts import KINDS, DatabaseFacts
from subscriber.targets.target_table import TargetColumn

_LONGEST: Final = 255


class GenericMatching(Matching):
    def __init__(self, facts: Callable[[], DatabaseFacts]) -> None:
        self._facts = facts

    @override
    def equals(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        equal = super().equals(column, clause, value)
        kind = self._ignores_blanks(column)
        return equal if kind is None else equal & (_ended(clause) == _ended(_cast(kind, column, value)))

    @override
    def is_same(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        kind = self._ignores_blanks(column)
        if kind is None:
            return super().is_same(column, clause, value)
        return _ended(clause).is_not_distinct_from(_ended(_cast(kind, column, value)))

    def _ignores_blanks(self, column: TargetColumn) -> str | None:
        """The kind of a text column whose comparisons ignore blanks."""
        facts = self._facts()
        kinds = facts.kinds(column.storage) if not facts["final_blanks"] else ()
        return next((kind for kind in kinds if kind in ("text", "varchar")), None)


def _ended(text: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """With a character after them, texts that differ in final blanks differ everywhere."""
    return text.op("||")(sa.literal_column("'.'"))


def _cast(kind: str, column: TargetColumn, value: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """The database does not know of which type a parameter of an expression is."""
    length = declared_length(column.declared_type) or _LONGEST
    return sa.cast(value, KINDS[kind] if kind == "text" else sa.String(length))

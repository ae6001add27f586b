"""Comparisons of texts in a database that ignores blanks at their end; the places of equal rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import sqlalchemy as sa
from typing_extensions import override

from subscriber.targets.base.catalog import Shapes
from subscriber.targets.base.errors import Errors
from subscriber.targets.base.writing import Matching
from subscriber.targets.declared_columns import declared_length
from subscriber.targets.generic.facts import KINDS, DatabaseFacts, locator
from subscriber.targets.target_table import TargetColumn, TargetTable

_LONGEST: Final = 255


class GenericShapes(Shapes):
    def __init__(
        self,
        errors: Errors,
        qualified: Callable[[str, str], tuple[str | None, str]],
        facts: Callable[[], DatabaseFacts],
    ) -> None:
        super().__init__(errors, qualified)
        self._facts = facts

    @override
    def inspect(self, connection: sa.Connection, schema: str, table: str) -> TargetTable | None:
        """The locator is left out where the table has a column of its name."""
        found = super().inspect(connection, schema, table)
        place = self._facts()["row_locator"]
        if found is None or found.kind != "table" or not isinstance(place, str):
            return found
        names = {column.name.lower() for column in found.columns}
        return found if place.lower() in names else replace(found, locators=(locator(place),))


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

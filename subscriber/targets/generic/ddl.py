"""New tables in a database that was probed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from typing_extensions import override

from subscriber.targets.base.catalog import declared_as, declared_storage
from subscriber.targets.base.ddl import DDL
from subscriber.targets.generic.facts import KINDS, DatabaseFacts, declared_type
from subscriber.targets.generic.values import kinds_of

_NUMERIC, _VARCHAR = 1700, 1043


class GenericDDL(DDL):
    def __init__(self, engine: sa.Engine, facts: Callable[[], DatabaseFacts]) -> None:
        super().__init__(engine)
        self._facts = facts

    @override
    def qualified(self, schema: str, table: str) -> tuple[str | None, str]:
        """A database need not have schemas, so another schema is a part of the name."""
        return None, table if schema == "public" else f"{schema}.{table}"

    @override
    def column_type(self, type_oid: int, type_name: str, *, key: bool = False) -> str:
        return self._type(type_oid, type_name, key=key).compile(dialect=self._engine.dialect)

    @override
    def storage(self, declared: str) -> str:
        """The database may show a type under another name than the one that declares it."""
        name = declared_storage(declared)
        facts = self._facts()
        for kind in (*KINDS, "decimal"):
            type_ = declared_type(kind, facts, self._engine.dialect)
            if facts[kind] is not None and declared_storage(declared_as(type_, self._engine.dialect)) == name:
                return str(facts[kind])
        return name

    def _type(self, type_oid: int, type_name: str, *, key: bool) -> sa.types.TypeEngine[Any]:
        facts = self._facts()
        size = [int(number) for number in re.findall(r"\d+", type_name.partition("(")[2])]
        if type_oid == _VARCHAR and size and size[0] <= _LONGEST_SIZED:
            return sa.String(size[0])
        for kind in kinds_of(type_oid):
            if facts[kind] is None or (kind == "varchar" and not key) or _is_too_narrow(kind, type_oid):
                continue
            if kind != "decimal":
                return declared_type(kind, facts, self._engine.dialect)
            if len(size) == 2 and size[1] <= size[0] <= facts.precision and "-" not in type_name:
                return sa.Numeric(size[0], size[1])
        return KINDS["text"]


_LONGEST_SIZED = 255
"""A longer text is declared as text: that a sized type is longer was not probed."""
_WIDTHS = {21: ("smallint", "integer", "bigint"), 23: ("integer", "bigint")}


def _is_too_narrow(kind: str, type_oid: int) -> bool:
    integers = _WIDTHS.get(type_oid, ("bigint",))
    return kind in _WIDTHS[21] and kind not in integers

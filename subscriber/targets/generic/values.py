r"""Columns and values of a database that was probed: PostgreSQL's types get the column types that
return every value, and text otherwise.

======================  ===================================  ==========================
PostgreSQL              columns                              bound as
======================  ===================================  ==========================
boolean                 boolean, text                        bool; ``t``, ``f``
smallint … bigint, oid  integers (the range is checked),     int; digits
                        text
real, double precision  double, text                         float; text
numeric(p,s)            decimal (the digits are checked),    Decimal; text
                        text
bytea                   bytes, text                          bytes; ``\\x…``
date                    date (year 1 to 9999), text          date; text
timestamp               timestamp (year 1 to 9999), text     datetime; text
everything else         text                                 text
======================  ===================================  ==========================

A column of another type is refused, because what the database does to a value is not known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa
from typing_extensions import override

from subscriber.base.errors import TargetRelationError, UnsupportedValue
from subscriber.postgres.types.arrays import output_texts
from subscriber.postgres.types.oids import type_name
from subscriber.postgres.types.registry import family_of
from subscriber.targets import declared_columns
from subscriber.targets.base.values import Values
from subscriber.targets.generic.facts import DatabaseFacts, declared_type
from subscriber.targets.target_table import TargetColumn

_NUMERIC, _DATE, _TIMESTAMP, _VARCHAR = 1700, 1082, 1114, 1043

_RANGES: Final = {
    "smallint": (-(2**15), 2**15 - 1),
    "integer": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
}
_TEXTS: Final = ("varchar", "text")


def kinds_of(type_oid: int) -> tuple[str, ...]:
    """The kinds of columns that hold values of a PostgreSQL type, the best one first."""
    arrow_type = family_of(type_oid).arrow_type
    if pa.types.is_boolean(arrow_type):
        return "boolean", *_TEXTS
    if pa.types.is_integer(arrow_type):
        return *_RANGES, *_TEXTS
    if pa.types.is_floating(arrow_type):
        return "double", *_TEXTS
    if pa.types.is_binary(arrow_type):
        return "bytes", *_TEXTS
    others = {_NUMERIC: ("decimal",), _DATE: ("date",), _TIMESTAMP: ("timestamp",)}
    return *others.get(type_oid, ()), *_TEXTS


class GenericValues(Values):
    def __init__(self, engine: sa.Engine, facts: Callable[[], DatabaseFacts]) -> None:
        self._dialect = engine.dialect
        self._facts = facts

    def kind(self, type_oid: int, column: TargetColumn) -> str | None:
        """The kind of a column, of those that hold values of a type; None if there is none."""
        stored = self._facts().kinds(column.storage)
        return next((kind for kind in kinds_of(type_oid) if kind in stored), None)

    @override
    def check_column(self, type_oid: int, column: TargetColumn) -> None:
        kind = self.kind(type_oid, column)
        precision, _ = declared_columns.declared_precision(column.declared_type)
        if kind is not None and (kind != "decimal" or (precision or 39) <= self._facts().precision):
            return
        facts = self._facts()
        fitting = dict.fromkeys(str(facts[one]) for one in kinds_of(type_oid) if facts[one] is not None)
        raise TargetRelationError(
            f'column "{column.name}" declared "{column.declared_type}" is not known to hold type'
            f" {type_name(type_oid)} exactly",
            detail=f"The probes of {facts.database} have not shown that its values come back as they were.",
            hint=f"Declare the column as one of: {', '.join(fitting)}.",
            column=column.name,
        )

    @override
    def bind_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> list[Any]:
        kind = self.kind(type_oid, column) or "text"
        if kind in _TEXTS:
            return self._process(kind, self._texts(type_oid, column, values))
        if kind in _RANGES:
            declared_columns.check_range(column, values, *_RANGES[kind])
        elif kind == "double":
            return self._process(kind, self._floats(column, values))
        elif kind == "decimal":
            declared_columns.check_number(column, values)
            return self._process(kind, [None if text is None else Decimal(text) for text in values.to_pylist()])
        elif kind in ("date", "timestamp"):
            return self._process(kind, _moments(column, values, date if kind == "date" else datetime))
        return self._process(kind, values.to_pylist())

    @override
    def readable(self, column: TargetColumn) -> sa.ColumnElement[Any]:
        stored = self._facts().kinds(column.storage)
        if not stored:
            return sa.column(column.name)
        return sa.column(column.name, self._type(stored[0]))

    @override
    def selected(self, column: TargetColumn, value: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        stored = self._facts().kinds(column.storage)
        return sa.cast(value, self._type(stored[0])) if stored else value

    def _type(self, kind: str) -> sa.types.TypeEngine[Any]:
        return declared_type(kind, self._facts(), self._dialect)

    def _process(self, kind: str, values: list[Any]) -> list[Any]:
        """The driver's values, as SQLAlchemy's type makes them."""
        process = self._type(kind).dialect_impl(self._dialect).bind_processor(self._dialect)
        if process is None:
            return values
        return [None if value is None else process(value) for value in values]

    def _texts(self, type_oid: int, column: TargetColumn, values: pa.Array) -> list[Any]:
        if not pa.types.is_string(values.type):
            texts = iter(output_texts(values.drop_null()))
            values = pa.array([next(texts) if valid else None for valid in values.is_valid().to_pylist()], pa.string())
        length = declared_columns.declared_length(column.declared_type)
        if length is not None and type_oid == _VARCHAR:
            declared_columns.check_text_length(column, values)
            values = pc.utf8_slice_codeunits(values, 0, length)  # blanks at the end, as in PostgreSQL
        elif length is not None and pc.any(pc.greater(pc.utf8_length(values), length)).as_py():
            raise UnsupportedValue(
                f"value too long for type {column.declared_type.lower()}", sqlstate="22001", column=column.name
            )
        if not self._facts()["empty_texts"] and pc.any(pc.equal(pc.binary_length(values), 0)).as_py():
            raise UnsupportedValue(
                f'column "{column.name}" cannot hold an empty text: {self._facts().database} stores it as NULL',
                sqlstate="22023",
                column=column.name,
            )
        bound: list[Any] = values.to_pylist()
        return bound

    def _floats(self, column: TargetColumn, values: pa.Array) -> list[Any]:
        if pa.types.is_float32(values.type):
            values = values.cast(pa.string()).cast(pa.float64())  # the shortest number that rounds to it
        bound: list[Any] = values.to_pylist()
        if not self._facts()["special_doubles"] and any(one is not None and not math.isfinite(one) for one in bound):
            raise UnsupportedValue(
                f'column "{column.name}" holds finite numbers only',
                sqlstate="22003",
                column=column.name,
                hint="Declare the column as text to store values that are not finite numbers.",
            )
        return bound


def _moments(column: TargetColumn, values: pa.Array, read: type[date | datetime]) -> list[Any]:
    """Dates or timestamps; those that Python does not have are out of range."""
    try:
        return [None if text is None else read.fromisoformat(text) for text in values.to_pylist()]
    except ValueError:
        raise UnsupportedValue(
            f'a value of column "{column.name}" is out of range for type "{column.declared_type}"',
            sqlstate="22008",
            column=column.name,
            hint="Declare the column as text to store every date, and the infinities.",
        ) from None

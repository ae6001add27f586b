"""New tables: how PostgreSQL's names, columns, expressions and keys are declared in the target.

Of a database of which only SQLAlchemy's dialect is known, the types are used that every SQL
database either stores exactly or refuses: integers, decimals with a precision and a scale, double
precision, booleans, texts, bytes and dates. Any other value is stored as its text, because a
database may round or shift a timestamp or a number of unlimited size without a report.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.schema import ExecutableDDLElement

from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable
from subscriber.postgres.schema.shape import UniqueKey
from subscriber.postgres.sql.quoting import quote_literal
from subscriber.postgres.types.registry import family_of
from subscriber.targets.target_table import AutoIncrement, Declarations
from subscriber.targets.translate_expression import NotKnown, TranslationRules, plain_columns, translate

_KEY_CHARACTERS: Final = 255
"""The length of a text in a key. MySQL's family requires one, and refuses a longer value."""
_LARGEST_PRECISION: Final = 38
_NUMERIC, _DATE, _VARCHAR = 1700, 1082, 1043


class DDL:
    """The parts of CREATE TABLE and ALTER TABLE that depend on the target's dialect;
    :mod:`subscriber.targets.ddl` combines them. ``rules`` says how expressions differ from
    PostgreSQL's; None if that is not known.
    """

    rules: TranslationRules | None = None

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def qualified(self, schema: str, table: str) -> tuple[str | None, str]:
        """Schema and name of a new table for ``schema.table``; :meth:`Shapes.reflect` finds it."""
        return None if schema == "public" else schema, table

    def column_type(self, type_oid: int, type_name: str, *, key: bool = False) -> str:
        """The declaration of a column that stores every value of a PostgreSQL type exactly.
        ``type_name`` is ``format_type``'s, such as ``numeric(10,2)``. Some databases allow only
        some types in a ``key``.
        """
        return _declared_type(type_oid, type_name, key=key).compile(dialect=self._engine.dialect)

    def fit(self, shape: PublisherTable, declared: Mapping[str, str]) -> Declarations:
        """The :meth:`column_type` of all columns, other where a row or a key would be too large."""
        return Declarations(declared)

    def storage(self, declared: str) -> str:
        """The :attr:`TargetColumn.storage` of a column with this declaration."""
        return declared.partition("(")[0]

    def expression(self, expression: str, types: Mapping[str, int]) -> str | None:
        """A PostgreSQL expression in the target's SQL; None if it may have another meaning there.
        ``expression`` is what ``pg_get_expr`` prints with an empty search_path; ``types`` has the
        type OID of every column of its table.
        """
        if self.rules is None:
            return None
        try:
            return translate(expression, plain_columns(types, self.rules.quote), self.rules)
        except NotKnown:
            return None

    def default(self, expression: str, declared: str) -> str | None:
        """The default of a column with this declaration; None if it can have none."""
        return expression

    def is_virtual(self, column: PublisherColumn) -> bool:
        """Whether a new generated column is VIRTUAL; otherwise it is STORED."""
        return column.generated == "virtual"

    def literal(self, value: Any) -> str | None:
        """What :meth:`Values.bind_values` returned, as a constant in SQL; None if there is none."""
        match value:
            case bool() | int():
                return str(int(value))
            case float() if math.isfinite(value):
                return repr(value)
            # A backslash is an escape character in some databases; a zero byte ends a statement.
            case str() if not {"\\", "\0"}.intersection(value):
                return quote_literal(value)
            case _:
                return None

    def unique_constraint(self, key: UniqueKey) -> sa.UniqueConstraint | None:
        """A unique key as a constraint; None if the target does not have this kind."""
        return None if key.deferrable or not key.nulls_distinct else sa.UniqueConstraint(*key.columns)

    def unique_index(self, table: sa.Table, key: UniqueKey) -> ExecutableDDLElement | None:
        """A unique key that is no :meth:`unique_constraint`, as an index; None for none."""
        return None

    def auto_increment(self, shape: PublisherTable, column: PublisherColumn, declared: str) -> AutoIncrement | None:
        """How an identity or serial column of this type generates values; None if it cannot."""
        return None


def _declared_type(type_oid: int, type_name: str, *, key: bool) -> sa.types.TypeEngine[Any]:
    arrow_type = family_of(type_oid).arrow_type
    size = [int(number) for number in re.findall(r"\d+", type_name.partition("(")[2])]
    if pa.types.is_boolean(arrow_type):
        return sa.Boolean()
    if pa.types.is_int16(arrow_type):
        return sa.SmallInteger()
    if pa.types.is_int32(arrow_type):
        return sa.Integer()
    if pa.types.is_integer(arrow_type):
        return sa.BigInteger()
    if pa.types.is_floating(arrow_type):
        return sa.Double()
    if pa.types.is_binary(arrow_type):
        return sa.LargeBinary()
    if type_oid == _NUMERIC and len(size) == 2 and size[1] <= size[0] <= _LARGEST_PRECISION and "-" not in type_name:
        precision, scale = size
        return sa.Numeric(precision, scale)
    if type_oid == _DATE:
        return sa.Date()
    if type_oid == _VARCHAR and size:
        return sa.String(size[0])
    return sa.String(_KEY_CHARACTERS) if key else sa.Text()

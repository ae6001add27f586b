"""Column types for a database of which only SQLAlchemy's dialect is known.

The types used are those that every SQL database either stores exactly or refuses: integers,
decimals with a precision and a scale, double precision, booleans, texts, bytes and dates. A value
of any other type is stored as its text. A database may round, truncate or shift (by a time zone) a
timestamp or a number of unlimited size, and usually does not report this.
"""

from __future__ import annotations

import re
from typing import Any, Final

import pyarrow as pa
import sqlalchemy as sa

from subscriber.types import family_of

_KEY_CHARACTERS: Final = 255
"""The length of a text that is part of a key. The databases of the MySQL family require a length; a
longer value is refused there.
"""
_LARGEST_PRECISION: Final = 38
_NUMERIC, _DATE, _VARCHAR = 1700, 1082, 1043


def generic_type(type_oid: int, type_name: str, *, key: bool) -> sa.types.TypeEngine[Any]:
    """SQLAlchemy's type for a PostgreSQL type; see :meth:`DDL.column_type`."""
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

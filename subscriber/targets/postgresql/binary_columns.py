"""Values that arrived in binary format, for columns that have PostgreSQL's types (rules C5, D7).

PostgreSQL's subscriber accepts such a value only if the column's type can read the bytes. A
PostgreSQL target follows the same rule, although this program sends the value to it as text.
"""

from __future__ import annotations

from subscriber.errors import UnsupportedValue
from subscriber.targets.postgresql.catalog import PostgreSQLColumn
from subscriber.types import family_of, type_name
from subscriber.types.binary_forms import reads_form, refusal


def refused_binary(type_oid: int, column: PostgreSQLColumn, number: int | None = None) -> UnsupportedValue | None:
    """The error to raise for a value in binary format that the column does not read.

    None if the column reads it. NULL is always accepted.

    Args:
        type_oid: the publisher's type.
        column: the target's column.
        number: the number of the column in the stream, from 1; None in a copy.
    """
    form = column.binary_form
    if form is None or reads_form(form, type_oid) or not family_of(type_oid).reads_binary:
        return None  # in the last case the value was sent as text
    message, sqlstate = refusal(form, type_oid, column.declared_type, number)
    return UnsupportedValue(
        message,
        sqlstate=sqlstate,
        column=column.name,
        detail=f'Values of type {type_name(type_oid)} came in binary format, which column "{column.name}" of type'
        f" {column.declared_type} does not read.",
        hint="Give the column the publisher's type, or use ALTER SUBSCRIPTION ... SET (binary = false).",
    )

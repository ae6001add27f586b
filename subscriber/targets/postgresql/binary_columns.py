"""Values that came in binary form, for columns that have PostgreSQL's types (rules C5, D7).

PostgreSQL's subscriber takes such a value only where its column's type reads the bytes, so a
PostgreSQL target does too, although it gets the value's text from us.
"""

from __future__ import annotations

from subscriber.errors import UnsupportedValue
from subscriber.targets.postgresql.catalog import PostgreSQLColumn
from subscriber.types import family_of, type_name
from subscriber.types.binary_forms import reads_form, refusal


def refused_binary(type_oid: int, column: PostgreSQLColumn, number: int | None = None) -> UnsupportedValue | None:
    """What to raise for a value other than NULL that came in binary form; None where the column
    reads it.

    Args:
        type_oid: the publisher's type.
        column: where the value is to go.
        number: of the column in the stream, from 1; None in a copy.
    """
    form = column.binary_form
    if form is None or reads_form(form, type_oid) or not family_of(type_oid).reads_binary:
        return None  # the last: it has come as text
    message, sqlstate = refusal(form, type_oid, column.declared_type, number)
    return UnsupportedValue(
        message,
        sqlstate=sqlstate,
        column=column.name,
        detail=f'Values of type {type_name(type_oid)} came in binary form, which column "{column.name}" of type'
        f" {column.declared_type} does not read.",
        hint="Give the column the publisher's type, or use ALTER SUBSCRIPTION ... SET (binary = false).",
    )

"""Checks of a relation whose table was found: columns that need a value in every new row, values in
binary format, and errors that a difference between the two tables may have caused.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from subscriber.apply.relations.local_relations import LocalRelation
from subscriber.apply.relations.relation_texts import joined, named, side_by_side
from subscriber.errors import SubscriberError, TargetRelationError, UnsupportedValue
from subscriber.protocol.changes import ChangeGroup
from subscriber.protocol.messages import RelationColumn
from subscriber.targets import Target, TargetColumn
from subscriber.types import declared_type

_NOT_NULL_VIOLATION: Final = "23502"


def check_required(local: LocalRelation) -> None:
    """Refuse a table that has a column that needs a value in every new row, but is not sent by the
    publisher.

    The database itself would refuse such a row. This function is for callers that check before
    there is a row.

    Raises:
        TargetRelationError: 23502, naming the columns.
    """
    sent = {column.name for column in local.columns}
    left = [column for column in local.table.columns if column.required and column.name not in sent]
    if left:
        raise TargetRelationError(
            f'relation "{local.qualified_name}" of the target requires a value for {named(left)}',
            sqlstate=_NOT_NULL_VIOLATION,
            detail="The publisher sends none, and in the target the column is NOT NULL without a default. "
            + side_by_side(local.remote, local.table),
            hint="Give the column a default in the target, allow NULL in it, or drop it.",
        )


def check_binary(target: Target, local: LocalRelation, changes: ChangeGroup) -> None:
    """Refuse values in binary format for PostgreSQL columns whose type cannot read them (rule C5).

    Values of old rows are checked as well, whether the column is used to find rows or not. NULL is
    accepted for every type.

    Raises:
        UnsupportedValue: the first such column, with PostgreSQL's text and SQLSTATE.
    """
    for number, (announced, column) in enumerate(zip(local.remote.columns, local.columns, strict=True), 1):
        if announced.name not in changes.binary:
            continue
        error = target.values.refused_binary(announced.type_oid, column, number)
        if error is not None and any(_has_value(batch, announced.name) for batch in (changes.old, changes.new)):
            raise error


def _has_value(batch: pa.RecordBatch | None, name: str) -> bool:
    if batch is None or name not in batch.schema.names:
        return False
    values = batch.column(name)
    return bool(values.null_count < len(values))


def with_shapes(error: SubscriberError, local: LocalRelation) -> SubscriberError:
    """An error of a row that was written, with the definitions of the columns at the publisher and
    in the target.

    For a NULL in a NOT NULL column of the target, both shapes are added. For a value that a column
    cannot store, the two types of the column are added, and what can be done.
    """
    if error.sqlstate == _NOT_NULL_VIOLATION:
        return error.replace(detail=joined(error.detail, side_by_side(local.remote, local.table)))
    if isinstance(error, UnsupportedValue):
        for announced, column in zip(local.remote.columns, local.columns, strict=True):
            if column.name == error.column:
                types = _two_types(announced, column, local.qualified_name)
                return error.replace(detail=joined(error.detail, types), hint=error.hint or _UNSUPPORTED_HINT)
    return error


_UNSUPPORTED_HINT: Final = (
    "Change the row at the publisher, or the type of the target's column. `subscriber check --scan` looks for other such"
    " values, and the option unrepresentable_values can replace them by NULL."
)


def _two_types(announced: RelationColumn, column: TargetColumn, table: str) -> str:
    at_publisher = declared_type(announced.type_oid, announced.type_modifier)
    return f'Column "{column.name}" of table "{table}" has type {at_publisher} at the publisher and {column.declared_type} in the target.'

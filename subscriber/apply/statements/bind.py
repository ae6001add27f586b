"""The values of changes as parameters of their statement
(:mod:`subscriber.apply.statements.row_statements`).

Values are converted column by column: a whole column of a group at once, and not row by row.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from subscriber.apply.statements.row_statements import Parameter, Statement
from subscriber.errors import ConflictError
from subscriber.protocol.changes import ChangeGroup
from subscriber.targets import Target
from subscriber.targets.roles.bulk import BulkColumn
from subscriber.types import family_of

Row = tuple[Any, ...] | dict[str, Any]
Rows = list[tuple[Any, ...]] | list[dict[str, Any]]


def bind_rows(target: Target, statement: Statement, group: ChangeGroup) -> Rows:
    """The parameters of ``statement`` for each change of ``group``, converted column by column.

    Raises:
        UnsupportedValue: a column cannot store a value.
        ConflictError: 23502, a NULL for a column that would store a generated value instead.
    """
    if not statement.parameters:
        return [()] * len(group)
    columns = [bind_column(target, parameter, group) for parameter in statement.parameters]
    if statement.names is None:
        return list(zip(*columns, strict=True))
    return [dict(zip(statement.names, row, strict=True)) for row in zip(*columns, strict=True)]


def bind_column(target: Target, parameter: Parameter, group: ChangeGroup) -> list[Any]:
    """One parameter's values for each change of ``group``; see :func:`bind_rows`.

    Raises:
        ConflictError: 23502, a NULL that the target would replace by a generated value.
        UnsupportedValue: the target cannot store a value exactly.
    """
    values = _sent(parameter, group)
    if values is None:
        return [None] * len(group)
    return target.values.bind_values(parameter.type_oid, parameter.column, values)


def bulk_columns(parameters: Iterable[Parameter], group: ChangeGroup) -> list[BulkColumn]:
    """The values of parameters for :class:`~subscriber.targets.roles.bulk.Bulk`.

    Raises:
        ConflictError: 23502, a NULL that the target would replace by a generated value.
    """
    columns = []
    for parameter in parameters:
        values = _sent(parameter, group)
        if values is None:
            values = pa.nulls(len(group), family_of(parameter.type_oid).arrow_type)
        columns.append(BulkColumn(parameter.column, parameter.type_oid, values))
    return columns


def _sent(parameter: Parameter, group: ChangeGroup) -> pa.Array | None:
    """The values of a parameter as they were decoded; None if it is a NULL that was not sent.

    Raises:
        ConflictError: 23502, a NULL that the target would replace by a generated value.
    """
    batch = {"old": group.old, "new": group.new, None: None}[parameter.side]
    column = parameter.column
    values = None if batch is None else batch.column(column.name)
    if column.null_is_generated and parameter.side != "old" and (values is None or values.null_count):
        raise ConflictError(
            f'null value in column "{column.name}" violates not-null constraint',
            sqlstate="23502",
            column=column.name,
            detail="The target would replace the null with a generated value.",
        )
    return values

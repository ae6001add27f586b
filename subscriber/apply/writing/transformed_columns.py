"""Whether columns of the target can have the values of the option ``transform``."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from subscriber.apply.relations.target_relations import TargetRelation
from subscriber.apply.writing.unrepresentable import key_columns, refusal
from subscriber.base.errors import DataException, ProtocolError, TargetRelationError
from subscriber.postgres.protocol.messages import RelationColumn
from subscriber.postgres.schema.transform_rules import (
    HASH_DIGITS,
    TEXT_TYPES,
    ColumnTransform,
    TransformRules,
    unidentified,
)
from subscriber.postgres.schema.transform_values import is_injective
from subscriber.postgres.sql.quoting import quote_literal
from subscriber.postgres.types.oids import declared_type
from subscriber.postgres.types.registry import decode_column, form_of
from subscriber.targets import Target, TargetColumn
from subscriber.targets.declared_columns import refuses_texts

_OF_FUNCTION: Final = "Correct the function's attribute injective, if different values always have different results."


def check_transformed_columns(target: Target, rules: TransformRules, local: TargetRelation) -> None:
    """Refuse what cannot be right. ``local.remote`` has the types of the target's values.

    Raises:
        NotSupportedError: 42P16, rows are found by a column whose different values become equal.
        TargetRelationError: 42804, the column cannot hold the values; 42P16, it cannot be NULL.
    """
    transforms = rules.of(local.remote.namespace, local.remote.name)
    if not transforms:
        return
    key = key_columns(local)
    for announced, column in zip(local.remote.columns, local.columns, strict=True):
        transform = transforms.get(announced.name)
        if transform is None:
            continue
        if column.name in key and not is_injective(transform):
            error = unidentified(local.qualified_name, column.name, transform)
            raise error.replace(hint=_OF_FUNCTION) if transform.kind == "function" else error
        reason = _obstacle(target, announced, column, transform)
        if reason is not None:
            raise TargetRelationError(
                f'column "{column.name}" of table "{local.qualified_name}" cannot have the transform {transform.words}: {reason}',
                sqlstate="42P16" if transform.kind == "null" else "42804",
                relation=local.qualified_name,
                column=column.name,
                hint=f"Declare the column as character varying({HASH_DIGITS}) or text in the target."
                if transform.kind == "sha256"
                else "Declare the column otherwise in the target, or use another transform.",
            )


def _obstacle(
    target: Target, announced: RelationColumn, column: TargetColumn, transform: ColumnTransform
) -> str | None:
    if transform.kind == "null":
        return refusal((), column)
    if transform.kind == "function":
        return None
    if transform.kind == "constant":
        reason = _unlike_constant(announced, transform.text)
        if reason is not None:
            return reason
    else:
        into = target.values.read_as(announced.type_oid, column)
        if into is not None and into not in TEXT_TYPES:
            return f"it is declared {column.declared_type}, and the values are text"
        if transform.kind == "partial":
            return None
    sample = transform.text if transform.kind == "constant" else "0" * HASH_DIGITS
    if refuses_texts(target, announced.type_oid, column, [sample]):
        return f"it is declared {column.declared_type}, which does not hold the value"
    return None


def _unlike_constant(announced: RelationColumn, text: str) -> str | None:
    """Why the publisher's column could not have sent this text; None if it could."""
    form = form_of(announced.type_oid)
    try:
        written = text if form is None else form.to_text(form.from_text(text, announced.type_modifier))
        decode_column(announced.type_oid, pa.array([written.encode()], pa.binary()), binary=False, column=1)
    except (DataException, ProtocolError):
        written = None
    if written == text:
        return None
    declared = declared_type(announced.type_oid, announced.type_modifier)
    return (
        f"the constant is not a value of type {declared}"
        if written is None
        else (f"PostgreSQL writes this value of type {declared} as {quote_literal(written)}")
    )

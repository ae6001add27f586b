"""The values of columns that have a transform (:mod:`subscriber.postgres.schema.transform_rules`).

::

    values as decoded, or PostgreSQL's text ──▶ PostgreSQL's text ──▶ transform ──▶ text ──▶ decoded, or text

A transform sees the text that the publisher's output function writes, whatever the target. So the
copy, the stream, its old rows and a comparison compute the same value. NULL stays NULL, except for
a constant and for a function that decides otherwise. A column that was not sent stays absent
(invariant absence_is_typed).

A function is called with an Arrow array of strings of any length, and returns as many. Its results
must depend on the values alone: it is called again with old values to find the row that has its
earlier result. It has an attribute ``injective``, which says whether different values always have
different results. So whoever may write the catalog cannot let any function be called.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from subscriber.base.errors import ProtocolError, SubscriberError, TransformError, UsageError
from subscriber.base.imported_functions import catalog_function, raised_in
from subscriber.base.settings import Settings
from subscriber.base.transform_secret import secret_fingerprint, transform_secret
from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.schema.transform_rules import VARCHAR, ColumnTransform, TransformRules, unidentified
from subscriber.postgres.types.arrays import output_texts
from subscriber.postgres.types.registry import decode_column

_BPCHAR: Final = 1042
_FULL: Final = "f"
_FUNCTION: Final = "function of the option transform"


def is_injective(transform: ColumnTransform) -> bool:
    """Whether different values stay different, so that rows can be found by them."""
    if transform.kind == "function":
        return bool(_function(transform).injective)
    return transform.kind == "sha256"


def with_fingerprint(rules: TransformRules) -> TransformRules:
    """The rules as they are stored: with the fingerprint of the present secret. The UsageErrors of
    the secret, and of functions that cannot be called.
    """
    return TransformRules(tuple((table, column, _fixed(transform)) for table, column, transform in rules.columns))


def _fixed(transform: ColumnTransform) -> ColumnTransform:
    if transform.kind == "function":
        _function(transform)
    return ColumnTransform("sha256", secret_fingerprint()) if transform.kind == "sha256" else transform


def transformed_relation(rules: TransformRules, remote: Relation) -> Relation:
    """The relation with the types of the target's values: NotSupportedError as
    :meth:`TransformRules.relation`, and 42P16 if rows are found by a column whose different values
    would become equal.
    """
    transforms = rules.of(remote.namespace, remote.name)
    for column in remote.columns:
        found_by = column.is_identity and remote.replica_identity != _FULL and column.name in transforms
        if found_by and not is_injective(transforms[column.name]):
            raise unidentified(remote.qualified_name, column.name, transforms[column.name])
    return rules.relation(remote)


def transformed_type(transform: ColumnTransform, type_oid: int) -> int:
    return VARCHAR if transform.kind == "sha256" else type_oid


def transformed(transform: ColumnTransform, type_oid: int, values: pa.Array, *, as_text: bool) -> pa.Array:
    """The values of the target. ``values`` are those of ``type_oid``, decoded or as text; the
    result is text with ``as_text``, and otherwise decoded.

    Raises:
        UsageError: the secret or the function is not there.
        TransformError: the function failed, or its result is not a value of the column's type.
    """
    texts = _computed(transform, type_oid, _texts(values))
    if as_text:
        return texts
    try:
        return decode_column(transformed_type(transform, type_oid), texts.cast(pa.binary()), binary=False, column=1)
    except ProtocolError as error:
        raise _failed(transform, f"its result is not a value of the column's type ({error.message})") from None


def transformed_batch(
    transforms: Mapping[str, ColumnTransform], remote: Relation, rows: pa.RecordBatch, *, as_text: bool
) -> pa.RecordBatch:
    """The rows with their columns transformed; ``remote`` has the publisher's types. An error names
    the column.
    """
    arrays = rows.columns
    types = {column.name: column.type_oid for column in remote.columns}
    for place, name in enumerate(rows.schema.names):
        if name in transforms:
            try:
                arrays[place] = transformed(transforms[name], types[name], arrays[place], as_text=as_text)
            except SubscriberError as error:
                raise error.replace(relation=remote.qualified_name, column=name) from None
    return pa.RecordBatch.from_arrays(arrays, names=rows.schema.names) if arrays else rows


def _texts(values: pa.Array) -> pa.Array:
    if pa.types.is_string(values.type) or pa.types.is_integer(values.type):
        return values.cast(pa.string())
    texts = iter(output_texts(values.drop_null()))
    return pa.array([next(texts) if valid else None for valid in values.is_valid().to_pylist()], pa.string())


def _computed(transform: ColumnTransform, type_oid: int, texts: pa.Array) -> pa.Array:
    match transform.kind:
        case "null":
            return pa.nulls(len(texts), pa.string())
        case "constant":
            return pa.repeat(pa.scalar(transform.text), len(texts))
        case "sha256":
            return _hashes(transform_secret(transform.text), texts)
        case "partial":
            return pa.array([_masked(transform, type_oid, text) for text in texts.to_pylist()], pa.string())
        case "function":
            return _called(transform, texts)


def _hashes(secret: bytes, texts: pa.Array) -> pa.Array:
    digests = [
        None if text is None else hmac.digest(secret, text.encode(), "sha256").hex() for text in texts.to_pylist()
    ]
    return pa.array(digests, pa.string())


def _masked(transform: ColumnTransform, type_oid: int, text: str | None) -> str | None:
    """The text with asterisks, of the same length. A text that would be shown whole has none of its
    characters.

    >>> _masked(ColumnTransform("partial", first=2, last=1), 25, "abcdef")
    'ab***f'
    """
    if text is None:
        return None
    shown = text.rstrip(" ") if type_oid == _BPCHAR else text
    first, last = transform.first, transform.last
    hidden = len(shown) - first - last
    if hidden <= 0:
        return "*" * len(shown) + text[len(shown) :]
    return shown[:first] + "*" * hidden + shown[len(shown) - last :] + text[len(shown) :]


def _function(transform: ColumnTransform) -> Any:
    function = catalog_function(transform.text, _FUNCTION, Settings.from_environment())
    if not hasattr(function, "injective"):
        raise UsageError(
            f'{_FUNCTION} "{transform.text}" has no attribute "injective"',
            hint="Set it to True if different values always have different results, and otherwise to False.",
        )
    return function


def _called(transform: ColumnTransform, texts: pa.Array) -> pa.Array:
    function = _function(transform)
    try:
        found = function(texts)
    except Exception as error:
        raise _failed(transform, f"it raised {type(error).__name__} in {raised_in(error)}") from None
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    if not isinstance(found, pa.Array) or not (
        pa.types.is_string(found.type) or pa.types.is_large_string(found.type) or pa.types.is_null(found.type)
    ):
        raise _failed(transform, "it did not return an Arrow array of strings")
    if len(found) != len(texts):
        raise _failed(transform, f"it returned {len(found):,} values for {len(texts):,}")
    return found.cast(pa.string())


def _failed(transform: ColumnTransform, reason: str) -> TransformError:
    return TransformError(
        f'the transform "{transform.words}" failed: {reason}',
        hint="Correct the function: the change is then tried again. Start `subscriber run` again after a change of its module."
        if transform.kind == "function"
        else "Use another transform, with ALTER SUBSCRIPTION ... SET (transform = '...').",
    )

"""Calls functions over values.

A strict function is not called if an argument is NULL. A call with constant arguments is computed
once. Error messages do not contain values of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, TypeAlias

import pyarrow as pa

from subscriber.errors import DataException, NotSupportedError, RowFilterError, SubscriberError
from subscriber.filters.analyze import tree
from subscriber.filters.evaluate.row_values import NULL, Same, Value, array_from, arrow_of, listed, nulls
from subscriber.filters.functions import FUNCTIONS
from subscriber.filters.functions.function_table import Context, Implementation


def of_type(type_oid: int) -> tree.Expression:
    """Return an expression of a type, whose value is unknown."""
    return tree.CaseOperand(type_oid, 0)


Apply: TypeAlias = Callable[[Sequence[Value], int], Value]
"""A function that takes the values of its arguments and the number of rows."""


def function_for(
    signature: str, arguments: Sequence[tree.Expression], result_type: int, server_version: int
) -> tuple[Apply, bool]:
    """Return the function for these arguments, and whether it may raise an error.

    Args:
        signature: the signature of the function.
        arguments: the simplified arguments, in which constants are known.
        result_type: the OID of the type of the result.
        server_version: the version of the publisher. Some functions differ between versions.

    Raises:
        NotSupportedError: the subscriber does not compute this function.
    """
    found = FUNCTIONS.get(signature)
    if found is None:
        raise NotSupportedError(f"a row filter with the function {signature} cannot be evaluated by the subscriber")
    try:
        found = found.for_constants(
            {place: argument.value for place, argument in enumerate(arguments) if isinstance(argument, tree.Known)}
        )
    except DataException as error:
        return _raising(error), True
    context = Context(tuple(argument.type_oid for argument in arguments), result_type, server_version)
    return _applied(found, context), found.raises


def _raising(error: DataException) -> Apply:
    """Return a function that raises the error of a wrong constant.

    The server raises the error at the first row that calls the function with arguments that are not
    NULL.
    """

    def apply(values: Sequence[Value], count: int) -> Value:
        missing = [nulls(value, count) for value in values]
        if all(any(row) for row in zip(*missing, strict=True)):
            return NULL
        raise error

    return apply


def _applied(found: Implementation, context: Context) -> Apply:
    """Return an implementation as a function over values, with the handling of NULL and
    of errors.
    """
    signature = found.signature
    arrow_type = arrow_of(context.result_type)
    argument_arrows = [arrow_of(oid) for oid in context.argument_types]
    call = partial(found.function, context) if found.context else found.function

    def apply(values: Sequence[Value], count: int) -> Value:
        constant = all(isinstance(value, Same) for value in values)
        if found.strict and any(isinstance(value, Same) and value.value is None for value in values):
            return NULL
        if constant:
            count = 1
        try:
            if found.vectorised:
                result = _columns_at_once(call, values, argument_arrows, count, constant)
            else:
                result = _row_by_row(call, found, values, count, arrow_type)
        except SubscriberError:
            raise
        except Exception:
            # Errors of Arrow and Python quote values. Error messages of the subscriber must not
            # contain values.
            raise RowFilterError(f"{signature} failed for a value of a row", sqlstate="XX000") from None
        return Same(listed(result, count)[0]) if constant else result

    return apply


def _columns_at_once(
    call: Callable[..., Any], values: Sequence[Value], arrows: Sequence[pa.DataType | None], count: int, constant: bool
) -> Value:
    """Call a vectorised function.

    At least one argument is passed as an array. A value that is the same for all rows is passed as
    a scalar beside it.
    """
    result = call(
        *(
            pa.scalar(value.value, arrow_type)
            if isinstance(value, Same) and not constant
            else array_from(value, count, arrow_type)
            for value, arrow_type in zip(values, arrows, strict=True)
        )
    )
    if isinstance(result, pa.Scalar):
        return Same(result.as_py())
    return result.combine_chunks() if isinstance(result, pa.ChunkedArray) else result


def _row_by_row(
    call: Callable[..., Any],
    found: Implementation,
    values: Sequence[Value],
    count: int,
    arrow_type: pa.DataType | None,
) -> Value:
    if not values:
        result = [call()] * count
    elif found.strict and len(values) == 1:
        result = [None if one is None else call(one) for one in listed(values[0], count)]
    elif found.strict and len(values) == 2 and isinstance(values[1], Same):
        right = values[1].value
        result = [None if one is None else call(one, right) for one in listed(values[0], count)]
    else:
        columns = [repeat(value.value, count) if isinstance(value, Same) else listed(value, count) for value in values]
        rows = zip(*columns, strict=True)
        if found.strict:
            result = [None if any(one is None for one in row) else call(*row) for row in rows]
        else:
            result = [call(*row) for row in rows]
    return result if arrow_type is None else pa.array(result, arrow_type)

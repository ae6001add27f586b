"""boolean: comparisons and casts.

AND, OR and NOT are not functions, but separate nodes
(:mod:`subscriber.filters.evaluate.operations`).
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from subscriber.filters.functions.comparison import register_columns
from subscriber.filters.functions.function_table import FunctionTable

FUNCTIONS: Final = FunctionTable()

register_columns(FUNCTIONS, "bool{}(bool,bool)")


@FUNCTIONS.vectorised("btboolcmp(bool,bool)")
def _compare(left: Any, right: Any) -> Any:
    return pc.subtract(pc.cast(left, pa.int32()), pc.cast(right, pa.int32()))


@FUNCTIONS.vectorised("int4(bool)")
def _to_integer(value: Any) -> Any:
    return pc.cast(value, pa.int32())


@FUNCTIONS.vectorised("text(bool)")
def _to_text(value: Any) -> Any:
    return pc.if_else(value, "true", "false")


@FUNCTIONS.elementwise("num_nulls(any)", strict=False, raises=False)
def _number_of_nulls(*values: object) -> int:
    return sum(one is None for one in values)


@FUNCTIONS.elementwise("num_nonnulls(any)", strict=False, raises=False)
def _number_of_values(*values: object) -> int:
    return sum(one is not None for one in values)

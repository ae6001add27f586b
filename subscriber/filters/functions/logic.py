"""boolean: its values, comparisons and casts. AND, OR and NOT are nodes of their own (:mod:`subscriber.filters.evaluate.operations`)."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from subscriber.errors import RowFilterError
from subscriber.filters.functions.comparison import register_columns
from subscriber.filters.functions.forms import Form, register
from subscriber.filters.functions.function_registry import elementwise, vectorised
from subscriber.types import family_of

BOOL: Final = 16
WHITESPACE: Final = " \t\n\v\f\r"
"""What input functions skip: C's isspace."""


def _from_text(text: str, modifier: int) -> bool:  # noqa: ARG001  an input function is given a modifier
    word = text.strip(WHITESPACE).lower()
    if word == "1" or (word and any(whole.startswith(word) for whole in ("true", "yes"))) or word == "on":
        return True
    if word in ("0", "of") or (word and any(whole.startswith(word) for whole in ("false", "no"))) or word == "off":
        return False
    raise RowFilterError(f'invalid input syntax for type boolean: "{text}"', sqlstate="22P02")


register(
    Form(
        (BOOL,),
        _from_text,
        lambda value: "t" if value else "f",
        pa.bool_(),
        lambda array: family_of(BOOL).decode_text(array.cast(pa.binary())),
    )
)

register_columns("bool{}(bool,bool)")


@vectorised("btboolcmp(bool,bool)")
def _compare(left: Any, right: Any) -> Any:
    return pc.subtract(pc.cast(left, pa.int32()), pc.cast(right, pa.int32()))


@vectorised("int4(bool)")
def _to_integer(value: Any) -> Any:
    return pc.cast(value, pa.int32())


@vectorised("text(bool)")
def _to_text(value: Any) -> Any:
    return pc.if_else(value, "true", "false")


@elementwise("num_nulls(any)", strict=False, raises=False)
def _number_of_nulls(*values: object) -> int:
    return sum(one is None for one in values)


@elementwise("num_nonnulls(any)", strict=False, raises=False)
def _number_of_values(*values: object) -> int:
    return sum(one is not None for one in values)

"""text, varchar, bpchar, name and "char": comparisons, casts, lengths and concatenation.

This table shows whether the blanks at the end of a ``character(n)`` are significant (the values are
stored with them)::

    =  <>  <  <=  >  >=                no         length, char_length    no
    cast to text or varchar, ||        removed    octet_length           yes
    LIKE, ~                            yes        bit_length             no (it is text's)

``=`` and ``<>`` give the same results under every collation that a publication may use (the
deterministic collations). Order and case are those of collation "C", so functions that depend on
them are ``bytewise``. UTF-8 bytes have the order of the characters, which is Python's order.

These functions are not supported: the comparison functions of index methods (``bttextcmp`` …),
which return the result of the C library's ``memcmp``; ``quote_ident`` and ``parse_ident``, which
depend on the keywords of the server's version; ``normalize`` and ``IS NORMALIZED``, which depend on
the server's version of Unicode; and ``to_ascii``, which a UTF-8 database refuses.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from subscriber.errors import RowFilterError
from subscriber.filters.functions.function_table import FunctionTable
from subscriber.types.text import byte_of_char, char_of_byte, length_coerced, namein

FUNCTIONS: Final = FunctionTable()

LONGEST_VALUE: Final = 0x3FFFFFFF - 4
"""The size of the longest value in bytes: the largest allocation of ``palloc`` without the
header.
"""

_HEADER: Final = 4
"""``atttypmod`` of varchar(n) and character(n) is n plus this."""

_LARGEST_ALLOCATION: Final = 2**30 - 1
"""The number of bytes that the server allocates for one value at most."""


# --- comparisons ------------------------------------------------------------------------------


@FUNCTIONS.vectorised(
    "texteq(text,text)", "nameeq(name,name)", "nameeqtext(name,text)", "texteqname(text,name)", "chareq(char,char)"
)
def _equal(left: pa.Array, right: pa.Array) -> pa.Array:
    return pc.equal(left, right)


@FUNCTIONS.vectorised(
    "textne(text,text)", "namene(name,name)", "namenetext(name,text)", "textnename(text,name)", "charne(char,char)"
)
def _not_equal(left: pa.Array, right: pa.Array) -> pa.Array:
    return pc.not_equal(left, right)


@FUNCTIONS.vectorised("text_pattern_lt(text,text)")
@FUNCTIONS.vectorised(
    "text_lt(text,text)", "namelt(name,name)", "namelttext(name,text)", "textltname(text,name)", bytewise=True
)
def _less(left: pa.Array, right: pa.Array) -> pa.Array:
    return pc.less(left, right)


@FUNCTIONS.vectorised("text_pattern_le(text,text)")
@FUNCTIONS.vectorised(
    "text_le(text,text)", "namele(name,name)", "nameletext(name,text)", "textlename(text,name)", bytewise=True
)
def _less_equal(left: pa.Array, right: pa.Array) -> pa.Array:
    return pc.less_equal(left, right)


@FUNCTIONS.vectorised("text_pattern_gt(text,text)")
@FUNCTIONS.vectorised(
    "text_gt(text,text)", "namegt(name,name)", "namegttext(name,text)", "textgtname(text,name)", bytewise=True
)
def _greater(left: pa.Array, right: pa.Array) -> pa.Array:
    return pc.greater(left, right)


@FUNCTIONS.vectorised("text_pattern_ge(text,text)")
@FUNCTIONS.vectorised(
    "text_ge(text,text)", "namege(name,name)", "namegetext(name,text)", "textgename(text,name)", bytewise=True
)
def _greater_equal(left: pa.Array, right: pa.Array) -> pa.Array:
    return pc.greater_equal(left, right)


@FUNCTIONS.elementwise("text_larger(text,text)", raises=False, bytewise=True)
def _larger(left: str, right: str) -> str:
    return max(left, right)


@FUNCTIONS.elementwise("text_smaller(text,text)", raises=False, bytewise=True)
def _smaller(left: str, right: str) -> str:
    return min(left, right)


def _without_blanks(value: pa.Array) -> pa.Array:
    return pc.ascii_rtrim(value, characters=" ")


@FUNCTIONS.vectorised("bpchareq(bpchar,bpchar)")
def _blank_padded_equal(left: pa.Array, right: pa.Array) -> pa.Array:
    return pc.equal(_without_blanks(left), _without_blanks(right))


@FUNCTIONS.vectorised("bpcharne(bpchar,bpchar)")
def _blank_padded_not_equal(left: pa.Array, right: pa.Array) -> pa.Array:
    return pc.not_equal(_without_blanks(left), _without_blanks(right))


@FUNCTIONS.vectorised("bpchar_pattern_lt(bpchar,bpchar)")
@FUNCTIONS.vectorised("bpcharlt(bpchar,bpchar)", bytewise=True)
def _blank_padded_less(left: pa.Array, right: pa.Array) -> pa.Array:
    return pc.less(_without_blanks(left), _without_blanks(right))


@FUNCTIONS.vectorised("bpchar_pattern_le(bpchar,bpchar)")
@FUNCTIONS.vectorised("bpcharle(bpchar,bpchar)", bytewise=True)
def _blank_padded_less_equal(left: pa.Array, right: pa.Array) -> pa.Array:
    return pc.less_equal(_without_blanks(left), _without_blanks(right))


@FUNCTIONS.vectorised("bpchar_pattern_gt(bpchar,bpchar)")
@FUNCTIONS.vectorised("bpchargt(bpchar,bpchar)", bytewise=True)
def _blank_padded_greater(left: pa.Array, right: pa.Array) -> pa.Array:
    return pc.greater(_without_blanks(left), _without_blanks(right))


@FUNCTIONS.vectorised("bpchar_pattern_ge(bpchar,bpchar)")
@FUNCTIONS.vectorised("bpcharge(bpchar,bpchar)", bytewise=True)
def _blank_padded_greater_equal(left: pa.Array, right: pa.Array) -> pa.Array:
    return pc.greater_equal(_without_blanks(left), _without_blanks(right))


@FUNCTIONS.elementwise("bpchar_larger(bpchar,bpchar)", raises=False, bytewise=True)
def _blank_padded_larger(left: str, right: str) -> str:
    return left if left.rstrip(" ") >= right.rstrip(" ") else right


@FUNCTIONS.elementwise("bpchar_smaller(bpchar,bpchar)", raises=False, bytewise=True)
def _blank_padded_smaller(left: str, right: str) -> str:
    return left if left.rstrip(" ") <= right.rstrip(" ") else right


@FUNCTIONS.elementwise("charlt(char,char)", raises=False)
def _byte_less(left: str, right: str) -> bool:
    return byte_of_char(left) < byte_of_char(right)


@FUNCTIONS.elementwise("charle(char,char)", raises=False)
def _byte_less_equal(left: str, right: str) -> bool:
    return byte_of_char(left) <= byte_of_char(right)


@FUNCTIONS.elementwise("chargt(char,char)", raises=False)
def _byte_greater(left: str, right: str) -> bool:
    return byte_of_char(left) > byte_of_char(right)


@FUNCTIONS.elementwise("charge(char,char)", raises=False)
def _byte_greater_equal(left: str, right: str) -> bool:
    return byte_of_char(left) >= byte_of_char(right)


# --- casts ------------------------------------------------------------------------------------


@FUNCTIONS.vectorised("text(bpchar)")
def _text_of_bpchar(value: pa.Array) -> pa.Array:
    return _without_blanks(value)


@FUNCTIONS.vectorised("text(name)", "varchar(name)", "bpchar(name)", "text(char)")
def _text_of_name(value: pa.Array) -> pa.Array:
    return value


@FUNCTIONS.elementwise("name(text)", "name(varchar)", raises=False)
def _name_of_text(value: str) -> str:
    return namein(value)


@FUNCTIONS.elementwise("name(bpchar)", raises=False)
def _name_of_bpchar(value: str) -> str:
    return namein(value).rstrip(" ")


@FUNCTIONS.elementwise("int4(char)", raises=False)
def _integer_of_char(value: str) -> int:
    byte = byte_of_char(value)
    return byte - 256 if byte > 127 else byte


@FUNCTIONS.elementwise("char(int4)")
def _char_of_integer(value: int) -> str:
    if not -128 <= value <= 127:
        raise RowFilterError('"char" out of range', sqlstate="22003")
    return char_of_byte(value % 256)


@FUNCTIONS.elementwise("varchar(varchar,int4,bool)")
def _coerced_varchar(value: str, modifier: int, explicit: bool) -> str:
    return length_coerced(value, modifier, "character varying", explicit=explicit)


@FUNCTIONS.elementwise("bpchar(bpchar,int4,bool)")
def _coerced_bpchar(value: str, modifier: int, explicit: bool) -> str:
    missing = modifier - _HEADER - len(value)
    if missing > 0 and len(value.encode()) + missing + _HEADER > _LARGEST_ALLOCATION:
        raise RowFilterError("invalid memory alloc request size", sqlstate="XX000")
    return length_coerced(value, modifier, "character", explicit=explicit).ljust(modifier - _HEADER)


# --- lengths, concatenation, case -------------------------------------------------------------


@FUNCTIONS.vectorised("length(text)", "textlen(text)", "char_length(text)", "character_length(text)")
def _length(value: pa.Array) -> pa.Array:
    return pc.utf8_length(value)


@FUNCTIONS.vectorised("length(bpchar)", "char_length(bpchar)", "character_length(bpchar)")
def _length_without_blanks(value: pa.Array) -> pa.Array:
    return pc.utf8_length(_without_blanks(value))


@FUNCTIONS.vectorised("octet_length(text)", "octet_length(bpchar)")
def _octet_length(value: pa.Array) -> pa.Array:
    return pc.binary_length(value)


@FUNCTIONS.vectorised("bit_length(text)")
def _bit_length(value: pa.Array) -> pa.Array:
    return pc.multiply(pc.binary_length(value), pa.scalar(8, pa.int32()))


@FUNCTIONS.vectorised("textcat(text,text)")
def _concatenated(left: pa.Array, right: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(left, right, "")


@FUNCTIONS.vectorised("lower(text)", "casefold(text)", bytewise=True)
def _lower(value: pa.Array) -> pa.Array:
    return pc.ascii_lower(value)


@FUNCTIONS.vectorised("upper(text)", bytewise=True)
def _upper(value: pa.Array) -> pa.Array:
    return pc.ascii_upper(value)

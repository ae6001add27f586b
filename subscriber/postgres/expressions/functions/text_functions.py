"""text, varchar, bpchar, name and "char"; also parts, positions and trimming of bytea and bits.

Whether the blanks at the end of a ``character(n)``, which are stored, are significant::

    =  <>  <  <=  >  >=                no         length, char_length    no
    cast to text or varchar, ||        removed    octet_length           yes
    LIKE, ~                            yes        bit_length             no (it is text's)

``=`` and ``<>`` give the same results under every collation that a publication may use (the
deterministic ones). Order and case are those of "C", so functions that depend on them are
``bytewise``; those of other collations are in ``collators``. UTF-8 bytes have the order of the
characters, which is Python's order.

Not supported are the comparison functions of index methods (``bttextcmp`` …), which return what
``memcmp`` returns; ``normalize`` and ``IS NORMALIZED``, which depend on the server's version of
Unicode; and ``to_ascii``, which a UTF-8 database refuses.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from subscriber.base.errors import RowFilterError
from subscriber.postgres.expressions.functions import function_table
from subscriber.postgres.expressions.functions.integer_functions import out_of_range
from subscriber.postgres.sql.quoting import quote_identifier
from subscriber.postgres.types.arrays import EMPTY, Array
from subscriber.postgres.types.family import Compare, sign
from subscriber.postgres.types.text import byte_of_char, char_of_byte, charin, length_coerced, namein

LONGEST_VALUE: Final = 0x3FFFFFFF - 4
"""The longest value in bytes: the largest allocation of ``palloc`` without the header."""

_HEADER: Final = 4
"""``atttypmod`` of varchar(n) and character(n) is n plus this."""

_LARGEST_ALLOCATION: Final = 2**30 - 1
"""The bytes that the server allocates for one value at most."""


# --- comparisons ------------------------------------------------------------------------------


def _without_blanks(value: pa.Array) -> pa.Array:
    return pc.ascii_rtrim(value, characters=" ")


def _unpadded(compare: Compare) -> Compare:
    return lambda left, right: compare(left.rstrip(" "), right.rstrip(" "))


def _register_equality(kernel: Callable[..., pa.Array], name: str) -> None:
    pairs = ("text{}(text,text)", "name{}(name,name)", "name{}text(name,text)", "text{}name(text,name)")
    function_table.vectorised(*(pair.format(name) for pair in pairs), f"char{name}(char,char)")(kernel)
    function_table.vectorised(f"bpchar{name}(bpchar,bpchar)")(_of_unpadded(kernel))


def _of_unpadded(kernel: Callable[..., pa.Array]) -> Callable[[pa.Array, pa.Array], pa.Array]:
    return lambda left, right: kernel(_without_blanks(left), _without_blanks(right))


def _register_order(kernel: Callable[..., pa.Array], name: str) -> None:
    """Add a comparison by bytes, and by another collation's order, except for ``_pattern_``."""

    def by_order(compare: Compare) -> Callable[[str, str], bool]:
        return lambda left, right: function_table.TESTS[name](compare(left, right))

    pairs = ("text_{}(text,text)", "name{}(name,name)", "name{}text(name,text)", "text{}name(text,name)")
    function_table.vectorised(*(pair.format(name) for pair in pairs), bytewise=True, by_order=by_order)(kernel)
    function_table.vectorised(f"text_pattern_{name}(text,text)")(kernel)
    unpadded = _of_unpadded(kernel)
    function_table.vectorised(
        f"bpchar{name}(bpchar,bpchar)", bytewise=True, by_order=lambda compare: by_order(_unpadded(compare))
    )(unpadded)
    function_table.vectorised(f"bpchar_pattern_{name}(bpchar,bpchar)")(unpadded)
    test = function_table.TESTS[name]
    function_table.elementwise(f"char{name}(char,char)", raises=False)(
        lambda left, right: test(sign(byte_of_char(left), byte_of_char(right)))
    )


def _register_extreme(name: str, direction: int) -> None:
    """Add ``larger`` (1) or ``smaller`` (-1): the second of equal texts, the first of bpchar."""

    def of_text(compare: Compare) -> Callable[[str, str], str]:
        return lambda left, right: left if compare(left, right) * direction > 0 else right

    def of_bpchar(compare: Compare) -> Callable[[str, str], str]:
        unpadded = _unpadded(compare)
        return lambda left, right: left if unpadded(left, right) * direction >= 0 else right

    for kind, by_order in (("text", of_text), ("bpchar", of_bpchar)):
        function_table.elementwise(f"{kind}_{name}({kind},{kind})", raises=False, bytewise=True, by_order=by_order)(
            by_order(sign)
        )


_register_equality(pc.equal, "eq")
_register_equality(pc.not_equal, "ne")
_register_order(pc.less, "lt")
_register_order(pc.less_equal, "le")
_register_order(pc.greater, "gt")
_register_order(pc.greater_equal, "ge")
_register_extreme("larger", 1)
_register_extreme("smaller", -1)


# --- casts ------------------------------------------------------------------------------------

function_table.vectorised("text(bpchar)")(_without_blanks)
function_table.vectorised("text(name)", "varchar(name)", "bpchar(name)", "text(char)")(lambda value: value)
function_table.elementwise("name(text)", "name(varchar)", raises=False)(namein)
function_table.elementwise("name(bpchar)", raises=False)(lambda value: namein(value).rstrip(" "))


@function_table.elementwise("int4(char)", raises=False)
def _integer_of_char(value: str) -> int:
    byte = byte_of_char(value)
    return byte - 256 if byte > 127 else byte


function_table.elementwise("char(text)", raises=False)(charin)


@function_table.elementwise("char(int4)")
def _char_of_integer(value: int) -> str:
    if not -128 <= value <= 127:
        raise RowFilterError('"char" out of range', sqlstate="22003")
    return char_of_byte(value % 256)


function_table.elementwise("varchar(varchar,int4,bool)")(
    lambda value, modifier, explicit: length_coerced(value, modifier, "character varying", explicit=explicit)
)


@function_table.elementwise("bpchar(bpchar,int4,bool)")
def _coerced_bpchar(value: str, modifier: int, explicit: bool) -> str:
    missing = modifier - _HEADER - len(value)
    if missing > 0 and len(value.encode()) + missing + _HEADER > _LARGEST_ALLOCATION:
        raise RowFilterError("invalid memory alloc request size", sqlstate="XX000")
    return length_coerced(value, modifier, "character", explicit=explicit).ljust(modifier - _HEADER)


# --- lengths, concatenation, case -------------------------------------------------------------

function_table.vectorised("length(text)", "textlen(text)", "char_length(text)", "character_length(text)")(
    pc.utf8_length
)
function_table.vectorised("length(bpchar)", "char_length(bpchar)", "character_length(bpchar)")(
    lambda value: pc.utf8_length(_without_blanks(value))
)


@function_table.vectorised(
    "octet_length(text)",
    "octet_length(bpchar)",
    "length(bytea)",
    "octet_length(bytea)",
    "length(bit)",
    "bit_length(bit)",
)
def _octet_length(value: pa.Array) -> pa.Array:
    return pc.binary_length(value)


function_table.vectorised("bit_length(text)", "bit_length(bytea)")(
    lambda value: pc.multiply(pc.binary_length(value), pa.scalar(8, pa.int32()))
)
function_table.vectorised("textcat(text,text)", "bitcat(varbit,varbit)", "byteacat(bytea,bytea)")(
    lambda left, right: pc.binary_join_element_wise(left, right, pa.scalar("").cast(left.type))
)


@function_table.vectorised("casefold(text)", bytewise=True)
@function_table.vectorised("lower(text)", bytewise=True, by_case=lambda collator: collator.lower)
def _lower(value: pa.Array) -> pa.Array:
    return pc.ascii_lower(value)


function_table.vectorised("upper(text)", bytewise=True, by_case=lambda collator: collator.upper)(pc.ascii_upper)


_LARGEST_INT4: Final = 2**31 - 1
_UTF8_BYTES: Final = 4
"""The bytes for which PostgreSQL allocates memory, per character."""

_WORD: Final = re.compile(r"[0-9A-Za-z]+")
_UNICODE_ESCAPE: Final = re.compile(
    r"\\(?:(\\)|u?([0-9A-Fa-f]{4})|\+([0-9A-Fa-f]{6})|U([0-9A-Fa-f]{8})|)",
)


_Sequence = TypeVar("_Sequence", str, bytes)
"""Text, bytes, or the digits of a bit string."""
_SUBSTRINGS: Final = (
    ("substr", "text"), ("substring", "text"), ("substr", "bytea"), ("substring", "bytea"), ("substring", "bit"),
)  # fmt: skip


def _part_bounds(start: int, length: int | None) -> slice:
    """SQL's ``substring(… FROM start FOR length)``."""
    first = max(start, 1) - 1
    if length is None:
        return slice(first, None)
    if length < 0:
        raise RowFilterError("negative substring length not allowed", sqlstate="22011")
    end = start + length
    return slice(first, None if end > _LARGEST_INT4 else max(end - 1, first))


def _too_long() -> RowFilterError:
    return RowFilterError("requested length too large", sqlstate="54000")


# --- parts ------------------------------------------------------------------------------------

function_table.elementwise(
    *(f"{name}({kind},int4)" for name, kind in _SUBSTRINGS),
    *(f"{name}({kind},int4,int4)" for name, kind in _SUBSTRINGS),
)(lambda value, start, length=None: value[_part_bounds(start, length)])
function_table.elementwise("left(text,int4)", raises=False)(lambda value, count: value[:count])


@function_table.elementwise("right(text,int4)", raises=False)
def _right(value: str, count: int) -> str:
    if count <= -_LARGEST_INT4 - 1:
        return value  # PostgreSQL negates the number, which is not possible for the least number
    return value[-count:] if count else ""


@function_table.elementwise(
    *(f"overlay({kind},{kind},int4)" for kind in ("text", "bytea", "bit")),
    *(f"overlay({kind},{kind},int4,int4)" for kind in ("text", "bytea", "bit")),
)
def _overlaid(value: _Sequence, new: _Sequence, start: int, length: int | None = None) -> _Sequence:
    if start <= 0:
        raise RowFilterError("negative substring length not allowed", sqlstate="22011")
    end = start + (len(new) if length is None else length)
    if not -_LARGEST_INT4 - 1 <= end <= _LARGEST_INT4:
        raise out_of_range("integer")
    return value[: start - 1] + new + value[max(end, 1) - 1 :]


def _split(value: str, separator: str) -> list[str]:
    return value.split(separator) if separator else [value]


@function_table.elementwise("split_part(text,text,int4)")
def _split_part(value: str, separator: str, field: int) -> str:
    if field == 0:
        raise RowFilterError("field position must not be zero", sqlstate="22023")
    if not value:
        return ""
    parts = _split(value, separator)
    index = field - 1 if field > 0 else len(parts) + field
    return parts[index] if 0 <= index < len(parts) else ""


@function_table.elementwise("string_to_array(text,text)", "string_to_array(text,text,text)", strict=False, raises=False)
def _as_array(value: str | None, separator: str | None, null: str | None = None) -> Array | None:
    if value is None:
        return None
    if not value:
        return EMPTY
    parts = _split(value, separator) if separator is not None else list(value)
    return Array((len(parts),), (1,), tuple(None if part == null else part for part in parts))


_IDENTIFIER: Final = re.compile(r'"((?:[^"]|"")*+)("?)|([A-Za-z_\x80-\U0010ffff][0-9A-Za-z_$\x80-\U0010ffff]*)')
_TO_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_SPACES: Final = " \t\n\r\v\f"
_VERTICAL_TAB_IS_SPACE: Final = 170000


@function_table.elementwise("parse_ident(text,bool)", context=True)
def _parsed_identifier(context: function_table.Context, value: str, strict: bool) -> Array:
    """The parts of a qualified identifier (``parse_ident``)."""
    spaces = _SPACES if context.server_version >= _VERTICAL_TAB_IS_SPACE else _SPACES.replace("\v", "")
    names: list[str] = []
    rest = value.lstrip(spaces)
    while True:
        found = _IDENTIFIER.match(rest)
        if found is None:
            where = "before" if rest.startswith(".") else "after" if names else None
            raise _no_identifier(None if where is None else f'No valid identifier {where} ".".')
        quoted, end, plain = found.groups()
        if quoted is not None and not end:
            raise _no_identifier("String has unclosed double quotes.")
        if quoted == "":
            raise _no_identifier("Quoted identifier must not be empty.")
        names.append(plain.translate(_TO_LOWER) if quoted is None else quoted.replace('""', '"'))
        rest = rest[found.end() :].lstrip(spaces)
        if not rest.startswith("."):
            break
        rest = rest[1:].lstrip(spaces)
    if rest and strict:
        raise _no_identifier(None)
    return Array((len(names),), (1,), tuple(names))


def _no_identifier(detail: str | None) -> RowFilterError:
    return RowFilterError("string is not a valid identifier", sqlstate="22023", detail=detail)


# --- searching --------------------------------------------------------------------------------


def _starts_with_constant(prefix: str, value: Any, _: Any) -> Any:
    return pc.starts_with(value, pattern=prefix)


def _with_constant_prefix(
    implementation: function_table.Implementation, constants: Mapping[int, Any]
) -> function_table.Implementation:
    prefix = constants.get(1)
    if prefix is None:
        return implementation
    return dataclasses.replace(
        implementation, function=partial(_starts_with_constant, prefix), vectorised=True, specialise=None
    )


function_table.elementwise("starts_with(text,text)", raises=False, specialise=_with_constant_prefix)(
    lambda value, prefix: value.startswith(prefix)
)


@function_table.elementwise("strpos(text,text)", "position(text,text)", "position(bytea,bytea)", raises=False)
def _position(value: _Sequence, searched: _Sequence) -> int:
    return value.find(searched) + 1


function_table.elementwise("replace(text,text,text)", raises=False)(
    lambda value, old, new: value.replace(old, new) if old else value
)


@function_table.elementwise("translate(text,text,text)", raises=False)
def _translated(value: str, old: str, new: str) -> str:
    table: dict[int, str | None] = {}
    for index, character in enumerate(old):
        table.setdefault(ord(character), new[index] if index < len(new) else None)
    return value.translate(table)


# --- trimming and padding ---------------------------------------------------------------------

function_table.elementwise("btrim(text)", "btrim(text,text)", "btrim(bytea,bytea)", raises=False)(
    lambda value, removed=" ": value.strip(removed) if removed else value
)
function_table.elementwise("ltrim(text)", "ltrim(text,text)", "ltrim(bytea,bytea)", raises=False)(
    lambda value, removed=" ": value.lstrip(removed) if removed else value
)
function_table.elementwise("rtrim(text)", "rtrim(text,text)", "rtrim(bytea,bytea)", raises=False)(
    lambda value, removed=" ": value.rstrip(removed) if removed else value
)


def _padding(value: str, length: int, fill: str) -> str:
    missing = length - len(value) if fill else 0
    if (length if fill else min(length, len(value))) * _UTF8_BYTES > LONGEST_VALUE:
        raise _too_long()
    if missing <= 0:
        return ""
    return (fill * (missing // len(fill) + 1))[:missing]


function_table.elementwise("lpad(text,int4)", "lpad(text,int4,text)")(
    lambda value, length, fill=" ": _padding(value, length, fill) + value[: max(length, 0)]
)
function_table.elementwise("rpad(text,int4)", "rpad(text,int4,text)")(
    lambda value, length, fill=" ": value[: max(length, 0)] + _padding(value, length, fill)
)


@function_table.elementwise("repeat(text,int4)")
def _repeated(value: str, count: int) -> str:
    if count > 0 and count * len(value.encode()) > LONGEST_VALUE:
        raise _too_long()
    return value * count


# --- characters -------------------------------------------------------------------------------

function_table.elementwise("reverse(text)", "reverse(bytea)", raises=False)(lambda value: value[::-1])
function_table.elementwise("initcap(text)", raises=False, bytewise=True)(
    lambda value: _WORD.sub(lambda word: word[0][0].upper() + word[0][1:].lower(), value)
)
function_table.elementwise("ascii(text)", raises=False)(lambda value: ord(value[0]) if value else 0)


@function_table.elementwise("chr(int4)")
def _character_of(code: int) -> str:
    if code < 0:
        raise RowFilterError("character number must be positive", sqlstate="22023")
    if code == 0:
        raise RowFilterError("null character not permitted", sqlstate="54000")
    if code > 0x10FFFF:
        raise RowFilterError("requested character too large for encoding", sqlstate="54000")
    if 0xD800 <= code <= 0xDFFF:
        raise RowFilterError("requested character not valid for encoding", sqlstate="54000")
    return chr(code)


@function_table.elementwise("unistr(text)")
def _unescaped(value: str) -> str:
    result: list[str] = []
    high = None
    end = 0
    for match in _UNICODE_ESCAPE.finditer(value):
        plain = value[end : match.start()]
        end = match.end()
        if high is not None and plain:
            raise _bad_surrogates()
        result.append(plain)
        if match[1]:
            if high is not None:
                raise _bad_surrogates()
            result.append("\\")
            continue
        digits = match[2] or match[3] or match[4]
        if not digits:
            raise RowFilterError(
                "invalid Unicode escape",
                sqlstate="42601",
                hint=r"Unicode escapes must be \XXXX, \+XXXXXX, \uXXXX, or \UXXXXXXXX.",
            )
        code = int(digits, 16)
        if code == 0 or code > 0x10FFFF:
            raise RowFilterError("invalid Unicode code point", sqlstate="22023")
        if high is not None:
            if not 0xDC00 <= code <= 0xDFFF:
                raise _bad_surrogates()
            code = 0x10000 + (high - 0xD800) * 0x400 + code - 0xDC00
            high = None
        elif 0xDC00 <= code <= 0xDFFF:
            raise _bad_surrogates()
        elif 0xD800 <= code <= 0xDBFF:
            high = code
            continue
        result.append(chr(code))
    if high is not None:
        raise _bad_surrogates()
    return "".join(result) + value[end:]


def _bad_surrogates() -> RowFilterError:
    return RowFilterError("invalid Unicode surrogate pair", sqlstate="42601")


# --- numbers, literals, digests ---------------------------------------------------------------


def _register_base(name: str, letter: str, bits: int) -> None:
    function_table.elementwise(f"{name}(int{bits // 8})", raises=False)(lambda value: f"{value % 2**bits:{letter}}")


for _name, _letter in (("to_hex", "x"), ("to_oct", "o"), ("to_bin", "b")):
    _register_base(_name, _letter, 32)
    _register_base(_name, _letter, 64)


@function_table.elementwise("quote_literal(text)", raises=False)
def _quoted(value: str) -> str:
    doubled = value.replace("\\", "\\\\").replace("'", "''")
    return f"E'{doubled}'" if "\\" in value else f"'{doubled}'"


function_table.elementwise("quote_ident(text)", context=True, raises=False)(
    lambda context, value: quote_identifier(value, context.server_version // 10000)
)
function_table.elementwise("quote_nullable(text)", strict=False, raises=False)(
    lambda value: "NULL" if value is None else _quoted(value)
)


@function_table.elementwise("md5(text)", raises=False)
def _md5(value: str) -> str:
    return hashlib.md5(value.encode(), usedforsecurity=False).hexdigest()

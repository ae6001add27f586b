"""Types of one machine word or a few: boolean, smallint, integer, bigint, oid, xid and cid (which
are stored as int64), and the positions and transactions of the server: pg_lsn, tid, xid8,
snapshots.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from subscriber.base.byte_reader import Reader
from subscriber.base.digits import parse_int
from subscriber.base.errors import DataException
from subscriber.base.lsn import format_lsn
from subscriber.postgres.types import family
from subscriber.postgres.types.equality import NONE

_IS_DIGIT_OR_SIGN: Final = np.isin(np.arange(256), list(b"0123456789-"))
_LAYOUTS: Final = {">i2": "h", ">i4": "i", ">i8": "q"}
_LARGEST_UNSIGNED: Final = 2**32 - 1
_INTEGER: Final = re.compile(
    r"([+-]?)(?:0[xX]((?:_?[0-9a-fA-F])+)|0[oO]((?:_?[0-7])+)|0[bB]((?:_?[01])+)|([0-9](?:_?[0-9])*))"
)
_DECIMAL_INTEGER: Final = re.compile(r"([+-]?)([0-9]+)")
_C_INTEGER: Final = re.compile(r"([+-]?)(?:0[xX]([0-9a-fA-F]+)|(0[0-7]*)|([1-9][0-9]*))")


def _from_text(name: str, arrow_type: pa.DataType, array: pa.BinaryArray) -> pa.Array:
    # Arrow would also read 0x10, and would read 0xFFFFFFFF as -1. No output function writes these,
    # so only digits and signs are accepted.
    if _IS_DIGIT_OR_SIGN[family.values_of(array)[0]].all():
        try:
            return array.cast(arrow_type)
        except pa.ArrowInvalid:
            pass
    raise family.invalid_text(name)


def _unsigned_from_text(name: str, array: pa.BinaryArray) -> pa.Int64Array:
    numbers = _from_text(name, pa.int64(), array)
    bounds = pc.min_max(numbers).as_py()
    if bounds["min"] < 0 or bounds["max"] > _LARGEST_UNSIGNED:
        raise family.invalid_text(name)
    return numbers


def _from_binary(name: str, wire: str, arrow_type: pa.DataType, array: pa.BinaryArray) -> pa.Array:
    return pa.array(family.binary_numbers(array, wire, name).astype(arrow_type.to_pandas_dtype()))


def _integer_in(name: str, bits: int, text: str) -> int:
    stripped = text.strip(family.WHITESPACE)
    found = _INTEGER.match(stripped)
    if found is None:
        raise family.invalid_syntax(name, text)
    sign, *digits = found.groups()
    base, written = next((base, one) for base, one in zip((16, 8, 2, 10), digits, strict=True) if one is not None)
    magnitude = parse_int(written.replace("_", ""), base)
    limit = 1 << bits - 1
    # The server adds digits one by one, so an overflow is detected before the text after it is
    # checked.
    if magnitude // base <= limit // base and found.end() < len(stripped):
        raise family.invalid_syntax(name, text)
    number = -magnitude if sign == "-" else magnitude
    if not -limit <= number < limit:
        raise _out_of_range(name, text)
    return number


int2in: Final = partial(_integer_in, "smallint", 16)
int4in: Final = partial(_integer_in, "integer", 32)
int8in: Final = partial(_integer_in, "bigint", 64)
"""Decimal numbers, 0x, 0o, 0b and underscores; 22P02 for other texts, 22003 if out of range."""


def decimal_integer_in(name: str, bits: int, text: str) -> int:
    """Before PostgreSQL 16: decimal numbers only."""
    stripped = text.strip(family.WHITESPACE)
    found = _DECIMAL_INTEGER.match(stripped)
    if found is None:
        raise family.invalid_syntax(name, text)
    number = parse_int(found[0])
    limit = 1 << bits - 1
    if abs(number) <= limit and found.end() < len(stripped):
        raise family.invalid_syntax(name, text)
    if not -limit <= number < limit:
        raise _out_of_range(name, text)
    return number


def decimal_oid_in(text: str) -> int:
    """Before PostgreSQL 16: decimal numbers only."""
    return _oid_of(text, _DECIMAL_INTEGER, (10,))


def oidin(text: str) -> int:
    """C's rules: 010 is octal, and a negative number is taken modulo 2**32."""
    return _oid_of(text, _C_INTEGER, (16, 8, 10))


def _oid_of(text: str, pattern: re.Pattern[str], bases: tuple[int, ...]) -> int:
    stripped = text.strip(family.WHITESPACE)
    found = pattern.match(stripped)
    sign, *digits = ("",) if found is None else found.groups()
    magnitude = next((parse_int(one, base) for base, one in zip(bases, digits, strict=False) if one), 0)
    if found is None or (magnitude < 2**64 and found.end() < len(stripped)):
        raise family.invalid_syntax("oid", text)
    number = -magnitude if sign == "-" else magnitude
    if not -(2**31) <= number < 2**32:
        raise _out_of_range("oid", text)
    return number % 2**32


def _out_of_range(name: str, text: str) -> DataException:
    return DataException(
        f"value is out of range for type {name}",
        sqlstate="22003",
        quoting=f'value "{text}" is out of range for type {name}',
    )


def _signed(name: str, oid: int, arrow_type: pa.DataType, wire: str, read: Callable[[str], int]) -> family.TypeFamily:
    from_text = partial(_from_text, name, arrow_type)
    from_binary = partial(_from_binary, name, wire, arrow_type)
    form = family.Form(family.without_modifier(read), str, arrow_type, compare=family.sign)
    return family.of_decoders(
        name, oid, arrow_type, from_text, from_binary, form, send=partial(family.packed, _LAYOUTS[wire], read)
    )


def _unsigned(name: str, oid: int, form: family.Form | None = None) -> family.TypeFamily:
    from_text = partial(_unsigned_from_text, name)
    from_binary = partial(_from_binary, name, ">u4", pa.int64())
    return family.of_decoders(
        name, oid, pa.int64(), from_text, from_binary, form, send=partial(family.packed, "I", oidin)
    )


_INTEGERS: Final = (
    _signed("smallint", 21, pa.int16(), ">i2", int2in),
    _signed("integer", 23, pa.int32(), ">i4", int4in),
    _signed("bigint", 20, pa.int64(), ">i8", int8in),
    _unsigned("oid", 26, family.Form(family.without_modifier(oidin), str, pa.int64(), compare=family.sign)),
    _unsigned("xid", 28),
    _unsigned("cid", 29),
)


def _boolean_from_text(array: pa.BinaryArray) -> pa.BooleanArray:
    rows = family.fixed_width(array, 1)
    if rows is not None:
        true = rows.reshape(-1) == ord("t")
        if np.all(true | (rows.reshape(-1) == ord("f"))):
            return pa.array(true)
    raise family.invalid_text("boolean")


def _boolean_from_binary(array: pa.BinaryArray) -> pa.BooleanArray:
    return pa.array(family.binary_numbers(array, "u1", "boolean") != 0)


def boolin(text: str) -> bool:
    """The input function: ``true``, ``yes`` or their abbreviations, ``on``, ``1``, and the
    opposites.

    >>> boolin(" Yes"), boolin("fal"), boolin("of")
    (True, False, False)
    """
    word = text.strip(family.WHITESPACE).lower()
    if word in ("1", "on") or (word and any(whole.startswith(word) for whole in ("true", "yes"))):
        return True
    if word in ("0", "of", "off") or (word and any(whole.startswith(word) for whole in ("false", "no"))):
        return False
    raise family.invalid_syntax("boolean", text)


def parse_bool(text: str) -> bool | None:
    """The value of an option: as :func:`boolin`, but without space around it (``parse_bool``).

    >>> parse_bool("off"), parse_bool(" off"), parse_bool("o")
    (False, None, None)
    """
    try:
        return None if text != text.strip(family.WHITESPACE) else boolin(text)
    except DataException:
        return None


def boolout(value: bool) -> str:
    return "t" if value else "f"


_FORM: Final = family.Form(family.without_modifier(boolin), boolout, pa.bool_(), compare=family.sign)

_BOOLEAN: Final = (
    family.of_decoders(
        "boolean",
        16,
        pa.bool_(),
        _boolean_from_text,
        _boolean_from_binary,
        _FORM,
        send=partial(family.packed, "B", boolin),
    ),
)


_TID: Final = re.compile(r"\(([0-9]+),([0-9]+)\)")
_SNAPSHOT: Final = re.compile(r"([0-9]+):([0-9]+):((?:[0-9]+(?:,[0-9]+)*)?)")
_LSN: Final = re.compile(r"([0-9a-fA-F]{1,8})/([0-9a-fA-F]{1,8})")


def _lsn(wire: Reader) -> str:
    """Layout: position u64. The text is that of 18; version 19 pads the low half with zeros."""
    return format_lsn(wire.number("Q"))


def pg_lsn_in(text: str) -> int:
    match = _LSN.fullmatch(text)
    if match is None:
        raise family.invalid_syntax("pg_lsn")
    return int(match[1], 16) << 32 | int(match[2], 16)


def _row(wire: Reader) -> str:
    """Layout: block u32, offset u16."""
    return "({},{})".format(*wire.numbers("IH"))


def _tid_in(text: str) -> tuple[int, ...]:
    match = _TID.fullmatch(text)
    if match is None:
        raise family.invalid_syntax("tid")
    return int(match[1]), int(match[2])


def _xid8_in(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 2**64):
        raise family.invalid_syntax("xid8")
    return int(text)


def _transaction(wire: Reader) -> str:
    """Layout: epoch and xid u64."""
    return str(wire.number("Q"))


def _snapshot(wire: Reader) -> str:
    """Layout: number in progress i32, xmin u64, xmax u64, the transactions u64 each, ascending."""
    running = wire.number("i")
    xmin, xmax = wire.numbers("QQ")
    if not 0 < xmin <= xmax or running < 0:
        raise family.BadWire
    transactions = [wire.number("Q") for _ in range(running)]
    if transactions != sorted(transactions) or any(not xmin <= xid <= xmax for xid in transactions):
        raise family.BadWire
    return f"{xmin}:{xmax}:{','.join(map(str, transactions))}"


def _snapshot_send(text: str) -> bytes:
    match = _SNAPSHOT.fullmatch(text)
    if match is None:
        raise family.invalid_syntax("pg_snapshot")
    running = [int(one) for one in match[3].split(",") if one]
    return struct.pack(f">iQQ{len(running)}Q", len(running), int(match[1]), int(match[2]), *running)


_SYSTEM: Final = (
    family.of_texts(
        "pg_lsn",
        3220,
        _lsn,
        family.Form(family.without_modifier(pg_lsn_in), format_lsn, pa.uint64()),
        send=partial(family.packed, "Q", pg_lsn_in),
    ),
    family.of_texts("tid", 27, _row, send=partial(family.packed, "IH", _tid_in)),
    family.of_texts("xid8", 5069, _transaction, send=partial(family.packed, "Q", _xid8_in)),
    *(
        family.of_texts(name, oid, _snapshot, equality=NONE, send=_snapshot_send)
        for name, oid in (("pg_snapshot", 5038), ("txid_snapshot", 2970))
    ),
)

FAMILIES: Final = (*_INTEGERS, *_BOOLEAN, *_SYSTEM)

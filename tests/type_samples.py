"""A value of every built-in type in text and binary format, and functions that read and write these
formats with the families of :mod:`subscriber.postgres.types`.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from subscriber.base.errors import DataException, ProtocolError
from subscriber.postgres.types.family import Form
from subscriber.postgres.types.oids import type_name
from subscriber.postgres.types.registry import FAMILIES, family_of, form_of

OIDS: Final = {type_name(family.oid): family.oid for family in FAMILIES}
"""The OID of each type that has a family, by its name."""


# --- a publisher's bytes --------------------------------------------------------------------------


def bytes_of(*values: bytes | None) -> pa.BinaryArray:
    """A column of bytes; None is NULL."""
    return pa.array(values, type=pa.binary())


def from_text(name: str, *values: bytes | None) -> Any:
    """The values that the type's decoder of texts reads."""
    return family_of(OIDS[name]).decode_text(bytes_of(*values)).to_pylist()


def from_binary(name: str, *values: bytes | None) -> Any:
    """The values that the type's decoder of binary values reads."""
    return family_of(OIDS[name]).decode_binary(bytes_of(*values)).to_pylist()


def refused_text(name: str, *values: bytes | None) -> ProtocolError:
    """The error of the type's decoder of texts."""
    with pytest.raises(ProtocolError) as caught:
        from_text(name, *values)
    return caught.value


def refused_binary(name: str, *values: bytes | None) -> ProtocolError:
    """The error of the type's decoder of binary values."""
    with pytest.raises(ProtocolError) as caught:
        from_binary(name, *values)
    return caught.value


def doubles(*numbers: float) -> bytes:
    """Numbers of type double precision in binary form, one after another."""
    return struct.pack(f">{len(numbers)}d", *numbers)


def sized(*values: bytes | None) -> bytes:
    """Each value after its length; NULL has the length -1."""
    return b"".join(struct.pack(">i", -1 if value is None else len(value)) + (value or b"") for value in values)


def array_of(element: int, values: tuple[bytes | None, ...], *bounds: tuple[int, int]) -> bytes:
    """The bytes that array_send writes; a bound is a size and a lower bound."""
    head = struct.pack(">iiI", len(bounds), None in values, element)
    return head + b"".join(struct.pack(">ii", *bound) for bound in bounds) + sized(*values)


# --- input and output functions -------------------------------------------------------------------


def form(name: str) -> Form:
    """The form of a type that has one."""
    found = form_of(OIDS[name])
    assert found is not None
    return found


def read(name: str, text: str, modifier: int = -1) -> Any:
    """The value that the type's input function reads."""
    return form(name).from_text(text, modifier)


def shown(name: str, text: str, modifier: int = -1) -> str:
    """The text that the output function writes for the value that the input function reads."""
    return form(name).to_text(read(name, text, modifier))


def refused(name: str, text: str, modifier: int = -1) -> DataException:
    """The error of the type's input function."""
    with pytest.raises(DataException) as caught:
        read(name, text, modifier)
    return caught.value


def order_of(name: str, left: str, right: str) -> int:
    """Whether the type orders the value of the first text before, as equal to, or after the second:
    less than, equal to or greater than zero.
    """
    compare = form(name).compare
    assert compare is not None
    return compare(read(name, left), read(name, right))


def canonical(name: str, text: str) -> str:
    """The canonical form of a text; the text itself where equal values have equal texts."""
    find = family_of(OIDS[name]).equality.canonical
    return text if find is None else find(text)


# --- a value of each type -----------------------------------------------------------------------

ARRAYS: Final = {
    "integer[]": (b"{1,NULL}", array_of(23, (b"\0\0\0\1", None), (2, 1)), "{1,NULL}"),
    "text[]": (b'{"",a,"b c","NULL"}', array_of(25, (b"", b"a", b"b c", b"NULL"), (4, 1)), '{"",a,"b c","NULL"}'),
    "boolean[]": (b"[0:1]={t,f}", array_of(16, (b"\1", b"\0"), (2, 0)), "[0:1]={t,f}"),
    "box[]": (b"{(2,2),(0,0);NULL}", array_of(603, (doubles(2, 2, 0, 0), None), (2, 1)), "{(2,2),(0,0);NULL}"),
    "bytea[]": (rb'{{"\\x00ff"},{"\\x"}}', array_of(17, (b"\0\xff", b""), (2, 1), (1, 1)), r'{{"\\x00ff"},{"\\x"}}'),
    "oid[]": (b"{}", array_of(26, ()), "{}"),
    "int2vector[]": (b'{"1 2"}', array_of(22, (array_of(21, (b"\0\1", b"\0\2"), (2, 0)),), (1, 1)), '{"1 2"}'),
}

SAMPLES: Final = {
    "boolean": (b"t", b"\1", True),
    "smallint": (b"-2", b"\xff\xfe", -2),
    "integer": (b"7", b"\0\0\0\7", 7),
    "bigint": (b"7", b"\0\0\0\0\0\0\0\7", 7),
    "oid": (b"4294967295", b"\xff\xff\xff\xff", 4294967295),
    "xid": (b"3", b"\0\0\0\3", 3),
    "cid": (b"0", b"\0\0\0\0", 0),
    "real": (b"1.5", struct.pack(">f", 1.5), 1.5),
    "double precision": (b"-1e-05", struct.pack(">d", -1e-05), -1e-05),
    "numeric": (b"-1.50", b"\0\2\0\0\x40\0\0\2\0\1\x13\x88", "-1.50"),
    "text": ("ü".encode(), "ü".encode(), "ü"),
    "character varying": (b"v", b"v", "v"),
    "character": (b"c  ", b"c  ", "c  "),
    "name": (b"n", b"n", "n"),
    "refcursor": (b"r", b"r", "r"),
    '"char"': (rb"\200", b"\x80", r"\200"),
    "json": (b'{"a" :1}', b'{"a" :1}', '{"a" :1}'),
    "jsonb": (b'{"a": 1}', b'\1{"a": 1}', '{"a": 1}'),
    "jsonpath": (b'$."a"', b'\1$."a"', '$."a"'),
    "xml": (b"<a/>", b"<a/>", "<a/>"),
    "bytea": (rb"\x00ff", b"\0\xff", b"\0\xff"),
    "uuid": (b"00112233-4455-6677-8899-aabbccddeeff", bytes(range(0, 256, 17)), "00112233-4455-6677-8899-aabbccddeeff"),
    "date": (b"2000-01-02", b"\0\0\0\1", "2000-01-02"),
    "time without time zone": (b"00:00:01.5", struct.pack(">q", 1_500_000), "00:00:01.5"),
    "time with time zone": (b"00:00:01-05:30", struct.pack(">qi", 1_000_000, 19_800), "00:00:01-05:30"),
    "timestamp without time zone": (b"2000-01-01 00:00:00.1", struct.pack(">q", 100_000), "2000-01-01 00:00:00.1"),
    "timestamp with time zone": (b"1999-12-31 23:59:59+00", struct.pack(">q", -1_000_000), "1999-12-31 23:59:59+00"),
    "interval": (b"1 mon -1 days +00:00:01", struct.pack(">qii", 1_000_000, -1, 1), "1 mon -1 days +00:00:01"),
    "bit": (b"0000000001", b"\0\0\0\n\0\x40", "0000000001"),
    "bit varying": (b"101", b"\0\0\0\3\xa0", "101"),
    "point": (b"(0.1,-Infinity)", doubles(0.1, -np.inf), "(0.1,-Infinity)"),
    "lseg": (b"[(0,-0),(1e+15,NaN)]", doubles(0, -0.0, 1e15, np.nan), "[(0,-0),(1e+15,NaN)]"),
    "box": (b"(2,2),(0,0)", doubles(2, 2, 0, 0), "(2,2),(0,0)"),
    "path": (b"[(0,0),(1,1)]", b"\0\0\0\0\2" + doubles(0, 0, 1, 1), "[(0,0),(1,1)]"),
    "polygon": (b"((0,0),(1,1))", b"\0\0\0\2" + doubles(0, 0, 1, 1), "((0,0),(1,1))"),
    "line": (b"{1,-1,0.5}", doubles(1, -1, 0.5), "{1,-1,0.5}"),
    "circle": (b"<(1,2),3>", doubles(1, 2, 3), "<(1,2),3>"),
    "inet": (b"10.1.2.3/8", b"\2\x08\0\4\n\1\2\3", "10.1.2.3/8"),
    "cidr": (b"10.0.0.0/8", b"\2\x08\1\4\n\0\0\0", "10.0.0.0/8"),
    "macaddr": (b"08:00:2b:01:02:03", b"\x08\0\x2b\1\2\3", "08:00:2b:01:02:03"),
    "macaddr8": (b"08:00:2b:01:02:03:04:05", b"\x08\0\x2b\1\2\3\4\5", "08:00:2b:01:02:03:04:05"),
    "tsvector": (b"'a':1A,2 'b''c'", b"\0\0\0\2a\0\0\2\xc0\1\0\2b'c\0\0\0", "'a':1A,2 'b''c'"),
    "tsquery": (b"'a' & !'b':*A", b"\0\0\0\4\2\2\2\1\1\x08\1b\0\1\0\0a\0", "'a' & !'b':*A"),
    "pg_lsn": (b"16/B374D848", b"\0\0\0\x16\xb3\x74\xd8\x48", "16/B374D848"),
    "tid": (b"(7,1)", b"\0\0\0\7\0\1", "(7,1)"),
    "xid8": (b"5000000000", struct.pack(">Q", 5_000_000_000), "5000000000"),
    "pg_snapshot": (b"3:9:4,6", struct.pack(">i4Q", 2, 3, 9, 4, 6), "3:9:4,6"),
    "txid_snapshot": (b"3:3:", struct.pack(">i2Q", 0, 3, 3), "3:3:"),
    "int4range": (b"[1,3)", b"\2" + sized(b"\0\0\0\1", b"\0\0\0\3"), "[1,3)"),
    "int8range": (b"(,)", b"\x18", "(,)"),
    "numrange": (b"(0,)", b"\x14" + sized(struct.pack(">HhHH", 0, 0, 0, 0)), "(0,)"),
    "tsrange": (b'["2000-01-01 00:00:00",)', b"\x12" + sized(struct.pack(">q", 0)), '["2000-01-01 00:00:00",)'),
    "tstzrange": (b'(,"2000-01-01 00:00:00+00"]', b"\x0c" + sized(struct.pack(">q", 0)), '(,"2000-01-01 00:00:00+00"]'),
    "daterange": (b"empty", b"\1", "empty"),
    "int4multirange": (
        b"{[1,3),[5,)}",
        b"\0\0\0\2" + sized(b"\2" + sized(b"\0\0\0\1", b"\0\0\0\3"), b"\x12" + sized(b"\0\0\0\5")),
        "{[1,3),[5,)}",
    ),
    "int8multirange": (b"{}", b"\0\0\0\0", "{}"),
    "nummultirange": (b"{(,)}", b"\0\0\0\1" + sized(b"\x18"), "{(,)}"),
    "tsmultirange": (b"{(,)}", b"\0\0\0\1" + sized(b"\x18"), "{(,)}"),
    "tstzmultirange": (b"{(,)}", b"\0\0\0\1" + sized(b"\x18"), "{(,)}"),
    "datemultirange": (b"{(,)}", b"\0\0\0\1" + sized(b"\x18"), "{(,)}"),
    "int2vector": (b"1 -2", array_of(21, (b"\0\1", b"\xff\xfe"), (2, 0)), "1 -2"),
    "oidvector": (b"", array_of(26, (), (0, 0)), ""),
    **ARRAYS,
}
"""Type → the text, the bytes and the Arrow value of one value, as PostgreSQL 18 sends them."""

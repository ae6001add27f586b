"""The type families (A12, C5, absence_is_typed): what a server cannot show is here.

That both forms of a value agree is shown against real servers in tests/conformance.
"""

from __future__ import annotations

import pickle
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from subscriber.errors import NotSupportedError, ProtocolError
from subscriber.types import (
    BUILT_IN_TYPES,
    ELEMENT_TYPES,
    FAMILIES,
    comes_unread,
    decode_column,
    family_of,
    form_of,
    type_name,
)

OIDS = {name: oid for family in FAMILIES for oid in family.oids for name in [type_name(oid)]}


def bytes_of(*values: bytes | None) -> pa.BinaryArray:
    return pa.array(values, type=pa.binary())


def from_text(name: str, *values: bytes | None) -> Any:
    return family_of(OIDS[name]).decode_text(bytes_of(*values)).to_pylist()


def from_binary(name: str, *values: bytes | None) -> Any:
    return family_of(OIDS[name]).decode_binary(bytes_of(*values)).to_pylist()


def doubles(*numbers: float) -> bytes:
    return struct.pack(f">{len(numbers)}d", *numbers)


def sized(*values: bytes | None) -> bytes:
    """Each value behind its length, NULL as -1."""
    return b"".join(struct.pack(">i", -1 if value is None else len(value)) + (value or b"") for value in values)


def array_of(element: int, values: tuple[bytes | None, ...], *bounds: tuple[int, int]) -> bytes:
    """array_send's bytes; a bound is a size and a first number."""
    head = struct.pack(">iiI", len(bounds), None in values, element)
    return head + b"".join(struct.pack(">ii", *bound) for bound in bounds) + sized(*values)


ARRAYS = {
    "integer[]": (b"{1,NULL}", array_of(23, (b"\0\0\0\1", None), (2, 1)), "{1,NULL}"),
    "text[]": (b'{"",a,"b c","NULL"}', array_of(25, (b"", b"a", b"b c", b"NULL"), (4, 1)), '{"",a,"b c","NULL"}'),
    "boolean[]": (b"[0:1]={t,f}", array_of(16, (b"\1", b"\0"), (2, 0)), "[0:1]={t,f}"),
    "box[]": (b"{(2,2),(0,0);NULL}", array_of(603, (doubles(2, 2, 0, 0), None), (2, 1)), "{(2,2),(0,0);NULL}"),
    "bytea[]": (rb'{{"\\x00ff"},{"\\x"}}', array_of(17, (b"\0\xff", b""), (2, 1), (1, 1)), r'{{"\\x00ff"},{"\\x"}}'),
    "oid[]": (b"{}", array_of(26, ()), "{}"),
    "int2vector[]": (b'{"1 2"}', array_of(22, (array_of(21, (b"\0\1", b"\0\2"), (2, 0)),), (1, 1)), '{"1 2"}'),
}

UNBOUNDED = {
    "text", "character varying", "character", "name", "refcursor", "json", "jsonb", "jsonpath", "xml", "bytea", "numeric", "boolean",
}  # fmt: skip
"""Types of which every length is a value, or whose errors have a test of their own."""

SAMPLES = {
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
"""Text, binary and Arrow value of one value of each type, as PostgreSQL 18 sends them."""


def test_every_type_has_a_sample():
    """The arrays of all types are read by one decoder, which their elements' families read for."""
    assert set(OIDS) - set(SAMPLES) == {type_name(oid) for oid in ELEMENT_TYPES if type_name(oid) in OIDS} - set(ARRAYS)


@pytest.mark.parametrize("name", SAMPLES)
def test_both_forms_give_the_sample_and_nulls_stay_where_they_were(name):
    """A11, C5: NULL is decided by the tuple, before any type sees the column."""
    text, binary, value = SAMPLES[name]
    expected = [None, value, None, None, value, None]
    assert from_text(name, None, text, None, None, text, None) == expected
    assert from_binary(name, None, binary, None, None, binary, None) == expected
    assert from_text(name, text) == from_binary(name, binary) == [value]


@pytest.mark.parametrize("name", SAMPLES)
def test_empty_and_all_null_columns_have_the_familys_type(name):
    family = family_of(OIDS[name])
    for decode in (family.decode_text, family.decode_binary):
        for values in ((), (None, None)):
            decoded = decode(bytes_of(*values))
            assert (decoded.type, decoded.to_pylist()) == (family.arrow_type, list(values))


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("wrap", ["slice", "large"])
def test_slices_and_large_arrays_decode_like_others(name, wrap):
    """column_bytes gives large_binary behind 2 GiB; a caller may cut any array."""
    text, binary, value = SAMPLES[name]
    family = family_of(OIDS[name])
    for decode, sample in ((family.decode_text, text), (family.decode_binary, binary)):
        array = bytes_of(b"\xff!", sample, sample, None, b"\xff!").slice(1, 3)
        if wrap == "large":
            array = array.cast(pa.large_binary())
        decoded = decode(array)
        assert (decoded.type, decoded.to_pylist()) == (family.arrow_type, [value, value, None])
        assert decode(array.slice(0, 2)).to_pylist() == [value, value]


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        *[("boolean", bad) for bad in (b"", b"true", b"T", b"1", b"\0")],
        *[(name, bad) for name in ("smallint", "integer", "bigint", "oid") for bad in
          (b"", b"-", b"x", b"1.0", b" 1", b"1 ", b"0x10", b"1_0", b"1-1", b"--1", b"1\0", "\u0661".encode(), b"NaN")],
        ("smallint", b"32768"), ("integer", b"2147483648"), ("integer", b"-2147483649"),
        ("bigint", b"9223372036854775808"), ("oid", b"4294967296"), ("xid", b"-1"),
        *[(name, bad) for name in ("real", "double precision") for bad in
          (b"", b"x", b"nan", b"inf", b"1e999", b"-1e999", b"1e-999", b"0x1p3", b"1,5", b" 1", b"1e", b"NaNaN", b"infinity")],
        *[("numeric", bad) for bad in (b"", b".", b"1.", b".5", b"1e5", b"1,5", b"nan", b"--1", b"1\n", b"1.5.5", b"+Infinity")],
        *[("bytea", bad) for bad in (rb"\x0", rb"\x0g", rb"\x\xc3", rb"\\\ ", rb"a\b", rb"\400", rb"\12")],
        *[("uuid", bad) for bad in (b"", b"00112233445566778899aabbccddeeff", b"00112233-4455-6677-8899-aabbccddeefg")],
    ],
)  # fmt: skip
def test_text_that_is_none_of_the_types_is_refused_without_showing_it(name, bad):
    """C5 (22P02), absence_is_typed and names_are_data: no NULL, no guess, no value in the
    message.
    """
    good = SAMPLES[name][0]
    with pytest.raises(ProtocolError) as caught:
        from_text(name, good, None, bad)
    assert caught.value.message == f"invalid input syntax for type {name}"
    assert caught.value.sqlstate == "22P02"
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        *[("date", bad) for bad in (b"", b"02/03/2024", b"02.03.2024", b"Sat 02 Mar", b"2024-3-2", b"2024-03-02 AD", b"today")],
        *[("time without time zone", bad) for bad in (b"", b"1:00", b"01:00", b"01:00:00 PM", b"01:00:00+00", b"01:00:00.1234567")],
        *[("time with time zone", bad) for bad in (b"01:00:00", b"01:00:00 UTC", b"01:00:00Z")],
        *[("timestamp without time zone", bad) for bad in (b"2024-03-02", b"2024-03-02T01:00:00", b"2024-03-02 01:00:00+00")],
        *[("timestamp with time zone", bad) for bad in
          (b"2024-03-02 01:00:00", b"2024-03-02 01:00:00+01", b"2024-03-02 01:00:00 UTC", b"2024-03-02 BC 01:00:00+00")],
        *[("interval", bad) for bad in (b"", b"P1D", b"@ 1 day", b"1-2", b"1 2:03:04", b"1 day ", b" 1 day", b"1 week", b"1 day ago")],
    ],
)  # fmt: skip
def test_dates_and_times_of_another_style_are_refused_with_the_settings_to_use(name, bad):
    """C5 (22007): a target that keeps text would keep the wrong day."""
    with pytest.raises(ProtocolError) as caught:
        from_text(name, SAMPLES[name][0], bad)
    assert caught.value.message == f"invalid input syntax for type {name.removesuffix(' without time zone')}"
    assert caught.value.sqlstate == "22007"
    assert "datestyle ISO, TimeZone UTC" in (caught.value.hint or "")


@pytest.mark.parametrize("bad", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"a\0b"])
@pytest.mark.parametrize("type_oid", [*(oid for name, oid in OIDS.items() if name != "bytea"), 16_400])
def test_text_that_is_not_utf8_or_has_a_zero_byte_is_refused(type_oid, bad):
    """C5: the publisher encodes for us in UTF8 and has no zero byte; a type may complain of its
    syntax first.
    """
    with pytest.raises(ProtocolError) as caught:
        family_of(type_oid).decode_text(bytes_of(bad))
    assert caught.value.sqlstate in {"22021", "22P02", "22007"}
    if caught.value.sqlstate == "22021":
        assert caught.value.message == 'invalid byte sequence for encoding "UTF8"'


def test_free_text_is_refused_for_its_encoding():
    for name in ("text", "json", "jsonb", '"char"'):
        with pytest.raises(ProtocolError, match="invalid byte sequence") as caught:
            from_text(name, b"\xff")
        assert caught.value.sqlstate == "22021"


FIXED_WIDTH = {
    "boolean": 1, "smallint": 2, "integer": 4, "bigint": 8, "oid": 4, "xid": 4, "cid": 4, "real": 4, "double precision": 8,
    '"char"': 1, "uuid": 16, "date": 4, "time without time zone": 8, "time with time zone": 12,
    "timestamp without time zone": 8, "timestamp with time zone": 8, "interval": 16,
    "point": 16, "lseg": 32, "box": 32, "line": 24, "circle": 24, "macaddr": 6, "macaddr8": 8, "pg_lsn": 8, "tid": 6, "xid8": 8,
}  # fmt: skip


@pytest.mark.parametrize("name", FIXED_WIDTH)
def test_binary_values_of_another_length_are_refused_with_the_column(name):
    """C5 (22P03); two wrong lengths that add up to a right one are as wrong."""
    good = SAMPLES[name][1]
    assert len(good) == FIXED_WIDTH[name]
    for bad in ((good[:-1],), (good + b"\0",), (b"",), (good[:-1], good + b"\0"), (good, b"")):
        with pytest.raises(ProtocolError) as caught:
            decode_column(OIDS[name], bytes_of(*bad), binary=True, column=3)
        assert caught.value.message == "incorrect binary data format in logical replication column 3"
        assert caught.value.sqlstate == "22P03"
        assert name in (caught.value.detail or "")


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"\0\1\0\0\0\0\0",
        struct.pack(">HhHH", 1, 0, 0, 0),
        struct.pack(">HhHHHH", 1, 0, 0, 0, 1, 1),
        struct.pack(">HhHHH", 1, 0, 0, 0, 10_000),
        struct.pack(">HhHHH", 1, 0, 0x1234, 0, 1),
        struct.pack(">HhHHH", 1, 0, 0, 0x4000, 1),
    ],
)
def test_binary_numerics_that_no_server_sends_are_refused(bad):
    """C5: lengths, digits, signs and scales as numeric_recv checks them."""
    with pytest.raises(ProtocolError, match="incorrect binary data format"):
        from_binary("numeric", SAMPLES["numeric"][1], bad)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (struct.pack(">HhHH", 0, 0, 0, 0), "0"),
        (struct.pack(">HhHH", 0, 0, 0, 3), "0.000"),
        (struct.pack(">HhHHH", 1, 2, 0, 0, 1), "100000000"),
        (struct.pack(">HhHHH", 1, -2, 0, 8, 12), "0.00000012"),
        (struct.pack(">HhHHH", 1, -1, 0, 2, 1299), "0.12"),
        (struct.pack(">HhHHH", 1, -1, 0x4000, 2, 99), "0.00"),
        (struct.pack(">HhHHH", 1, 0, 0x4000, 0, 7), "-7"),
        (struct.pack(">HhHH", 0, 0, 0xC000, 0), "NaN"),
        (struct.pack(">HhHH", 0, 0, 0xF000, 32), "-Infinity"),
    ],
)
def test_binary_numerics_show_their_scale(value, expected):
    """Digits beyond the scale are cut, as numeric_recv does, and zero has no sign."""
    assert from_binary("numeric", value) == [expected]


@pytest.mark.parametrize("name", [name for name in SAMPLES if name not in UNBOUNDED])
def test_bytes_too_many_and_too_few_are_refused_everywhere(name):
    """C5 (22P03): every beginning of a value, and the value with something behind it."""
    good = SAMPLES[name][1]
    for bad in (*(good[:size] for size in range(len(good))), good + b"\0"):
        with pytest.raises(ProtocolError) as caught:
            from_binary(name, good, bad)
        assert caught.value.sqlstate == "22P03"
        assert caught.value.message.startswith("incorrect binary data format for type")


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("bit", b"\xff\xff\xff\xff"),
        ("path", b"\2\0\0\0\1" + doubles(0, 0)), ("path", b"\0\0\0\0\0"), ("polygon", b"\0\0\0\0"), ("polygon", b"\xff\xff\xff\xff"),
        ("line", doubles(0, 0, 1)), ("circle", doubles(0, 0, -1)),
        ("inet", b"\x0a\x20\0\4\1\2\3\4"), ("inet", b"\2\x21\0\4\1\2\3\4"), ("inet", b"\3\x20\0\4\1\2\3\4"), ("cidr", b"\2\x08\1\4\n\0\0\1"),
        ("tsquery", b"\0\0\0\1\2\2"), ("tsquery", b"\0\0\0\1\2\5"), ("tsquery", b"\0\0\0\1\3\0"), ("tsquery", b"\0\0\0\1\1\x10\0a\0"),
        ("tsquery", b"\0\0\0\2\1\0\0a\0\1\0\0b\0"),
        ("pg_snapshot", struct.pack(">i4Q", 2, 3, 9, 6, 4)), ("pg_snapshot", struct.pack(">i3Q", 1, 3, 9, 9)),
        ("pg_snapshot", struct.pack(">i2Q", 0, 0, 3)), ("pg_snapshot", struct.pack(">i2Q", 0, 4, 3)), ("pg_snapshot", struct.pack(">i2Q", -1, 3, 3)),
        ("integer[]", array_of(20, (b"\0\0\0\1",), (1, 1))), ("integer[]", array_of(23, (b"\0\1",), (1, 1))),
        ("integer[]", array_of(23, (), (-1, 1))), ("integer[]", array_of(23, (None,), (1, 1))[:-4] + b"\xff\xff\xff\xfe"),
        ("integer[]", array_of(23, (None,), (1, 2**31 - 1))), ("integer[]", array_of(23, (), (2**31 - 1, 0))),
        ("integer[]", array_of(23, (None,), *[(1, 1)] * 7)), ("integer[]", b"\0\0\0\0\0\0\0\2\0\0\0\x17"),
        ("int2vector", array_of(21, (None,), (1, 0))), ("int2vector", array_of(21, (b"\0\1",), (1, 1))), ("int2vector", array_of(21, (b"\0\1",), (1, 0), (1, 0))),
        ("int4range", b"\2" + sized(None, b"\0\0\0\3")), ("int4range", b"\2" + sized(b"\1", b"\0\0\0\3")),
        ("int4multirange", b"\xff\xff\xff\xff"), ("int4multirange", b"\0\0\0\1" + sized(b"\2")), ("int4multirange", b"\x7f\xff\xff\xff"),
    ],
)  # fmt: skip
def test_binary_values_that_no_server_sends_are_refused(name, bad):
    """C5 (22P03): what the receive functions check, and never a text made of it."""
    with pytest.raises(ProtocolError, match="incorrect binary data format for type") as caught:
        from_binary(name, SAMPLES[name][1], bad)
    assert caught.value.sqlstate == "22P03"
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("text[]", array_of(25, (b"\xff",), (1, 1))),
        ("tsvector", b"\0\0\0\1\xff\0\0\0"),
        ("tsquery", b"\0\0\0\1\1\0\0\xff\0"),
    ],
)
def test_text_inside_of_binary_values_is_utf8(name, bad):
    with pytest.raises(ProtocolError, match="invalid byte sequence") as caught:
        from_binary(name, bad)
    assert caught.value.sqlstate == "22021"


def test_arrays_of_a_column_keep_to_themselves():
    """All elements are decoded at once: NULLs, empty arrays and other dimensions between them shift
    nothing.
    """
    one, two = b"\0\0\0\1", b"\0\0\0\2"
    values = (
        array_of(23, (None, one), (2, 1)), None, array_of(23, ()), array_of(23, (one, two, two, None), (2, 1), (2, -1)),
        array_of(23, (), (0, 1), (3, 1)), array_of(23, (two,), (1, 1), (1, 1), (1, 1)),
    )  # fmt: skip
    assert from_binary("integer[]", *values) == [
        "{NULL,1}",
        None,
        "{}",
        "[1:2][-1:0]={{1,2},{2,NULL}}",
        "{}",
        "{{{2}}}",
    ]


@pytest.mark.parametrize("name", ["jsonb", "jsonpath"])
@pytest.mark.parametrize("bad", [b"", b"\2{}", b"{}"])
def test_another_version_of_json_is_refused(name, bad):
    with pytest.raises(ProtocolError) as caught:
        from_binary(name, SAMPLES[name][1], bad)
    assert caught.value.message == f"unsupported {name} version number"


def test_every_byte_is_a_char():
    """``"char"``: charout writes zero as nothing and bytes above 127 in octal."""
    decoded = from_binary('"char"', *(bytes([byte]) for byte in range(256)))
    assert (decoded[0], decoded[65], decoded[127], decoded[128], decoded[255]) == ("", "A", "\x7f", r"\200", r"\377")


def test_both_formats_of_bytea_may_stand_in_one_column():
    """bytea_output may change between two transactions of a batch; a value in escape format never
    starts as hex does.
    """
    texts = (rb"\x4142", b"AB", None, b"", rb"\x", rb"\\x41", rb"\000\377\\", b"a\nb", rb"\x00")
    expected = [b"AB", b"AB", None, b"", b"", rb"\x41", b"\0\xff\\", b"a\nb", b"\0"]
    assert from_text("bytea", *texts) == expected


def test_a_nan_has_one_bit_pattern():
    """Equal keys have equal bytes: -NaN (what x86 computes) and NaN are the same value to
    PostgreSQL.
    """
    for name, wire, patterns in (
        ("real", ">u4", (0x7FC00000, 0xFFC00000, 0x7F800001)),
        ("double precision", ">u8", (0x7FF8 << 48, 0xFFF8 << 48)),
    ):
        family = family_of(OIDS[name])
        binary = family.decode_binary(bytes_of(*(np.array(pattern, wire).tobytes() for pattern in patterns)))
        text = family.decode_text(bytes_of(*[b"NaN"] * len(patterns)))
        assert binary.buffers()[1].to_pybytes()[: binary.nbytes] == text.buffers()[1].to_pybytes()[: text.nbytes]


def test_negative_zero_stays_negative():
    assert [str(value) for value in from_text("real", b"-0", b"0")] == ["-0.0", "0.0"]
    assert [str(value) for value in from_binary("double precision", struct.pack(">d", -0.0))] == ["-0.0"]


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("date", struct.pack(">i", -2_451_546)),
        ("date", struct.pack(">i", 2_145_031_949)),
        ("timestamp without time zone", struct.pack(">q", -211_813_488_000_000_001)),
        ("timestamp with time zone", struct.pack(">q", 9_223_371_331_200_000_000)),
        ("time without time zone", struct.pack(">q", -1)),
        ("time without time zone", struct.pack(">q", 86_400_000_001)),
        ("time with time zone", struct.pack(">qi", 86_400_000_001, 0)),
        ("time with time zone", struct.pack(">qi", 0, 57_600)),
        ("time with time zone", struct.pack(">qi", 0, -57_600)),
    ],
)
def test_moments_that_postgresql_does_not_have_are_refused(name, bad):
    with pytest.raises(ProtocolError, match="out of range"):
        from_binary(name, SAMPLES[name][1], bad)


def test_the_first_and_last_moments_and_the_infinities_are_written():
    """One value beyond the ordinary years changes how the whole column is written, and not what."""
    dates = (-2_451_545, -730_120, -730_119, 0, 2_921_939, 2_921_940, 2_145_031_948, -(2**31), 2**31 - 1)
    expected = (
        "4714-11-24 BC", "0001-12-31 BC", "0001-01-01", "2000-01-01", "9999-12-31", "10000-01-01", "5874897-12-31",
        "-infinity", "infinity",
    )  # fmt: skip
    packed = [struct.pack(">i", day) for day in dates]
    assert from_binary("date", *packed) == list(expected)
    assert [from_binary("date", day)[0] for day in packed] == list(expected)


def test_every_family_reads_the_binary_form():
    assert all(family.reads_binary for family in FAMILIES)


def test_only_names_money_and_the_servers_own_statistics_come_unread():
    """A12: what has no send function comes as text, so it is no reason to have everything
    as text.
    """
    unread = {type_name(oid) for oid in BUILT_IN_TYPES if comes_unread(oid)}
    names = {
        "proc",
        "procedure",
        "oper",
        "operator",
        "class",
        "type",
        "config",
        "dictionary",
        "namespace",
        "role",
        "collation",
    }
    assert unread == {
        *(f"reg{name}{array}" for name in names for array in ("", "[]")),
        "money", "money[]", "aclitem[]", "gtsvector[]",
        "pg_node_tree", "pg_ndistinct", "pg_dependencies", "pg_mcv_list", "pg_brin_bloom_summary", "pg_brin_minmax_multi_summary",
    }  # fmt: skip
    assert comes_unread(16_400)


@pytest.mark.parametrize("type_oid", [790, 791, 2205, 2210, 16_400])
def test_a_type_without_a_family_is_its_text_and_its_binary_form_is_refused(type_oid):
    """C5, refuse_not_guess: money's decimals are the publisher's lc_monetary's, a regclass's name
    and an own type its catalog's.
    """
    family = family_of(type_oid)
    assert family.arrow_type == pa.string()
    assert family.decode_text(bytes_of("{ü}".encode(), None)).to_pylist() == ["{ü}", None]
    assert not family.reads_binary
    with pytest.raises(NotSupportedError, match="in binary format") as caught:
        family.decode_binary(bytes_of(b"\0"))
    assert type_name(type_oid) in caught.value.message
    assert "binary = false" in (caught.value.hint or "")
    assert family.decode_binary(bytes_of(None)).to_pylist() == [None]


def test_decode_column_takes_a_text_column_of_a_binary_stream():
    """A12."""
    assert decode_column(1033, bytes_of(b"=r/me"), binary=False, column=1).to_pylist() == ["=r/me"]
    assert decode_column(23, bytes_of(b"\0\0\0\1"), binary=True, column=1).to_pylist() == [1]


def test_decode_column_leaves_errors_that_are_no_format_errors():
    with pytest.raises(ProtocolError, match=r"^date out of range$"):
        decode_column(1082, bytes_of(struct.pack(">i", 2_145_031_949)), binary=True, column=1)


def test_no_type_belongs_to_two_families():
    oids = [oid for family in FAMILIES for oid in family.oids]
    assert len(oids) == len(set(oids))


def test_the_output_function_writes_what_the_input_function_read_as_the_decoders_do():
    """C5: a type's text is written in one way, whether the value came as bytes, as text, or was
    computed.
    """
    written = 0
    for name, (_, binary, _) in SAMPLES.items():
        form = form_of(OIDS[name])
        if form is None or not pa.types.is_string(family_of(OIDS[name]).arrow_type):
            continue
        (text,) = from_binary(name, binary)
        assert form.to_text(form.from_text(text, -1)) == text, name
        written += 1
    assert written > 20


def test_families_travel_to_spark_executors():
    for family in (*FAMILIES, family_of(16_400)):
        copy = pickle.loads(pickle.dumps(family))
        assert (copy.name, copy.oids, copy.arrow_type) == (family.name, family.oids, family.arrow_type)
    assert pickle.loads(pickle.dumps(family_of(23))).decode_text(bytes_of(b"1")).to_pylist() == [1]


def test_type_names_are_postgresqls():
    assert [type_name(oid) for oid in (20, 1184, 1015, 18, 16_400)] == [
        "bigint",
        "timestamp with time zone",
        "character varying[]",
        '"char"',
        "type with OID 16400",
    ]

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
from subscriber.types import FAMILIES, decode_column, family_of, type_name

OIDS = {name: oid for family in FAMILIES for oid in family.oids for name in [type_name(oid)]}


def bytes_of(*values: bytes | None) -> pa.BinaryArray:
    return pa.array(values, type=pa.binary())


def from_text(name: str, *values: bytes | None) -> Any:
    return family_of(OIDS[name]).decode_text(bytes_of(*values)).to_pylist()


def from_binary(name: str, *values: bytes | None) -> Any:
    return family_of(OIDS[name]).decode_binary(bytes_of(*values)).to_pylist()


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
}
"""Text, binary and Arrow value of one value of each type, as PostgreSQL 18 sends them."""


def test_every_type_has_a_sample():
    assert set(SAMPLES) == set(OIDS)


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
    """C5 (22P02), absence_is_typed and names_are_data: no NULL, no guess, no value in the message."""
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
@pytest.mark.parametrize("type_oid", [*(oid for name, oid in OIDS.items() if name != "bytea"), 869, 16_400])
def test_text_that_is_not_utf8_or_has_a_zero_byte_is_refused(type_oid, bad):
    """C5: the publisher encodes for us in UTF8 and has no zero byte; a type may complain of its syntax first."""
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
    """bytea_output may change between two transactions of a batch; a value in escape format never starts as hex does."""
    texts = (rb"\x4142", b"AB", None, b"", rb"\x", rb"\\x41", rb"\000\377\\", b"a\nb", rb"\x00")
    expected = [b"AB", b"AB", None, b"", b"", rb"\x41", b"\0\xff\\", b"a\nb", b"\0"]
    assert from_text("bytea", *texts) == expected


def test_a_nan_has_one_bit_pattern():
    """Equal keys have equal bytes: -NaN (what x86 computes) and NaN are the same value to PostgreSQL."""
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


@pytest.mark.parametrize("type_oid", [869, 1007, 790, 3904, 5069, 16_400])
def test_a_type_without_a_family_is_its_text_and_its_binary_form_is_refused(type_oid):
    """C5, refuse_not_guess: inet, integer[], money, int4range, xid8 and an extension's type."""
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
    assert decode_column(869, bytes_of(b"::1"), binary=False, column=1).to_pylist() == ["::1"]
    assert decode_column(23, bytes_of(b"\0\0\0\1"), binary=True, column=1).to_pylist() == [1]


def test_decode_column_leaves_errors_that_are_no_format_errors():
    with pytest.raises(ProtocolError, match=r"^date out of range$"):
        decode_column(1082, bytes_of(struct.pack(">i", 2_145_031_949)), binary=True, column=1)


def test_no_type_belongs_to_two_families():
    oids = [oid for family in FAMILIES for oid in family.oids]
    assert len(oids) == len(set(oids))


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

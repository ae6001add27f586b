"""The type families as a whole (A12, C5, absence_is_typed): what holds for every type.

A value of each type is in tests/type_samples.py. That both forms of a value agree for many values
is shown against real servers in tests/conformance.
"""

from __future__ import annotations

import pickle
import struct

import pyarrow as pa
import pytest

from subscriber.base.errors import NotSupportedError, ProtocolError
from subscriber.postgres.types.oids import BUILT_IN_TYPES, ELEMENT_TYPES, type_name
from subscriber.postgres.types.registry import FAMILIES, comes_unread, decode_column, family_of, form_of, send_of
from tests.type_samples import ARRAYS, OIDS, SAMPLES, bytes_of, from_binary, from_text

UNBOUNDED = {
    "text", "character varying", "character", "name", "refcursor", "json", "jsonb", "jsonpath", "xml", "bytea", "numeric", "boolean",
}  # fmt: skip
"""Types of which every length is a value, or whose errors have a test of their own."""


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
def test_the_send_function_writes_the_sample(name):
    """A11."""
    text, binary, _ = SAMPLES[name]
    send = send_of(OIDS[name])
    assert send is not None
    assert send(text.decode()) == (b"\x10" + binary[1:] if name == "numrange" else binary)


@pytest.mark.parametrize("oid", [790, 1033, 2205, 16400])
def test_no_send_function_is_known_for_money_and_for_types_that_name_objects(oid):
    """A12."""
    assert send_of(oid) is None


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


@pytest.mark.parametrize("name", [name for name in SAMPLES if name not in UNBOUNDED])
def test_bytes_too_many_and_too_few_are_refused_everywhere(name):
    """C5 (22P03): every beginning of a value, and the value with something behind it."""
    good = SAMPLES[name][1]
    for bad in (*(good[:size] for size in range(len(good))), good + b"\0"):
        with pytest.raises(ProtocolError) as caught:
            from_binary(name, good, bad)
        assert caught.value.sqlstate == "22P03"
        assert caught.value.message.startswith("incorrect binary data format for type")


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
    oids = [family.oid for family in FAMILIES]
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
        assert (copy.name, copy.oid, copy.arrow_type) == (family.name, family.oid, family.arrow_type)
    assert pickle.loads(pickle.dumps(family_of(23))).decode_text(bytes_of(b"1")).to_pylist() == [1]

"""bytea: the examples of the manual (9.5), encodings, digests, and errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.filter_expressions import failure, value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # The tables of binary string functions.
        (r"'\x123456'::bytea || '\x789a00bcde'::bytea", r"\x123456789a00bcde"),
        (r"bit_length('\x123456'::bytea)", "24"),
        (r"btrim('\x1234567890'::bytea, '\x9012'::bytea)", r"\x345678"),
        (r"ltrim('\x1234567890'::bytea, '\x9012'::bytea)", r"\x34567890"),
        (r"rtrim('\x1234567890'::bytea, '\x9012'::bytea)", r"\x12345678"),
        (r"octet_length('\x123456'::bytea)", "3"),
        (r"overlay('\x1234567890'::bytea placing '\002\003'::bytea from 2 for 3)", r"\x12020390"),
        (r"overlay('\x1234567890'::bytea placing '\x0203'::bytea from 2)", r"\x1202037890"),
        (r"position('\x5678'::bytea in '\x1234567890'::bytea)", "3"),
        (r"position('\x79'::bytea in '\x1234567890'::bytea)", "0"),
        (r"position('\x'::bytea in '\x12'::bytea)", "1"),
        (r"substring('\x1234567890'::bytea from 3 for 2)", r"\x5678"),
        (r"substring('\x1234567890'::bytea from 3)", r"\x567890"),
        (r"substr('\x1234567890'::bytea, 3, 2)", r"\x5678"),
        (r"substr('\x1234567890'::bytea, -1, 3)", r"\x12"),
        (r"bit_count('\x1234567890'::bytea)", "15"),
        (r"crc32('abc'::bytea)", "891568578"),
        (r"crc32c('abc'::bytea)", "910901175"),
        (r"get_bit('\x1234567890'::bytea, 30)", "1"),
        (r"get_byte('\x1234567890'::bytea, 4)", "144"),
        (r"length('\x1234567890'::bytea)", "5"),
        (r"md5('Th\000omas'::bytea)", "8ab2d3c9689aaf18b4958c334c82d8b1"),
        (r"reverse('\xabcd'::bytea)", r"\xcdab"),
        (r"set_bit('\x1234567890'::bytea, 30, 0)", r"\x1234563890"),
        (r"set_byte('\x1234567890'::bytea, 4, 64)", r"\x1234567840"),
        (r"set_byte('\x1234567890'::bytea, 4, 256 + 64)", r"\x1234567840"),
        ("sha224('abc'::bytea)", r"\x23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"),
        ("sha256('abc'::bytea)", r"\xba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (
            "sha384('abc'::bytea)",
            r"\xcb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
        ),
        (
            "sha512('abc'::bytea)",
            (
                "\\xddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd"
                "454d4423643ce80e2a9ac94fa54ca49f"
            ),
        ),
        # encode and decode.
        (r"encode('123\000\001', 'base64')", "MTIzAAE="),
        ("decode('MTIzAAE=', 'base64')", r"\x3132330001"),
        (r"encode('123\000\001\377\\', 'escape')", r"123\000\x01\377\\".replace(r"\x01", "\x01")),
        (r"decode('a\000\\b', 'escape')", r"\x61005c62"),
        (r"encode('\xABCD', 'hex')", "abcd"),
        ("decode('Ab cD', 'HEX')", r"\xabcd"),
        (r"encode(decode(repeat('00', 58), 'hex'), 'base64')", "A" * 76 + "\n" + "AA=="),
        # Integers, which PostgreSQL 18 casts.
        ("1234::smallint::bytea", r"\x04d2"),
        ("1234::bytea", r"\x000004d2"),
        ("(-1)::bigint::bytea", r"\xffffffffffffffff"),
        (r"'\x8000'::bytea::smallint", "-32768"),
        (r"'\x04d2'::bytea::integer", "1234"),
        (r"'\xff'::bytea::integer", "255"),
        (r"'\x'::bytea::bigint", "0"),
        (r"'\x8000000000000000'::bytea::bigint", "-9223372036854775808"),
        # Bytes are compared without a sign; a prefix comes first.
        (r"'\x7f'::bytea < '\x80'::bytea", "t"),
        (r"'\x01'::bytea < '\x0100'::bytea", "t"),
        (r"bytea_larger('\x02'::bytea, '\x01ff'::bytea)", r"\x02"),
        ("NULL::bytea || 'a'", None),
        ("sha256(NULL)", None),
    ],
)
def test_binary_strings(expression, expected):
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "sqlstate", "message"),
    [
        (r"get_byte('\x12'::bytea, 1)", "2202E", "index out of valid range"),
        (r"set_byte('\x12'::bytea, -1, 0)", "2202E", "index out of valid range"),
        (r"get_bit('\x12'::bytea, 8)", "2202E", "index out of valid range"),
        (r"set_bit('\x12'::bytea, 8, 1)", "2202E", "index out of valid range"),
        (r"set_bit('\x12'::bytea, 7, 2)", "22023", "new bit must be 0 or 1"),
        (r"substr('\x12'::bytea, 1, -1)", "22011", "negative substring length not allowed"),
        (r"overlay('\x12'::bytea placing '\x' from 0)", "22011", "negative substring length not allowed"),
        (r"'\x010000'::bytea::smallint", "22003", "smallint out of range"),
        (r"'\x0100000000'::bytea::integer", "22003", "integer out of range"),
        (r"'\x010000000000000000'::bytea::bigint", "22003", "bigint out of range"),
        (r"encode('\x12', 'base32')", "22023", "unrecognized encoding"),
        ("decode('12', 'base32')", "22023", "unrecognized encoding"),
        ("decode('MTI!', 'base64')", "22023", "invalid symbol found while decoding base64 sequence"),
        ("decode('M=', 'base64')", "22023", 'unexpected "=" while decoding base64 sequence'),
        ("decode('MTI', 'base64')", "22023", "invalid base64 end sequence"),
        ("decode('1', 'hex')", "22023", "invalid hexadecimal data: odd number of digits"),
        ("decode('1g', 'hex')", "22023", "invalid hexadecimal digit"),
        (r"decode('\9', 'escape')", "22P02", "invalid input syntax for type bytea"),
    ],
)
def test_the_error_of_a_binary_string(expression, sqlstate, message):
    assert failure(expression) == (sqlstate, message)


@given(st.binary(max_size=200))
def test_what_is_encoded_is_decoded(content):
    written = f"'\\x{content.hex()}'::bytea"
    for encoding in ("base64", "hex", "escape"):
        assert value(f"decode(encode({written}, '{encoding}'), '{encoding}') = {written}") == "t"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("int4send(258)", "\\x00000102"),
        ("float8send('-0')", "\\x8000000000000000"),
        ("encode(uuid_send('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'), 'hex')", "a0eebc999c0b4ef8bb6d6bb9bd380a11"),
        ("date_send('2000-01-02')", "\\x00000001"),
        ("numeric_send(-1.50)", "\\x000200004000000200011388"),
        ("inet_send('10.1.2.3/8')", "\\x020800040a010203"),
        ("charsend('a'::text::\"char\")", "\\x61"),
        ("boolsend(NULL)", None),
    ],
)
def test_a_send_function_gives_the_bytes_of_a_binary_stream(expression, expected):
    assert value(expression) == expected

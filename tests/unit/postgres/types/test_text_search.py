"""tsvector and tsquery: the bytes of tsvectorsend and tsquerysend, and the texts of
regress/sql/tstypes.sql.
"""

from __future__ import annotations

import struct

import pytest

from tests.type_samples import SAMPLES, from_binary, refused_binary

NOT, AND, OR, PHRASE = b"\2\1", b"\2\2", b"\2\3", b"\2\4"


def vector(*lexemes: tuple[str, list[int]]) -> bytes:
    """The bytes of lexemes and their positions, each with a weight in its two high bits."""
    data = struct.pack(">i", len(lexemes))
    for text, positions in lexemes:
        data += text.encode() + b"\0" + struct.pack(f">H{len(positions)}H", len(positions), *positions)
    return data


def query(*items: bytes) -> bytes:
    """The bytes of a query: operators precede their operands, and the right one the left one."""
    return struct.pack(">i", len(items)) + b"".join(items)


def value(text: str, weights: int = 0, prefix: int = 0) -> bytes:
    return bytes([1, weights, prefix]) + text.encode() + b"\0"


def phrase(distance: int) -> bytes:
    return PHRASE + struct.pack(">H", distance)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (vector(), ""),
        (vector(("1", []), ("2", [])), "'1' '2'"),
        (vector(("w", [5 | 3 << 14, 6 | 2 << 14, 7 | 1 << 14, 8])), "'w':5A,6B,7C,8"),
        (vector(("w", [16383])), "'w':16383"),
        (vector(("Joe's", []), ("a\\b", []), ("é", [])), "'Joe''s' 'a\\\\b' 'é'"),
    ],
)
def test_a_vector_is_lexemes_in_quotes_with_positions_and_weights(data, text):
    assert from_binary("tsvector", data) == [text]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (query(), ""),
        (query(value("1")), "'1'"),
        (query(value("a", 0b1111, 1)), "'a':*ABCD"),
        (query(value("a", 1)), "'a':D"),
        (query(NOT, value("1")), "!'1'"),
        (query(OR, value("2"), value("1")), "'1' | '2'"),
        (query(AND, value("2"), OR, value("1"), value("0")), "( '0' | '1' ) & '2'"),
        (query(OR, value("2"), AND, value("1"), value("0")), "'0' & '1' | '2'"),
        (query(AND, NOT, value("2"), value("1")), "'1' & !'2'"),
        (query(NOT, AND, value("2"), value("1")), "!( '1' & '2' )"),
        (query(NOT, NOT, value("1")), "!!'1'"),
        (query(phrase(1), value("b"), value("a")), "'a' <-> 'b'"),
        (query(phrase(3), value("b"), value("a")), "'a' <3> 'b'"),
        (query(phrase(0), value("b"), value("a")), "'a' <0> 'b'"),
        (query(phrase(1), value("c"), phrase(2), value("b"), value("a")), "'a' <2> 'b' <-> 'c'"),
        (query(phrase(1), phrase(2), value("c"), value("b"), value("a")), "'a' <-> ( 'b' <2> 'c' )"),
        (query(phrase(1), OR, value("c"), value("b"), value("a")), "'a' <-> ( 'b' | 'c' )"),
        (query(AND, value("Joe's"), value("a\\")), "'a\\\\' & 'Joe''s'"),
    ],
)
def test_a_query_has_parentheses_only_where_they_are_necessary(data, text):
    assert from_binary("tsquery", data) == [text]


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("tsvector", b"\xff\xff\xff\xff"),
        ("tsvector", b"\0\0\0\1abc"),
        ("tsvector", b"\0\0\0\1a\0\0\2\0\1"),
        ("tsquery", query(AND)),
        ("tsquery", query(AND, value("a"))),
        ("tsquery", query(NOT)),
        ("tsquery", query(b"\2\5")),
        ("tsquery", query(b"\3\0")),
        ("tsquery", query(value("a", 0b10000))),
        ("tsquery", query(value("a"), value("b"))),
    ],
    ids=["negative count", "no terminator", "missing positions", "no operands", "one operand", "no operand", "operator",
         "kind", "weight", "two queries"],
)  # fmt: skip
def test_bytes_that_the_receive_functions_refuse_are_refused(name, bad):
    error = refused_binary(name, SAMPLES[name][1], bad)
    assert (error.sqlstate, error.message) == ("22P03", f"incorrect binary data format for type {name}")


@pytest.mark.parametrize(("name", "bad"), [("tsvector", b"\0\0\0\1\xff\0\0\0"), ("tsquery", b"\0\0\0\1\1\0\0\xff\0")])
def test_a_lexeme_is_utf8(name, bad):
    error = refused_binary(name, bad)
    assert (error.sqlstate, error.message) == ("22021", 'invalid byte sequence for encoding "UTF8"')

"""Arrays of every built-in type: the bytes of array_send, the form and the equality."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.postgres.types.arrays import Array
from subscriber.postgres.types.registry import form_of
from tests.type_samples import (
    OIDS,
    SAMPLES,
    array_of,
    canonical,
    doubles,
    from_binary,
    read,
    refused,
    refused_binary,
    shown,
)

ONE, TWO = b"\0\0\0\1", b"\0\0\0\2"

# --- form ---------------------------------------------------------------------------------------


def test_an_array_keeps_its_shape_and_bounds():
    assert read("integer[]", "[0:1][2:3]={{1,NULL},{3,4}}") == Array((2, 2), (0, 2), (1, None, 3, 4))
    assert read("text[]", '{"a b",NULL,"NULL"}') == Array((3,), (1,), ("a b", None, "NULL"))
    assert shown("integer[]", "[0:1]={ 0x10,null}") == "[0:1]={16,NULL}"


def test_the_modifier_of_an_array_is_that_of_its_elements():
    name = "timestamp without time zone"
    found = read(f"{name}[]", '{"2024-01-01 00:00:00.6"}', 0)
    assert found.elements == (read(name, "2024-01-01 00:00:01"),)
    assert refused("character varying[]", "{abc}", 2 + 4).sqlstate == "22001"


def test_an_element_that_cannot_be_read_has_its_types_error():
    assert refused("integer[]", "{1,x}").message == "invalid input syntax for type integer"
    assert refused("integer[]", "{1,99999999999}").sqlstate == "22003"


@pytest.mark.parametrize("name", ["json[]", "jsonb[]", '"char"[]', "pg_lsn[]", "point[]", "xml[]"])
def test_arrays_of_types_without_a_known_order_have_no_form(name):
    """A filter that needs it must be refused when it is given."""
    assert form_of(OIDS[name]) is None


# --- equality -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "left", "right", "equal"),
    [
        ("numeric[]", "{1.0,NULL}", "{1.00,NULL}", True),
        ("numeric[]", "{1.0}", "{1.1}", False),
        ("numeric[]", "{1.0}", "[0:0]={1.0}", False),
        ("numeric[]", "{NaN,Infinity}", "{NaN,Infinity}", True),
        ("character[]", '{"a ","NULL"}', '{a,"NULL "}', True),
        ("character[]", '{"NULL"}', "{NULL}", False),
        ("interval[]", '{"1 mon"}', '{"30 days"}', True),
        ("jsonb[]", r'{"{\"a\": 1.0}"}', r'{"{\"a\": 1.00}"}', True),
        ("numrange[]", '{"[1.0,2)"}', '{"[1.00,2.0)"}', True),
        ("double precision[]", "{-0,1}", "{0,1}", True),
        ("text[]", "{a}", '{"a "}', False),
    ],
)
def test_arrays_are_equal_if_their_elements_are(name, left, right, equal):
    assert (canonical(name, left) == canonical(name, right)) is equal


# --- a publisher's bytes ------------------------------------------------------------------------


def test_the_arrays_of_a_column_do_not_influence_each_other():
    """All elements are decoded at once: NULLs, empty arrays and other dimensions between them shift
    nothing.
    """
    values = (
        array_of(23, (None, ONE), (2, 1)),
        None,
        array_of(23, ()),
        array_of(23, (ONE, TWO, TWO, None), (2, 1), (2, -1)),
        array_of(23, (), (0, 1), (3, 1)),
        array_of(23, (TWO,), (1, 1), (1, 1), (1, 1)),
    )
    assert from_binary("integer[]", *values) == [
        "{NULL,1}",
        None,
        "{}",
        "[1:2][-1:0]={{1,2},{2,NULL}}",
        "{}",
        "{{{2}}}",
    ]


@given(st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=5), st.integers(-3, 3))
def test_integers_survive_the_binary_form(elements, lower):
    packed = tuple(None if one is None else struct.pack(">i", one) for one in elements)
    (text,) = from_binary("integer[]", array_of(23, packed, (len(elements), lower)))
    assert read("integer[]", text) == Array((len(elements),), (lower,), tuple(elements))


@given(st.lists(st.none() | st.text('ab ,{}"\\NUL', max_size=3), min_size=1, max_size=5))
def test_texts_survive_the_binary_form(elements):
    """Texts of equal length and of different lengths are read in two ways."""
    packed = tuple(None if one is None else one.encode() for one in elements)
    (text,) = from_binary("text[]", array_of(25, packed, (len(elements), 1)))
    assert read("text[]", text).elements == tuple(elements)


def test_more_elements_than_are_read_together_are_read():
    values = tuple(struct.pack(">i", number) for number in range(1000))
    (text,) = from_binary("integer[]", array_of(23, values, (1000, 1)))
    assert read("integer[]", text).elements == tuple(range(1000))


def test_boxes_are_separated_by_semicolons():
    box = doubles(1, 1, 0, 0)
    assert from_binary("box[]", array_of(603, (box, box), (2, 1))) == ["{(1,1),(0,0);(1,1),(0,0)}"]


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("integer[]", array_of(20, (ONE,), (1, 1))),
        ("integer[]", array_of(23, (b"\0\1",), (1, 1))),
        ("integer[]", array_of(23, (), (-1, 1))),
        ("integer[]", array_of(23, (None,), (1, 1))[:-4] + b"\xff\xff\xff\xfe"),
        ("integer[]", array_of(23, (None,), (1, 2**31 - 1))),
        ("integer[]", array_of(23, (), (2**31 - 1, 0))),
        ("integer[]", array_of(23, (None,), *[(1, 1)] * 7)),
        ("integer[]", b"\0\0\0\0\0\0\0\2\0\0\0\x17"),
        ("integer[]", b"\xff\xff\xff\xff\0\0\0\0\0\0\0\x17"),
        ("int2vector", array_of(21, (None,), (1, 0))),
        ("int2vector", array_of(21, (b"\0\1",), (1, 1))),
        ("int2vector", array_of(21, (b"\0\1",), (1, 0), (1, 0))),
    ],
    ids=["element type", "element", "size", "length", "upper bound", "missing elements", "dimensions", "flags",
         "negative dimensions", "vector with null", "vector from 1", "vector of two dimensions"],
)  # fmt: skip
def test_bytes_that_array_recv_refuses_are_refused(name, bad):
    error = refused_binary(name, SAMPLES[name][1], bad)
    assert error.sqlstate == "22P03"
    assert error.message.startswith("incorrect binary data format for type ")
    assert error.__cause__ is None


def test_a_text_inside_of_an_array_is_utf8():
    error = refused_binary("text[]", array_of(25, (b"\xff",), (1, 1)))
    assert (error.sqlstate, error.message) == ("22021", 'invalid byte sequence for encoding "UTF8"')

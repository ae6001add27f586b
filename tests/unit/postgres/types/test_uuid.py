"""uuid: regress/sql/uuid.sql, and the bytes of uuid_send."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.type_samples import form, from_binary, from_text, order_of, read, refused, refused_text, shown


@pytest.mark.parametrize(
    "text",
    [
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
        "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
        "a0eebc999c0b4ef8bb6d6bb9bd380a11",
        "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
        "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}",
    ],
)
def test_the_notations_of_the_documentation_are_read(text):
    """Chapter 8.12."""
    assert shown("uuid", text) == "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "11111111-1111-1111-1111-111111111111F",
        "{11111111-1111-1111-1111-11111111111}",
        "111-11111-1111-1111-1111-111111111111",
        "{22222222-2222-2222-2222-222222222222 ",
        "11111111-1111-1111-G111-111111111111",
        "11+11111-1111-1111-1111-111111111111",
        "11111111-1111-1111-1111-111111111111-",
        " 11111111-1111-1111-1111-111111111111",
    ],
)
def test_any_other_text_is_refused(text):
    error = refused("uuid", text)
    assert (error.sqlstate, error.message, error.quoting) == ("22P02", "invalid input syntax for type uuid", None)


@given(st.uuids())
def test_every_uuid_survives_each_form(value):
    text = str(value)
    assert (read("uuid", text), form("uuid").to_text(value.bytes)) == (value.bytes, text)
    assert from_text("uuid", text.encode()) == from_binary("uuid", value.bytes) == [text]


def test_uuids_are_ordered_byte_by_byte():
    assert order_of("uuid", str(uuid.UUID(int=255)), str(uuid.UUID(int=256))) < 0


@pytest.mark.parametrize("bad", [b"", b"00112233445566778899aabbccddeeff", b"00112233-4455-6677-8899-aabbccddeefg"])
def test_a_publishers_text_has_hyphens_and_lower_case(bad):
    error = refused_text("uuid", b"00112233-4455-6677-8899-aabbccddeeff", bad)
    assert (error.sqlstate, error.message) == ("22P02", "invalid input syntax for type uuid")

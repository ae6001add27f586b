"""PostgreSQL's ways to read the value of an option (define.c)."""

from __future__ import annotations

import pytest

from subscriber.base.errors import SQLSyntaxError
from subscriber.postgres.sql.cursor import Cursor, read_options
from subscriber.postgres.sql.option_list import OptionList, as_boolean, read_boolean, read_given, read_text

READERS = {"copy_data": read_boolean, "slot_name": read_text}


def given(text: str) -> dict[str, object]:
    found = read_options(Cursor(text))
    return read_given(found.sql, found.given, READERS, "subscription")


def refused(text: str) -> SQLSyntaxError:
    with pytest.raises(SQLSyntaxError) as caught:
        given(text)
    return caught.value


def test_each_option_is_read_by_its_reader():
    assert given("(slot_name = s, copy_data = off)") == {"slot_name": "s", "copy_data": False}
    assert given("(copy_data)") == {"copy_data": True}


def test_an_unknown_option_is_refused():
    error = refused("(copy_data, streaming = on)")
    assert (error.sqlstate, error.message) == ("42601", 'unrecognized subscription parameter: "streaming"')


def test_a_repeated_option_is_refused_at_its_position():
    error = refused("(copy_data, slot_name = a, copy_data = on)")
    assert (error.sqlstate, error.message) == ("42601", "conflicting or redundant options")
    assert error.detail == "At character 28 (line 1)."


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, True), (1, True), (0, False), ("true", True), ("on", True), ("TRUE", True), ("On", True), ("false", False), ("OFF", False),
    ],
)  # fmt: skip
def test_a_boolean_is_read(value, expected):
    assert as_boolean(value) is expected
    assert read_boolean("copy_data", value) is expected


@pytest.mark.parametrize("value", [2, -1, "t", "yes", "1", "", "tru", " on"])
def test_a_value_that_is_not_a_boolean_is_refused(value):
    assert as_boolean(value) is None
    with pytest.raises(SQLSyntaxError) as caught:
        read_boolean("copy_data", value)
    assert (caught.value.sqlstate, caught.value.message) == ("42601", "copy_data requires a Boolean value")


@pytest.mark.parametrize(("value", "text"), [("a", "a"), ("", ""), (5, "5"), (-5, "-5"), ("1.50", "1.50")])
def test_a_number_is_a_text_too(value, text):
    assert read_text("slot_name", value) == text


def test_a_text_is_required():
    with pytest.raises(SQLSyntaxError) as caught:
        read_text("slot_name", None)
    assert (caught.value.sqlstate, caught.value.message) == ("42601", "slot_name requires a parameter")


def test_lists_are_equal_whatever_the_command_and_do_not_show_it():
    """The command may contain a connection string."""
    assert OptionList(sql="password=hunter2") == OptionList()
    assert "hunter2" not in repr(OptionList(sql="password=hunter2"))

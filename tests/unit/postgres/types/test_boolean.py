"""boolean: regress/sql/boolean.sql, and the bytes of boolsend."""

import pytest

from subscriber.postgres.types.integers import parse_bool
from tests.type_samples import form, from_binary, from_text, order_of, read, refused, refused_text


@pytest.mark.parametrize("text", ["t", "tru", "TRUE", "y", "yes", "on", "1", "   t   ", "\ttrue\n"])
def test_the_words_for_true_are_read(text):
    assert read("boolean", text) is True


@pytest.mark.parametrize("text", ["f", "fals", "False", "n", "no", "of", "off", "0", "   f           "])
def test_the_words_for_false_are_read(text):
    assert read("boolean", text) is False


@pytest.mark.parametrize("text", ["", " ", "o", "foo", "tuesday", "yeah", "nay", "on_", "off_", "11", "000", "truer"])
def test_any_other_text_is_refused(text):
    error = refused("boolean", text)
    assert (error.sqlstate, error.message) == ("22P02", "invalid input syntax for type boolean")
    assert error.quoting == f'invalid input syntax for type boolean: "{text}"'


def test_the_output_is_one_letter():
    assert [form("boolean").to_text(value) for value in (True, False)] == ["t", "f"]


def test_false_is_before_true():
    assert order_of("boolean", "f", "t") < 0 < order_of("boolean", "t", "f")
    assert order_of("boolean", "t", "yes") == 0


@pytest.mark.parametrize("bad", [b"", b"true", b"T", b"1", b"\0"])
def test_a_publishers_text_is_only_t_or_f(bad):
    error = refused_text("boolean", b"t", bad)
    assert (error.sqlstate, error.message) == ("22P02", "invalid input syntax for type boolean")


def test_a_byte_that_is_not_zero_is_true():
    """boolrecv takes any byte."""
    assert from_binary("boolean", b"\0", b"\1", b"\xff") == [False, True, True]
    assert from_text("boolean", b"t", b"f") == [True, False]


@pytest.mark.parametrize(
    ("text", "value"), [("on", True), ("OF", False), ("y", True), ("o", None), (" on", None), ("", None)]
)
def test_the_value_of_an_option_has_no_space_around_it(text, value):
    assert parse_bool(text) is value

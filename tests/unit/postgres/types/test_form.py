"""The forms of all types: what is common to their input and output functions."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from subscriber.base.errors import SubscriberError
from subscriber.postgres.types.family import invalid_syntax, sign, without_modifier
from subscriber.postgres.types.registry import form_of
from tests.type_samples import OIDS, SAMPLES, form, read

READERS = [name for name, oid in OIDS.items() if form_of(oid) is not None and not name.endswith(("[]", "range"))]
TEXT_TYPES = {"text", "character varying", "character", "name", '"char"', "bytea"}


@pytest.mark.parametrize("name", [*(name for name in READERS if name not in TEXT_TYPES), "uuid[]", "int4range"])
@pytest.mark.parametrize(
    "text", ["secret", "{secret}", "secret 1984-13-45", '{"secret": 1984', "1984.1.2.3/1984", "1984-13-45"]
)
def test_no_error_shows_the_text_that_was_read(name, text):
    """Invariant names_are_data: the same functions read the values of rows."""
    with pytest.raises(SubscriberError) as caught:
        read(name, text)
    assert "secret" not in caught.value.report()
    assert "1984" not in caught.value.report()


def test_the_error_for_invalid_text_quotes_it_only_for_its_author():
    """B26, names_are_data: the message is for logs, and quoting is PostgreSQL's message."""
    error = invalid_syntax("date", "8 x", sqlstate="22007")
    assert (error.sqlstate, error.message) == ("22007", "invalid input syntax for type date")
    assert error.quoting == 'invalid input syntax for type date: "8 x"'
    assert (invalid_syntax("uuid").sqlstate, invalid_syntax("uuid").quoting) == ("22P02", None)


def test_the_sign_of_a_comparison_is_minus_one_zero_or_one():
    assert [sign(1, 9), sign(9, 9), sign(9, 1), sign("a", "b"), sign(b"b", b"a")] == [-1, 0, 1, -1, 1]


def test_an_input_function_without_modifier_travels_to_spark():
    function = pickle.loads(pickle.dumps(without_modifier(int)))
    assert function("7", 99) == 7


@pytest.mark.parametrize("name", [name for name in READERS if form(name).arrow is not None])
def test_a_form_with_an_arrow_type_holds_its_values_in_it(name):
    """The column form and the form of single values have the same values."""
    text = SAMPLES[name][0].decode()
    column = pa.array([read(name, text)], form(name).arrow)
    assert column.to_pylist() == [read(name, text)]
    from_texts = form(name).from_texts
    if from_texts is not None:
        assert from_texts(pa.array([text])).equals(column)

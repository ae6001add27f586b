"""publication.options: what is given and what it means; error texts are compared with the server's
in tests/conformance.
"""

from __future__ import annotations

import pytest

from subscriber.base.errors import SQLSyntaxError
from subscriber.postgres.publication.publication_statements import read_publication_options
from subscriber.postgres.sql.option_list import Option, OptionList, OptionValue


def read(**given: OptionValue) -> object:
    return read_publication_options(OptionList(tuple(Option(name, value, 0) for name, value in given.items())))


def test_what_is_not_given_is_not_there():
    assert read() == {}
    assert read(publish_via_partition_root=None) == {"via_root": True}


@pytest.mark.parametrize(
    ("written", "operations"),
    [
        ("", set()),
        (" \t", set()),
        ("insert", {"insert"}),
        ('"update" ,\nDelete,delete', {"update", "delete"}),
        ("truncate,insert,update,delete", {"insert", "update", "delete", "truncate"}),
    ],
)
def test_publish_is_a_list_of_identifiers(written, operations):
    """B42"""
    assert read(publish=written) == {"publish": operations}


@pytest.mark.parametrize("written", ["insert,", ",", "insert update", '"insert', '"insert"x', "inserts, "])
def test_a_list_that_is_none_is_refused_before_its_words_are_looked_at(written):
    """B42"""
    with pytest.raises(SQLSyntaxError, match='invalid list syntax in parameter "publish"'):
        read(publish=written)


@pytest.mark.parametrize(
    ("written", "word"), [("inserts", "inserts"), ('"In""s"', 'In"s'), ('""', ""), ('in"s"', 'in"s"')]
)
def test_a_word_that_is_no_operation_is_named(written, word):
    """B42"""
    with pytest.raises(SQLSyntaxError) as caught:
        read(publish=written)
    assert caught.value.message == f'unrecognized value for publication option "publish": "{word}"'


@pytest.mark.parametrize(("value", "meaning"), [("Stored", "stored"), ("none", "none")])
def test_generated_columns_are_stored_or_none(value, meaning):
    """B41"""
    assert read(publish_generated_columns=value) == {"generated_columns": meaning}
    with pytest.raises(SQLSyntaxError, match="invalid value"):
        read(publish_generated_columns="virtual")

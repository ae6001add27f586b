"""Which types read each other's binary form; tests/conformance/test_binary_forms.py compares all
pairs with servers.
"""

import pytest

from subscriber.postgres.types.binary_forms import (
    NO_FORM,
    READ_BY,
    TEXT_FORM,
    BinaryRefusal,
    read_forms,
    reads_form,
    refusal,
)
from subscriber.postgres.types.oids import BUILT_IN_TYPES, type_name
from tests.type_samples import OIDS


@pytest.mark.parametrize(
    ("form", "sent", "reads"),
    [
        ("integer", "integer", True),
        ("bigint", "integer", False),
        ("text", "character varying", True),
        ("text", "json", True),
        ("text", "name", True),
        ("name", "text", False),
        ("text", "jsonb", False),
        ("text", '"char"', False),
        ("oid", "integer", True),
        ("integer", "oid", False),
        ("xid8", "bigint", True),
        ("inet", "cidr", True),
        ("cidr", "inet", True),
        ("bit", "bit varying", True),
        ("timestamp without time zone", "timestamp with time zone", True),
        ("timestamp with time zone", "timestamp without time zone", False),
        ("macaddr8", "macaddr", True),
        ("macaddr", "macaddr8", False),
        ("lseg", "box", True),
        ("box", "lseg", False),
        ("text[]", "character varying[]", False),
    ],
)
def test_a_column_reads_the_forms_that_mean_the_same_value(form, sent, reads):
    assert reads_form(OIDS[form], OIDS[sent]) is reads


def test_a_column_of_another_text_type_reads_texts_and_one_without_receive_function_nothing():
    assert reads_form(TEXT_FORM, OIDS["character varying"])
    assert not any(reads_form(NO_FORM, oid) for oid in BUILT_IN_TYPES)


@pytest.mark.parametrize(
    ("form", "sent", "expected"),
    [
        ("integer", "text", BinaryRefusal("incorrect binary data format in logical replication column 2", "22P03")),
        ("integer", "bigint", BinaryRefusal("incorrect binary data format in logical replication column 2", "22P03")),
        ("bigint", "integer", BinaryRefusal("insufficient data left in message", "08P01")),
        ("macaddr8", "smallint", BinaryRefusal("no data left in message", "08P01")),
        ("bigint[]", "integer[]", BinaryRefusal("binary data has array element type 23 (integer) instead of expected 20 (bigint)", "42804")),
        ("integer[]", "integer", BinaryRefusal("incorrect binary data format in logical replication column 2", "22P03")),
    ],
)  # fmt: skip
def test_a_form_that_is_not_read_has_the_error_of_the_receive_function(form, sent, expected):
    assert refusal(OIDS[form], OIDS[sent], form, 2) == expected


def test_in_a_copy_the_column_has_no_number():
    assert refusal(OIDS["integer"], OIDS["text"], "integer", None).message == "incorrect binary data format"


@pytest.mark.parametrize("form", [NO_FORM, 1033, 3642], ids=["own type", "aclitem", "gtsvector"])
def test_a_column_without_receive_function_is_named_as_declared(form):
    assert refusal(form, OIDS["text"], "my.type", 1) == BinaryRefusal(
        "no binary input function available for type my.type", "42883"
    )


def test_the_documentation_has_every_pair_once():
    pairs = [(sent, form) for group, forms in read_forms() for sent in group for form in forms]
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == {(sent, form) for sent, forms in READ_BY.items() for form in forms}
    for group, forms in read_forms():
        assert list(group) == sorted(group, key=type_name)
        assert list(forms) == sorted(forms, key=type_name)

"""The shape of a relation between two relation messages."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.postgres.schema.publisher_tables import TableAttributes
from subscriber.postgres.schema.stored_shape import Baseline, StoredColumn, StoredShape, columns_of, first_baseline
from tests.frames import relation

OIDS = st.integers(1, 2**32 - 1)


@given(st.builds(Baseline, last=st.integers(0, 1600), files=st.dictionaries(OIDS, OIDS, max_size=4)))
def test_a_baseline_is_read_back_from_its_json(baseline):
    assert Baseline.from_json(baseline.to_json()) == baseline


def test_a_baseline_has_a_form_that_later_versions_can_read():
    """The catalog has stored this form since the first release."""
    stored = {"last": 3, "files": {"16384": 16401}}
    assert json.loads(Baseline(last=3, files={16384: 16401}).to_json()) == stored
    assert Baseline.from_json(json.dumps(stored)) == Baseline(last=3, files={16384: 16401})


def test_a_shape_has_the_names_and_types_of_a_relation_message():
    message = relation("public.t", {"b": "text", "a": "int4"}, ["a"])
    columns = columns_of(message)
    assert columns == (
        StoredColumn(name="b", type_oid=25, type_modifier=-1),
        StoredColumn(name="a", type_oid=23, type_modifier=-1),
    )
    assert StoredShape(columns).names == ("b", "a")


def test_a_shape_does_not_depend_on_the_replica_identity():
    columns = {"a": "int4", "b": "text"}
    assert columns_of(relation("t", columns, ["a"])) == columns_of(relation("t", columns, identity="f"))


@pytest.mark.parametrize(
    ("attributes", "baseline"),
    [
        (TableAttributes(columns=(), last=4, files={1: 2}), Baseline(last=4, files={1: 2})),
        (TableAttributes(columns=(), last=4, files={}, whole=False), None),
        (None, None),
    ],
    ids=["the whole table", "a column list", "the table is unknown"],
)
def test_a_baseline_is_known_where_every_column_is_published(attributes, baseline):
    assert first_baseline(attributes) == baseline

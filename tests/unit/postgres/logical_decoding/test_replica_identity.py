"""The table of section B.3: what is logged of the old row."""

from __future__ import annotations

import pytest

from subscriber.postgres.logical_decoding.heap_tuples import (
    Datum,
    extract_replica_identity,
    key_is_required,
    new_tuple,
)
from subscriber.postgres.logical_decoding.historic_catalog import RelationData
from subscriber.postgres.protocol.messages import NULL, UNCHANGED
from subscriber.postgres.schema.publisher_tables import Identity
from tests.publications import table

ONE, TWO, X, Y = Datum(b"1"), Datum(b"2"), Datum(b"x"), Datum(b"y")
OUT = Datum(b"long", external=True)
INLINE = Datum(b"long")


def relation(identity: Identity = "default", key: str = "a", **properties) -> RelationData:
    return RelationData(table("public.t", {"a": "int4", "b": "text"}, key=list(key), identity=identity, **properties))


@pytest.mark.parametrize(
    ("identity", "key", "before", "after", "update", "delete"),
    [
        ("default", "a", (ONE, X), (ONE, Y), None, (ONE, NULL)),
        ("default", "a", (ONE, X), (TWO, X), (ONE, NULL), (ONE, NULL)),
        ("default", "b", (ONE, OUT), (TWO, OUT), (NULL, INLINE), (NULL, INLINE)),
        ("default", "", (ONE, X), (TWO, X), None, None),
        ("index", "b", (ONE, X), (ONE, Y), (NULL, X), (NULL, X)),
        ("index", "b", (ONE, X), (TWO, X), None, (NULL, X)),
        ("nothing", "a", (ONE, X), (TWO, X), None, None),
        ("full", "", (ONE, OUT), (ONE, OUT), (ONE, INLINE), (ONE, INLINE)),
        ("full", "", (ONE, NULL), (ONE, X), (ONE, NULL), (ONE, NULL)),
    ],
    ids=[
        "same key",
        "new key",
        "key out of line",
        "no key",
        "index",
        "index, same key",
        "nothing",
        "full",
        "full, NULL",
    ],
)
def test_what_is_logged_of_the_old_row(identity, key, before, after, update, delete):
    """B13, B14."""
    of = relation(identity, key)
    required = key_is_required(of, before, after)
    for expected, found in (
        (update, extract_replica_identity(of, before, key_required=required)),
        (delete, extract_replica_identity(of, before, key_required=True)),
    ):
        assert (None if found is None else found.values) == expected


def test_nothing_is_logged_of_a_table_that_is_not_logged():
    temporary = RelationData(
        table("public.t", {"a": "int4"}, key=["a"]).__class__(1, "public", "t", "table", (), persistence="temporary")
    )
    assert extract_replica_identity(temporary, (), key_required=True) is None


def test_an_out_of_line_value_that_is_not_written_again_is_unchanged():
    """B14."""
    of = relation()
    assert new_tuple(of, (TWO, OUT), (ONE, OUT)).values == (TWO, UNCHANGED)
    assert new_tuple(of, (TWO, Datum(b"long", external=True)), (ONE, OUT)).values == (TWO, OUT)
    assert new_tuple(of, (ONE, OUT)).values == (ONE, OUT)
    assert new_tuple(of, (ONE, X), (ONE, X)).values == (ONE, X)

"""The size of a row in memory is PostgreSQL's, and a repr has no value."""

from __future__ import annotations

import pytest

from subscriber.postgres.logical_decoding.heap_tuples import Datum, heap_tuple
from subscriber.postgres.protocol.messages import NULL, UNCHANGED

INT4, TEXT, INT8, BOOL = 23, 25, 20, 16


@pytest.mark.parametrize(
    ("values", "types", "length"),
    [
        ((Datum(b"1"),), (INT4,), 24 + 4),
        ((Datum(b"t"), Datum(b"1")), (BOOL, INT8), 24 + 8 + 8),
        ((Datum(b"abc"),), (TEXT,), 24 + 1 + 3),
        ((Datum(b"1"), Datum(b"x" * 200)), (INT4, TEXT), 24 + 4 + 4 + 200),
        ((NULL, Datum(b"1")), (INT4, INT4), 24 + 4),
        ((*[NULL] * 9, Datum(b"1")), (INT4,) * 10, 32 + 4),
        ((UNCHANGED,), (TEXT,), 24 + 18),
        ((Datum(b"x" * 5000, external=True),), (TEXT,), 24 + 18),
    ],
    ids=["integer", "alignment", "short text", "long text", "NULL", "large bitmap", "unchanged", "out of line"],
)
def test_the_length_is_that_of_a_heap_tuple(values, types, length):
    """E6."""
    assert heap_tuple(values, types).length == length


def test_values_in_the_toast_table_are_counted_by_their_size():
    made = heap_tuple([Datum(b"x" * 5000, external=True), Datum(b"y"), UNCHANGED])
    assert made.external_lengths == (5000,)


def test_a_repr_has_no_value():
    """names_are_data."""
    assert "secret" not in repr(heap_tuple([Datum(b"secret", b"secret")]))

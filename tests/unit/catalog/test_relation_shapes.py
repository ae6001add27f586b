"""The shape with which a relation was last applied."""

from __future__ import annotations

import pytest

from subscriber.catalog.schema_changes import forget_oids, read_shape, store_published_shapes, store_shape
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.postgres.schema.publisher_tables import PublisherColumn, TableAttributes
from subscriber.postgres.schema.stored_shape import Baseline, StoredColumn, StoredShape

T = ("public", "t")
COLUMNS = (StoredColumn("a", 23, -1), StoredColumn('é"', 1700, 655366))
BASELINE = Baseline(last=3, files={16384: 16401})
SHAPE = StoredShape(COLUMNS, BASELINE, oid=4_000_000_000)


def test_a_shape_is_read_back(connection):
    assert read_shape(connection, 1, T) is None
    store_shape(connection, 1, T, SHAPE)
    assert read_shape(connection, 1, T) == SHAPE
    assert read_shape(connection, 2, T) is None
    assert read_shape(connection, 1, ("other", "t")) is None


def test_a_shape_replaces_the_one_before(connection):
    store_shape(connection, 1, T, SHAPE)
    for _ in range(2):
        store_shape(connection, 1, T, StoredShape(COLUMNS[:1]))
        assert read_shape(connection, 1, T) == StoredShape(COLUMNS[:1], None)


def test_a_relation_without_columns_has_a_shape(connection):
    store_shape(connection, 1, T, StoredShape((), BASELINE))
    assert read_shape(connection, 1, T) == StoredShape((), BASELINE)


@pytest.mark.parametrize(
    ("column_list", "whole", "kept", "baseline"),
    [
        (None, True, ["a", "b"], Baseline(4, {})),
        (("b", "g"), True, ["b", "g"], Baseline(4, {})),
        (("b",), False, ["b"], None),
    ],
    ids=["all columns, without generated ones", "a generated column is published", "a column list"],
)
def test_a_table_that_is_not_copied_has_the_publishers_current_shape(connection, column_list, whole, kept, baseline):
    attributes = TableAttributes(
        columns=(
            PublisherColumn("a", 1, 23),
            PublisherColumn("b", 2, 25),
            PublisherColumn("g", 4, 23, generated="stored"),
        ),
        last=4,
        files={},
        whole=whole,
        oid=16384,
    )
    store_published_shapes(connection, 1, [(PublishedTable("public", "t", columns=column_list), attributes)])
    shape = read_shape(connection, 1, T)
    assert shape is not None
    assert (list(shape.names), shape.baseline, shape.oid) == (kept, baseline, 16384)


def test_the_oids_of_a_subscriptions_tables_can_be_forgotten(connection):
    store_shape(connection, 1, T, SHAPE)
    store_shape(connection, 2, T, SHAPE)
    forget_oids(connection, 1)
    assert read_shape(connection, 1, T) == StoredShape(COLUMNS, BASELINE)
    assert read_shape(connection, 2, T) == SHAPE

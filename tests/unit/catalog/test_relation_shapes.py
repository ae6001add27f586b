"""The shape with which a relation was last applied."""

from __future__ import annotations

import pytest

from subscriber.catalog.relation_shapes import (
    forget_all_shapes,
    forget_oids,
    forget_shapes,
    keep_published_shapes,
    keep_shape,
    read_shape,
)
from subscriber.schema.attributes import Attribute, TableAttributes
from subscriber.schema.kept_shape import Baseline, KeptColumn, KeptShape
from subscriber.schema.published_table import PublishedTable

T = ("public", "t")
COLUMNS = (KeptColumn("a", 23, -1), KeptColumn('é"', 1700, 655366))
BASELINE = Baseline(last=3, files={16384: 16401})
SHAPE = KeptShape(COLUMNS, BASELINE, oid=4_000_000_000)


def test_a_shape_is_read_back(connection):
    assert read_shape(connection, 1, T) is None
    keep_shape(connection, 1, T, SHAPE)
    assert read_shape(connection, 1, T) == SHAPE
    assert read_shape(connection, 2, T) is None
    assert read_shape(connection, 1, ("other", "t")) is None


def test_a_shape_replaces_the_one_before(connection):
    keep_shape(connection, 1, T, SHAPE)
    for _ in range(2):
        keep_shape(connection, 1, T, KeptShape(COLUMNS[:1]))
        assert read_shape(connection, 1, T) == KeptShape(COLUMNS[:1], None)


def test_a_relation_without_columns_has_a_shape(connection):
    keep_shape(connection, 1, T, KeptShape((), BASELINE))
    assert read_shape(connection, 1, T) == KeptShape((), BASELINE)


def test_shapes_are_forgotten_by_relation_and_by_subscription(connection):
    names = [("public", name) for name in "tuv"]
    for subid in (1, 2):
        for name in names:
            keep_shape(connection, subid, name, KeptShape(COLUMNS))
    forget_shapes(connection, 1, [("public", "t"), ("public", "unknown")])
    assert [read_shape(connection, 1, name) is None for name in names] == [True, False, False]
    forget_all_shapes(connection, 1)
    assert [read_shape(connection, 1, name) for name in names] == [None] * 3
    assert None not in [read_shape(connection, 2, name) for name in names]


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
            Attribute(number=1, name="a", type_oid=23, type_modifier=-1),
            Attribute(number=2, name="b", type_oid=25, type_modifier=-1),
            Attribute(number=4, name="g", type_oid=23, type_modifier=-1, generated=True),
        ),
        last=4,
        files={},
        whole=whole,
        oid=16384,
    )
    keep_published_shapes(connection, 1, [(PublishedTable("public", "t", columns=column_list), attributes)])
    shape = read_shape(connection, 1, T)
    assert shape is not None
    assert (list(shape.names), shape.baseline, shape.oid) == (kept, baseline, 16384)


def test_the_oids_of_a_subscriptions_tables_can_be_forgotten(connection):
    keep_shape(connection, 1, T, SHAPE)
    keep_shape(connection, 2, T, SHAPE)
    forget_oids(connection, 1)
    assert read_shape(connection, 1, T) == KeptShape(COLUMNS, BASELINE)
    assert read_shape(connection, 2, T) == SHAPE

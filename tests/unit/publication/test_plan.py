"""How the filters of several publications are combined for an operation."""

from __future__ import annotations

import pytest

from subscriber.publication.plan import Opinion, RelationPlan
from tests.frames import relation

A, B, UNFILTERED = Opinion("p", "a > 1"), Opinion("q", "a < 0"), Opinion("r", None)


@pytest.mark.parametrize(
    ("opinions", "filters"),
    [((), ()), ((A,), (A,)), ((A, B), (A, B)), ((A, UNFILTERED, B), ()), ((UNFILTERED,), ())],
    ids=["no publication", "one", "two", "one without a filter", "without a filter"],
)
def test_one_publication_without_a_filter_lets_every_row_pass(opinions, filters):
    """B9, B10a."""
    plan = RelationPlan(relation("public.t", {"a": "int4"}), opinions={"insert": opinions})
    assert plan.filters("insert") == filters
    assert plan.filters("delete") == ()

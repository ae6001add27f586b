"""How the filters of several publications are combined for an operation."""

from __future__ import annotations

import pytest

from subscriber.postgres.publication.combine import PublicationFilter, RelationPlan
from tests.frames import relation

A, B, UNFILTERED = PublicationFilter("p", "a > 1"), PublicationFilter("q", "a < 0"), PublicationFilter("r", None)


@pytest.mark.parametrize(
    ("publication_filters", "filters"),
    [((), ()), ((A,), (A,)), ((A, B), (A, B)), ((A, UNFILTERED, B), ()), ((UNFILTERED,), ())],
    ids=["no publication", "one", "two", "one without a filter", "without a filter"],
)
def test_one_publication_without_a_filter_lets_every_row_pass(publication_filters, filters):
    """B9, B10a."""
    plan = RelationPlan(relation("public.t", {"a": "int4"}), publication_filters={"insert": publication_filters})
    assert plan.filters("insert") == filters
    assert plan.filters("delete") == ()

"""The features of a server by its version."""

from __future__ import annotations

import pytest

from subscriber.postgres.schema.server_features import ServerFeatures


@pytest.mark.parametrize(
    ("server", "version"),
    [(100023, 1), (130005, 1), (140000, 2), (149999, 2), (150000, 3), (160000, 4), (180006, 4), (190000, 4)],
)
def test_each_server_is_asked_for_the_highest_protocol_version_that_it_supports(server, version):
    """Rule A33."""
    assert ServerFeatures(server).protocol_version == version


def test_a_feature_is_there_from_its_release_on():
    assert not ServerFeatures(149999).row_filters
    assert ServerFeatures(150000).row_filters
    assert ServerFeatures.row_filters == 150000
    assert ServerFeatures(180004).major == 18

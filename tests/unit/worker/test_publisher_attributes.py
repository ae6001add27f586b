"""The attributes of a publisher's table, asked of the publisher only if the table is published.
What the publisher answers is tested in tests/conformance/test_attributes.py.
"""

from __future__ import annotations

import pytest

from subscriber.base.errors import PublisherUnavailable
from subscriber.worker.refresh_publisher_tables import PublisherAttributes
from tests.frames import relation
from tests.subscriptions import NOWHERE, create_subscription


def test_a_table_that_no_emulated_publication_publishes_has_no_attributes(target, emulated):
    """The publisher, which does not answer, is not asked."""
    ask = PublisherAttributes(target, emulated)
    assert ask(relation("public.elsewhere", {"a": "int4"})) is None


def test_a_table_of_an_emulated_publication_is_asked_for(target, emulated):
    with pytest.raises(PublisherUnavailable):
        PublisherAttributes(target, emulated)(relation("public.t", {"a": "int4"}))


def test_a_table_of_the_servers_publications_is_asked_for(target):
    ask = PublisherAttributes(target, create_subscription(target, conninfo=NOWHERE))
    with pytest.raises(PublisherUnavailable):
        ask(relation("public.t", {"a": "int4"}))

"""The publisher's tables are read again, for emulated publications. With a publisher that answers:
tests/conformance/test_publisher_tables.py and test_emulated_subscription.py.
"""

from __future__ import annotations

import pytest

from subscriber.catalog.kept_publishing import read_publishing
from subscriber.errors import PublisherTablesOutdated, PublisherUnavailable, UsageError
from subscriber.runtime.refresh_publisher_tables import refresh_at_start, refresh_outdated
from tests.frames import relation
from tests.subscriptions import NOWHERE, create_subscription


def test_without_emulated_publications_nothing_is_read_at_the_start(target):
    subscription = create_subscription(target, conninfo="this is not a connection string")
    assert refresh_at_start(target, subscription)


def test_received_changes_are_applied_while_the_publisher_is_away(target, emulated):
    """The stored tables are used then."""
    with target.engine.connect() as connection:
        before = read_publishing(connection, emulated)
    assert refresh_at_start(target, emulated)
    with target.engine.connect() as connection:
        assert read_publishing(connection, emulated) == before


def test_tables_that_were_never_read_cannot_be_used_at_the_start(target):
    with pytest.raises(UsageError, match="have not been read yet"):
        refresh_at_start(target, create_subscription(target, conninfo=NOWHERE, carrier="c"))


def test_an_outdated_table_needs_a_publisher_that_answers(target, emulated):
    outdated = PublisherTablesOutdated("changed", shape=relation("public.t", {"a": "int4"}))
    with pytest.raises(PublisherUnavailable):
        refresh_outdated(target, emulated, outdated)


def test_an_error_without_the_message_that_differs_is_raised_as_it_is(target, emulated):
    """Reading the tables again would not settle it."""
    outdated = PublisherTablesOutdated("changed")
    with pytest.raises(PublisherTablesOutdated) as raised:
        refresh_outdated(target, emulated, outdated)
    assert raised.value is outdated

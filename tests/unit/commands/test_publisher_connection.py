"""Connections to a publisher that fail have libpqwalreceiver's words."""

from __future__ import annotations

import pytest

from subscriber.base.errors import PublisherNotReady, PublisherUnavailable
from subscriber.commands.subscription_slots import connected, replicating

NOBODY = "host=127.0.0.1 port=1 dbname=d"


@pytest.mark.parametrize("connect", [connected, replicating])
def test_a_connection_that_fails_names_the_subscription(connect):
    """C54: ``could not connect to the publisher``."""
    with (
        pytest.raises(PublisherUnavailable, match=r'^subscription "s" could not connect to the publisher: ') as caught,
        connect(NOBODY, "s"),
    ):
        pass
    assert caught.value.message.count("could not connect to the publisher") == 1
    assert (caught.value.sqlstate, caught.value.transient) == ("08006", True)
    assert caught.value.hint


def test_an_error_of_the_block_is_no_error_of_the_connection(publisher):
    error = PublisherNotReady("the slot is not ready")
    with pytest.raises(PublisherNotReady) as caught, connected("host=a", "s"):
        raise error
    assert caught.value is error


def test_the_publisher_is_asked_over_the_connection(publisher):
    with connected("host=a", "s") as found:
        assert (found.version, found.database) == (180000, "shop")

"""The transaction that ALTER SUBSCRIPTION … SKIP names. The texts are those of PostgreSQL's
worker (start_skipping_changes, stop_skipping_changes, clear_subscription_skip_lsn).
"""

from __future__ import annotations

import logging

import pytest

from subscriber.apply.skip import SkipLSN
from subscriber.lsn import INVALID_LSN, LSN

WANTED, OTHER = LSN(0x16B3778), LSN(0x2000000)


@pytest.fixture
def logged(caplog):
    caplog.set_level(logging.INFO)
    return lambda: [(record.levelname, record.getMessage()) for record in caplog.records]


def test_exactly_one_transaction_is_skipped():
    """C40"""
    skip = SkipLSN("sub", WANTED)
    assert skip.covers(WANTED)
    assert not skip.covers(OTHER)


def test_without_a_skip_lsn_nothing_is_skipped(logged):
    skip = SkipLSN("sub", INVALID_LSN)
    assert not skip.covers(INVALID_LSN)
    skip.begin(INVALID_LSN)
    skip.use_up(OTHER, skipped=False)
    assert logged() == []


def test_the_beginning_and_the_end_of_skipping_are_logged(logged):
    skip = SkipLSN("sub", WANTED)
    skip.begin(OTHER)
    assert logged() == []
    skip.begin(WANTED)
    skip.use_up(WANTED, skipped=True)
    assert logged() == [
        ("INFO", "logical replication starts skipping transaction at LSN 0/16B3778"),
        ("INFO", "logical replication completed skipping transaction at LSN 0/16B3778"),
    ]
    assert skip.lsn == INVALID_LSN


def test_a_skip_lsn_that_another_transaction_clears_is_a_warning(logged):
    """C41"""
    skip = SkipLSN("sub", WANTED)
    skip.use_up(OTHER, skipped=False)
    ((level, message),) = logged()
    assert level == "WARNING"
    assert message == (
        'skip-LSN of subscription "sub" cleared: a transaction finished at 0/2000000,'
        " which did not match skip-LSN 0/16B3778"
    )
    assert not skip.covers(WANTED)


def test_a_skip_lsn_is_used_up_once(logged):
    """C41"""
    skip = SkipLSN("sub", WANTED)
    skip.use_up(WANTED, skipped=True)
    skip.use_up(WANTED, skipped=True)
    assert len(logged()) == 1

"""The records of the WAL."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from subscriber.postgres.logical_decoding import wal_records as wal
from tests.output_plugins import row


@pytest.mark.parametrize(("origin_timestamp", "time"), [(None, 5), (0, 0), (-3, -3)])
def test_the_time_of_a_transaction_is_that_at_its_origin(origin_timestamp, time):
    """A16."""
    record = wal.CommitRecord(lsn=1, end_lsn=2, xid=3, timestamp=5, origin_timestamp=origin_timestamp)
    assert record.xact_time == time


def test_a_record_shows_no_value():
    """names_are_data."""
    place: dict[str, Any] = {"lsn": 1, "end_lsn": 2}
    secret = row("secret")
    records = [
        wal.InsertRecord(**place, relation_oid=1, new=secret),
        wal.UpdateRecord(**place, relation_oid=1, old=secret, new=secret),
        wal.DeleteRecord(**place, relation_oid=1, old=secret),
        wal.LogicalMessageRecord(**place, transactional=True, prefix="p", content=b"secret"),
    ]
    assert "secret" not in repr(records)


def test_the_union_has_every_record_of_the_module():
    defined = {
        one
        for name, one in vars(wal).items()
        if isinstance(one, type) and one.__module__ == wal.__name__ and name[0] != "_"
    }
    assert set(get_args(wal.WalRecord)) == defined

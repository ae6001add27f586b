"""Logical messages that wait for a listener, in commit order."""

from __future__ import annotations

import sqlalchemy as sa

from subscriber.base.lsn import LSN
from subscriber.catalog.logical_messages import commit_messages, first_messages, insert_message
from subscriber.postgres.protocol.messages import LogicalMessage


def message(lsn: int, content: bytes = b"x", *, transactional: bool = True) -> LogicalMessage:
    return LogicalMessage(transactional, LSN(lsn), "app", content)


def lsns(connection: sa.Connection, subid: int = 1, limit: int = 100) -> list[int]:
    return [row.lsn for row in first_messages(connection, subid, limit)]


def test_a_message_is_read_back_with_its_transaction(connection):
    insert_message(connection, 1, message(5, b"\x00\xff"), final_lsn=LSN(9), xid=731, commit_timestamp=1_500_000)
    (row,) = first_messages(connection, 1, 10)
    assert row._asdict() == {
        "subid": 1,
        "lsn": 5,
        "final_lsn": 9,
        "transactional": True,
        "xid": 731,
        "commit_timestamp": 1_500_000,
        "prefix": "app",
        "content": b"\x00\xff",
    }


def test_a_message_outside_a_transaction_has_neither_number_nor_commit_time(connection):
    insert_message(connection, 1, message(5, transactional=False), final_lsn=LSN(5))
    (row,) = first_messages(connection, 1, 10)
    assert (row.transactional, row.xid, row.commit_timestamp) == (False, None, None)


def test_messages_come_in_commit_order_and_within_a_transaction_in_wal_order(connection):
    insert_message(connection, 1, message(30), final_lsn=LSN(40))
    insert_message(connection, 1, message(10), final_lsn=LSN(40))
    insert_message(connection, 1, message(20, transactional=False), final_lsn=LSN(20))
    assert lsns(connection) == [20, 10, 30]
    assert lsns(connection, limit=2) == [20, 10]
    assert lsns(connection, subid=2) == []


def test_a_message_that_ends_where_a_commit_record_starts_comes_before_the_transaction(connection):
    """Rule A17."""
    insert_message(connection, 1, message(10), final_lsn=LSN(20), xid=731)
    insert_message(connection, 1, message(20, transactional=False), final_lsn=LSN(20))
    assert [row.lsn for row in first_messages(connection, 1, 10)] == [20, 10]


def test_a_message_that_is_stored_again_is_there_once(connection):
    for content in (b"first", b"again"):
        insert_message(connection, 1, message(5, content), final_lsn=LSN(9))
    assert [row.content for row in first_messages(connection, 1, 10)] == [b"again"]


def test_the_messages_of_a_prepared_transaction_get_the_place_of_its_commit(connection):
    insert_message(connection, 1, message(10), final_lsn=LSN(15), xid=731)
    insert_message(connection, 1, message(20), final_lsn=LSN(25), xid=732)
    insert_message(connection, 2, message(10), final_lsn=LSN(15), xid=731)
    commit_messages(connection, 1, 731, final_lsn=LSN(40), commit_timestamp=7)
    assert [(row.lsn, row.final_lsn, row.commit_timestamp) for row in first_messages(connection, 1, 10)] == [
        (20, 25, None),
        (10, 40, 7),
    ]
    assert [row.final_lsn for row in first_messages(connection, 2, 10)] == [15]


def test_a_later_transaction_with_the_same_number_keeps_its_place(connection):
    """Transaction numbers are used again after a wraparound."""
    insert_message(connection, 1, message(50), final_lsn=LSN(60), xid=731)
    commit_messages(connection, 1, 731, final_lsn=LSN(40), commit_timestamp=7)
    assert [(row.final_lsn, row.commit_timestamp) for row in first_messages(connection, 1, 10)] == [(60, None)]

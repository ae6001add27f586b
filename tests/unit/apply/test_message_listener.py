from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest

from subscriber.apply.applier import Rules
from subscriber.apply.exact import ExactApplier
from subscriber.apply.message_listener import ReceivedMessage
from subscriber.base import failpoints
from subscriber.base.errors import ConflictError, MessageListenerError
from subscriber.base.lsn import LSN
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.protocol import messages as m
from tests.frames import frame, prepared, relation, transaction, values

T = relation("public.t", {"a": "int4"}, ["a"])


@pytest.fixture(autouse=True)
def table(execute):
    execute("CREATE TABLE t (a INT PRIMARY KEY)")


@pytest.fixture
def heard() -> list[ReceivedMessage]:
    return []


@pytest.fixture
def apply(target, heard):
    """Applies messages for a listener; the default one appends them to ``heard``."""

    def call(*messages, on_message=heard.append, start=100, end=1000, **more):
        applier = ExactApplier(target, subscription="sub", subid=1, on_message=on_message, **more)
        return applier.apply([frame([T], messages)], start=LSN(start), end=LSN(end))

    return call


def said(lsn: int, content: str, *, transactional: bool = True, prefix: str = "app") -> m.LogicalMessage:
    return m.LogicalMessage(transactional, LSN(lsn), prefix, content.encode())


def insert(a: int) -> m.Insert:
    return m.Insert(16384, values(str(a)))


def test_a_message_is_delivered_with_its_transaction(apply, heard):
    apply(*transaction(200, said(150, "hello"), xid=77, timestamp=1_500_000))
    assert heard == [
        ReceivedMessage("sub", LSN(150), "app", b"hello", True, 77, datetime(2000, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC))
    ]
    assert "hello" not in repr(heard[0])


def test_messages_are_delivered_in_commit_order(apply, heard):
    apply(
        *transaction(200, said(130, "first"), said(140, "second")),
        said(250, "third", transactional=False),
        *transaction(300, said(110, "fourth"), insert(1)),
    )
    assert [message.content for message in heard] == [b"first", b"second", b"third", b"fourth"]
    assert [message.xid for message in heard] == [731, 731, None, 731]
    assert [message.commit_time is None for message in heard] == [False, False, True, False]


def test_a_listener_finds_the_changes_in_the_target(apply, execute):
    found = []
    apply(
        *transaction(200, insert(1), said(150, "x"), insert(2)),
        on_message=lambda _: found.extend(execute("SELECT a FROM t")),
    )
    assert found == [(1,), (2,)]


def test_a_prepared_transactions_messages_come_in_the_order_of_its_commit(apply, heard):
    """C50: it was prepared before the other message was written."""
    apply(said(240, "first", transactional=False), *prepared(400, said(210, "second"), xid=9), end=1000)
    assert [(message.content, message.xid) for message in heard] == [(b"first", None), (b"second", 9)]
    assert heard[1].commit_time == datetime(2000, 1, 1, 0, 0, 0, 2, tzinfo=UTC)


def test_old_messages_and_those_of_skipped_transactions_are_not_delivered(apply, heard, execute):
    """C40"""
    execute("UPDATE subscriber_replication_origin_status SET remote_lsn = '0/12C'")  # 300
    apply(
        said(150, "old", transactional=False),
        *transaction(300, said(210, "old")),
        said(300, "old", transactional=False),
        *transaction(400, said(350, "skipped")),
        *transaction(500, said(450, "new")),
        read_rules=lambda _: Rules(skip_lsn=LSN(392)),
    )
    assert [message.content for message in heard] == [b"new"]


def test_the_messages_of_the_program_itself_are_not_delivered(apply, heard):
    """Publisher.write_barrier writes them."""
    apply(*transaction(200, said(150, "", prefix="subscriber"), said(160, "x", prefix="subscriber")))
    assert [message.content for message in heard] == [b"x"]


def test_without_a_listener_no_message_is_stored(apply, execute):
    apply(*transaction(200, said(150, "x")), on_message=None)
    assert execute("SELECT count(*) FROM subscriber_logical_message") == [(0,)]


def test_messages_of_a_transaction_that_fails_are_not_delivered(apply, heard, execute):
    """C35: messages after it are not delivered either."""
    execute("INSERT INTO t VALUES (1)")
    with pytest.raises(ConflictError):
        apply(*transaction(200, said(150, "x"), insert(1)), said(250, "y", transactional=False))
    assert heard == []
    assert execute("SELECT count(*) FROM subscriber_logical_message") == [(0,)]


def test_a_listener_that_fails_is_named_and_gets_the_message_again(apply, heard, target, execute):
    def listener(message):
        if message.content == b"second":
            raise ValueError(message.content)
        heard.append(message)

    changes = transaction(200, insert(1), said(140, "first"), said(150, "second"), said(160, "third"))
    with pytest.raises(MessageListenerError) as raised:
        apply(*changes, on_message=listener)
    assert "test_message_listener:" in raised.value.message
    assert raised.value.message.endswith('listener" failed: ValueError')
    assert raised.value.lsn == 150
    assert "second" not in raised.value.report()
    assert raised.value.__cause__ is None
    # The batch is applied; the next call begins with what was not heard.
    assert execute("SELECT a FROM t") == [(1,)]
    with target.begin() as connection:
        assert OriginProgress(1).read(connection) == 1000
    apply(*transaction(1200, said(1100, "fourth")), start=1000, end=2000)
    assert [message.content for message in heard] == [b"first", b"second", b"third", b"fourth"]


def test_a_message_that_was_not_delivered_before_a_crash_is_delivered_after_it(apply, heard, execute, monkeypatch):
    """A message is delivered at least once. The process ends after the target's commit."""
    monkeypatch.setenv(failpoints.ENVIRONMENT, "target.commit.after=enospc")
    failpoints.arm(os.environ)
    with pytest.raises(OSError, match="space"):
        apply(*transaction(200, said(150, "x")))
    monkeypatch.delenv(failpoints.ENVIRONMENT)
    failpoints.arm(os.environ)
    assert heard == []
    apply(start=1000, end=1000)
    assert [message.content for message in heard] == [b"x"]
    assert execute("SELECT count(*) FROM subscriber_logical_message") == [(0,)]


def test_more_messages_than_are_read_at_once_are_all_delivered(apply, heard):
    apply(*transaction(2000, *(said(200 + number, str(number)) for number in range(250))), end=2000)
    assert [message.content for message in heard] == [str(number).encode() for number in range(250)]

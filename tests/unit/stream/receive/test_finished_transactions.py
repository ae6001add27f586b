"""Plain and prepared transactions: what becomes an entry of the journal, and when. Most refusals of
messages out of order are in test_walreceiver.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from subscriber.base.errors import ProtocolError
from subscriber.base.lsn import LSN
from subscriber.postgres.protocol import messages as m
from subscriber.stream.journal.segment import EntryKind
from subscriber.stream.receive.finished_transactions import PlainTransactions
from tests.frames import transaction
from tests.journals import T, commit_prepared, insert, prepare, rollback_prepared
from tests.memory_journal import MemoryJournal
from tests.streams import frame

XID = 700


class Plain:
    """The transactions with their journal."""

    def __init__(self, end: int = 0x100, prepared: Sequence[int] = ()) -> None:
        self.journal = MemoryJournal(end, prepared)
        self.transactions: PlainTransactions = PlainTransactions(self.journal)

    def receive(self, *messages: m.Message) -> None:
        """Give the messages to the methods that the receiver gives them to."""
        for message in messages:
            given = frame(message)
            self.transactions.check_place(message)
            match message:
                case m.Begin() | m.BeginPrepare():
                    self.transactions.begin(message, given)
                case m.Commit():
                    self.transactions.commit(message, given)
                case m.Prepare():
                    self.transactions.prepare(message, given)
                case m.CommitPrepared() | m.RollbackPrepared():
                    self.transactions.finish_prepared(message, given)
                case m.LogicalMessage(transactional=False):
                    self.transactions.logical_message(message, given)
                case _:
                    self.transactions.add(message, given)

    @property
    def published(self) -> list[tuple[str, int, int]]:
        """EntryKind, end and transaction of each entry."""
        return [(entry.kind, entry.end, entry.xid) for entry in self.journal.entries]


# Plain transactions -------------------------------------------------------------------------------


def test_finished_transactions_wait_for_each_other_and_share_an_entry():
    plain = Plain()
    one, two = transaction(0x200, T, insert(1)), transaction(0x300, insert(2))
    plain.receive(*one, *two)
    assert plain.published == []
    assert not plain.transactions.idle
    plain.transactions.publish_finished()
    assert plain.published == [(EntryKind.TRANSACTIONS, 0x300, 0)]
    assert plain.journal.entries[0].messages == [*one, *two]
    assert plain.journal.entries[0].finish == two[-1]
    assert plain.transactions.idle


def test_the_open_transaction_is_no_part_of_the_entry():
    plain = Plain()
    one, two = transaction(0x200, T, insert(1)), transaction(0x300, insert(2))
    plain.receive(*one, *two[:-1])
    plain.transactions.publish_finished()
    assert plain.journal.entries[0].messages == one
    assert not plain.transactions.idle
    plain.receive(two[-1])
    plain.transactions.publish_finished()
    assert plain.journal.entries[1].messages == two


def test_nothing_that_has_finished_is_no_entry():
    plain = Plain()
    plain.transactions.publish_finished()
    plain.receive(*transaction(0x200, T, insert(1))[:-1])
    plain.transactions.publish_finished()
    assert plain.published == []


def test_a_transaction_of_which_parts_are_on_disk_is_an_entry_of_its_own():
    plain = Plain()
    messages = transaction(0x200, T, insert(1), xid=XID)
    plain.receive(*messages[:-1])
    plain.transactions.builder.spill()
    plain.receive(messages[-1])
    assert plain.published == [(EntryKind.TRANSACTIONS, 0x200, XID)]


def test_a_transaction_that_the_journal_has_is_dropped():
    plain = Plain(end=0x200)
    plain.receive(*transaction(0x200, T, insert(1)), *transaction(0x300, insert(2)))
    plain.transactions.publish_finished()
    assert plain.published == [(EntryKind.TRANSACTIONS, 0x300, 0)]
    assert plain.journal.entries[0].messages == transaction(0x300, insert(2))


def test_what_finished_before_a_transaction_that_is_dropped_is_kept():
    """A run that was published at once may be sent again in parts."""
    plain = Plain(end=0x180)
    plain.receive(*transaction(0x200, T, insert(1)), *transaction(0x180, insert(0)))
    plain.transactions.publish_finished()
    assert [entry.messages for entry in plain.journal.entries] == [transaction(0x200, T, insert(1))]
    assert plain.transactions.idle


@pytest.mark.parametrize("before", [[], [m.BeginPrepare(LSN(1), LSN(2), 0, XID, "g")]], ids=["none", "prepared"])
def test_a_commit_needs_its_begin(before):
    plain = Plain()
    plain.receive(*before)
    with pytest.raises(ProtocolError, match=r"^COMMIT message without BEGIN$") as caught:
        plain.receive(m.Commit(LSN(1), LSN(2), 0))
    assert caught.value.message_type == "C"


def test_an_origin_follows_its_begin():
    """C38."""
    plain = Plain()
    begin, *rest = transaction(0x200, m.Origin(LSN(0x50), "node"), T, insert(1))
    plain.receive(*transaction(0x180, insert(0)), begin, *rest)
    plain.transactions.publish_finished()
    assert plain.journal.entries[0].messages[-5:] == [begin, *rest]


def test_a_relation_is_described_outside_of_transactions_too():
    plain = Plain()
    plain.receive(T, *transaction(0x200, insert(1)))
    plain.transactions.publish_finished()
    assert plain.journal.entries[0].messages[0] == T


# Messages between transactions --------------------------------------------------------------------


def message(lsn: int) -> m.LogicalMessage:
    return m.LogicalMessage(False, LSN(lsn), "prefix", b"content")


def test_a_message_between_transactions_is_finished_as_it_arrives():
    """Rule A25."""
    plain = Plain()
    plain.receive(message(0x180))
    plain.transactions.publish_finished()
    assert plain.published == [(EntryKind.TRANSACTIONS, 0x180, 0)]


@pytest.mark.parametrize("lsn", [0x0FF, 0x100])
def test_a_message_that_the_journal_has_is_dropped(lsn):
    plain = Plain(end=0x100)
    plain.receive(message(lsn))
    assert plain.transactions.idle


# Prepared transactions ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdict", "kind"),
    [
        (commit_prepared(0x300, xid=XID), EntryKind.COMMIT_PREPARED),
        (rollback_prepared(0x300, xid=XID), EntryKind.ROLLBACK_PREPARED),
    ],
    ids=["commit", "rollback"],
)
def test_a_prepared_transaction_and_its_verdict_are_two_entries(verdict, kind):
    """C50."""
    plain = Plain()
    plain.receive(*prepare(0x200, T, insert(1), xid=XID), *verdict)
    assert plain.published == [(EntryKind.PREPARED, 0x200, XID), (kind, 0x300, XID)]
    assert plain.transactions.idle


def test_what_finished_before_is_published_before_a_prepared_transaction():
    plain = Plain()
    plain.receive(*transaction(0x180, T, insert(1)), *prepare(0x200, insert(2), xid=XID))
    assert plain.published == [(EntryKind.TRANSACTIONS, 0x180, 0), (EntryKind.PREPARED, 0x200, XID)]


def test_a_prepare_without_its_beginning_is_an_empty_prepared_transaction():
    plain = Plain()
    begin, end = prepare(0x200, xid=XID)
    plain.receive(end)
    assert plain.journal.entries[0].messages == [begin, end]


@pytest.mark.parametrize(
    ("before", "text"),
    [
        ([m.Begin(LSN(0x1F8), 0, XID)], "PREPARE message without BEGIN PREPARE"),
        (
            [m.BeginPrepare(LSN(0x100), LSN(0x108), 0, XID, "g")],
            "incorrect prepare LSN 0/1F8 in prepare message (expected 0/100)",
        ),
    ],
    ids=["begin", "another"],
)
def test_a_prepare_ends_the_transaction_that_began(before, text):
    plain = Plain()
    plain.receive(*before)
    with pytest.raises(ProtocolError) as caught:
        plain.receive(prepare(0x200, xid=XID)[-1])
    assert (caught.value.message, caught.value.message_type) == (text, "P")
    assert plain.published == []


# Prepared before two_phase was enabled ------------------------------------------------------------

LATE = prepare(0x200, insert(1), xid=XID)
"""A transaction that was prepared before the journal's end, 0/280, and that the journal lacks."""


def test_a_late_prepare_and_its_commit_are_one_entry_at_the_place_of_the_commit():
    """C51."""
    plain = Plain(end=0x280)
    commit = commit_prepared(0x300, xid=XID)
    plain.receive(*LATE)
    assert plain.published == []
    assert not plain.transactions.idle
    plain.receive(*commit)
    assert plain.published == [(EntryKind.TRANSACTIONS, 0x300, XID)]
    assert plain.journal.entries[0].messages == [*LATE, *commit]
    assert plain.transactions.idle


def test_a_prepared_transaction_that_the_journal_has_is_dropped():
    plain = Plain(end=0x280, prepared=[XID])
    plain.receive(*LATE)
    assert plain.published == []
    assert plain.transactions.idle
    plain.receive(*commit_prepared(0x300, xid=XID))
    assert plain.published == [(EntryKind.COMMIT_PREPARED, 0x300, XID)]


@pytest.mark.parametrize(
    ("after", "published"),
    [
        (rollback_prepared(0x300, xid=XID), [(EntryKind.ROLLBACK_PREPARED, 0x300, XID)]),
        (commit_prepared(0x300, xid=799), [(EntryKind.COMMIT_PREPARED, 0x300, 799)]),
        (transaction(0x300, insert(2)), [(EntryKind.TRANSACTIONS, 0x300, 0)]),
        ([message(0x300)], [(EntryKind.TRANSACTIONS, 0x300, 0)]),
    ],
    ids=["rollback", "another commit", "transaction", "message"],
)
def test_a_late_prepare_that_its_commit_does_not_follow_is_dropped(after, published):
    plain = Plain(end=0x280)
    plain.receive(*LATE, *after)
    plain.transactions.publish_finished()
    assert plain.published == published
    assert not any(isinstance(one, m.Insert) and one == insert(1) for one in plain.journal.entries[0].messages)
    assert plain.transactions.idle

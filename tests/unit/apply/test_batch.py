"""The steps through one batch: transactions, messages, SKIP, and prepared transactions in a target
that cannot prepare.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.apply.applier import ApplyResult, Rules
from subscriber.apply.batch import BatchTally, SkipLSN
from subscriber.apply.conflicts.conflict import ChangePlace, Conflict
from subscriber.apply.exact import ExactApplier
from subscriber.apply.transaction_bounds import RemoteTransaction, WholeTransactions, read_whole
from subscriber.base.errors import ConflictError, JournalCorrupt, ProtocolError, TargetRelationError
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.catalog.own_tables import ConflictKind
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.changes import Control, Controls, Frame
from subscriber.postgres.protocol.encode_message import encode
from tests.changes import T, U, delete, insert, update
from tests.failures import applied_before
from tests.frames import frame, prepared, relation, transaction

START, END = LSN(100), LSN(1000)
pytestmark = pytest.mark.usefixtures("tables")


def test_messages_and_origins_are_ignored(run, rows):
    """C38"""
    begin, commit = transaction(200)
    message = m.LogicalMessage(True, LSN(150), "p", b"x")
    assert run(begin, m.Origin(LSN(5), "node"), message, insert("1", None, None), commit).changes == 1


def test_a_relation_that_is_not_subscribed_is_looked_up_and_ignored(target, execute, rows):
    """C4, D12: PostgreSQL's worker opens a relation before it checks whether to apply its changes
    (scenario 073).
    """
    asked = []

    def subscribed(shape, lsn):
        asked.append((shape.name, lsn))
        return shape.name == "t"

    applier = ExactApplier(target, subscription="sub", subid=1, read_rules=lambda _: Rules(subscribed))
    unknown = relation("public.unknown", {"a": "int4"}, oid=9)
    for change in (insert("1", into=9), m.Truncate((9,), False, False)):
        changes: list[m.Message] = [insert("1", None, None), change]
        with pytest.raises(TargetRelationError, match=r'"public\.unknown" does not exist'):
            applier.apply([frame([T, unknown], transaction(200, *changes))], start=START, end=END)
    execute("CREATE TABLE unknown (a INTEGER PRIMARY KEY)")
    changes = [insert("1", None, None), insert("1", into=9), m.Truncate((9,), False, False)]
    result = applier.apply([frame([T, unknown], transaction(200, *changes))], start=START, end=END)
    assert result.changes == 1
    assert ("unknown", 192) in asked
    assert (len(rows()), execute("SELECT * FROM unknown")) == (1, [])


@pytest.mark.parametrize("start", [START, LSN(50)], ids=["skipped", "applied before"])
def test_the_changes_of_a_skipped_transaction_need_no_table(target, stored, start):
    """C40: PostgreSQL's worker does not look at them."""
    unknown = relation("public.unknown", {"a": "int4"}, oid=9)
    finish = 200 if start == START else 90
    rules = Rules(lambda *_: False, skip_lsn=LSN(finish - 8))
    applier = ExactApplier(target, subscription="sub", subid=1, read_rules=lambda _: rules)
    applier.apply([frame([unknown], transaction(finish, insert("1", into=9)))], start=start, end=END)
    assert stored() == END


def test_a_second_pass_may_stop_between_transactions(run, rows, stored):
    """C35: also where the next commit record begins at the same LSN."""
    history = [
        *transaction(200, insert("1", None, None)),
        *transaction(300, insert("2", None, None), commit_lsn=250),
        *prepared(500, insert("3", None, None)),
    ]
    assert run(*history, end=250, before=250).transactions == 1
    assert stored() == 250
    assert run(*history, end=450, before=450).transactions == 1
    assert [row["a"] for row in rows()] == [1, 2]


def test_each_transactions_conflicts_are_counted_once(run):
    """C18"""
    missing = delete("9", None, None)
    result = run(*transaction(200, missing), *transaction(300, missing), *transaction(400))
    assert result.conflicts == {"delete_missing": 2}


def test_a_transaction_may_span_frames(applier, rows):
    begin, first, second, commit = transaction(200, insert("1", None, None), insert("2", None, None))
    frames = [frame([T], [begin, first]), frame([T], [second]), frame([T], [commit])]
    assert applier.apply(frames, start=START, end=END).changes == 2
    assert len(rows()) == 2


def test_a_commit_record_that_begins_where_the_last_one_ended_belongs_to_a_new_transaction(run, rows):
    """C34: two commit records may follow each other in the WAL without a gap."""
    run(*transaction(200, insert("1", None, None)), end=200)
    neighbour = transaction(208, insert("2", None, None), commit_lsn=200)
    assert run(*neighbour, end=208, start=200).transactions == 1
    assert len(rows()) == 2


def test_an_update_to_an_existing_key_is_update_exists(run, execute):
    execute("INSERT INTO t (a) VALUES (1), (2)")
    with pytest.raises(ConflictError, match="conflict=update_exists"):
        run(*transaction(200, update(("2", None, None), key=("1", None, None))))


def test_a_missing_table_stops_with_the_relation(run, execute):
    """C3, C37"""
    execute("DROP TABLE u")
    with pytest.raises(TargetRelationError, match=r'"public\.u" does not exist') as raised:
        run(*transaction(200, insert("1", None, None)), *transaction(300, insert("1", "x", into=2)))
    assert applied_before(raised.value) == 200
    assert raised.value.lsn == 292


@pytest.mark.parametrize(
    "messages",
    [
        [insert("1", None, None)],
        [m.Commit(LSN(192), LSN(200), 0)],
        [m.Begin(LSN(192), 0, 1), m.Begin(LSN(292), 0, 2)],
        [m.Relation(1, "public", "t", "d", ())],
    ],
    ids=["a change without BEGIN", "COMMIT without BEGIN", "BEGIN after BEGIN", "a message that a frame never has"],
)
def test_messages_out_of_order_are_protocol_errors(run, messages):
    """C31, C44"""
    with pytest.raises(ProtocolError) as raised:
        run(*messages)
    assert raised.value.sqlstate == "08P01"


def test_a_batch_that_ends_inside_a_transaction_is_refused(run, rows):
    """commit_order: a transaction is never split."""
    with pytest.raises(JournalCorrupt, match="ends inside transaction 731"):
        run(*transaction(200, insert("1", None, None))[:-1])
    assert rows() == []


def test_a_transaction_beyond_the_batchs_end_is_refused(run):
    """progress_with_data: it would be applied again."""
    with pytest.raises(JournalCorrupt, match="beyond its batch's end 0/C7"):
        run(*transaction(200, insert("1", None, None)), end=199)


def test_an_error_of_the_source_names_the_transactions_before_it(applier):
    def frames() -> Iterator[Frame]:
        yield frame([T], transaction(200, insert("1", None, None)))
        raise ProtocolError("broken")

    with pytest.raises(ProtocolError) as raised:
        applier.apply(frames(), start=START, end=END)
    assert applied_before(raised.value) == 200


# Prepared transactions in a target that cannot prepare --------------------------------------------


def test_a_prepared_transaction_is_applied_when_it_commits(run, rows, stored):
    """C50, C51"""
    result = run(*prepared(500, insert("1", "x", None)), end=500)
    assert (result.transactions, result.commit_timestamp, stored()) == (1, 2, 500)
    assert len(rows()) == 1


def test_a_prepared_transaction_that_is_already_applied_is_not_applied_again(run, rows):
    """C50a: its key would be violated."""
    old = prepared(500, insert("1", "x", None), delete("77", None, None))
    assert run(*old, end=500).conflicts == {"delete_missing": 1}
    result = run(*old, *transaction(600, insert("2", "y", None)), end=600)
    assert (result.transactions, result.changes, result.conflicts) == (1, 1, {})
    assert len(rows()) == 2


def test_a_prepared_transaction_without_a_key_is_not_applied_again_either(run, rows):
    old = prepared(500, insert("1", "x", into=2))
    run(*old, end=500)
    run(*old, end=600)
    assert len(rows("u")) == 1


def test_a_new_prepared_transaction_in_a_replay_is_applied(run, rows):
    old = transaction(200, insert("1", None, None))
    run(*old, end=200)
    result = run(*old, *prepared(500, insert("2", None, None)), end=500)
    assert (result.transactions, len(rows())) == (1, 2)


def test_the_transactions_before_a_failing_prepared_transaction_can_be_committed(run, rows):
    """C35: it does not fail where it is not part of the batch."""
    batch = [*transaction(200, insert("1", None, None)), *prepared(500, insert("1", None, None), xid=9)]
    with pytest.raises(ConflictError) as raised:
        run(*batch, end=500)
    assert applied_before(raised.value) == 200
    assert run(*batch, end=200, before=200).transactions == 1
    with pytest.raises(ConflictError, match="insert_exists"):
        run(*batch, end=500)
    assert len(rows()) == 1


def test_a_second_pass_stops_before_a_prepared_transaction_that_finished_later(run, rows):
    """It was prepared before the last good transaction, and committed after it."""
    late = prepared(500, insert("9", None, None))
    begin, change, prepare, commit = late
    run(*transaction(450, insert("1", None, None)), begin, change, prepare, commit, end=450, before=450)
    assert [row["a"] for row in rows()] == [1]


def test_an_empty_frame_has_no_transactions(applier):
    assert applier.apply([Frame(())], start=START, end=END).transactions == 0


# SKIP ---------------------------------------------------------------------------------------------


@pytest.fixture
def skip(target):
    """Applies messages with a skip LSN; the second result tells whether it was cleared."""

    def call(lsn: int, *messages: m.Message) -> tuple[ApplyResult, bool]:
        cleared = []
        rules = Rules(skip_lsn=LSN(lsn), clear_skip=lambda connection: cleared.append(connection.in_transaction()))
        applier = ExactApplier(target, subscription="sub", subid=1, read_rules=lambda _: rules)
        return applier.apply([frame([T, U], messages)], start=START, end=END), cleared == [True]

    return call


def test_a_skipped_transaction_is_not_applied_and_clears_the_skip_lsn(skip, rows, stored):
    """C40, C41: its TRUNCATE too. The transaction after it is applied."""
    skipped = transaction(200, insert("1", None, None), m.Truncate((16384,), False, False))
    result, cleared = skip(192, *skipped, *transaction(300, insert("2", None, None)))
    assert cleared
    assert [row["a"] for row in rows()] == [2]
    assert result.changes == 1
    assert stored() == END


def test_another_transaction_clears_the_skip_lsn_with_a_warning(skip, rows, caplog):
    """C41"""
    _, cleared = skip(500, *transaction(200, insert("1", None, None)))
    assert cleared
    assert [row["a"] for row in rows()] == [1]
    assert 'skip-LSN of subscription "sub" cleared' in caplog.text


def test_an_empty_transaction_does_not_clear_the_skip_lsn(skip):
    """C41"""
    assert skip(500, *transaction(200))[1] is False


def test_a_cleared_skip_lsn_skips_no_later_transaction(skip, rows):
    """C41: a transaction before the one to skip has cleared it."""
    first, second = transaction(200, insert("1", None, None)), transaction(300, insert("2", None, None))
    skip(292, *first, *second)
    assert [row["a"] for row in rows()] == [1, 2]


def test_a_prepared_transaction_can_be_skipped(skip, rows):
    """C40: SKIP takes the LSN of its PREPARE."""
    messages = prepared(300, insert("1", None, None))
    _, cleared = skip(200, *messages)
    assert cleared
    assert rows() == []


# What a batch counts: each transaction once, and in one transaction of the target.


MISSING = Conflict(ConflictKind.DELETE_MISSING, "public.t", ChangePlace(731, LSN(192), 0))
COUNTED = "SELECT confl_delete_missing FROM subscriber_stat_subscription_stats"
RECORDED = "SELECT count(*) FROM subscriber_conflict"


@pytest.fixture
def tally() -> BatchTally:
    return BatchTally(1, "sub", show_values=False)


def write(target, tally: BatchTally) -> None:
    with target.begin() as connection:
        tally.write(connection, show_values=False, stores_conflicts=True)


def test_the_conflicts_of_a_transaction_count_when_it_is_applied(tally):
    tally.add(MISSING, 2)
    assert tally.conflicts.by_kind() == {}
    tally.finish(applied=True)
    tally.finish(applied=True)
    assert tally.conflicts.by_kind() == {ConflictKind.DELETE_MISSING: 2}


def test_the_conflicts_of_a_transaction_that_is_not_applied_do_not_count(target, execute, tally):
    tally.add(MISSING, 2)
    tally.finish(applied=False)
    tally.finish(applied=True)
    write(target, tally)
    assert tally.conflicts.by_kind() == {}
    assert execute(RECORDED) == [(0,)]


def test_what_was_written_is_not_written_again(target, execute, tally):
    """A batch may have several transactions of the target."""
    for _ in range(2):
        tally.add(MISSING, 1)
        tally.finish(applied=True)
        write(target, tally)
        write(target, tally)
    assert execute(COUNTED) == [(2,)]
    assert execute(RECORDED) == [(2,)]
    assert tally.conflicts.by_kind() == {ConflictKind.DELETE_MISSING: 2}


# The transaction that ALTER SUBSCRIPTION … SKIP names. The texts are those of PostgreSQL's worker
# (start_skipping_changes, stop_skipping_changes, clear_subscription_skip_lsn).


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


def test_version_19_pads_the_lsn_that_is_skipped(logged):
    """A19a"""
    SkipLSN("sub", WANTED, 19).begin(WANTED)
    assert logged() == [("INFO", "logical replication starts skipping transaction at LSN 0/016B3778")]


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


# Begin and Commit of many transactions, read as columns: the same as message by message, or not
# at all.


APPLIED, END = LSN(100), LSN(1_000)


def read(sent: Sequence[m.Message | bytes], counts: Sequence[int], end: LSN = END) -> WholeTransactions | None:
    raw = [one if isinstance(one, bytes) else encode(one) for one in sent]
    controls = Controls.of(Control(position, message) for position, message in enumerate(raw))
    return read_whole(controls, np.array(counts, np.int64), APPLIED, end)


def bounds(final_lsn: int, end_lsn: int, *, commit_lsn: int | None = None, timestamp: int = 5) -> list[m.Message]:
    commit = final_lsn if commit_lsn is None else commit_lsn
    return [m.Begin(final_lsn, timestamp, 7), m.Commit(commit, end_lsn, timestamp)]


def test_transactions_are_counted_with_their_changes():
    sent = [*bounds(100, 110), *bounds(120, 130, timestamp=6), *bounds(130, 131, timestamp=-7)]
    assert read(sent, [0, 2, 0, 3, 0, 0]) == WholeTransactions(3, 5, LSN(131), -7)


FLAGS = bytes([*b"C", 1]) + encode(m.Commit(200, 210, 5))[2:]


@pytest.mark.parametrize(
    "sent",
    [
        [],
        [m.Begin(200, 5, 7)],
        list(reversed(bounds(200, 210))),
        [m.Begin(200, 5, 7), m.Origin(1, "o")],
        [m.Begin(200, 5, 7), m.Origin(1, "seventeen bytes x")],
        [m.Begin(200, 5, 7), FLAGS],
        [bytes([*b"B"]) + bytes(20), m.Commit(200, 210, 5)],
        [*bounds(200, 210), *bounds(205, 220)],
        bounds(200, 210, commit_lsn=201),
        bounds(99, 110),
        bounds(100, 100),
        bounds(200, 1_001),
    ],
    ids=[
        "no message",
        "half a transaction",
        "order",
        "origin",
        "long origin",
        "flags",
        "no LSN",
        "overlap",
        "LSN",
        "applied",
        "empty",
        "beyond",
    ],
)
def test_what_needs_a_closer_look_is_not_read(sent):
    assert read(sent, [0] * len(sent)) is None


def test_changes_outside_of_a_transaction_are_not_read():
    assert read(bounds(200, 210), [1, 0]) is None


@given(st.lists(st.tuples(*[st.sampled_from([90, 100, 101, 110, 120, 1_000, 1_001])] * 3), min_size=1, max_size=4))
def test_what_is_read_is_what_the_single_messages_say(lsns):
    sent = [one for final, commit, end in lsns for one in bounds(final, end, commit_lsn=commit)]
    assert (read(sent, [0, 1] * len(lsns)) is not None) == one_by_one(sent)


def one_by_one(sent: Sequence[m.Message]) -> bool:
    """Whether each transaction is to be applied, and none of them is wrong."""
    applied = APPLIED
    for begin, commit in zip(sent[0::2], sent[1::2], strict=True):
        assert isinstance(begin, m.Begin)
        assert isinstance(commit, m.Commit)
        transaction = RemoteTransaction.begin(begin, applied)
        try:
            finish = transaction.commit(commit, applied)
        except ProtocolError:
            return False
        if transaction.skip or finish > END:
            return False
        applied = finish
    return True

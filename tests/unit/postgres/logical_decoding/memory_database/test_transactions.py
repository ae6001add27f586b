"""Transactions, savepoints and prepared transactions, and what they leave in the WAL."""

from __future__ import annotations

import pytest

from subscriber.base.errors import UsageError
from subscriber.postgres.logical_decoding import wal_records as wal
from subscriber.postgres.logical_decoding.memory_database import MemoryDatabase


@pytest.fixture
def publisher() -> MemoryDatabase:
    made = MemoryDatabase()
    made.create_table("t", {"a": "integer"}, ["a"])
    made.take()
    return made


def kinds(publisher: MemoryDatabase) -> list[tuple[str, int]]:
    return [(type(record).__name__.removesuffix("Record"), record.xid) for record in publisher.records]


def keys(publisher: MemoryDatabase) -> list[str | None]:
    return [row["a"] for row in publisher.select("t")]


def test_a_transaction_gets_its_number_with_its_first_change(publisher):
    one, two = publisher.session(), publisher.session()
    one.begin()
    two.begin()
    two.insert("t", a=2)
    one.insert("t", a=1)
    one.commit()
    two.commit()
    assert kinds(publisher) == [
        ("Begin", 732), ("Insert", 732), ("Begin", 733), ("Insert", 733), ("Commit", 733), ("Commit", 732),
    ]  # fmt: skip


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_transaction_without_a_change_leaves_nothing(publisher, end):
    session = publisher.session()
    session.begin()
    session.savepoint("s")
    session.rollback_to("s")
    getattr(session, end)()
    assert not publisher.records


def test_a_savepoint_gets_its_number_with_its_first_change_after_its_parents(publisher):
    session = publisher.session()
    session.begin()
    session.savepoint("s")
    session.savepoint("r")
    session.insert("t", a=1)
    session.release("s")
    session.commit()
    assert kinds(publisher) == [
        ("Begin", 732), ("SubtransactionStart", 733), ("SubtransactionStart", 734), ("Insert", 734),
        ("SubtransactionCommit", 734), ("SubtransactionCommit", 733), ("Commit", 732),
    ]  # fmt: skip
    assert publisher.records[-1].subxids == (733, 734)


def test_a_rollback_to_a_savepoint_undoes_what_was_done_since(publisher):
    session = publisher.session()
    session.begin()
    session.insert("t", a=1)
    session.savepoint("s")
    session.insert("t", a=2)
    session.savepoint("r")
    session.insert("t", a=3)
    session.release("r")
    session.rollback_to("s")
    session.insert("t", a=4)
    session.commit()
    assert kinds(publisher)[-5:] == [
        ("SubtransactionCommit", 734), ("SubtransactionAbort", 733),
        ("SubtransactionStart", 735), ("Insert", 735), ("Commit", 732),
    ]  # fmt: skip
    assert publisher.records[-4].subxids == (734,)
    assert publisher.records[-1].subxids == (735,)
    assert keys(publisher) == ["1", "4"]
    assert [xid for xid in range(732, 736) if publisher.did_abort(xid)] == [733, 734]


def test_savepoints_are_rolled_back_from_the_innermost(publisher):
    session = publisher.session()
    session.begin()
    session.savepoint("s")
    session.insert("t", a=1)
    session.savepoint("r")
    session.insert("t", a=2)
    session.rollback_to("s")
    session.rollback()
    assert kinds(publisher)[-3:] == [("SubtransactionAbort", 734), ("SubtransactionAbort", 733), ("Abort", 732)]


def test_a_prepared_transaction_is_finished_by_any_session(publisher):
    session = publisher.session()
    for number, gid in enumerate(("g", "h")):
        session.begin()
        session.insert("t", a=number)
        session.prepare(gid)
    assert keys(publisher) == []
    publisher.session().commit_prepared("g")
    publisher.session().rollback_prepared("h")
    assert kinds(publisher)[2:] == [
        ("Prepare", 732), ("Begin", 733), ("Insert", 733), ("Prepare", 733),
        ("CommitPrepared", 732), ("RollbackPrepared", 733),
    ]  # fmt: skip
    assert keys(publisher) == ["0"]
    assert publisher.did_abort(733)


@pytest.mark.parametrize("ends", ["commit_prepared", "rollback_prepared"])
def test_a_transaction_that_wrote_nothing_can_be_prepared_and_is_not_decoded(publisher, ends):
    """E14; a server does not decode the records of such a transaction."""
    before, session = kinds(publisher), publisher.session()
    session.begin()
    session.savepoint("s")
    session.prepare("g")
    session.begin()
    with pytest.raises(UsageError, match="already in use"):
        session.prepare("g")
    session.rollback()
    getattr(publisher.session(), ends)("g")
    assert kinds(publisher) == before
    with pytest.raises(UsageError, match="does not exist"):
        session.commit_prepared("g")
    session.insert("t", a=1)
    assert kinds(publisher)[-1] == ("Commit", 733), "the prepared transaction had a number"


def test_a_replicated_transaction_has_its_origin_and_the_time_there(publisher):
    """A16."""
    number = publisher.create_origin("node")
    publisher.take()
    session = publisher.session()
    session.replicate_origin("node")
    session.begin()
    session.insert("t", a=1)
    session.origin_xact(0x100, 5)
    session.commit()
    session.replicate_origin("")
    session.insert("t", a=2)
    commits = [record for record in publisher.records if isinstance(record, wal.CommitRecord)]
    assert [(one.origin_id, one.origin_lsn, one.origin_timestamp) for one in commits] == [
        (number, 0x100, 5),
        (0, 0, None),
    ]
    assert [record.origin_id for record in publisher.records if isinstance(record, wal.InsertRecord)] == [number, 0]


def test_the_position_at_the_origin_stays_until_the_session_has_another_origin(publisher):
    """A16, as PostgreSQL: without a time the first commit's own time stays, too."""
    publisher.create_origin("node")
    publisher.take()
    session = publisher.session()
    session.replicate_origin("node")
    session.origin_xact(0x100, 5)
    session.insert("t", a=1)
    session.insert("t", a=2)
    session.replicate_origin("")
    session.replicate_origin("node")
    session.insert("t", a=3)
    session.insert("t", a=4)
    commits = [record for record in publisher.records if isinstance(record, wal.CommitRecord)]
    assert [(one.origin_lsn, one.origin_timestamp) for one in commits] == [
        (0x100, 5),
        (0x100, 5),
        (0, commits[2].timestamp),
        (0, commits[2].timestamp),
    ]
    assert commits[2].timestamp < commits[3].timestamp


@pytest.mark.parametrize(
    ("wrong", "sqlstate"),
    [
        (lambda session: session.commit(), "25P01"),
        (lambda session: session.rollback(), "25P01"),
        (lambda session: session.savepoint("s"), "25P01"),
        (lambda session: session.prepare("g"), "25P01"),
        (lambda session: session.release("s"), "3B001"),
        (lambda session: session.rollback_to("s"), "3B001"),
        (lambda session: session.commit_prepared("g"), "42704"),
        (lambda session: session.rollback_prepared("g"), "42704"),
        (lambda session: session.replicate_origin("o"), "42704"),
        (lambda session: (session.begin(), session.begin()), "25001"),
    ],
)
def test_what_cannot_be_done_is_postgresqls_error(publisher, wrong, sqlstate):
    with pytest.raises(UsageError) as caught:
        wrong(publisher.session())
    assert caught.value.sqlstate == sqlstate
    assert caught.value.hint


def fail_in_the_second_row(session) -> None:
    session.insert("t", a=1)
    session.insert("t", a=2)
    with pytest.raises(UsageError) as caught:
        session.update("t", {}, a=3)  # the first row gets the key 3; the second one must not
    assert caught.value.sqlstate == "23505"


@pytest.mark.parametrize("end", [lambda one: one.commit(), lambda one: one.prepare("p")])
def test_what_a_statement_wrote_before_its_error_never_commits(publisher, end):
    session = publisher.session()
    session.begin()
    fail_in_the_second_row(session)
    end(session)
    assert kinds(publisher)[-1] == ("Abort", 732)
    assert keys(publisher) == []
    session.insert("t", a=9)
    assert keys(publisher) == ["9"]


@pytest.mark.parametrize(
    "statement",
    [
        lambda one: one.insert("t", a=7),
        lambda one: one.message("p", b"", transactional=False),
        lambda one: one.select("t"),
        lambda one: one.savepoint("r"),
        lambda one: one.release("s"),
    ],
)
def test_an_aborted_transaction_takes_no_statement_until_it_is_rolled_back(publisher, statement):
    session = publisher.session()
    session.begin()
    session.savepoint("s")
    fail_in_the_second_row(session)
    records = list(publisher.records)
    with pytest.raises(UsageError) as caught:
        statement(session)
    assert caught.value.sqlstate == "25P02"
    assert publisher.records == records
    session.rollback_to("s")
    session.insert("t", a=7)
    session.commit()
    assert keys(publisher) == ["7"]


def test_two_prepared_transactions_have_two_names(publisher):
    session = publisher.session()
    session.begin()
    session.insert("t", a=1)
    session.prepare("g")
    session.begin()
    with pytest.raises(UsageError, match="already in use"):
        session.prepare("g")

from __future__ import annotations

import pytest

from subscriber.apply.transaction_bounds import RemoteTransaction
from subscriber.base.errors import ProtocolError
from subscriber.base.lsn import LSN
from subscriber.postgres.protocol import messages as m

BEGIN = m.Begin(LSN(192), 0, 731)
COMMIT = m.Commit(LSN(192), LSN(200), 0)
BEGIN_PREPARE = m.BeginPrepare(LSN(150), LSN(160), 0, 731, "g")
PREPARE = m.Prepare(LSN(150), LSN(160), 0, 731, "g")


@pytest.mark.parametrize(("applied", "skip"), [(100, False), (191, False), (200, True), (300, True)])
def test_a_transaction_that_finished_at_or_before_the_progress_is_not_applied(applied, skip):
    """progress_with_data, C34"""
    transaction = RemoteTransaction.begin(BEGIN, LSN(applied))
    assert transaction.skip is skip
    assert transaction.commit(COMMIT, LSN(applied)) == 200


def test_a_commit_must_repeat_the_lsn_of_its_begin():
    """C31"""
    transaction = RemoteTransaction.begin(BEGIN, LSN(0))
    with pytest.raises(ProtocolError) as raised:
        transaction.commit(m.Commit(LSN(193), LSN(200), 0), LSN(0))
    assert raised.value.message == "incorrect commit LSN 0/C1 in commit message (expected 0/C0)"
    assert raised.value.sqlstate == "08P01"


def test_a_prepare_must_repeat_the_lsn_of_its_begin():
    transaction = RemoteTransaction.begin_prepare(BEGIN_PREPARE, LSN(300), LSN(0))
    with pytest.raises(ProtocolError, match="incorrect prepare LSN 0/97 in prepare message"):
        transaction.prepare(m.Prepare(LSN(151), LSN(160), 0, 731, "g"))


def test_progress_inside_a_commit_record_is_refused():
    transaction = RemoteTransaction.begin(BEGIN, LSN(195))
    with pytest.raises(ProtocolError, match="lies inside the commit record"):
        transaction.commit(COMMIT, LSN(195))


def test_an_origin_comes_before_everything_else():
    """C38"""
    transaction = RemoteTransaction.begin(BEGIN, LSN(0))
    transaction.origin()
    with pytest.raises(ProtocolError, match="ORIGIN message sent out of order"):
        transaction.origin()


def test_an_origin_after_a_change_is_out_of_order():
    """C38"""
    transaction = RemoteTransaction.begin(BEGIN, LSN(0))
    transaction.change("I", 1)
    with pytest.raises(ProtocolError, match="ORIGIN message sent out of order"):
        transaction.origin()


def test_a_prepared_transaction_finishes_with_its_commit_prepared():
    """C50: the progress is then the end of COMMIT PREPARED."""
    transaction = RemoteTransaction.begin_prepare(BEGIN_PREPARE, LSN(300), LSN(299))
    assert not transaction.skip
    transaction.change("I", 3)
    transaction.prepare(PREPARE)
    assert transaction.commit_prepared(m.CommitPrepared(LSN(292), LSN(300), 0, 731, "g")) == 300
    assert transaction.changes == 3


def test_a_prepared_transaction_is_not_applied_again_after_its_finish_lsn():
    """C50a"""
    assert RemoteTransaction.begin_prepare(BEGIN_PREPARE, LSN(300), LSN(300)).skip


def test_a_prepared_transaction_without_an_end_lsn_is_refused():
    """progress_with_data: it may be applied already or not."""
    with pytest.raises(ProtocolError, match="no end LSN"):
        RemoteTransaction.begin_prepare(BEGIN_PREPARE, LSN(0), LSN(0))


def test_messages_out_of_order_are_refused():
    ordinary, two_phase = (
        RemoteTransaction.begin(BEGIN, LSN(0)),
        RemoteTransaction.begin_prepare(BEGIN_PREPARE, LSN(300), LSN(0)),
    )
    committed = m.CommitPrepared(LSN(292), LSN(300), 0, 731, "g")
    for call in (
        lambda: ordinary.prepare(PREPARE),
        lambda: ordinary.commit_prepared(committed),
        lambda: two_phase.commit(COMMIT, LSN(0)),
        lambda: two_phase.commit_prepared(committed),
    ):
        with pytest.raises(ProtocolError, match="sent out of order"):
            call()
    two_phase.prepare(PREPARE)
    for call in (
        lambda: two_phase.prepare(PREPARE),
        lambda: two_phase.change("I", 1),
        lambda: two_phase.commit_prepared(m.CommitPrepared(LSN(292), LSN(300), 0, 999, "g")),
        lambda: two_phase.commit_prepared(m.CommitPrepared(LSN(292), LSN(301), 0, 731, "g")),
    ):
        with pytest.raises(ProtocolError, match="sent out of order"):
            call()

"""Which changes of a streamed transaction belong to which subtransaction (rule C43), and how blocks
follow each other.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from subscriber.base.errors import ProtocolError
from subscriber.base.lsn import LSN
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.decode_message import decode
from subscriber.stream.receive.spool import Spools, StreamedTransaction
from tests.frames import relation, values
from tests.memory_journal import MemoryBuilder, frames_of
from tests.streams import frame

TOP = 700
T = relation("public.t", {"a": "int4"}, key=["a"])
WIDER = relation("public.t", {"a": "int4", "b": "text"}, key=["a"])


def numbers(spool: StreamedTransaction) -> list[int]:
    """The numbers of the changes that are left."""
    return [int.from_bytes(each[1:9]) for each in frames_of(spool)]


def spool_of(*xids: int) -> StreamedTransaction:
    """Changes 0, 1, 2 … by these (sub)transactions."""
    spool = StreamedTransaction(TOP, MemoryBuilder())
    add(spool, *xids)
    return spool


def add(spool: StreamedTransaction, *xids: int) -> None:
    for xid in xids:
        spool.append(frame(m.Insert(T.relation_id, values("1"), xid), spool.builder.position))


@pytest.mark.parametrize(
    ("xids", "aborted", "kept"),
    [
        ([700, 701, 701], [701], [0]),
        ([701, 700], [701], []),
        ([700, 701, 702], [702], [0, 1]),
        ([700, 701, 702, 701], [701], [0]),
        ([700, 701, 702], [702, 701], [0]),
        ([700, 701, 702], [701, 702], [0]),
        ([700, 701, 702, 703], [703, 701], [0]),
        ([700, 700], [799], [0, 1]),
        ([], [701], []),
    ],
)
def test_an_abort_cuts_at_the_subtransaction_s_first_change(xids, aborted, kept):
    spool = spool_of(*xids)
    for subxid in aborted:
        spool.abort_subtransaction(subxid)
    assert numbers(spool) == kept


def test_a_subtransaction_that_comes_back_keeps_its_first_place():
    spool = spool_of(700, 701, 702, 701, 702)
    spool.abort_subtransaction(702)
    assert numbers(spool) == [0, 1]


def test_after_an_abort_the_parent_goes_on_and_later_ones_are_known_again():
    spool = spool_of(700, 701, 702)
    spool.abort_subtransaction(701)
    add(spool, 700, 703)
    spool.abort_subtransaction(702)
    assert numbers(spool) == [0, 1, 2]
    spool.abort_subtransaction(703)
    assert numbers(spool) == [0, 1]


def test_an_aborted_subtransaction_whose_last_change_was_the_last_is_not_taken_for_the_next_one():
    """What was current is gone with it; a change of the same xid would have to be noted anew."""
    spool = spool_of(700, 701)
    spool.abort_subtransaction(701)
    assert spool.current == b""
    add(spool, 701)
    spool.abort_subtransaction(701)
    assert numbers(spool) == [0]


def test_the_top_transaction_is_no_subtransaction_of_itself():
    spool = spool_of(700, 701)
    assert [spool.first_changes.position(xid.to_bytes(4)) for xid in (700, 701)] == [None, 1]


def test_many_subtransactions_cost_as_much_each_as_few():
    """A loop with an exception handler makes a savepoint a row; 100,000 of them took minutes when
    each was looked for.
    """
    spool, began = StreamedTransaction(TOP, MemoryBuilder()), time.process_time()
    add(spool, *range(TOP + 1, TOP + 100_001))
    for subxid in range(TOP + 100_000, TOP, -1):
        spool.abort_subtransaction(subxid)
    assert numbers(spool) == []
    assert spool.first_changes.position((TOP + 1).to_bytes(4)) is None
    assert time.process_time() - began < 20


# Blocks -------------------------------------------------------------------------------------------


def stream(spools: Spools, *changes: int, xid: int = TOP, first: bool = True) -> None:
    """A block with changes of these (sub)transactions."""
    spools.start(m.StreamStart(xid, first))
    assert spools.block is not None
    add(spools.block, *changes)
    spools.stop()


def committed(spools: Spools, xid: int = TOP) -> list[m.Message]:
    transaction, _ = spools.finish(m.StreamCommit(xid, LSN(0x1F8), LSN(0x200), 5))
    return [decode(each[25:], in_stream=each[25:26] == b"I") for each in frames_of(transaction)]


def test_a_transaction_goes_on_where_its_last_block_ended():
    spools = Spools(MemoryBuilder)
    stream(spools, TOP)
    stream(spools, 801, xid=800)
    stream(spools, 701, first=False)
    assert committed(spools)[1:-1] == [m.Insert(T.relation_id, values("1"), xid) for xid in (TOP, 701)]
    assert set(spools.transactions) == {800}


def test_a_first_segment_begins_anew():
    """The walsender streams every transaction from its beginning when it starts again."""
    spools = Spools(MemoryBuilder)
    stream(spools, TOP, 701)
    stream(spools, 702)
    assert committed(spools)[1:-1] == [m.Insert(T.relation_id, values("1"), 702)]


def test_a_transaction_that_finishes_is_wrapped_as_a_plain_one():
    """Rule C42."""
    spools = Spools(MemoryBuilder)
    stream(spools)
    assert committed(spools) == [m.Begin(LSN(0x1F8), 5, TOP), m.Commit(LSN(0x1F8), LSN(0x200), 5)]
    stream(spools)
    place = (LSN(0x1F8), LSN(0x200), 5, TOP, "gid")
    transaction, finish = spools.finish(m.StreamPrepare(*place))
    assert [decode(each[25:]) for each in frames_of(transaction)] == [m.BeginPrepare(*place), m.Prepare(*place)]
    assert decode(finish) == m.Prepare(*place)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (m.StreamStart(7, False), "STREAM START message continues transaction 7, which has no first segment"),
        (
            m.StreamCommit(7, LSN(0x1F8), LSN(0x200), 0),
            "STREAM COMMIT message without STREAM START: transaction 7, commit LSN 0/1F8",
        ),
        (
            m.StreamPrepare(LSN(0x1F8), LSN(0x200), 0, 7, "g"),
            "STREAM PREPARE message without STREAM START: transaction 7, prepare LSN 0/1F8",
        ),
    ],
    ids=["S", "c", "p"],
)
@pytest.mark.parametrize("before", ["nothing", "another", "aborted", "finished"])
def test_an_unknown_transaction_is_no_empty_one(message, text, before):
    """Rule A22: even an empty one is announced by a block, so what it did would be lost without a
    word.
    """
    spools = Spools(MemoryBuilder)
    if before != "nothing":
        stream(spools, xid=8 if before == "another" else 7)
    if before == "aborted":
        spools.abort(m.StreamAbort(7, 7))
    elif before == "finished":
        committed(spools, 7)
    with pytest.raises(ProtocolError) as caught:
        spools.start(message) if isinstance(message, m.StreamStart) else spools.finish(message)
    assert (caught.value.message, caught.value.message_type) == (text, message.type_byte)


def test_aborting_an_unknown_transaction_is_no_error():
    """There is nothing to forget, so nothing can be lost."""
    spools = Spools(MemoryBuilder)
    stream(spools, TOP)
    for subxid in (7, 8):
        spools.abort(m.StreamAbort(7, subxid))
    assert set(spools.transactions) == {TOP}


# Descriptions -------------------------------------------------------------------------------------


def described(spools: Spools, shape: m.Relation, xid: int) -> None:
    spools.start(m.StreamStart(xid, True))
    spools.describe(shape.relation_id)
    spools.stop()
    spools.transactions[xid].builder.relations = {shape.relation_id: shape}


@pytest.mark.parametrize("first_to_commit", [701, 702])
def test_of_two_descriptions_the_one_that_arrived_later_holds(first_to_commit):
    """Rule A24, whichever stream commits first."""
    spools: Spools = Spools(MemoryBuilder)
    relations: Mapping[int, m.Relation] = {T.relation_id: T}
    spools.describe(T.relation_id)
    described(spools, T, 701)
    described(spools, WIDER, 702)
    for xid in (first_to_commit, 1403 - first_to_commit):
        relations = spools.adopt_descriptions(spools.finish(m.StreamCommit(xid, LSN(8), LSN(16), 0))[0], relations)
    assert relations == {T.relation_id: WIDER}


def test_a_description_outside_of_streams_holds_over_an_earlier_one_inside():
    spools: Spools = Spools(MemoryBuilder)
    relations: Mapping[int, m.Relation] = {T.relation_id: WIDER}
    described(spools, T, 701)
    spools.describe(T.relation_id)
    relations = spools.adopt_descriptions(spools.finish(m.StreamCommit(701, LSN(8), LSN(16), 0))[0], relations)
    assert relations == {T.relation_id: WIDER}

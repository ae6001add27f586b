"""Which changes of a streamed transaction belong to which subtransaction (rule C43)."""

from __future__ import annotations

import pytest

from subscriber.receive.spool import StreamedTransaction

TOP = 700


class Changes:
    """A builder that holds the numbers of changes."""

    def __init__(self) -> None:
        self.kept: list[int] = []
        self.frames: list[bytes] = []
        self.relations: dict = {}

    @property
    def position(self) -> int:
        return len(self.kept)

    def truncate(self, position: int) -> None:
        del self.kept[position:]

    def spill(self) -> None: ...

    def prepend(self, frame: bytes) -> None: ...

    def discard(self) -> None: ...


def spool_of(*xids: int) -> StreamedTransaction[Changes]:
    """Changes 0, 1, 2 … by these (sub)transactions."""
    spool = StreamedTransaction(TOP, Changes())
    add(spool, *xids)
    return spool


def add(spool: StreamedTransaction[Changes], *xids: int) -> None:
    for xid in xids:
        raw = xid.to_bytes(4)
        if raw != spool.current:  # as the receiver does
            spool.note_subtransaction(raw)
        spool.builder.kept.append(len(spool.builder.kept))


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
    assert spool.builder.kept == kept


def test_a_subtransaction_that_comes_back_keeps_its_first_place():
    spool = spool_of(700, 701, 702, 701, 702)
    spool.abort_subtransaction(702)
    assert spool.builder.kept == [0, 1]


def test_after_an_abort_the_parent_goes_on_and_later_ones_are_known_again():
    spool = spool_of(700, 701, 702)
    spool.abort_subtransaction(701)
    add(spool, 700, 703)
    spool.abort_subtransaction(702)
    assert spool.builder.kept == [0, 1, 2]
    spool.abort_subtransaction(703)
    assert spool.builder.kept == [0, 1]


def test_an_aborted_subtransaction_whose_last_change_was_the_last_is_not_taken_for_the_next_one():
    """What was current is gone with it; a change of the same xid would have to be noted anew."""
    spool = spool_of(700, 701)
    spool.abort_subtransaction(701)
    assert spool.current == b""
    add(spool, 701)
    spool.abort_subtransaction(701)
    assert spool.builder.kept == [0]


def test_the_top_transaction_is_no_subtransaction_of_itself():
    spool = spool_of(700, 701)
    assert spool.first_changes == [((701).to_bytes(4), 1)]

"""Begin and Commit of many transactions, read as columns: the same as message by message, or not at
all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.apply.transaction_bounds import RemoteTransaction
from subscriber.apply.whole_transactions import WholeTransactions, read_whole
from subscriber.errors import ProtocolError
from subscriber.lsn import LSN
from subscriber.protocol import messages as m
from subscriber.protocol.controls import Control, Controls
from subscriber.protocol.encode import encode

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

"""A streamed transaction with random subtransactions and rollbacks, compared with a list that is
searched (rule C43).
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.lsn import LSN
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.decode_message import decode
from subscriber.stream.journal.builder import SegmentBuilder
from subscriber.stream.journal.segment import EntryKind
from subscriber.stream.journal.storage import LocalStorage
from subscriber.stream.receive.spool import StreamedTransaction, SubtransactionIndex
from tests.journals import T, insert
from tests.streams import frame

TOP = 700


@dataclass
class Model:
    """The messages that are left, each with the ID of its transaction. The ID is None for
    descriptions that a rollback has left.
    """

    kept: list[tuple[int | None, m.Message]]

    def abort(self, subxid: int) -> None:
        """Remove everything from the subtransaction's first message on, except descriptions (rule
        A24).
        """
        places = [place for place, (xid, _) in enumerate(self.kept) if xid == subxid]
        if places:
            cut = self.kept[places[0] :]
            descriptions = [(None, message) for _, message in cut if isinstance(message, m.Relation)]
            self.kept[places[0] :] = descriptions

    def changes(self) -> list[m.Message]:
        return [message for _, message in self.kept if isinstance(message, m.Insert)]


xids = st.integers(TOP, TOP + 5)
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("change", "change", "describe")), xids),
        st.tuples(st.just("abort"), st.integers(TOP + 1, TOP + 6)),
        st.tuples(st.just("spill"), st.just(0)),
    ),
    max_size=40,
)


@given(steps)
def test_a_streamed_transaction_keeps_the_changes_that_no_rollback_has_removed(history):
    """Rules C43, A24, for any division into parts on disk."""
    with tempfile.TemporaryDirectory() as folder:
        storage = LocalStorage(Path(folder))
        spool = StreamedTransaction(TOP, SegmentBuilder(storage, {}, in_stream=True))
        spool.append(frame(replace(T, xid=TOP)))
        model = Model([(TOP, T)])
        for number, (what, xid) in enumerate(history):
            if what == "change":
                spool.append(frame(insert(number, xid=xid)))
                model.kept.append((xid, insert(number)))
            elif what == "describe":
                spool.append(frame(replace(T, xid=xid)))
                model.kept.append((xid, T))
            elif what == "abort":
                spool.abort_subtransaction(xid)
                model.abort(xid)
            else:
                spool.builder.spill()
            there = {xid for xid in range(TOP, TOP + 7) if spool.first_changes.position(xid.to_bytes(4)) is not None}
            assert there == {xid for xid, _ in model.kept if xid not in (None, TOP)}
        assert changes_in(storage, spool.builder) == model.changes()


def changes_in(storage: LocalStorage, builder: SegmentBuilder) -> list[m.Message]:
    """The changes in the transaction's segments. No other segments are left."""
    if not builder.position:
        return []
    segments = builder.publish(LSN(0x100), LSN(0x200), EntryKind.TRANSACTIONS, TOP, b"C")
    assert {name for name, _ in storage.names()} == {segment.name for segment in segments}
    found: list[m.Message] = []
    for segment in segments:
        with storage.open(segment.name) as file:
            found += [decode(message) for message in pa.ipc.open_file(file).read_all()["message"].to_pylist()]
    return [message for message in found if isinstance(message, m.Insert)]


index_steps = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.integers(1, 30), st.integers(1, 5)),
        st.tuples(st.just("abort"), st.integers(1, 31), st.just(0)),
    ),
    max_size=120,
)


@given(index_steps, st.integers(1, 8))
def test_an_index_on_disk_equals_an_index_in_memory(history, in_memory):
    """A plain dict defines the result: xid → first position, in the order of appearance."""
    index, plain, position = SubtransactionIndex(in_memory), dict[bytes, int](), 0
    try:
        for what, xid, distance in history:
            raw = xid.to_bytes(4)
            if what == "begin":
                position += distance
                index.begin(raw, position)
                plain.setdefault(raw, position)
            elif raw in plain:
                position = plain[raw]
                index.forget_from(position)
                plain = {one: began for one, began in plain.items() if began < position}
            assert {one: index.position(one.to_bytes(4)) for one in range(1, 32)} == {
                one: plain.get(one.to_bytes(4)) for one in range(1, 32)
            }
    finally:
        index.close()

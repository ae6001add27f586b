"""The builder of segments: messages are checked, cut and spilled, and each segment can be read
alone.
"""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import pyarrow as pa
import pytest

from subscriber.base.errors import JournalUnavailable, ProtocolError
from subscriber.base.lsn import LSN
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.encode_message import encode
from subscriber.stream.journal.builder import FINISH_KEY, RELATIONS_KEY, SEGMENT_SCHEMA, SegmentBuilder
from subscriber.stream.journal.segment import EntryKind
from subscriber.stream.journal.storage import LocalStorage
from tests.armed import armed
from tests.frames import relation, transaction, values
from tests.journals import T, insert
from tests.streams import frame

U = relation("public.u", {"a": "int4", "b": "text"}, key=["a"], oid=20000)
XID = 700


@pytest.fixture
def storage(tmp_path):
    return LocalStorage(tmp_path)


def builder_with(storage, messages, relations=None, *, in_stream=False) -> SegmentBuilder:
    builder = SegmentBuilder(storage, relations or {}, in_stream=in_stream)
    builder.extend([frame(message, 0x10 + place) for place, message in enumerate(messages)])
    return builder


def publish(builder: SegmentBuilder, finish: bytes = b"C"):
    return builder.publish(LSN(0x100), LSN(0x200), EntryKind.TRANSACTIONS, XID, finish)


def table(storage, segment) -> pa.Table:
    with storage.open(segment.name) as file:
        return pa.ipc.open_file(file).read_all()


def messages_of(storage, segments) -> list[m.Message]:
    return [decode(message) for segment in segments for message in table(storage, segment)["message"].to_pylist()]


def described_by(storage, segment) -> list[m.Message]:
    encoded = json.loads(table(storage, segment).schema.metadata[RELATIONS_KEY])
    return [decode(base64.b64decode(text)) for text in encoded]


def temporary(storage) -> list[str]:
    return sorted(name for name, _ in storage.names() if name.endswith(".tmp"))


def test_a_segment_holds_the_messages_with_their_positions(storage):
    sent = transaction(0x200, T, insert(1), m.Delete(T.relation_id, "K", values("1", None)))
    (segment,) = publish(builder_with(storage, sent))
    assert messages_of(storage, [segment]) == sent
    stored = table(storage, segment)
    assert stored["lsn"].to_pylist() == [0x10, 0x11, 0x12, 0x13, 0x14]
    assert stored.schema.equals(SEGMENT_SCHEMA)


def test_a_position_beyond_four_gigabytes_keeps_all_its_bytes(storage):
    builder = SegmentBuilder(storage, {}, in_stream=False)
    builder.append(frame(T, 0x7123_4567_89AB_CDEF))
    (segment,) = publish(builder)
    assert table(storage, segment)["lsn"].to_pylist() == [0x7123_4567_89AB_CDEF]


def test_messages_of_a_stream_block_lose_their_transaction_id(storage):
    """Rule A3: the journal has messages without it only."""
    change = m.Update(T.relation_id, "K", values("1", None), values("2", "y"), XID)
    sent: list[m.Type | m.Relation | m.Insert | m.Update | m.Delete | m.Truncate | m.LogicalMessage] = [
        m.Type(99, "public", "mood", XID), replace(T, xid=XID), insert(1, xid=XID), change,
        m.Delete(T.relation_id, "K", values("2", None), 701), m.Truncate((T.relation_id,), False, False, XID),
        m.LogicalMessage(True, LSN(5), "p", b"hello", XID),
    ]  # fmt: skip
    (segment,) = publish(builder_with(storage, sent, in_stream=True))
    assert messages_of(storage, [segment]) == [replace(message, xid=None) for message in sent]


def test_begin_and_commit_of_a_streamed_transaction_keep_their_bytes(storage):
    """Begin and Commit never have a transaction ID."""
    builder = builder_with(storage, [replace(T, xid=XID), insert(1, xid=XID)], in_stream=True)
    builder.prepend(frame(m.Begin(LSN(0x1F8), 5, XID)))
    builder.append(frame(m.Commit(LSN(0x1F8), LSN(0x200), 5)))
    assert messages_of(storage, publish(builder)) == transaction(0x200, T, insert(1), xid=XID, timestamp=5)


def test_a_begin_is_put_before_parts_that_are_already_on_disk(storage):
    builder = builder_with(storage, [replace(T, xid=XID), insert(1, xid=XID)], in_stream=True)
    builder.spill()
    builder.prepend(frame(m.Begin(LSN(0x1F8), 5, XID)))
    builder.append(frame(m.Commit(LSN(0x1F8), LSN(0x200), 5)))
    segments = publish(builder)
    assert [(segment.part, segment.parts) for segment in segments] == [(1, 3), (2, 3), (3, 3)]
    assert messages_of(storage, segments) == transaction(0x200, T, insert(1), xid=XID, timestamp=5)


def test_a_segment_carries_the_descriptions_that_it_needs_from_before_and_no_others(storage):
    known = {T.relation_id: T, U.relation_id: U}
    (segment,) = publish(builder_with(storage, transaction(0x200, insert(1)), known))
    assert described_by(storage, segment) == [T]


def test_a_description_inside_the_segment_is_not_repeated(storage):
    older = relation("public.t", {"a": "int4"}, key=["a"])
    (segment,) = publish(builder_with(storage, transaction(0x200, T, insert(1)), {T.relation_id: older}))
    assert described_by(storage, segment) == []


def test_a_description_after_a_change_does_not_replace_the_one_before_it(storage):
    wider = relation("public.t", {"a": "int4", "b": "text", "c": "text"}, key=["a"])
    sent = transaction(0x200, insert(1), wider, m.Insert(T.relation_id, values("2", "y", "z")))
    builder = builder_with(storage, sent, {T.relation_id: T})
    (segment,) = publish(builder)
    assert described_by(storage, segment) == [T]
    assert builder.relations == {T.relation_id: wider}


def test_truncate_needs_descriptions_as_a_change_does(storage):
    sent = transaction(0x200, m.Truncate((T.relation_id, U.relation_id), False, False))
    (segment,) = publish(builder_with(storage, sent, {T.relation_id: T, U.relation_id: U}))
    assert described_by(storage, segment) == [T, U]


def test_every_part_of_a_large_entry_is_self_contained(storage):
    begin, *changes, commit = transaction(0x200, T, insert(1), insert(2))
    builder = builder_with(storage, [begin, *changes[:2]])
    builder.spill()
    builder.extend([frame(changes[2]), frame(commit)])
    first, last = publish(builder)
    assert described_by(storage, first) == []
    assert described_by(storage, last) == [T]


def test_the_last_part_says_how_the_transaction_finished(storage):
    builder = builder_with(storage, transaction(0x200, T, insert(1))[:-1])
    builder.spill()
    commit = encode(m.Commit(LSN(0x1F8), LSN(0x200), 5))
    builder.append(frame(commit))
    first, last = publish(builder, commit)
    assert FINISH_KEY not in table(storage, first).schema.metadata
    assert base64.b64decode(table(storage, last).schema.metadata[FINISH_KEY]) == commit


def test_spilling_nothing_writes_nothing(storage):
    SegmentBuilder(storage, {}, in_stream=False).spill()
    assert storage.names() == []


def test_a_spilled_part_is_not_visible_until_it_is_published(storage):
    builder = builder_with(storage, transaction(0x200, T, insert(1)))
    builder.spill()
    assert len(temporary(storage)) == 1
    segments = publish(builder)
    assert [name for name, _ in storage.names()] == [segment.name for segment in segments]


def test_a_message_that_does_not_decode_writes_nothing(storage):
    bad = encode(insert(1)).replace(b"t", b"z", 1)
    builder = builder_with(storage, [T, insert(1)])
    builder.append(frame(bad, 0x77))
    with pytest.raises(ProtocolError) as caught:
        publish(builder)
    assert storage.names() == []
    error = caught.value
    assert (error.relation, error.lsn, error.message_type, error.offset) == ("public.t", 0x77, "I", 8)


def test_a_full_disk_makes_nothing_visible(storage):
    for point in ("journal.sync.before", "journal.rename.before"):
        with armed(f"{point}=enospc"), pytest.raises(JournalUnavailable):
            publish(builder_with(storage, transaction(0x200, T, insert(1))))
        assert not [name for name, _ in storage.names() if name.endswith(".arrow")]


@pytest.mark.parametrize("spilled_after", [(), (1,), (2,), (3,), (4,), (1, 2, 3, 4)])
@pytest.mark.parametrize("position", [0, 1, 2, 3, 4])
def test_truncate_keeps_exactly_what_came_before(storage, position, spilled_after):
    """Rule C43: wherever a part ends."""
    sent: list[m.Message] = [T, insert(1), insert(2), insert(3)]
    builder = SegmentBuilder(storage, {}, in_stream=False)
    for count, message in enumerate(sent, start=1):
        builder.append(frame(message))
        if count in spilled_after:
            builder.spill()
    builder.truncate(position)
    builder.append(frame(insert(9)))
    kept = [message for message in messages_of(storage, publish(builder)) if isinstance(message, m.Insert)]
    assert kept == [*sent[1:position], insert(9)]
    assert temporary(storage) == []


@pytest.mark.parametrize("spilled", [False, True])
def test_truncate_keeps_descriptions(storage, spilled):
    """Rule A24: the publisher will not repeat them within this transaction."""
    builder = builder_with(storage, [T, insert(1)])
    if spilled:
        builder.spill()
    builder.truncate(0)
    builder.append(frame(insert(2)))
    (segment,) = publish(builder)
    assert [*described_by(storage, segment), *messages_of(storage, [segment])] == [T, insert(2)]


def test_the_position_counts_what_is_kept_on_disk_and_in_memory(storage):
    builder = builder_with(storage, [T, insert(1), insert(2)])
    builder.spill()
    builder.append(frame(insert(3)))
    assert builder.position == 4
    builder.truncate(2)
    assert builder.position == 2


@pytest.mark.parametrize("spilled", [False, True])
@pytest.mark.parametrize("in_stream", [False, True])
def test_discarding_leaves_no_file_and_remembers_descriptions(storage, spilled, in_stream):
    xid = XID if in_stream else None
    builder = builder_with(storage, [replace(T, xid=xid), insert(1, xid=xid)], in_stream=in_stream)
    if spilled:
        builder.spill()
    builder.discard()
    assert storage.names() == []
    assert (builder.position, builder.unwritten, builder.unwritten_bytes, builder.relations) == (
        0,
        0,
        0,
        {T.relation_id: T},
    )


def measured(builder: SegmentBuilder) -> tuple[int, int]:
    """Count and size of the unwritten frames as the builder says, held against the frames
    themselves.
    """
    assert builder.unwritten_bytes == sum(map(len, builder._frames))
    return builder.unwritten, builder.unwritten_bytes


@pytest.mark.parametrize("spilled", [False, True])
def test_the_size_of_unwritten_messages_is_always_known(storage, spilled):
    """Invariant bounded_memory: the receiver relies on this size."""
    one = len(frame(insert(1)))
    builder = builder_with(storage, [T, insert(1), insert(2)])
    before = measured(builder)
    builder.append(frame(insert(3)))
    assert measured(builder) == (4, before[1] + one)
    rest = builder.split(2)
    assert (rest, measured(builder)) == ([frame(insert(2), 0x12), frame(insert(3))], (2, before[1] - one))
    builder.extend(rest)
    if spilled:
        builder.spill()
        assert measured(builder) == (0, 0)
        builder.extend(rest)
    builder.prepend(frame(m.Begin(LSN(0x1F8), 5, XID)))
    assert builder.position == (7 if spilled else 5)
    measured(builder)
    builder.truncate(builder.position - 1)
    builder.truncate(1)
    measured(builder)
    builder.discard()
    assert measured(builder) == (0, 0)
    builder.extend(rest)
    assert measured(builder) == (2, 2 * one)


def test_a_published_builder_is_empty_and_takes_the_next_entry(storage):
    builder = builder_with(storage, transaction(0x200, T, insert(1)))
    publish(builder)
    assert (builder.position, *measured(builder)) == (0, 0, 0)
    builder.extend([frame(message) for message in transaction(0x300, insert(2))])
    (segment,) = builder.publish(LSN(0x200), LSN(0x300), EntryKind.TRANSACTIONS, 0, b"C")
    assert described_by(storage, segment) == [T]


def test_a_part_that_is_split_off_is_not_published(storage):
    """It is the beginning of a transaction that is still open, after transactions that finished."""
    finished = transaction(0x200, T, insert(1))
    builder = builder_with(storage, [*finished, m.Begin(LSN(0x2F8), 5, 8), insert(2)])
    rest = builder.split(len(finished))
    assert messages_of(storage, publish(builder)) == finished
    assert [decode(each[25:]) for each in rest] == [m.Begin(LSN(0x2F8), 5, 8), insert(2)]

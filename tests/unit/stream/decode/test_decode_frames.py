"""Rows of the journal as frames: they have exactly the values that were sent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from subscriber.base.errors import NotSupportedError, ProtocolError, SubscriberError
from subscriber.base.lsn import LSN
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.changes import ChangeGroup, Frame
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.encode_message import encode
from subscriber.stream.decode import decode_frames as decode_frames_module
from subscriber.stream.decode.decode_frames import Descriptions, FrameDecoder, decode_frames
from subscriber.stream.journal.message_rows import FROM_BEFORE
from tests.frames import prepared, relation, transaction, values

T = relation("public.t", {"a": "int4", "b": "text", "c": "int8"}, key=["a"])
U = relation("public.u", {"a": "int4"}, key=["a"], oid=20000)


def frame_of(*messages: m.Message | bytes, as_text: bool = False) -> Frame:
    return FrameDecoder(as_text=as_text).decode(*columns(messages))


def columns(messages) -> tuple[pa.Array, pa.Array]:
    raw = [message if isinstance(message, bytes) else encode(message) for message in messages]
    return pa.array(raw, pa.binary()), pa.array(range(0x1000, 0x1000 + len(raw)), pa.int64())


def update(
    new: tuple[m.ColumnValue, ...], *, kind: m.OldKind | None = None, old: tuple[m.ColumnValue, ...] | None = None
):
    return m.Update(T.relation_id, kind, old, new)


def sent(group: ChangeGroup) -> list[dict[str, object]]:
    assert group.new is not None
    rows: list[dict[str, object]] = group.new.to_pylist()
    return rows


# Absence ------------------------------------------------------------------------------------------


def test_null_is_a_null_cell_and_unchanged_is_no_column():
    """Invariant absence_is_typed, rule A11."""
    frame = frame_of(T, update(values("1", None, "5")), update(values("2", m.UNCHANGED, "6")))
    null, unchanged = sorted(frame.groups, key=lambda group: group.positions[0])
    assert sent(null) == [{"a": 1, "b": None, "c": 5}]
    assert sent(unchanged) == [{"a": 2, "c": 6}]


def test_rows_are_one_group_exactly_if_the_same_columns_were_sent():
    rows = [values("1", "x", "1"), values("2", m.UNCHANGED, "2"), values("3", None, "3"), values("4", m.UNCHANGED, None),
            values("5", m.UNCHANGED, m.UNCHANGED)]  # fmt: skip
    frame = frame_of(T, *(update(row) for row in rows))
    groups = {tuple(group.new.schema.names): group.positions.tolist() for group in frame.groups if group.new}
    assert groups == {("a", "b", "c"): [1, 3], ("a", "c"): [2, 4], ("a",): [5]}


def test_an_update_that_changed_nothing_is_a_row_without_columns():
    frame = frame_of(T, update(values(m.UNCHANGED, m.UNCHANGED, m.UNCHANGED)))
    (group,) = frame.groups
    assert group.new is not None
    assert (group.new.num_rows, group.new.num_columns) == (1, 0)


def test_an_old_key_has_the_identity_s_columns_only():
    """The other columns of a K tuple are sent as NULL, but they may have values (rule A13)."""
    (group,) = frame_of(T, m.Delete(T.relation_id, "K", values("1", None, None))).groups
    assert group.old is not None
    assert group.old.to_pylist() == [{"a": 1}]
    assert group.new is None


def test_an_old_row_has_every_column_and_its_nulls():
    (group,) = frame_of(T, m.Delete(T.relation_id, "O", values("1", None, "7"))).groups
    assert group.old is not None
    assert group.old.to_pylist() == [{"a": 1, "b": None, "c": 7}]


def test_a_changed_key_has_both_tuples():
    frame = frame_of(T, update(values("2", m.UNCHANGED, "6"), kind="K", old=values("1", None, None)))
    (group,) = frame.groups
    assert group.old is not None
    assert (group.old_kind, group.old.to_pylist(), sent(group)) == ("K", [{"a": 1}], [{"a": 2, "c": 6}])


def test_a_column_with_only_nulls_has_its_type():
    (group,) = frame_of(T, m.Insert(T.relation_id, values("1", None, None))).groups
    assert group.new is not None
    assert group.new.schema.types == [pa.int32(), pa.string(), pa.int64()]


# Text and binary ----------------------------------------------------------------------------------


def test_binary_and_text_values_of_one_column_are_equal():
    """Rule A12: a column may come as text in a binary stream."""
    binary = m.Insert(T.relation_id, (m.BinaryValue(b"\0\0\0\7"), m.BinaryValue(b"x"), m.NULL))
    text = m.Insert(T.relation_id, values("7", "x", None))
    frame = frame_of(T, text, binary, text, binary)
    assert sorted(group.positions.tolist() for group in frame.groups) == [[1, 3], [2, 4]]
    for group in frame.groups:
        assert sent(group) == [{"a": 7, "b": "x", "c": None}] * 2
        assert group.binary == ({"a", "b"} if group.positions[0] == 2 else set())
        assert group.new is not None
        assert group.new.schema.types == [pa.int32(), pa.string(), pa.int64()]


def test_nulls_do_not_split_binary_rows():
    rows: list[m.TupleData] = [
        (m.BinaryValue(b"\0\0\0\1"), m.NULL, m.NULL),
        (m.BinaryValue(b"\0\0\0\2"), m.BinaryValue(b"y"), m.NULL),
    ]
    frame = frame_of(T, *(m.Insert(T.relation_id, row) for row in rows))
    (group,) = frame.groups
    assert sent(group) == [{"a": 1, "b": None, "c": None}, {"a": 2, "b": "y", "c": None}]


def test_a_column_is_binary_if_one_of_its_values_came_in_binary_form():
    """C5: in the old or in the new row. NULL and values that were not sent do not count."""
    old, new = (
        (m.BinaryValue(b"\0\0\0\1"), m.BinaryValue(b"y"), m.NULL),
        (m.BinaryValue(b"\0\0\0\1"), m.UNCHANGED, m.NULL),
    )
    groups = frame_of(T, update(new, kind="O", old=old), m.Delete(T.relation_id, "K", (old[0], m.NULL, m.NULL))).groups
    assert {(group.action, group.binary) for group in groups} == {("U", frozenset("ab")), ("D", frozenset("a"))}


def test_as_text_keeps_postgresqls_text():
    (group,) = frame_of(T, m.Insert(T.relation_id, values("1", "x", None)), as_text=True).groups
    assert sent(group) == [{"a": "1", "b": "x", "c": None}]


# Places -------------------------------------------------------------------------------------------


def test_controls_keep_their_bytes_and_places():
    messages = transaction(
        0x200, T, m.Insert(T.relation_id, values("1", "x", None)), m.LogicalMessage(True, LSN(1), "p", b"x")
    )
    frame = frame_of(*messages)
    assert [(control.position, decode(control.message)) for control in frame.controls] == [
        (0, messages[0]), (3, messages[3]), (4, messages[4]),
    ]  # fmt: skip
    assert [group.positions.tolist() for group in frame.groups] == [[2]]


def test_truncate_has_the_shape_that_was_described_last():
    """Rule C1."""
    wider = replace(T, columns=(*T.columns, U.columns[0]))
    truncate = m.Truncate((T.relation_id, U.relation_id), False, False)
    frame = frame_of(T, U, truncate, wider, truncate)
    assert [(control.position, control.relations) for control in frame.controls] == [(2, (T, U)), (4, (wider, U))]


def test_relation_descriptions_are_remembered_for_later_batches():
    decoder = FrameDecoder()
    decoder.decode(*columns([T]))
    frame = decoder.decode(
        *columns([m.Truncate((T.relation_id,), False, False), m.Insert(T.relation_id, values("1", "x", "2"))])
    )
    assert frame.controls[0].relations == (T,)
    assert frame.groups[0].relation == T


def test_a_frame_is_read_back_from_its_bytes():
    frame = frame_of(
        T, *transaction(0x200, m.Insert(T.relation_id, values("1", None, "2")), update(values("1", m.UNCHANGED, None)))
    )
    again = Frame.decode(frame.encode())
    assert again.controls == frame.controls
    for one, other in zip(frame.groups, again.groups, strict=True):
        assert one.new is not None
        assert one.new.equals(other.new)
        assert np.array_equal(one.positions, other.positions)


def batch(*messages: m.Message) -> pa.RecordBatch:
    raw, lsns = columns(messages)
    return pa.record_batch([lsns, lsns, raw], ["lsn", "finish_lsn", "message"])


ROW = m.Insert(T.relation_id, values("1", "x", None))


def rows_of_frames(*batches: pa.RecordBatch) -> list[int]:
    return [sum(map(len, frame.groups)) for frame in decode_frames(iter(batches), as_text=False)]


def test_small_batches_are_joined_to_one_frame():
    """Each segment of the journal begins with the relation messages that it needs."""
    assert rows_of_frames(batch(T, ROW), batch(), batch(T, ROW, ROW), batch(ROW)) == [4]


@pytest.mark.parametrize(("limit", "value"), [("JOINED_ROWS", 4), ("JOINED_BYTES", 1)])
def test_joined_batches_have_a_limit(monkeypatch, limit, value):
    """bounded_memory"""
    monkeypatch.setattr(decode_frames_module, limit, value)
    batches = [batch(T, ROW, ROW), batch(ROW, ROW, ROW), batch(ROW, ROW, ROW)]
    assert rows_of_frames(*batches) == [2, 3, 3]


def test_the_batches_before_one_that_cannot_be_decoded_become_frames():
    """C35: their transactions are applied before the error is reported."""
    bad = m.Insert(T.relation_id, values("one", "x", None))
    frames = decode_frames(iter([batch(T, ROW), batch(ROW), batch(ROW, bad), batch(ROW)]), as_text=False)
    assert [sum(map(len, next(frames).groups)) for _ in range(2)] == [1, 1]
    with pytest.raises(ProtocolError, match="invalid input syntax"):
        next(frames)


def test_a_begin_prepare_has_the_finish_lsn_of_its_transaction():
    """C50a: the message does not have it; the reader of the journal provides it."""
    raw, lsns = columns([*prepared(300), m.RollbackPrepared(LSN(1), LSN(2), 3, 4, 732, "g")])
    finishes = pa.array([290 + number for number in range(len(raw))], pa.int64())
    (frame,) = decode_frames([pa.record_batch([lsns, finishes, raw], ["lsn", "finish_lsn", "message"])], as_text=False)
    assert [(chr(one.message[0]), one.finish_lsn) for one in Frame.decode(frame.encode()).controls] == [
        ("b", 290), ("P", 0), ("K", 0), ("r", 0),
    ]  # fmt: skip


def test_a_table_without_columns_has_rows():
    bare = relation("public.bare", {}, oid=5)
    (group,) = frame_of(bare, m.Insert(5, ()), m.Insert(5, ())).groups
    assert group.new is not None
    assert (group.new.num_rows, group.new.num_columns) == (2, 0)


# Errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_invalid_value_is_reported_with_its_relation_column_and_lsn(place):
    """An invalid value does not become NULL (rule C5). The error has the place of its change."""
    rows = [m.Insert(T.relation_id, values("1", "x", "5")) for _ in range(3)]
    rows[place] = m.Insert(T.relation_id, values("1", "x", "five"))
    with pytest.raises(ProtocolError) as caught:
        frame_of(T, *rows)
    error = caught.value
    assert (error.relation, error.column, error.lsn) == ("public.t", "c", 0x1001 + place)
    assert error.message == "invalid input syntax for type bigint"
    assert "five" not in error.report()


def test_the_error_has_the_lsn_of_its_change_in_a_group_of_several():
    good, other = update(values("1", "x", "5")), update(values("1", m.UNCHANGED, "6"))
    with pytest.raises(ProtocolError) as caught:
        frame_of(T, good, other, good, other, update(values("1", m.UNCHANGED, "bad")))
    assert (caught.value.column, caught.value.lsn) == ("c", 0x1005)


def test_a_value_of_an_old_tuple_is_reported_too():
    with pytest.raises(ProtocolError) as caught:
        frame_of(T, m.Delete(T.relation_id, "K", values("one", None, None)))
    assert (caught.value.relation, caught.value.column, caught.value.lsn) == ("public.t", "a", 0x1001)


def test_a_binary_value_of_an_unsupported_type_is_refused_with_its_column():
    shape = relation("public.j", {"a": "money"}, oid=7)
    with pytest.raises(NotSupportedError) as caught:
        frame_of(shape, m.Insert(7, (m.BinaryValue(b"\1{}"),)))
    assert (caught.value.relation, caught.value.column, caught.value.lsn) == ("public.j", "a", 0x1001)


def test_a_truncate_of_a_relation_that_was_never_described_is_refused_with_its_lsn():
    with pytest.raises(ProtocolError, match="no relation map entry for remote relation ID 99") as caught:
        frame_of(T, m.Truncate((T.relation_id, 99), False, False))
    assert (caught.value.lsn, caught.value.message_type) == (0x1001, "T")


def test_a_malformed_message_is_refused_with_its_lsn():
    with pytest.raises(SubscriberError) as caught:
        frame_of(T, encode(m.Insert(T.relation_id, values("1", "x", "5")))[:-1])
    assert (caught.value.relation, caught.value.lsn) == ("public.t", 0x1001)


# Relation messages that the server has sent -------------------------------------------------------


def described(found: Descriptions, *rows: tuple[int, m.Message], finish: int = 0) -> int:
    """The last LSN that is described in a batch of messages with these LSNs."""
    lsns, messages = zip(*rows, strict=True)
    return found.last(
        pa.record_batch(
            [
                pa.array(lsns, pa.int64()),
                pa.array([encode(one) for one in messages], pa.binary()),
                pa.array([finish] * len(rows), pa.int64()),
            ],
            ["lsn", "message", "finish_lsn"],
        )
    )


def test_a_relation_message_is_sent_with_the_change_after_it():
    change = m.Insert(U.relation_id, values("1"))
    assert described(Descriptions(), (0, U), (0x20, change), (0x30, change)) == 0x20
    assert described(Descriptions(), (0x10, change), (0, U), (0, T), (0x20, change)) == 0x20


def test_relation_messages_from_earlier_segments_were_not_sent():
    change = m.Insert(U.relation_id, values("1"))
    assert described(Descriptions(), (FROM_BEFORE, U), (0x20, change)) == 0


def test_a_relation_message_at_the_end_of_a_batch_is_sent_with_the_first_change_of_the_next_one():
    change, found = m.Insert(U.relation_id, values("1")), Descriptions()
    assert described(found, (0x10, change), (0, U)) == 0
    assert described(found, (0x20, change), (0x30, change)) == 0x20
    assert described(found, (0x40, change)) == 0
    assert described(Descriptions(), (0x10, change), (0, U), finish=0x99) == 0x99

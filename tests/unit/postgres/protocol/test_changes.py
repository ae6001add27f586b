from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

from subscriber.base.errors import JournalCorrupt
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.changes import ChangeGroup, Control, Controls, Frame
from subscriber.postgres.protocol.encode_message import encode
from tests.frames import frame, relation, transaction, values

T = relation("public.t", {"a": "int4", "b": "text", "c": "bytea"}, ["a"])
U = relation("other.u", {"x": "float8"}, identity="f", oid=7)


def mixed() -> Frame:
    return frame(
        [T, U],
        [
            m.Origin(0, "elsewhere"),
            *transaction(
                200,
                m.Insert(16384, values("1", None, "\\x00ff")),
                m.Update(16384, None, None, values("1", m.UNCHANGED, None)),
                m.Delete(7, "O", values("NaN")),
                m.Truncate((7, 16384), cascade=False, restart_identity=True),
                m.Delete(16384, "K", values("1", None, None)),
            ),
        ],
    )


def assert_same(left: Frame, right: Frame) -> None:
    assert left.controls == right.controls
    assert len(left.groups) == len(right.groups)
    for one, other in zip(left.groups, right.groups, strict=True):
        assert (one.relation, one.action, one.old_kind) == (other.relation, other.action, other.old_kind)
        assert one.binary == other.binary
        assert one.positions.tolist() == other.positions.tolist()
        assert one.positions.dtype == other.positions.dtype == np.int32
        for mine, yours in ((one.old, other.old), (one.new, other.new)):
            if mine is None or yours is None:
                assert mine is yours
            else:
                assert mine.schema == yours.schema
                assert repr(mine.to_pylist()) == repr(yours.to_pylist())


def test_a_frame_survives_its_bytes():
    """absence_is_typed: NULL, unchanged and not-sent stay different."""
    again = Frame.decode(mixed().encode())
    assert_same(again, mixed())
    update = next(group for group in again.groups if group.action == "U")
    assert update.new is not None
    assert update.new.schema.names == ["a", "c"]
    assert update.new.column("c").null_count == 1


def test_columns_that_came_in_binary_form_are_known_behind_the_bytes_and_in_a_slice():
    """C5: names that begin as our marks do are names all the same."""
    odd = relation("public.odd", {"bx": "int4", "tx": "int4", "": "text"}, identity="f")
    update = m.Update(16384, "O", values("1", "2", "a"), values("3", m.UNCHANGED, None))
    (group,) = Frame.decode(frame([odd], [update], binary=("bx", "")).encode()).groups
    assert group.slice(0, 1).binary == group.binary == {"bx", ""}
    assert group.old is not None
    assert group.new is not None
    assert (group.old.schema.names, group.new.schema.names) == (["bx", "tx", ""], ["bx", ""])


def test_an_empty_frame_survives_its_bytes():
    assert Frame.decode(Frame(()).encode()) == Frame(())


def test_a_frame_can_be_read_from_a_memoryview():
    assert_same(Frame.decode(memoryview(mixed().encode())), mixed())


def test_rows_without_columns_are_still_rows():
    bare = relation("public.bare", {})
    group = ChangeGroup(bare, "I", None, np.arange(3, dtype=np.int32), None, pa.RecordBatch.from_arrays([], names=[]))
    again = Frame.decode(Frame((group,)).encode()).groups[0]
    assert len(again) == 3
    assert again.new is not None
    assert again.new.num_columns == 0


def test_a_relation_announced_inside_a_stream_keeps_its_xid():
    streamed = dataclasses.replace(T, xid=733)
    control = Control(0, encode(m.Truncate((16384,), cascade=False, restart_identity=False)), (streamed,))
    assert Frame.decode(Frame((), Controls.of([control])).encode()).controls[0].relations == (streamed,)


def test_a_relation_is_written_once_however_often_it_is_named():
    one = len(Frame((), Controls.of([Control(0, b"T", (T,))])).encode())
    two = len(Frame((), Controls.of([Control(0, b"T", (T,)), Control(1, b"T", (T,))])).encode())
    assert two - one < len(encode(T))


def test_every_prefix_of_a_frame_is_refused():
    data = mixed().encode()
    for length in range(len(data) - 8):
        with pytest.raises(JournalCorrupt):
            Frame.decode(data[:length])


def test_bytes_that_are_no_frame_are_refused():
    with pytest.raises(JournalCorrupt, match="magic"):
        Frame.decode(bytes(64))

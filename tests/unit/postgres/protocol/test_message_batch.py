"""Batches of messages: grouped by shape, every byte accounted for, every fault placed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from subscriber.base.errors import ProtocolError
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.encode_message import encode
from subscriber.postgres.protocol.message_batch import MessageBatch, column_bytes, group_changes
from tests.frames import relation, transaction, values

T = relation("public.t", {"a": "int4", "b": "text"}, key=["a"])
WIDER = relation("public.t", {"a": "int4", "b": "text", "c": "text"}, key=["a"])
U = relation("public.u", {"a": "int4"}, key=["a"], oid=20000)
KNOWN = {T.relation_id: T, U.relation_id: U}


def insert(key: int, *more: str, shape: m.Relation = T) -> m.Insert:
    return m.Insert(shape.relation_id, values(str(key), *more))


def batch_of(*messages: m.Message | bytes, known: dict[int, m.Relation] | None = None) -> MessageBatch:
    raw = [message if isinstance(message, bytes) else encode(message) for message in messages]
    lsns = np.arange(0x1000, 0x1000 + len(raw), dtype=np.int64)
    return group_changes(pa.array(raw, pa.binary()), KNOWN if known is None else known, lsns)


def summary(batch: MessageBatch) -> list[tuple[m.Relation, str, str | None, list[int]]]:
    return [(group.relation, group.action, group.old_kind, group.rows.tolist()) for group in batch.groups]


# Grouping -----------------------------------------------------------------------------------------


def test_changes_of_one_relation_and_action_are_one_group_wherever_they_stand():
    batch = batch_of(
        insert(1, "x"), insert(7, shape=U), insert(2, "y"), m.Delete(T.relation_id, "K", values("1", None))
    )
    assert summary(batch) == [(T, "I", None, [0, 2]), (T, "D", "K", [3]), (U, "I", None, [1])]


def test_everything_else_is_a_control_in_its_place():
    begin, *_, commit = transaction(0x200)
    truncate = m.Truncate((T.relation_id,), False, False)
    batch = batch_of(begin, T, insert(1, "x"), m.Type(9, "public", "mood"), truncate, commit)
    assert batch.controls.tolist() == [0, 4, 5]


def test_updates_are_grouped_by_the_old_tuple_they_carry():
    new = values("1", "y")
    none = m.Update(T.relation_id, None, None, new)
    key = m.Update(T.relation_id, "K", values("0", None), new)
    old = m.Update(T.relation_id, "O", values("0", "x"), new)
    batch = batch_of(old, none, key, none, old, key)
    assert summary(batch) == [(T, "U", None, [1, 3]), (T, "U", "K", [2, 5]), (T, "U", "O", [0, 4])]
    for group in batch.groups:
        assert group.new is not None
        assert column_bytes(batch.buffer, group.new, 1).to_pylist() == [b"y", b"y"]
        assert (group.old is None) == (group.old_kind is None)


def test_deletes_are_grouped_by_the_old_tuple_they_carry():
    batch = batch_of(m.Delete(T.relation_id, "O", values("1", "x")), m.Delete(T.relation_id, "K", values("2", None)))
    assert summary(batch) == [(T, "D", "K", [1]), (T, "D", "O", [0])]
    assert all(group.new is None for group in batch.groups)


def test_a_change_goes_by_the_description_before_it_and_no_other():
    """Rule C1: the shape may change in the middle of a batch."""
    batch = batch_of(insert(1, "x"), WIDER, insert(2, "y", "z"), insert(3, "y", "z"), T, insert(4, "x"))
    assert summary(batch) == [(T, "I", None, [0]), (WIDER, "I", None, [2, 3]), (T, "I", None, [5])]
    assert batch.relations[T.relation_id] == T
    assert batch.used_before == {T.relation_id}


def test_a_description_that_repeats_what_is_known_cuts_nothing():
    """Rule A24: it is repeated after any DDL."""
    batch = batch_of(insert(1, "x"), T, insert(2, "y"))
    assert summary(batch) == [(T, "I", None, [0, 2])]
    assert batch.shapes == {}


def test_a_relation_first_described_in_the_batch_needs_nothing_from_before():
    batch = batch_of(T, insert(1, "x"), known={})
    assert batch.used_before == frozenset()
    assert batch.relations == {T.relation_id: T}


def test_the_map_from_before_is_not_changed():
    known = {T.relation_id: T}
    batch_of(WIDER, known=known)
    assert known == {T.relation_id: T}


def test_the_shape_at_a_row_is_the_last_one_described_before_it():
    """A TRUNCATE names relations by their id only."""
    batch = batch_of(insert(1, "x"), WIDER, insert(2, "y", "z"), T, insert(3, "x"))
    assert [batch.relation_at(T.relation_id, row) for row in range(5)] == [T, WIDER, WIDER, T, T]
    assert batch.relation_at(99, 0) is None


def test_a_slice_of_a_column_is_read_at_its_place():
    raw = pa.array([encode(message) for message in (U, insert(1, "x"), insert(2, "y"))], pa.binary())
    batch = group_changes(raw.slice(1), KNOWN)
    (group,) = batch.groups
    assert group.rows.tolist() == [0, 1]
    assert group.new is not None
    assert column_bytes(batch.buffer, group.new, 0).to_pylist() == [b"1", b"2"]


def test_the_relation_map_is_copied_only_when_a_batch_brings_a_description():
    """Thousands of tables may be in it, and a group commit comes a hundred times a second."""
    assert batch_of(insert(1, "x")).relations is KNOWN
    assert batch_of(T, insert(1, "x")).relations is KNOWN
    known = {U.relation_id: U}
    after = batch_of(T, insert(1, "x"), known=known).relations
    assert (after, known) == (KNOWN, {U.relation_id: U})


def test_wide_offsets_are_read_too():
    raw = pa.array([encode(insert(1, "x"))], pa.large_binary())
    assert summary(group_changes(raw, KNOWN)) == [(T, "I", None, [0])]


def test_an_empty_batch_has_nothing():
    batch = batch_of()
    assert (batch.groups, batch.controls.tolist(), batch.relations) == ((), [], KNOWN)


def test_a_table_without_columns_has_changes_too():
    bare = relation("public.bare", {}, oid=5)
    batch = batch_of(bare, m.Insert(5, ()), known={})
    assert summary(batch) == [(bare, "I", None, [1])]


# Faults -------------------------------------------------------------------------------------------

UPDATE = encode(m.Update(T.relation_id, "K", values("0", None), values("1", "y")))
"""U · id(4) · K · 2 columns · t 1 '0' · n · N at 15 · 2 columns · t 1 '1' · t 1 'y'"""
INSERT = encode(insert(1, "x"))
"""I · id(4) · N · 2 columns(6) · t(8) length(9) '1'(13) · t(14) length(15) 'x'(19)"""
DELETE = encode(m.Delete(T.relation_id, "K", values("1", None)))


def changed(message: bytes, at: int, byte: bytes) -> bytes:
    return message[:at] + byte + message[at + 1 :]


FAULTS = [
    pytest.param(INSERT[:7], "insufficient data left in message", 7, "I", None, id="shorter than any change"),
    pytest.param(INSERT[:-1], "insufficient data left in message", 19, "I", "public.t", id="value cut off"),
    pytest.param(INSERT[:11], "insufficient data left in message", 9, "I", "public.t", id="length cut off"),
    pytest.param(INSERT[:14], "insufficient data left in message", 14, "I", "public.t", id="column cut off"),
    pytest.param(INSERT + b"!", "invalid message format: bytes after the tuple", 20, "I", "public.t", id="bytes after"),
    pytest.param(changed(INSERT, 5, b"K"), "expected new tuple but got 75", 5, "I", "public.t", id="insert's marker"),
    pytest.param(
        changed(INSERT, 7, b"\3"), "tuple has 3 columns, its relation 2", 6, "I", "public.t", id="number of columns"
    ),
    pytest.param(
        changed(INSERT, 8, b"z"), "unrecognized data representation type 'z'", 8, "I", "public.t", id="kind of column"
    ),
    pytest.param(
        changed(INSERT, 9, b"\x7f"), "insufficient data left in message", 13, "I", "public.t", id="huge length"
    ),
    pytest.param(
        changed(INSERT, 4, b"\x09"), "no relation map entry for remote relation ID 16393", 1, "I", None, id="unknown id"
    ),
    pytest.param(changed(UPDATE, 5, b"x"), "expected action 'N', 'O' or 'K', got x", 5, "U", "public.t", id="update's"),
    pytest.param(changed(UPDATE, 15, b"O"), "expected action 'N', got O", 15, "U", "public.t", id="new after old"),
    pytest.param(UPDATE[:15], "insufficient data left in message", 15, "U", "public.t", id="no new tuple"),
    pytest.param(
        UPDATE + b"!", "invalid message format: bytes after the tuple", 30, "U", "public.t", id="after update"
    ),
    pytest.param(
        changed(DELETE, 5, b"N"), "expected action 'O' or 'K', got N", 5, "D", "public.t", id="delete's marker"
    ),
    pytest.param(
        DELETE + b"!", "invalid message format: bytes after the tuple", 15, "D", "public.t", id="after delete"
    ),
    pytest.param(encode(T)[:9], "invalid string in message", None, "R", None, id="description cut off"),
]


@pytest.mark.parametrize(("bad", "text", "offset", "tag", "name"), FAULTS)
@pytest.mark.parametrize("before", [0, 3])
def test_a_malformed_change_is_reported_where_it_is(bad, text, offset, tag, name, before):
    """Rule A19: text, message type, byte, relation and LSN, whatever stands around it."""
    good = [insert(number, "good") for number in range(before)]
    with pytest.raises(ProtocolError) as caught:
        batch_of(*good, bad, *good, *good)
    error = caught.value
    assert error.message.startswith(text)
    assert (error.message_type, error.relation, error.lsn, error.sqlstate) == (tag, name, 0x1000 + before, "08P01")
    if offset is not None:
        assert error.offset == offset
        assert f"at byte {offset}" in str(error.context)


def test_a_change_before_its_description_is_refused_even_if_one_follows():
    """Rules C1, C3."""
    with pytest.raises(ProtocolError, match="no relation map entry for remote relation ID 16384") as caught:
        batch_of(insert(1, "x"), T, insert(2, "y"), known={})
    assert caught.value.lsn == 0x1000


def test_a_tuple_of_the_old_shape_after_a_new_description_is_refused():
    with pytest.raises(ProtocolError, match="tuple has 2 columns, its relation 3") as caught:
        batch_of(insert(1, "x"), WIDER, insert(2, "y"))
    assert (caught.value.lsn, caught.value.relation) == (0x1002, "public.t")


def test_an_empty_message_is_refused():
    with pytest.raises(ProtocolError, match="empty logical replication message") as caught:
        batch_of(insert(1, "x"), b"")
    assert (caught.value.offset, caught.value.lsn) == (0, 0x1001)


def test_without_positions_an_error_has_no_lsn():
    with pytest.raises(ProtocolError) as caught:
        group_changes(pa.array([INSERT[:-1]], pa.binary()), KNOWN)
    assert caught.value.lsn is None


def test_no_error_repeats_a_value():
    """Invariant names_are_data."""
    with pytest.raises(ProtocolError) as caught:
        batch_of(encode(insert(1, "s3cret")) + b"!")
    assert "s3cret" not in caught.value.report()

"""The message decoder: samples, errors, and the defects of other decoders (A.1, A.2, A.6, A19,
A20).
"""

from __future__ import annotations

import pickle
import struct

import pytest

from subscriber.base.errors import ProtocolError
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.encode_message import encode

LSN, END, SECOND = 0x16B3748, 0x16B3778, 1_000_000

SAMPLES: list[tuple[str, str, bool, m.Message]] = [
    ("begin", "4200000000016b374800000000000f4240000002db", False, m.Begin(LSN, SECOND, 731)),
    (
        "relation",
        "52000040007075626c696300740064000201610000000017ffffffff00620000000019ffffffff",
        False,
        m.Relation(16384, "public", "t", "d", (m.RelationColumn(1, "a", 23, -1), m.RelationColumn(0, "b", 25, -1))),
    ),
    ("insert", "49000040004e00027400000001316e", False, m.Insert(16384, (m.TextValue(b"1"), m.NULL))),
    (
        "insert in stream",
        "49000002dd000040004e00027400000001316e",
        True,
        m.Insert(16384, (m.TextValue(b"1"), m.NULL), 733),
    ),
    (
        "update",
        "55000040004b00027400000001316e4e000274000000013275",
        False,
        m.Update(16384, "K", (m.TextValue(b"1"), m.NULL), (m.TextValue(b"2"), m.UNCHANGED)),
    ),
    ("truncate", "54000000010200004000", False, m.Truncate((16384,), cascade=False, restart_identity=True)),
    ("message", "4d0100000000016b380070667800000000026869", False, m.LogicalMessage(True, 0x16B3800, "pfx", b"hi")),
    (
        "commit",
        "430000000000016b374800000000016b377800000000000f4240",
        False,
        m.Commit(LSN, END, SECOND),
    ),
    ("abort", "41000002db000002dd", False, m.StreamAbort(731, 733)),
    (
        "abort, parallel",
        "41000002db000002dd00000000016b400000000000001e8480",
        False,
        m.StreamAbort(731, 733, 0x16B4000, 2 * SECOND),
    ),
]


@pytest.mark.parametrize(("data", "in_stream", "message"), [s[1:] for s in SAMPLES], ids=[s[0] for s in SAMPLES])
def test_the_samples_of_the_semantics_read_and_write(data, in_stream, message):
    """A.6, both ways."""
    assert decode(bytes.fromhex(data), in_stream=in_stream) == message
    assert encode(message).hex() == data


GID = b"gid\0"
PREPARED = struct.pack(">QQqI", LSN, END, SECOND, 731) + GID

HAND_MADE: list[tuple[m.Message, bytes]] = [
    (m.Origin(0x10, "up"), b"O" + struct.pack(">Q", 0x10) + b"up\0"),
    (m.Type(70000, "s", "mood"), b"Y" + struct.pack(">I", 70000) + b"s\0mood\0"),
    (m.Type(70000, "s", "mood", 5), b"Y" + struct.pack(">II", 5, 70000) + b"s\0mood\0"),
    (m.Delete(16384, "O", (m.BinaryValue(b"\0\1"),)), b"D\0\0\x40\0O\0\1b\0\0\0\2\0\1"),
    (m.StreamStart(731, True), b"S\0\0\2\xdb\1"),
    (m.StreamStart(731, False), b"S\0\0\2\xdb\0"),
    (m.StreamStop(), b"E"),
    (m.StreamCommit(731, LSN, END, SECOND), b"c" + struct.pack(">IBQQq", 731, 0, LSN, END, SECOND)),
    (m.BeginPrepare(LSN, END, SECOND, 731, "gid"), b"b" + PREPARED),
    (m.Prepare(LSN, END, SECOND, 731, "gid"), b"P\0" + PREPARED),
    (m.CommitPrepared(LSN, END, SECOND, 731, "gid"), b"K\0" + PREPARED),
    (m.StreamPrepare(LSN, END, SECOND, 731, "gid"), b"p\0" + PREPARED),
    (
        m.RollbackPrepared(LSN, END, SECOND, 2 * SECOND, 731, "gid"),
        b"r\0" + struct.pack(">QQqqI", LSN, END, SECOND, 2 * SECOND, 731) + GID,
    ),
]


@pytest.mark.parametrize(("message", "data"), HAND_MADE, ids=lambda value: type(value).__name__)
def test_the_other_layouts_of_the_manual_read_and_write(message, data):
    """A.2, the messages without a sample."""
    assert encode(message) == data
    assert decode(data, in_stream=getattr(message, "xid", None) is not None) == message


@pytest.mark.parametrize(
    ("message", "size"),
    [
        (m.Begin(1, 0, 1), 21),
        (m.Commit(1, 2, 0), 26),
        (m.Origin(1, ""), 10),
        (m.Truncate((1, 2, 3), True, True), 6 + 12),
        (m.StreamStart(1, True), 6),
        (m.StreamStop(), 1),
        (m.StreamCommit(1, 1, 2, 0), 30),
        (m.StreamAbort(1, 1), 9),
        (m.StreamAbort(1, 1, 0, 0), 25),
        (m.BeginPrepare(1, 2, 0, 1, ""), 30),
        (m.Prepare(1, 2, 0, 1, ""), 31),
        (m.CommitPrepared(1, 2, 0, 1, ""), 31),
        (m.RollbackPrepared(1, 2, 0, 0, 1, ""), 39),
        (m.StreamPrepare(1, 2, 0, 1, ""), 31),
    ],
    ids=lambda value: getattr(value, "type_byte", value),
)
def test_fixed_sizes_are_those_of_the_table(message, size):
    """A.2, last column."""
    assert len(encode(message)) == size


# --- defects of other decoders -------------------------------------------------------------------


def test_the_xid_of_begin_is_four_bytes():
    """pypgoutput reads eight, which a short read of BytesIO hides; here the ninth byte is a byte
    too many.
    """
    assert decode(bytes.fromhex(SAMPLES[0][1])).xid == 731  # type: ignore[union-attr]
    with pytest.raises(ProtocolError, match="invalid message format"):
        decode(bytes.fromhex(SAMPLES[0][1]) + b"\0\0\0\0")


def test_a_short_read_is_an_error_and_not_a_smaller_number():
    """BytesIO.read(4) gives three bytes of three, and int.from_bytes makes a number of them."""
    with pytest.raises(ProtocolError, match="insufficient data left in message"):
        decode(bytes.fromhex(SAMPLES[0][1])[:-1])


XID, TOP, EARLIEST = 0xFFFF_FFFE, 0xFFFF_FFFF_FFFF_FFFE, -(2**63)

EXTREME: list[m.Message] = [
    m.Begin(TOP, EARLIEST, XID),
    m.Commit(TOP, TOP, EARLIEST),
    m.Origin(TOP, "o"),
    m.Relation(XID, "s", "t", "d", (m.RelationColumn(0, "c", XID, -(2**31)),), XID),
    m.Type(XID, "s", "t", XID),
    m.Insert(XID, (), XID),
    m.Update(XID, "O", (), (), XID),
    m.Delete(XID, "K", (), XID),
    m.Truncate((XID, XID), cascade=True, restart_identity=False, xid=XID),
    m.LogicalMessage(True, TOP, "p", b"", XID),
    m.StreamStart(XID, first_segment=True),
    m.StreamStop(),
    m.StreamCommit(XID, TOP, TOP, EARLIEST),
    m.StreamAbort(XID, XID - 1, TOP, EARLIEST),
    m.BeginPrepare(TOP, TOP, EARLIEST, XID, "g"),
    m.Prepare(TOP, TOP, EARLIEST, XID, "g"),
    m.CommitPrepared(TOP, TOP, EARLIEST, XID, "g"),
    m.RollbackPrepared(TOP, TOP, EARLIEST, EARLIEST, XID, "g"),
    m.StreamPrepare(TOP, TOP, EARLIEST, XID, "g"),
]


@pytest.mark.parametrize("message", EXTREME, ids=lambda message: type(message).__name__)
def test_oids_xids_and_lsns_are_unsigned_and_timestamps_are_signed(message):
    """A1: pypgoutput reads OIDs as signed, and half of them become negative numbers."""
    assert decode(encode(message), in_stream=True) == message


@pytest.mark.parametrize("data", [b"O" + bytes(8) + b"no end", b"Y\0\0\0\1s\0no end", b"M\1" + bytes(8) + b"no end"])
def test_a_string_without_nul_ends_in_an_error(data):
    """pypgoutput waits for the NUL for ever."""
    with pytest.raises(ProtocolError, match="invalid string in message"):
        decode(data)


def test_an_unknown_tuple_kind_is_not_skipped():
    """A19: pypgoutput drops it, and the columns after it move to the left."""
    with pytest.raises(ProtocolError, match="unrecognized data representation type 'z'") as caught:
        decode(b"I\0\0\0\1N\0\3nzn")
    assert caught.value.offset == 9
    assert caught.value.message_type == "I"


def test_truncate_is_a_message_like_any_other():
    """pypgoutput's users ignore it; here its flags and all its relations are there."""
    message = decode(b"T\0\0\0\2\3\0\0\0\1\0\0\0\2")
    assert message == m.Truncate((1, 2), cascade=True, restart_identity=True)


def test_an_empty_message_is_an_error():
    """pglogrepl's Parse reads data[0] unchecked."""
    with pytest.raises(ProtocolError, match="no data left in message") as caught:
        decode(b"")
    assert caught.value.message_type is None


@pytest.mark.parametrize("marker", b"XKO\0")
def test_the_new_tuple_of_an_update_is_marked(marker):
    """A19: pglogrepl skips the marker unchecked; here 'N' must follow the old tuple."""
    with pytest.raises(ProtocolError, match="expected action 'N', got"):
        decode(b"U\0\0\0\1K\0\0" + bytes([marker]) + b"\0\0")


@pytest.mark.parametrize("length", [4, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF])
def test_a_length_past_the_end_is_refused(length):
    """pglogrepl slices without bounds; 0xFFFFFFFF is -1 for a signed reader."""
    with pytest.raises(ProtocolError, match="insufficient data left in message"):
        decode(b"I\0\0\0\1N\0\1t" + struct.pack(">I", length) + b"abc")
    with pytest.raises(ProtocolError, match="insufficient data left in message"):
        decode(b"M\0" + bytes(8) + b"p\0" + struct.pack(">I", length) + b"abc")


def test_reading_past_the_end_is_not_zero():
    """pgcopydb's readers give 0 on underflow: an R without its type modifier."""
    with pytest.raises(ProtocolError, match="insufficient data left in message"):
        decode(bytes.fromhex(SAMPLES[1][1])[:-2])


def test_a_relation_is_told_without_a_catalog():
    """Debezium asks the catalog while it decodes R; here the types are those of the message
    alone.
    """
    assert decode(bytes.fromhex(SAMPLES[1][1])) == SAMPLES[1][3]


# --- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data", [b"T\xff\xff\xff\xff\0", b"T\0\0\0\2\0\0\0\0\1", b"R\0\0\0\1s\0t\0d\xff\xff\0c\0", b"I\0\0\0\1N\xff\xffnnn"]
)
def test_a_count_that_exceeds_the_bytes_is_refused_before_anything_is_made(data):
    with pytest.raises(ProtocolError, match="insufficient data left in message"):
        decode(data)


@pytest.mark.parametrize(
    ("data", "text", "offset"),
    [
        (b"B" + bytes(20), "final_lsn not set in begin message", 1),
        (b"C\1" + bytes(24), "unrecognized flags 1 in commit message", 1),
        (b"c" + bytes(4) + b"\x80" + bytes(24), "unrecognized flags 128 in commit message", 5),
        (b"b" + bytes(28) + b"g\0", "prepare_lsn not set in begin prepare message", 1),
        (b"b" + b"\1" * 8 + bytes(20) + b"g\0", "end_lsn not set in begin prepare message", 9),
        (b"P\1" + PREPARED, "unrecognized flags 1 in prepare message", 1),
        (b"P\0" + bytes(8) + PREPARED[8:], "prepare_lsn is not set in prepare message", 2),
        (b"P\0" + PREPARED[:8] + bytes(8) + PREPARED[16:], "end_lsn is not set in prepare message", 10),
        (b"P\0" + PREPARED[:24] + bytes(4) + GID, "invalid two-phase transaction ID in prepare message", 26),
        (b"p\2" + PREPARED, "unrecognized flags 2 in stream prepare message", 1),
        (b"p\0" + PREPARED[:24] + bytes(4) + GID, "invalid two-phase transaction ID in stream prepare message", 26),
        (b"K\1" + PREPARED, "unrecognized flags 1 in commit prepared message", 1),
        (b"K\0" + bytes(8) + PREPARED[8:], "commit_lsn is not set in commit prepared message", 2),
        (b"K\0" + PREPARED[:8] + bytes(8) + PREPARED[16:], "end_lsn is not set in commit prepared message", 10),
        (b"r\1" + bytes(36) + GID, "unrecognized flags 1 in rollback prepared message", 1),
        (b"r\0" + bytes(36) + GID, "prepare_end_lsn is not set in rollback prepared message", 2),
        (b"r\0" + b"\1" * 8 + bytes(28) + GID, "rollback_end_lsn is not set in rollback prepared message", 10),
        (b"I\0\0\0\1K\0\0", "expected new tuple but got 75", 5),
        (b"U\0\0\0\1X\0\0", "expected action 'N', 'O' or 'K', got X", 5),
        (b"D\0\0\0\1N\0\0", "expected action 'O' or 'K', got N", 5),
        (b"D\0\0\0\1K\0\1\n", r"unrecognized data representation type '\x0a'", 8),
        (b"z", 'invalid logical replication message type "??? (122)"', 0),
        (b"\xff", 'invalid logical replication message type "??? (255)"', 0),
    ],
)
def test_the_reader_says_what_postgresql_says(data, text, offset):
    """A19, A20."""
    with pytest.raises(ProtocolError) as caught:
        decode(data)
    assert caught.value.message == text
    assert caught.value.offset == offset
    assert caught.value.sqlstate == "08P01"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"T\0\0\0\0\4", "unrecognized flags 4 in truncate message"),
        (b"M\2" + bytes(8) + b"p\0\0\0\0\0", "unrecognized flags 2 in message"),
        (b"S\0\0\0\1\2", "unrecognized first_segment 2 in message"),
        (b"R\0\0\0\1s\0t\0x\0\0", "unrecognized replica identity 'x'"),
        (b"R\0\0\0\1s\0t\0d\0\1\2c\0" + bytes(8), "unrecognized flags 2 in column of relation message"),
        (b"Y\0\0\0\1pg_catalog\0t\0", "unexpected namespace pg_catalog: it is sent as the empty string"),
        (b"b" + struct.pack(">QQqI", 1, 1, 0, 1) + b"g" * 200 + b"\0", "transaction identifier is too long"),
    ],
)
def test_what_nobody_sends_is_refused_where_postgresql_would_guess(data, text):
    """encode(decode(data)) == data holds for all that is accepted."""
    with pytest.raises(ProtocolError) as caught:
        decode(data)
    assert caught.value.message == text


def test_a_gid_of_199_bytes_fits_and_an_empty_one_is_one():
    """A18."""
    for gid in ("g" * 199, ""):
        assert decode(encode(m.Prepare(1, 1, 0, 1, gid))).gid == gid  # type: ignore[union-attr]


@pytest.mark.parametrize("name", [b"\xff", b"a\xc3", b"\xc0\x80", b"\xed\xa0\x80"])
def test_invalid_utf8_is_an_error_without_the_bytes(name):
    """A1; overlong forms and surrogates are invalid too."""
    with pytest.raises(ProtocolError, match=r'invalid byte sequence for encoding "UTF8"$') as caught:
        decode(b"O" + bytes(8) + name + b"\0")
    assert caught.value.sqlstate == "22021"
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("asked", "size"), [(True, 9), (False, 25), (None, 10), (None, 24), (None, 26), (True, 24), (False, 8)]
)
def test_stream_abort_has_exactly_the_fields_that_were_asked_for(asked, size):
    """A5: by the option if it is known, by the length if not."""
    with pytest.raises(ProtocolError):
        decode(b"A" + bytes(size - 1), write_abort_info=asked)


@pytest.mark.parametrize(("asked", "size"), [(True, 25), (None, 25), (False, 9), (None, 9)])
def test_stream_abort_tells_not_sent_from_unknown(asked, size):
    """A5, A6: None was not sent, 0 was."""
    message = decode(b"A" + bytes(size - 1), write_abort_info=asked)
    assert message == (m.StreamAbort(0, 0) if size == 9 else m.StreamAbort(0, 0, 0, 0))


def test_pg_catalog_travels_as_the_empty_string():
    """A7."""
    data = b"Y\0\0\0\1\0int4\0"
    assert decode(data) == m.Type(1, "pg_catalog", "int4")
    assert encode(m.Type(1, "pg_catalog", "int4")) == data


@pytest.mark.parametrize("type_byte", "BCObPKrSEcAp")
def test_control_messages_never_carry_the_xid_prefix(type_byte):
    """A4: the same bytes read the same inside a stream block."""
    for message in [sample[3] for sample in SAMPLES] + [message for message, _ in HAND_MADE]:
        if message.type_byte == type_byte:
            assert decode(encode(message), in_stream=True) == decode(encode(message)) == message


# --- the messages themselves --------------------------------------------------------------------


def test_null_and_unchanged_keep_their_identity_over_pickling():
    """absence_is_typed: Spark pickles; `is` must still tell."""
    assert pickle.loads(pickle.dumps(m.NULL)) is m.NULL
    assert pickle.loads(pickle.dumps(m.UNCHANGED)) is m.UNCHANGED
    assert len({m.NULL, m.UNCHANGED, m.TextValue(b""), m.BinaryValue(b""), None}) == 5


def test_messages_survive_pickling():
    for message, _ in HAND_MADE:
        assert pickle.loads(pickle.dumps(message)) == message


def test_a_repr_tells_the_length_of_a_value_only():
    """names_are_data."""
    shown = repr(m.Update(1, "K", (m.TextValue(b"secret"), m.NULL), (m.BinaryValue(b"secret"), m.UNCHANGED)))
    assert "secret" not in shown
    assert "TextValue(<6 bytes>), NULL" in shown
    assert "secret" not in repr(m.LogicalMessage(True, 1, "p", b"secret"))


def test_identity_columns_and_names_are_readable():
    """A8; the qualified name is unquoted."""
    relation = SAMPLES[1][3]
    assert isinstance(relation, m.Relation)
    assert [column.is_identity for column in relation.columns] == [True, False]
    assert relation.qualified_name == "public.t"

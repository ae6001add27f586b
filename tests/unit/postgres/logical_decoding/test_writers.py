"""The consumers of output."""

from __future__ import annotations

from subscriber.postgres.logical_decoding.sql_functions import CollectingWriter, Output
from subscriber.postgres.logical_decoding.walsender import WalSenderWriter
from subscriber.postgres.protocol.envelope import XLogData, decode_envelope


def test_the_collected_output_is_in_order_and_can_be_read_as_text():
    writer = CollectingWriter()
    writer.write(1, 700, b"BEGIN", True)
    writer.write(2, 700, "ö".encode(), False)
    writer.update_progress(3, 700, True)
    assert writer.outputs == [Output(1, 700, b"BEGIN"), Output(2, 700, "ö".encode(), last_write=False)]
    assert writer.texts == ["BEGIN", "ö"]


def test_a_walsender_sends_the_position_with_the_last_write_of_a_callback():
    """A34."""
    frames: list[bytes] = []
    writer = WalSenderWriter(frames.append, clock=lambda: 9)
    writer.write(100, 700, b"R", False)
    writer.write(100, 700, b"I", True)
    writer.update_progress(100, 700, False)
    assert [decode_envelope(frame) for frame in frames] == [XLogData(0, 0, 9, b"R"), XLogData(100, 100, 9, b"I")]

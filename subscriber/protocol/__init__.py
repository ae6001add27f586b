"""The wire: bytes to messages and back, pure, in both directions.

::

    CopyData ─envelope▶ XLogData.payload ─decode▶ Message          one message at a time
                                         ─tuples▶ Arrow columns    many changes of one relation
    Message  ─encode──▶ payload          ─envelope▶ CopyData

``messages`` holds the types, ``reader`` the one bounds-checked cursor, ``decode`` and ``encode``
are exact inverses, ``envelope`` is what CopyBoth wraps around them. ``tuples`` reads the same tuple
layout column by column with numpy; it is not imported here, so that the walreceiver, which only
looks at message types and transaction IDs, starts without numpy and pyarrow.

Invariants:

1. Decoding looks at nothing but its arguments: no socket, catalog, clock or logger. What depends on
   the session (are we inside a stream block, was ``streaming 'parallel'`` asked for) is an
   argument.
2. Whatever the bytes, decoding ends in a message or in a ProtocolError with the offset. A message
   re-encodes to the very bytes it came from, so no column can have moved on the way.
3. Nothing is looked up: a tuple is as many columns as it says, and whether that fits its Relation
   is for the reader of both to judge (a decoder that asks a catalog gives the past today's
   columns).
"""

from subscriber.protocol.decode import decode
from subscriber.protocol.encode import encode
from subscriber.protocol.envelope import decode_envelope, decode_reply, encode_envelope
from subscriber.protocol.messages import NULL, UNCHANGED, BinaryValue, ColumnValue, Message, TextValue, TupleData

__all__ = [
    "NULL",
    "UNCHANGED",
    "BinaryValue",
    "ColumnValue",
    "Message",
    "TextValue",
    "TupleData",
    "decode",
    "decode_envelope",
    "decode_reply",
    "encode",
    "encode_envelope",
]

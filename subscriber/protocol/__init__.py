"""The replication protocol: conversion between bytes and messages, in both directions, without side
effects.

::

    CopyData ─envelope▶ XLogData.payload ─decode▶ Message          one message at a time
                                         ─tuples▶ Arrow columns    many changes of one relation
    Message  ─encode──▶ payload          ─envelope▶ CopyData

The modules:

* ``messages`` has the message types.
* ``byte_reader`` has the bounds-checked cursor over the bytes of a message.
* ``decode`` and ``encode`` convert between bytes and messages; they are exact inverses.
* ``envelope`` has the messages of CopyBoth mode that contain the pgoutput messages.
* ``notice`` has what a server says beside its data.
* ``tuples`` reads the tuples of many messages column by column with numpy.
* ``message_batch`` groups the changes of a batch of messages for ``tuples``.
* ``changes`` has the frames of columnar changes, which executors pass to the driver.

The last three are not imported here. The walreceiver, which only reads message types and
transaction IDs, therefore starts without numpy and pyarrow. The connection is in
:mod:`subscriber.publisher`, the receiving of the stream in :mod:`subscriber.receive`.

Invariants:

1. Decoding depends on its arguments only: it uses no socket, catalog, clock or logger. Facts about
the session (whether a stream block is open, whether ``streaming 'parallel'`` was requested) are
arguments.
2. For any bytes, decoding ends with a message or with a ProtocolError that has the offset. A
message is encoded to exactly the bytes from which it was decoded, so that no column can change its
place.
3. Decoding does not look anything up. A tuple has as many columns as it states, and the caller that
has both the tuple and its Relation checks whether they match. (A decoder that read a catalog would
give old changes today's columns.)
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

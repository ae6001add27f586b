"""The replication protocol: conversion between bytes and messages, in both directions, without side
effects.

::

    CopyData ─envelope▶ XLogData.payload ─decode▶ Message          one message at a time
                                         ─message_batch▶ Arrow     many changes of one relation
    Message  ─encode──▶ payload          ─envelope▶ CopyData

* ``messages`` has the message types.
* ``decode_message`` and ``encode_message`` convert between bytes and messages; they are exact
  inverses.
* ``envelope`` has the messages of CopyBoth mode that contain the pgoutput messages, and notices.
* ``message_batch`` groups the changes of a batch of messages and reads their tuples with numpy.
* ``changes`` has the frames of columnar changes, which executors pass to the driver.
* ``copy_text`` reads COPY's text format column by column.

Only the last three import numpy and pyarrow: the walreceiver starts without them.

Decoding depends on its arguments only, and looks nothing up: a decoder that read a catalog would
give old changes today's columns. A tuple has as many columns as it states, and the caller that has
both the tuple and its Relation checks whether they match.
"""

"""The journal: the durable copy of what a replication slot has sent, in commit order.

::

    receive ──▶ builder ──▶ writer ──▶ segments on disk ──▶ reader ──▶ pipeline
                                          ▲    │
                       retention (trim) ──┘    └── consumer positions

A replication slot cannot be read again below its confirmed position. Without a journal, a slow or
restarted target would therefore make the publisher keep its WAL. With the journal, the slot is
confirmed as soon as the journal is durable. Spark's offsets stay readable until every consumer has
committed the transactions up to them.

Each slot has one folder, in which there are immutable Arrow files, a control file and the position
of each consumer. The modules, in the order in which data passes:

* :mod:`~subscriber.journal.builder` collects the messages of an entry and writes its segments.
* :mod:`~subscriber.journal.writer` publishes entries; a journal has one writer at a time.
* :mod:`~subscriber.journal.compaction` decides which small entries the writer merges.
* :mod:`~subscriber.journal.merge` makes one segment of several, and takes one out again.
* :mod:`~subscriber.journal.segment` defines segment names, entries and their chain.
* :mod:`~subscriber.journal.storage` finds the files, :mod:`~subscriber.journal.local_storage` and
  :mod:`~subscriber.journal.remote_storage` read and write them, on a local disk or at a URL;
  :mod:`~subscriber.journal.storage_files` has what both share.
* :mod:`~subscriber.journal.listing` keeps the entries in memory between listings of the folder.
* :mod:`~subscriber.journal.control` reads and writes the control file.
* :mod:`~subscriber.journal.positions` says how far a journal has received.
* :mod:`~subscriber.journal.reader` plans which segments to read.
* :mod:`~subscriber.journal.segment_file` opens a segment and checks its content;
  :mod:`~subscriber.journal.message_rows` reads its messages as rows.
* :mod:`~subscriber.journal.scan` answers questions that need the messages from a position on.
* :mod:`~subscriber.journal.retention` keeps consumer positions and decides what is trimmed.
* :mod:`~subscriber.journal.sparing` limits how often a remote journal is asked for a position.
* :mod:`~subscriber.journal.browse` shows journals and their messages to people.

Receiving the stream is in :mod:`subscriber.receive`, the format of messages in
:mod:`subscriber.protocol`.
"""

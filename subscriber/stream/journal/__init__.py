"""The journal: the durable copy of what a replication slot has sent, in commit order.

::

    receive ──▶ builder ──▶ writer ──▶ segments on disk ──▶ reader ──▶ pipeline
                                          ▲    │
                       retention (trim) ──┘    └── consumer positions

Each slot has one folder, in which there are immutable Arrow files, a control file and the position
of each consumer. The modules, in the order in which data passes:

* ``builder`` collects the messages of an entry and writes its segments.
* ``writer`` publishes entries; a journal has one writer at a time.
* ``compaction`` merges small entries, and takes one out again.
* ``segment`` defines segment names, entries and their chain.
* ``storage`` finds, reads and writes the files, on a local disk or at a URL.
* ``listing`` keeps the entries in memory between listings of the folder.
* ``control`` reads and writes the control file.
* ``positions`` says how far a journal has received.
* ``reader`` plans which segments to read.
* ``message_rows`` opens segments, checks their content and reads it as rows.
* ``retention`` keeps consumer positions and decides what is trimmed.
* ``named_consumers`` has the consumers that have no target, such as queries of Spark.
* ``browse`` shows journals and their messages to people.
"""

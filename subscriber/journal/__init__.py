"""The contract between the two halves: what was received, durable, in commit order, readable again.

::

    receive ──▶ builder ──▶ writer ──▶ segments on disk ──▶ reader ──▶ pipeline
                                          ▲    │
                       retention (trim) ──┘    └── consumer positions

A replication slot cannot be read again below its confirmed position, so a slow or restarted target
would hold the publisher back. The journal takes that role over: the slot is confirmed as soon as
the journal is durable, and Spark's offsets stay readable until every consumer has committed what
they stand for.

One folder a slot: immutable Arrow files (:mod:`~subscriber.journal.segment` names them,
:mod:`~subscriber.journal.builder` fills them), a control file (:mod:`~subscriber.journal.control`),
and the position of each consumer (:mod:`~subscriber.journal.retention`).
"""

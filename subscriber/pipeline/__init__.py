"""The Spark jobs: streaming queries that apply the journal, and the jobs of the initial copy.

The journal is read, decoded and applied by a streaming query::

    frame_source.py          source.py        decode_frames.py        sink.py
    readStream               a task           (the same task)         foreachBatch
    journal ──partitions──▶ segments ──▶ rows ──decode──▶ frames ──in order──▶ apply: one target transaction
       └────────────── tail.py: while little waits there, the driver reads it itself ──▶ apply

``source.py`` by itself is the public ``format("pgoutput")``, whose rows are the messages of the
journal.

Offsets are LSNs at commit boundaries, so a micro-batch never splits a transaction. A whole batch is
applied in one target transaction, together with the progress. Exactly-once delivery does not depend
on Spark: every query starts from the progress in the target with a new, temporary checkpoint.
*Rejected:* a permanent checkpoint. After the target was restored from a backup, the checkpoint
would be ahead of the data, and the missing changes would be skipped without an error.

The initial copy of a table also consists of Spark jobs (:mod:`~subscriber.pipeline.copy`)::

    copy.py                     jobs.py, blocks.py                        target
    plan ──ranges of ctid──▶ COPY … TO STDOUT, decode (executors) ──▶ Loading.loader: one target transaction

The other modules:

- ``streaming_query`` builds a query from source and sink.
- ``session`` creates the Spark session; ``java`` and ``python_workers`` find the programs that it
  needs. ``fork_server`` forks Spark's Python processes, and ``fork_client`` asks it to.
- ``tail`` finds what the driver reads itself.
- ``frame_files`` passes frames from an executor to a driver on the same machine.
- ``read_ahead`` runs the jobs of a micro-batch, one for each partition, a few at a time.
- ``executors`` notices that a cluster gives no executors.
- ``on_spark`` bundles queries and copies for :mod:`subscriber.runtime`.
- ``planning_error`` passes the errors of planners to the driver. A
  :class:`~subscriber.errors.SubscriberError` keeps its type on every way to the driver: a task
  returns it as a row, and a planner writes it into a file.

Not here: the stages are pure functions over Arrow batches in :mod:`subscriber.stages`, and
:mod:`~subscriber.stages.emulate` runs them without Spark. Only this package imports pyspark. The
code that applies a batch is in :mod:`subscriber.apply`, and the supervision of queries and copies
is in :mod:`subscriber.runtime`.
"""

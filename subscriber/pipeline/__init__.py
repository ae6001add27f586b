"""The Spark job: journal in, target transactions out.

::

    frame_source.py          source.py        frames.py               sink.py
    readStream               a task           (the same task)         foreachBatch
    journal ──partitions──▶ segments ──▶ rows ──decode──▶ frames ──in order──▶ apply: one target transaction

    source.py by itself is the public format("pgoutput"), whose rows are the journal's messages.

Offsets are LSNs at commit boundaries, so a micro-batch never splits a transaction; a batch is
applied whole, with its progress, in one target transaction. Exactly once does not rest on Spark:
every query starts from the target's own progress with a checkpoint of its own, which is thrown away
afterwards. *Rejected:* trusting a kept checkpoint. After the target is restored from a backup it
would be ahead of the data, and skip what is missing without a word.

The initial copy of a table is Spark jobs too (:mod:`~subscriber.pipeline.copy`)::

    copy.py                     jobs.py, blocks.py                        target
    plan ──ranges of ctid──▶ COPY … TO STDOUT, decode (executors) ──▶ Loading.loader: one target transaction

A session is made in ``session`` (``java`` and ``python_workers`` say with which programs). An error
of ours keeps its type on every way to the driver: a task gives it as a row, a planner leaves it in
a file (:mod:`~subscriber.pipeline.planning_error`).

Only this package imports pyspark; the stages are pure functions over Arrow batches and run without
Spark in :mod:`~subscriber.stages.emulate`.
"""

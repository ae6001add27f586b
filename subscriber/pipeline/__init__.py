"""The Spark job: journal in, target transactions out.

::

    source.py                    frames.py                       sink.py
    format("pgoutput")           mapInArrow                      foreachBatch
    journal ──partitions──▶ rows ──decode (executors)──▶ frames ──in order──▶ apply: one target transaction

Offsets are LSNs at commit boundaries, so a micro-batch never splits a transaction; a batch is applied whole, with its
progress, in one target transaction. Exactly once does not rest on Spark: every query starts from the target's own
progress with a checkpoint of its own, which is thrown away afterwards. *Rejected:* trusting a kept checkpoint. After the
target is restored from a backup it would be ahead of the data, and skip what is missing without a word.

Only this package imports pyspark, and of it only :mod:`~subscriber.pipeline.session`, :mod:`~subscriber.pipeline.source` and
:mod:`~subscriber.pipeline.query`; the stages are pure functions over Arrow batches and run without Spark in
:mod:`~subscriber.pipeline.emulate`.
"""

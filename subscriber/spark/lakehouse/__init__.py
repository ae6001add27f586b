"""Writes a typed change feed into the tables of a lakehouse, from ``foreachBatch``.

::

    micro-batch ──▶ fold: the newest change of each key ──▶ driver ──▶ DeltaSink, IcebergSink: one commit
    executors                                                          rows and progress together

- ``fold`` has :func:`subscriber.spark.apply_changes`, and what it does with the changes of a batch.
- ``delta`` and ``iceberg`` write with the packages ``deltalake`` and ``pyiceberg``, so Spark needs
  no jars. Both are in the extra ``lakehouse``.
"""

"""What runs on Spark: the loop that applies the journal, and the initial copy.

::

    apply_loop.py              journal_frames.py, decode_frames.py                 apply_loop.py
    next range ──partitions──▶ segments ──decode──▶ frames (jobs of Spark) ──in order──▶ apply: one target transaction
       └────────── a small range: the driver decodes it itself ──────────────────────▶ apply

    copy.py                     blocks.py                                          target
    plan ──ranges of ctid──▶ COPY … TO STDOUT, decode (jobs of Spark) ──▶ Loading.loader: one target transaction

- ``jobs`` runs the jobs of both, and those of a comparison (:mod:`subscriber.verify`), and notices
  that a cluster gives no executors.
- ``session`` creates the Spark session, and ``pending_session`` stands for it while it starts.
  ``python_workers`` configures Spark's Python processes, which a fork server of
  :mod:`subscriber.base.fork_server` forks.
- ``source`` is the public ``format("pgoutput")``: its rows are a table's changes (``feed``) or the
  messages of the journal. ``journal_stream`` has what both have in common, and ``told_errors`` says
  how Spark shows their errors. ``python_check`` looks whether Spark's Python can import the
  package.
- ``spark_functions`` bundles loops and copies for :mod:`subscriber.worker`.
- ``lakehouse`` writes typed change feeds into Delta Lake and Iceberg.

Only this package imports pyspark. What tasks do (:mod:`subscriber.stream.decode`) runs without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from subscriber.base.lazy_names import lazy_names

if TYPE_CHECKING:
    from subscriber.spark.lakehouse.delta import DeltaSink
    from subscriber.spark.lakehouse.fold import append_changes, apply_changes
    from subscriber.spark.lakehouse.iceberg import IcebergSink
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "lakehouse.delta": ("DeltaSink",),
            "lakehouse.fold": ("append_changes", "apply_changes"),
            "lakehouse.iceberg": ("IcebergSink",),
        },
    )

__all__ = ["DeltaSink", "IcebergSink", "append_changes", "apply_changes"]

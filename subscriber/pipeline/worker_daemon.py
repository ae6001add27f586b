"""pyspark's daemon with the workers' modules already imported: ``python -m
subscriber.pipeline.worker_daemon MODULE``.

Spark starts its Python workers through a daemon, which forks one for each task that runs at the
same time. A worker that was idle for a minute is ended. pyspark's daemon imports nothing before it
forks, so each new worker would import its modules for most of a second::

    pyspark.daemon   fork ── import MODULE, pyarrow, subscriber … ── first row      0.7 s, for each worker
    this module      import … (once) ── fork ── first row                           some milliseconds

pyspark imports nothing because a process that has several threads cannot be forked safely. What is
imported here starts one thread, that of Arrow's allocator. The allocator prepares for a fork, and
works without the thread in the new process. numpy's linear algebra is told to start no threads.

:mod:`subscriber.pipeline.python_workers` puts this module in the place of pyspark's.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys

from typing import Final

from subscriber.without_pandas import use_arrow_without_pandas

_MODULES: Final = (
    "subscriber.pipeline.frame_source",
    "subscriber.stages.decode_frames",
    "subscriber.publisher.copy_out",
    "subscriber.stages.blocks",
)
"""What the tasks of a stream and of a copy import."""


def main() -> None:
    """Import the modules, and do what pyspark's daemon does."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    use_arrow_without_pandas()
    for name in (*sys.argv[1:2], *_MODULES):
        importlib.import_module(name)
    # The collector would touch, and so copy, what all workers share.
    gc.collect()
    gc.freeze()
    from pyspark import daemon

    daemon.manager()


if __name__ == "__main__":
    main()

"""Starts Spark's JVM with an archive of its classes. The tests start some sixty JVMs, and each
spends most of its time loading classes.

::

    first test that starts Spark ──▶ train: a session, a query and a job ──▶ .pytest_cache/d/spark/….jsa
    every JVM after it           ◀── SPARK_SUBMIT_OPTS: the archive, and the compiler that starts fast

A session starts with a third of the processor time and works as before. The JVM compares the
archive with its own version and with every jar, and ignores the archive if they differ. So an
outdated archive does no harm.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame

from subscriber.base.errors import UsageError
from subscriber.spark.session import find_java

TRAINING_SECONDS = 120.0
VARIABLE = "SPARK_SUBMIT_OPTS"
ROOT = Path(__file__).resolve().parents[1]
_has_rows = threading.Event()


def start_fast(cache: Path) -> None:
    """Let every Spark that this process or its children start use the archive in ``cache``. The
    first process creates it, and others wait for that.

    If the archive cannot be created, nothing changes. If Java is missing, the test reports that.
    """
    if "SharedArchiveFile" in os.environ.get(VARIABLE, ""):
        return
    try:
        archive = cache / f"{_identity(find_java())}.jsa"
    except UsageError:
        return
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _train(archive)
    if archive.stat().st_size:
        os.environ[VARIABLE] = f"{os.environ.get(VARIABLE, '')} {jvm_options(archive)}".strip()


def jvm_options(archive: Path, use: str = "SharedArchiveFile") -> str:
    """Options of the JVM. They silence warnings about classes that cannot be archived. They also
    leave out C2, which costs more than it saves in a test's short JVM.
    """
    return f'"-XX:{use}={archive}" -XX:TieredStopAtLevel=1 -Xlog:disable'


def _identity(java: Path) -> str:
    what = (java.resolve(), os.stat(java / "bin" / "java").st_mtime_ns, pyspark.__version__, pyspark.__file__)
    return hashlib.sha256(repr(what).encode()).hexdigest()[:16]


def _train(archive: Path) -> None:
    """Create the archive, or an empty file that says not to try again, and warn."""
    unfinished = archive.with_suffix(f".{os.getpid()}")
    environment = {**os.environ, VARIABLE: jvm_options(unfinished, "ArchiveClassesAtExit"), "PYTHONPATH": str(ROOT)}
    try:
        subprocess.run(
            [sys.executable, __file__], env=environment, check=True, capture_output=True, timeout=TRAINING_SECONDS
        )
    except subprocess.SubprocessError as error:
        unfinished.unlink(missing_ok=True)
        archive.touch()
        warnings.warn(f"each test of Spark starts a slow JVM: {error}", stacklevel=2)
    else:
        unfinished.touch()  # a JVM that cannot archive classes has written no file
        unfinished.rename(archive)


def _work() -> None:
    """Run what the tests run in Spark: a query over a journal, and a job over a list."""
    from subscriber.spark.session import spark_session
    from subscriber.spark.source import PgoutputSource
    from tests.frames import transaction
    from tests.streams import receive
    from tests.waits import wait_until

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "journal").mkdir()
        receive(folder / "journal", [*transaction(0x200), None])
        with spark_session("local[2]", folder / "spark.log") as spark:
            spark.dataSource.register(PgoutputSource)
            rows = spark.readStream.format(PgoutputSource.name()).option("journal", str(folder / "journal")).load()
            written = rows.writeStream.foreachBatch(_take).option("checkpointLocation", str(folder / "checkpoint"))
            query = written.start()
            wait_until(_has_rows.is_set)
            query.stop()
            spark.sparkContext.parallelize([1, 2], 2).mapPartitions(list).collect()
            # The archive is written when the JVM ends, and that takes some seconds.
            gateway: Any = spark.sparkContext._gateway
    gateway.proc.stdin.close()
    gateway.proc.wait()


def _take(batch: DataFrame, _number: int) -> None:
    for _ in batch.rdd.toLocalIterator(prefetchPartitions=True):
        _has_rows.set()


if __name__ == "__main__":
    _work()

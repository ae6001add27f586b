"""Creates a Spark session that suits small, frequent micro-batches, writes nothing to the terminal,
and accepts no connections from other users.

A program that can connect to Spark's ports can run code as this user. The protection depends on the
master::

    local[*]          every socket is on loopback, and connections are authenticated, because the machine may have other users
    yarn, k8s://…     authenticated, unless the configuration disables it; Spark creates the secret and sends it to the executors
    spark://…         as the cluster is configured: its executors only have the worker's secret. Without a secret, a warning is logged

A secret is created by the JVM, or read by the JVM from ``spark-defaults.conf``. It is never on a
command line, where the settings of this module are. Python processes do not look for modules in the
current directory (:mod:`subscriber.interpreter`), and Spark is not looked for beside it either.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import tempfile
import threading
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from subscriber.errors import PipelineError, Stopped, UsageError
from subscriber.interpreter import search_path
from subscriber.journal.message_rows import BATCH_ROWS
from subscriber.pipeline.java import find_java
from subscriber.pipeline.python_workers import package_archive, worker_python
from subscriber.pipeline.spark import Spark
from subscriber.without_pandas import use_arrow_without_pandas

logger = logging.getLogger(__name__)

END_SECONDS: Final = 2.0
"""How long a JVM may take to end after its sockets are closed."""

_SETTINGS: Final = {
    "spark.app.name": "subscriber",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",  # it would write over our own output
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
    "spark.scheduler.mode": "FAIR",  # a stream's micro-batch takes turns with the tasks of a copy
    "spark.python.worker.reuse": "true",  # a Python task costs a few hundred milliseconds before its first row
    "spark.sql.adaptive.enabled": "false",  # nothing to adapt: the plan has no shuffle
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # The other manager runs programs (readlink) to write a file. The checkpoint is needed only
    # while the query runs.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing"
    ".FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.driver.memory": "1g",
    "spark.task.maxDirectResultSize": "64m",  # a partition's frames reach the driver without a detour over a block
    "spark.driver.maxResultSize": "0",  # frames are taken one partition at a time; the partition's size is the bound
}

_JAVA_OPTIONS: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""The serial collector suits a small heap on few cores, and does not fragment with frames of some
megabytes. Without the second compiler, which optimizes code that runs for long, Spark starts with
two thirds of the processor time. Rows are decoded and applied in Python, so it has little to
optimize.
"""


@contextlib.contextmanager
def spark_session(master: str, log_file: Path) -> Iterator[SparkSession]:
    """Create a session on ``master``, and stop it at the end of the block. Spark's log goes to
    ``log_file``.

    Raises:
        UsageError: there is no Java that Spark can run on, or the master cannot be reached.
        PipelineError: Spark's Java process has ended before the block.
    """
    with starting_spark(master, log_file) as spark:
        yield spark.session()


@contextlib.contextmanager
def starting_spark(master: str, log_file: Path) -> Iterator[Spark]:
    """Like :func:`spark_session`, but give Spark at once: the session is created meanwhile.

    Raises:
        UsageError: there is no Java that Spark can run on.
        PipelineError: Spark's Java process has ended before the block.
    """
    java = str(find_java())
    log_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    local = is_local(master)
    # Everything that Spark writes into its working directories is removed with the session.
    with (
        tempfile.TemporaryDirectory(prefix="subscriber-spark-", ignore_cleanup_errors=True) as scratch,
        _log_settings(log_file, Path(scratch)) as log_settings,
        _environment({**search_path(os.environ), **_spark_home(), "JAVA_HOME": java}),
        worker_python(Path(scratch), log_file, local=local),
    ):
        settings = {
            **_SETTINGS,
            **_network_settings(master),
            "spark.driver.extraJavaOptions": f"{_JAVA_OPTIONS} -Dlog4j2.configurationFile={log_settings.as_uri()} "
            f"-Dderby.system.home={scratch}",
            "spark.local.dir": scratch,
            "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        }
        jvm = _StartingJVM({"spark.master": master, **settings}, log_file)
        # pyspark imports this module when it passes the first value to the JVM.
        use_arrow_without_pandas("pyspark.testing.utils")

        def create() -> SparkSession:
            builder = SparkSession.builder.master(master)
            for name, value in settings.items():
                builder = builder.config(name, value)
            try:
                jvm.hand_over()
                session = builder.getOrCreate()
                _expect_the_end(session)
                if not local:
                    if session.sparkContext.getConf().get("spark.authenticate", "false") != "true":
                        logger.warning(_NOT_AUTHENTICATED, master)
                    session.sparkContext.addPyFile(str(package_archive(Path(scratch))))
            except Exception as error:  # py4j and Spark raise many kinds here, with the JVM's text
                raise UsageError(
                    f'could not start Spark on master "{master}"',
                    detail=_first_line(error),
                    hint=f"See {log_file}. A master is local[*], spark://host:port, k8s://… or yarn.",
                ) from error
            logger.info("Spark has started")
            return session

        with _running(Spark(master, create), jvm, log_file) as spark:
            yield spark


class _StartingJVM:
    """Starts the JVM in a thread: pyspark would wait for it, and let it use the program's standard
    error.

    A JVM that pyspark has started before in this process is used again.
    """

    def __init__(self, settings: Mapping[str, str], log_file: Path) -> None:
        self._conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        self._log_file = log_file
        self._gateway: Any = None
        self._error: Exception | None = None
        self._unused = False
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        if SparkContext._gateway is None:  # noqa: SLF001 - it has no other name
            self._thread = threading.Thread(target=self._start, name="start of Spark's JVM", daemon=True)
            self._thread.start()

    def hand_over(self) -> None:
        """Wait for the JVM, and let pyspark use it.

        Raises:
            Exception: as raised by pyspark, if the JVM could not be started.
            Stopped: the JVM was told to end.
        """
        if self._thread is None:
            return
        self._thread.join()
        if self._error is not None:
            raise self._error
        with self._lock:
            if self._unused:
                raise Stopped("stopped before Spark had started")
            SparkContext._ensure_initialized(gateway=self._gateway)  # noqa: SLF001 - the same

    def end(self) -> None:
        """End the JVM without waiting for it; no session uses it. pyspark would start another one
        for another session.
        """
        with self._lock:
            self._unused = True
            if self._gateway is not None:
                if SparkContext._gateway is self._gateway:  # noqa: SLF001 - the same
                    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - the same
                self._end(self._gateway)

    def _start(self) -> None:
        # The JVM and its Python workers inherit the log file as their standard error.
        log = os.open(self._log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            gateway = launch_gateway(self._conf, {"stderr": log})  # type: ignore[no-untyped-call]
        except Exception as error:
            self._error = error
            return
        finally:
            os.close(log)
        with self._lock:
            self._gateway = gateway
            if self._unused:
                self._end(gateway)

    @staticmethod
    def _end(gateway: Any) -> None:
        gateway.proc.stdin.close()  # the JVM ends when it reads the end of its input


@contextlib.contextmanager
def _running(spark: Spark, jvm: _StartingJVM, log_file: Path) -> Iterator[Spark]:
    """Stop Spark at the end of the block. If it has not started by then, this does not wait for it.

    Raises:
        PipelineError: Spark's Java process has ended before the block.
    """
    # It stays: when Spark has ended, another thread may still be about to send it a command.
    logging.getLogger().addFilter(_is_not_py4js)
    try:
        yield spark
    except (Py4JError, OSError):
        if not spark.has_ended(END_SECONDS):
            raise
        raise PipelineError(
            "Spark's Java process has ended",
            detail="It ran out of memory, or another process has ended it.",
            hint=f"{log_file} may say more. Start again: changes that are not in the target are applied then.",
        ) from None
    finally:
        session = spark.created
        if session is None:
            jvm.end()
        elif not spark.has_ended():
            with contextlib.suppress(Py4JError, OSError):  # Spark may end at this moment
                session.stop()


_NOT_AUTHENTICATED: Final = (
    'Spark does not authenticate its connections on master "%s": anybody who can reach its ports can run programs as this user. Set'
    " spark.authenticate and spark.authenticate.secret in the spark-defaults.conf of the cluster's machines and of this one"
)


def is_local(master: str) -> bool:
    """Return whether executors are threads of this machine's JVM; with ``local-cluster[…]`` they
    are processes.
    """
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def _network_settings(master: str) -> dict[str, str]:
    """Return the settings that decide who may connect; see the module's docstring."""
    if is_local(master):
        loopback = dict.fromkeys(("spark.driver.host", "spark.driver.bindAddress"), "127.0.0.1")
        return {**loopback, "spark.authenticate": "true"}
    remote = {"spark.executorEnv.PYTHONSAFEPATH": "1"}
    # On these masters Spark creates a secret for each session; on others the cluster defines it.
    makes_secret = master == "yarn" or master.startswith("k8s://")
    return {**remote, "spark.authenticate": "true"} if makes_secret and not _user_says("spark.authenticate") else remote


def _user_says(name: str) -> bool:
    """Return whether a setting is in spark-defaults.conf or in PYSPARK_SUBMIT_ARGS; the setting of
    this module would override it.
    """
    home = os.environ.get("SPARK_HOME") or _spark_home().get("SPARK_HOME", "")
    defaults = Path(os.environ.get("SPARK_CONF_DIR") or Path(home, "conf")) / "spark-defaults.conf"
    setting = re.compile(rf"^\s*{re.escape(name)}[\s=:]", re.MULTILINE)
    with contextlib.suppress(OSError):
        if setting.search(defaults.read_text(errors="replace")):
            return True
    return f"{name}=" in os.environ.get("PYSPARK_SUBMIT_ARGS", "")


def _spark_home() -> dict[str, str]:
    """Return SPARK_HOME if the user has not set it. Without it pyspark would look beside the
    current directory before it looks into its own package.
    """
    if "SPARK_HOME" in os.environ:
        return {}
    package = Path(str(pyspark.__file__)).resolve().parent
    places = (package / "spark-distribution", package)
    return next(({"SPARK_HOME": str(place)} for place in places if (place / "bin" / "spark-submit").is_file()), {})


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set these environment variables during the block, so that the JVM and its child processes
    inherit them.
    """
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _expect_the_end(session: SparkSession) -> None:
    """Let pyspark print no traceback when the JVM closes its connections.

    The code that uses the JVM raises an error in that case, and that error is reported. pyspark's
    server of accumulators prints a traceback whenever a session ends that has run an RDD. py4j logs
    its errors through the root logger, which leaves them out from the first session on.
    """
    server: Any = session.sparkContext._accumulatorServer  # noqa: SLF001 - it has no other name
    server.handle_error = lambda _request, _address: None


def _is_not_py4js(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


@contextlib.contextmanager
def _log_settings(log_file: Path, scratch: Path) -> Iterator[Path]:
    text = resources.files("subscriber.pipeline").joinpath("log4j2.properties").read_text()
    settings = scratch / "log4j2.properties"
    settings.write_text(text.replace("@LOG_FILE@", str(log_file)))
    yield settings


def _first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or its class. py4j asks the JVM for the text of its
    errors, and the JVM may have ended.
    """
    try:
        lines = str(error).strip().splitlines()
    except (Py4JError, OSError):
        lines = []
    return lines[0] if lines else type(error).__name__

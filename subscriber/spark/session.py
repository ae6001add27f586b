"""Creates a Spark session that suits small, frequent jobs, writes nothing to the terminal, and
accepts no connections from other users.

A program that can connect to Spark's ports can run code as this user. The protection depends on the
master::

    local[*]          every socket is on loopback, and connections are authenticated, because the machine may have other users
    yarn, k8s://…     authenticated, unless the configuration disables it; Spark creates the secret and sends it to the executors
    spark://…         as the cluster is configured: its executors only have the worker's secret. Without a secret, a warning is logged

The secret is never on a command line. Python processes do not look for modules in the current
directory (:mod:`subscriber.base.interpreter`), and Spark is not looked for beside it either.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Final

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from subscriber.base.errors import Stopped, UsageError
from subscriber.base.interpreter import search_path
from subscriber.base.without_pandas import use_arrow_without_pandas
from subscriber.spark.pending_session import PendingSession
from subscriber.spark.python_workers import package_archive, worker_python

logger = logging.getLogger(__name__)

END_SECONDS: Final = 2.0
"""How long a JVM may take to end after its sockets are closed."""

_SETTINGS: Final = {
    "spark.app.name": "subscriber",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",  # it would write over our own output
    "spark.scheduler.mode": "FAIR",  # the jobs of a stream take turns with those of a copy
    "spark.python.worker.reuse": "true",  # a Python task costs a few hundred milliseconds before its first row
    "spark.driver.memory": "1g",
    "spark.task.maxDirectResultSize": "64m",  # a partition's frames reach the driver without a detour over a block
    "spark.driver.maxResultSize": "0",  # frames are taken one partition at a time; the partition's size is the bound
}

_JAVA_OPTIONS: Final = "-XX:+UseSerialGC -Xms64m -XX:TieredStopAtLevel=1"
"""The serial collector suits a small heap on few cores, and does not fragment with frames of some
megabytes. The heap begins small, and grows with what there is to do: Java would begin with a 64th
of the machine's memory, and fill it before it collects. Without the second compiler, which
optimizes code that runs for long, Spark starts with two thirds of the processor time. Rows are
decoded and applied in Python, so it has little to optimize.
"""


@contextlib.contextmanager
def spark_session(master: str, log_file: Path) -> Iterator[SparkSession]:
    """Create a session, and stop it at the end of the block. UsageError: no usable Java or master;
    PipelineError: the JVM has ended before the block.
    """
    with starting_spark(master, log_file) as spark:
        yield spark.session()


@contextlib.contextmanager
def starting_spark(master: str, log_file: Path, modules: Sequence[str] = ()) -> Iterator[PendingSession]:
    """Like :func:`spark_session`, but give Spark at once: the session is created meanwhile. Its
    ``fork_server`` has imported ``modules``, too.
    """
    java = str(find_java())
    log_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    local = is_local(master)
    # Everything that Spark writes into its working directories is removed with the session.
    with (
        tempfile.TemporaryDirectory(prefix="subscriber-spark-", ignore_cleanup_errors=True) as scratch,
        _log_settings(log_file, Path(scratch)) as log_settings,
        _environment({**search_path(os.environ), **_spark_home(), "JAVA_HOME": java}),
        worker_python(Path(scratch), log_file, local=local, modules=modules) as forks,
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
                    session.sparkContext.addPyFile(str(package_archive(Path(scratch, "subscriber.zip"))))
            except Exception as error:  # py4j and Spark raise many kinds here, with the JVM's text
                raise UsageError(
                    f'could not start Spark on master "{master}"',
                    detail=_first_line(error),
                    hint=f"See {log_file}. A master is local[*], spark://host:port, k8s://… or yarn.",
                ) from error
            logger.info("Spark has started")
            return session

        with _running(PendingSession(master, create, log_file, forks), jvm) as spark:
            yield spark


class _StartingJVM:
    """Starts the JVM in a thread; pyspark would wait, and give it the program's standard error."""

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
        """Wait for the JVM, and let pyspark use it. Stopped: it was told to end."""
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
        """End the JVM without waiting for it. pyspark starts another one for another session."""
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
def _running(spark: PendingSession, jvm: _StartingJVM) -> Iterator[PendingSession]:
    """Stop Spark at the end of the block; if it has not started, without waiting for it."""
    # It stays: when Spark has ended, another thread may still be about to send it a command.
    logging.getLogger().addFilter(_is_not_py4js)
    try:
        yield spark
    except (Py4JError, OSError):
        if not spark.has_ended(END_SECONDS):
            raise
        raise spark.ended_error() from None
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
    """Whether executors are threads of this JVM; with ``local-cluster[…]`` they are processes."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def _network_settings(master: str) -> dict[str, str]:
    if is_local(master):
        loopback = dict.fromkeys(("spark.driver.host", "spark.driver.bindAddress"), "127.0.0.1")
        return {**loopback, "spark.authenticate": "true"}
    remote = {"spark.executorEnv.PYTHONSAFEPATH": "1"}
    # On these masters Spark creates a secret for each session; on others the cluster defines it.
    makes_secret = master == "yarn" or master.startswith("k8s://")
    return {**remote, "spark.authenticate": "true"} if makes_secret and not _user_says("spark.authenticate") else remote


def _user_says(name: str) -> bool:
    """Whether the user's configuration has a setting, which that of this module would override."""
    home = os.environ.get("SPARK_HOME") or _spark_home().get("SPARK_HOME", "")
    defaults = Path(os.environ.get("SPARK_CONF_DIR") or Path(home, "conf")) / "spark-defaults.conf"
    setting = re.compile(rf"^\s*{re.escape(name)}[\s=:]", re.MULTILINE)
    with contextlib.suppress(OSError):
        if setting.search(defaults.read_text(errors="replace")):
            return True
    return f"{name}=" in os.environ.get("PYSPARK_SUBMIT_ARGS", "")


def _spark_home() -> dict[str, str]:
    """SPARK_HOME if the user has not set it: pyspark looks beside the current directory first."""
    if "SPARK_HOME" in os.environ:
        return {}
    package = Path(str(pyspark.__file__)).resolve().parent
    places = (package / "spark-distribution", package)
    return next(({"SPARK_HOME": str(place)} for place in places if (place / "bin" / "spark-submit").is_file()), {})


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables, which the JVM and its child processes inherit."""
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
    """Let pyspark print no traceback when the JVM ends, which is reported otherwise: its server of
    accumulators prints one after an RDD has run, and py4j logs through the root logger.
    """
    server: Any = session.sparkContext._accumulatorServer  # noqa: SLF001 - it has no other name
    server.handle_error = lambda _request, _address: None


def _is_not_py4js(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


@contextlib.contextmanager
def _log_settings(log_file: Path, scratch: Path) -> Iterator[Path]:
    text = resources.files("subscriber.spark").joinpath("log4j2.properties").read_text()
    settings = scratch / "log4j2.properties"
    settings.write_text(text.replace("@LOG_FILE@", str(log_file)))
    yield settings


def _first_line(error: BaseException) -> str:
    """The first line of an error, or its class: the JVM, which has the text, may have ended."""
    try:
        lines = str(error).strip().splitlines()
    except (Py4JError, OSError):
        lines = []
    return lines[0] if lines else type(error).__name__


# Java ---------------------------------------------------------------------------------------------

OLDEST_JAVA: Final = 17


def find_java() -> Path:
    """The JAVA_HOME to use: of the environment, else of ``java`` on PATH, else an installed one.
    UsageError: there is no Java of version 17 or newer.
    """
    given = os.environ.get("JAVA_HOME")
    candidates = [Path(given)] if given else []
    on_path = shutil.which("java")
    if on_path:
        candidates.append(Path(on_path).resolve().parent.parent)
    candidates += sorted(Path("/usr/lib/jvm").glob("*"), reverse=True)
    candidates += [Path("/opt/homebrew/opt/openjdk/libexec/openjdk.jdk/Contents/Home")]
    for home in candidates:
        version = _java_version(home / "bin" / "java")
        if version is not None and version >= OLDEST_JAVA:
            return home
    raise UsageError(
        f"Spark needs Java {OLDEST_JAVA} or newer, and none was found",
        hint="Install it (Debian: apt install openjdk-17-jre-headless; macOS: brew install openjdk), or set JAVA_HOME.",
    )


def _java_version(java: Path) -> int | None:
    if not java.exists():
        return None
    answer = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(\d+)', answer.stderr)
    return int(match[1]) if match else None

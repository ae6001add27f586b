"""Which Python Spark starts its processes with, what of us it gives them, and what is said when its
JVM ends.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pyspark
import pytest
from py4j.protocol import Py4JError

from subscriber.base.errors import PipelineError, UsageError
from subscriber.spark.python_workers import package_archive, worker_python
from subscriber.spark.session import _network_settings, _spark_home, spark_session, starting_spark


@pytest.fixture(autouse=True)
def no_choice_of_the_user(monkeypatch):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)


def test_local_processes_are_this_python_without_sparks_zipped_library(tmp_path):
    """Which would be compiled anew in every process; the rest of the path stays, blanks and all"""
    show = "import json, os, sys; print(json.dumps([sys.prefix, sys.argv[1:], os.environ['PYTHONPATH']]))"
    path = "/a b:/spark/python/lib/pyspark.zip:/spark/python/lib/py4j-0.10.9.9-src.zip:/c*"
    with worker_python(tmp_path, tmp_path / "spark.log", local=True):
        command = [os.environ["PYSPARK_PYTHON"], "-c", show, "one argument", "*"]
        answer = subprocess.run(
            command, env={"PYTHONPATH": path}, cwd=tmp_path, capture_output=True, text=True, check=True
        )
    assert json.loads(answer.stdout) == [sys.prefix, ["one argument", "*"], "/a b:/c*"]
    assert "PYSPARK_PYTHON" not in os.environ


def test_processes_on_other_machines_are_the_python_of_this_path(tmp_path):
    with worker_python(tmp_path, tmp_path / "spark.log", local=False):
        assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_a_temporary_folder_without_programs_is_no_obstacle(tmp_path, monkeypatch):
    """mount -o noexec"""
    monkeypatch.setattr("os.access", lambda *_: False)
    with worker_python(tmp_path, tmp_path / "spark.log", local=True):
        assert os.environ["PYSPARK_PYTHON"] == sys.executable


@pytest.mark.parametrize("local", [True, False])
def test_the_users_own_choice_stays(tmp_path, monkeypatch, local):
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    with worker_python(tmp_path, tmp_path / "spark.log", local=local):
        assert os.environ["PYSPARK_PYTHON"] == "/opt/python"
    assert os.environ["PYSPARK_PYTHON"] == "/opt/python"
    assert list(Path(tmp_path).iterdir()) == []


def test_the_archive_for_executors_has_what_row_filters_are_read_with(tmp_path):
    """The recorded catalog is no module; a filter is analysed on the executors, where nothing else
    of us is installed.
    """
    archive = package_archive(tmp_path / "subscriber.zip")
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from subscriber.postgres.expressions import builtin_catalog\n"
        "print(builtin_catalog.__file__.startswith(sys.argv[1]), builtin_catalog.catalog_of(180000).functions[65].name)"
    )
    command = [sys.executable, "-P", "-c", program, str(archive)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["True", "int4eq"]


# Who may connect ----------------------------------------------------------------------------------


@pytest.fixture
def configuration(tmp_path, monkeypatch) -> Path:
    """An empty SPARK_CONF_DIR."""
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    return Path(tmp_path, "spark-defaults.conf")


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]", "local[2,3]"])
def test_a_local_session_is_on_loopback_and_authenticated(master, configuration):
    configuration.write_text("spark.authenticate false")
    assert _network_settings(master) == {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.authenticate": "true",
    }


@pytest.mark.parametrize(
    ("master", "says", "expected"),
    [
        ("yarn", "", "true"),
        ("k8s://https://host", "# spark.authenticate false\nspark.authenticate.secretLength 32", "true"),
        ("yarn", "spark.app.name x\n spark.authenticate=false", None),
        ("k8s://https://host", "spark.authenticate\tfalse", None),
        ("spark://host:7077", "", None),
        ("local-cluster[2,1,1024]", "", None),
    ],
)
def test_spark_makes_a_secret_where_it_can_unless_the_configuration_says_otherwise(
    master, says, expected, configuration
):
    """A standalone cluster's executors have the workers' own secret"""
    configuration.write_text(says)
    assert _network_settings(master).get("spark.authenticate") == expected
    assert "spark.driver.host" not in _network_settings(master)


def test_arguments_of_the_users_own_count_as_configuration(configuration, monkeypatch):
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.authenticate=false pyspark-shell")
    assert "spark.authenticate" not in _network_settings("yarn")


@pytest.mark.parametrize(("authenticates", "warned"), [("true", False), ("false", True)])
def test_a_cluster_that_does_not_authenticate_is_warned_of(session, tmp_path, caplog, authenticates, warned):
    session.sparkContext.getConf.return_value.get.return_value = authenticates
    with spark_session("spark://host:7077", tmp_path / "spark.log"):
        assert ('does not authenticate its connections on master "spark://host:7077"' in caplog.text) == warned


def test_a_jvm_that_ends_before_the_session_is_complete_is_an_error_of_the_start(session, tmp_path):
    """Whoever waits for the session would wait for ever."""
    session.sparkContext.addPyFile.side_effect = Py4JError("gone")
    with (
        starting_spark("spark://host:7077", tmp_path / "spark.log") as spark,
        pytest.raises(UsageError, match="could not start Spark on master"),
    ):
        spark.session()


def test_spark_is_the_installed_one_and_not_what_lies_beside_the_current_directory(tmp_path, monkeypatch):
    """pyspark looks for bin/spark-submit in the directory above first"""
    here = tmp_path / "here"
    for folder in (here, tmp_path / "bin", tmp_path / "jars"):
        folder.mkdir()
    (tmp_path / "bin" / "spark-submit").touch()
    monkeypatch.chdir(here)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    assert _spark_home() == {"SPARK_HOME": str(Path(pyspark.__file__).parent)}
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert _spark_home() == {}


def test_what_the_jvm_inherits_is_the_sessions_own(session, tmp_path, monkeypatch):
    """And the environment is as it was afterwards"""
    monkeypatch.setenv("PYTHONPATH", "/a::/b")
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    before = dict(os.environ)
    with spark_session("local[1]", tmp_path / "log" / "spark.log"):
        assert os.environ["PYTHONSAFEPATH"] == "1"
        assert os.environ["PYTHONPATH"].endswith(f"{os.pathsep}/a{os.pathsep}/b")
    assert dict(os.environ) == before
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o700


# A JVM that ends ----------------------------------------------------------------------------------


@pytest.fixture
def session(monkeypatch) -> Iterator[Any]:
    """What getOrCreate would give, with a process that waits for the end of its input in the JVM's
    place.
    """
    made = MagicMock()
    made.sparkContext._gateway.proc = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    builder = made.builder
    builder.master.return_value = builder.config.return_value = builder
    builder.getOrCreate.return_value = made
    monkeypatch.setattr("subscriber.spark.session.SparkSession", made)
    monkeypatch.setattr("subscriber.spark.session.SparkContext", MagicMock(_gateway=made))
    monkeypatch.setattr("subscriber.spark.session.find_java", lambda: Path("/java"))
    monkeypatch.setenv("JAVA_HOME", "/java")
    yield made
    end(made)


def end(session: Any) -> None:
    session.sparkContext._gateway.proc.communicate()


@pytest.mark.parametrize("error", [Py4JError("o78.isActive"), ConnectionRefusedError(111, "Connection refused")])
def test_a_jvm_that_has_ended_is_an_error_of_ours_with_what_to_do(session, tmp_path, error, caplog):
    """Out of memory, or killed: no traceback, of py4j's neither, and nothing that asks the JVM to
    stop
    """
    with (
        pytest.raises(PipelineError, match=r"^Spark's Java process has ended$") as raised,
        spark_session("local[1]", tmp_path / "spark.log"),
    ):
        end(session)
        record = logging.LogRecord("root", logging.ERROR, "/lib/py4j/java_gateway.py", 1, "sending", (), None)
        logging.getLogger().handle(record)
        raise error
    assert str(raised.value.hint).startswith(f"{tmp_path / 'spark.log'} may say more. Start again")
    logging.getLogger().handle(record)  # of another thread, which sends its command later
    assert not caplog.records
    session.stop.assert_not_called()


def test_what_fails_while_the_jvm_lives_keeps_its_type(session, tmp_path):
    """Whatever else cannot be read or connected to"""
    with pytest.raises(FileNotFoundError), spark_session("local[1]", tmp_path / "spark.log"):
        raise FileNotFoundError
    session.stop.assert_called_once_with()


def test_an_error_whose_text_the_ended_jvm_would_have_is_told_by_its_class(tmp_path, monkeypatch):
    """Found by the chaos test: SIGTERM to everybody while the session was made ended the run with a
    traceback and 1.
    """

    class TextOfTheJVM(Exception):
        def __str__(self) -> str:
            raise Py4JError("An error occurred while calling None.None")

    def fail(*_: object) -> None:
        raise TextOfTheJVM

    monkeypatch.setattr("subscriber.spark.session.SparkContext", MagicMock(_gateway=None))
    monkeypatch.setattr("subscriber.spark.session.launch_gateway", fail)
    with (
        pytest.raises(UsageError, match="could not start Spark") as caught,
        spark_session("local[1]", tmp_path / "spark.log"),
    ):
        pass
    assert caught.value.detail == "TextOfTheJVM"


# A JVM that starts --------------------------------------------------------------------------------


@pytest.fixture
def starting(session, monkeypatch) -> Any:
    """pyspark without a JVM; ``launched`` is set when the JVM is to be up, which the gateway of
    ``session`` stands for.
    """
    context = MagicMock(_gateway=None)
    context.launched = threading.Event()

    def launch(_conf: object, options: dict[str, int]) -> Any:
        os.write(options["stderr"], b"from the JVM\n")
        context.launched.wait(10)
        return session.sparkContext._gateway

    def initialize(gateway: object) -> None:
        context._gateway = gateway

    context._ensure_initialized = initialize
    monkeypatch.setattr("subscriber.spark.session.SparkContext", context)
    monkeypatch.setattr("subscriber.spark.session.launch_gateway", launch)
    return context


def test_the_caller_works_while_the_jvm_starts(session, starting, tmp_path):
    with starting_spark("local[1]", tmp_path / "spark.log") as spark:
        assert spark.created is None
        starting.launched.set()
        made: Any = spark.session()
        assert made is session
        assert starting._gateway is session.sparkContext._gateway
    assert session.sparkContext._gateway.proc.poll() is None
    session.stop.assert_called_once_with()


def test_the_jvm_writes_its_errors_to_the_log_file(session, starting, tmp_path, capfd):
    starting.launched.set()
    with spark_session("local[1]", tmp_path / "spark.log"):
        os.write(2, b"ours\n")
    assert (tmp_path / "spark.log").read_text() == "from the JVM\n"
    assert capfd.readouterr().err == "ours\n"


@pytest.mark.parametrize("launched", [True, False], ids=["already started", "still starting"])
def test_a_jvm_that_is_not_used_ends_and_is_not_waited_for(session, starting, tmp_path, launched):
    with pytest.raises(FileNotFoundError), starting_spark("local[1]", tmp_path / "spark.log"):
        if launched:
            starting.launched.set()
        raise FileNotFoundError
    starting.launched.set()
    assert session.sparkContext._gateway.proc.wait(10) == 0
    session.stop.assert_not_called()


def test_a_jvm_that_was_started_before_is_used_again(session, starting, tmp_path, monkeypatch):
    starting._gateway = session.sparkContext._gateway
    monkeypatch.setattr("subscriber.spark.session.launch_gateway", None)
    with spark_session("local[1]", tmp_path / "spark.log") as made:
        assert made is session

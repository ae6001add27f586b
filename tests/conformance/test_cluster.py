"""A standalone Spark cluster of two workers gives what ``local[2]`` gives, and the stream after it
what the publisher has.

::

    publisher ──┬── run --once --master local[2]   ──▶ SQLite ──┐
                └── run --once --master spark://…  ──▶ SQLite ──┴─ equal, row by row
                              │
                      Master, two Workers (loopback, ports of their own, one secret)
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest

from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.spark.session import find_java
from tests.crash.harness import Runner, differences, wait_until
from tests.journals import three_transactions
from tests.spark import VARIABLE as JVM_OPTIONS

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

SECRET = "the-secret-of-this-cluster"
TABLES = ("large", "filtered", "parted")

PUBLISHER = (
    "CREATE TABLE large (id int PRIMARY KEY, n numeric(12,3), t text, at timestamptz, j jsonb);"
    "CREATE TABLE filtered (id int PRIMARY KEY, region text);"
    "CREATE TABLE parted (id int, part int, b bytea, PRIMARY KEY (id, part)) PARTITION BY LIST (part);"
    "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1);"
    "CREATE TABLE parted_2 PARTITION OF parted FOR VALUES IN (2);"
    "INSERT INTO large SELECT i, i / 7.0, NULLIF(repeat(md5(i::text), i % 9), ''), timestamptz '2026-01-01' + i * interval '1 s',"
    " jsonb_build_object('i', i) FROM generate_series(1, 8000) i;"
    "INSERT INTO filtered SELECT i, CASE WHEN i % 3 = 0 THEN 'NSW' ELSE 'VIC' END FROM generate_series(1, 3600) i;"
    "INSERT INTO parted SELECT i, i % 2 + 1, decode(md5(i::text), 'hex') FROM generate_series(1, 8000) i;"
    "CREATE PUBLICATION p FOR TABLE large, parted, filtered WHERE (region = 'NSW')"
    " WITH (publish = 'insert, update, delete, truncate', publish_via_partition_root = true);"
    "ALTER TABLE filtered REPLICA IDENTITY FULL"
)

CHANGES = (
    # More than the driver decodes itself (subscriber.spark.apply_loop.SMALL_BYTES).
    (
        "INSERT INTO large SELECT i, i, (SELECT string_agg(md5(i || '.' || n), '') FROM generate_series(1, 200) n), NULL, NULL"
        " FROM generate_series(8001, 12000) i"
    ),
    "UPDATE large SET t = 'changed' WHERE id % 5 = 0",
    "DELETE FROM large WHERE id % 11 = 0",
    "UPDATE filtered SET region = CASE region WHEN 'NSW' THEN 'VIC' ELSE 'NSW' END WHERE id % 2 = 0",
    "UPDATE parted SET part = 3 - part WHERE id % 4 = 0",
)


@dataclass(frozen=True)
class Cluster:
    """A standalone master with two workers of one core each."""

    url: str
    folder: Path

    def tasks(self) -> list[int]:
        """How many tasks the executors of each worker have begun."""
        return [
            sum(log.read_text().count("Running task") for log in (self.folder / worker).glob("app-*/*/stderr"))
            for worker in ("worker1", "worker2")
        ]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "spark-defaults.conf").write_text(f"spark.authenticate true\nspark.authenticate.secret {SECRET}\n")
    with contextlib.ExitStack() as stack:
        address = _start(stack, folder, "master", "master.Master", "--port", "0")
        for worker in ("worker1", "worker2"):
            resources = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / worker))
            _start(stack, folder, worker, "worker.Worker", *resources, address)
        joined = folder / "master.log"
        wait_until(lambda: joined.read_text().count("Registering worker") == 2, "two workers join the master")
        yield Cluster(address, folder)


def _start(stack: contextlib.ExitStack, folder: Path, name: str, what: str, *arguments: str) -> str:
    """Start one of Spark's daemons in the foreground, on loopback; gives the master's URL as its
    log has it, else nothing.
    """
    launcher = Path(pyspark.__file__).parent / "bin" / "spark-class"
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONF_DIR": str(folder),
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        "JAVA_TOOL_OPTIONS": os.environ.get(JVM_OPTIONS, ""),  # the executors' JVMs inherit it
    }
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(launcher), f"org.apache.spark.deploy.{what}", "--host", "127.0.0.1", "--webui-port", "0", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    stack.callback(process.wait, 30)
    stack.callback(process.terminate)
    if name != "master":
        return ""
    found = wait_until(lambda: re.search(r"Starting Spark master at (spark://\S+)", log.read_text()), "a Spark master")
    return str(found[1])


def contents(runner: Runner) -> dict[str, list[tuple[object, ...]]]:
    file = runner.target.removeprefix("sqlite:///")
    with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        return {table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in TABLES}


def test_a_cluster_without_room_for_an_executor_is_said_and_the_run_ends_in_order(
    cluster, publisher_database, tmp_path
):
    """The workers have 1 GB."""
    (tmp_path / "spark-defaults.conf").write_text(
        f"spark.authenticate true\nspark.authenticate.secret {SECRET}\nspark.executor.memory 3g\n"
    )
    name = publisher_database.name
    publisher_database.execute("CREATE TABLE large (id int PRIMARY KEY, t text); CREATE PUBLICATION p FOR TABLE large")
    environment = {"SPARK_CONF_DIR": str(tmp_path), "SUBSCRIBER_SEGMENT_BYTES": "96kB"}
    runner = Runner(f"sqlite:///{tmp_path / 'target.db'}", tmp_path, environment)
    with contextlib.closing(runner):
        runner.sql(
            f"CREATE SUBSCRIPTION {name} CONNECTION '{publisher_database.conninfo}' PUBLICATION p"
            " WITH (create_tables = true, copy_data = false)"
        )
        runner.start(cluster.url)
        wait_until(lambda: "Spark has started" in runner.said(), "Spark")
        # More than the driver decodes itself (subscriber.spark.apply_loop.SMALL_BYTES).
        publisher_database.execute(
            "INSERT INTO large SELECT i, (SELECT string_agg(md5(i || '.' || n), '') FROM generate_series(1, 200) n)"
            " FROM generate_series(1, 4000) i"
        )
        wait_until(lambda: "Spark has no executors" in runner.said(), "the error")
        assert f'master "{cluster.url}" has given none for 15 s' in runner.said()
        status = runner.status()[name]
        assert "Spark has no executors" in status["last_error"]
        assert status["last_error_resolved_at"] is None
        assert status["apply_errors"] >= 1
        # in the middle of the next attempt
        attempts = runner.said().count("starts at")
        wait_until(lambda: runner.said().count("starts at") > attempts, "the next attempt")
        time.sleep(2)
        assert runner.terminate() == 0
        assert "Traceback" not in runner.said()
        runner.sql(f"DROP SUBSCRIPTION {name}")


def test_two_workers_give_what_local_threads_give(cluster, publisher_database, tmp_path):
    publisher_database.execute(PUBLISHER)
    masters = {"local": "local[2]", "cluster": cluster.url}
    with contextlib.ExitStack() as stack:
        runners = {}
        for name in masters:
            folder = tmp_path / name
            # Small ranges, so that there are tasks for both workers.
            sizes = {"SUBSCRIBER_PARTITION_BYTES": "192kB", "SUBSCRIBER_SEGMENT_BYTES": "96kB"}
            # The cluster's secret is in its configuration, and on no command line.
            environment = {**sizes, "SPARK_CONF_DIR": str(cluster.folder)}
            runner = runners[name] = Runner(f"sqlite:///{folder / 'target.db'}", folder, environment)
            stack.callback(runner.close)
            runner.sql(
                f"CREATE SUBSCRIPTION {name} CONNECTION '{publisher_database.conninfo}' PUBLICATION p"
                " WITH (create_tables = true)"
            )

        def run(name: str) -> None:
            answer = runners[name].call("run", "--once", "--master", masters[name])
            assert answer.returncode == 0, answer.stderr
            assert "does not authenticate" not in answer.stderr

        for name in masters:
            run(name)
        copied = contents(runners["local"])
        assert {table: len(rows) for table, rows in copied.items()} == {
            "large": 8000,
            "filtered": 1200,
            "parted": 8000,
        }
        assert contents(runners["cluster"]) == copied
        assert all(cluster.tasks()), "the copy used one worker only"

        before = cluster.tasks()
        for statement in CHANGES:
            publisher_database.execute(statement)
        run("cluster")
        assert contents(runners["cluster"]) != copied
        assert sum(cluster.tasks()) > sum(before)
        tables = ("large", PublishedTable("public", "filtered", filters=("region = 'NSW'",)), "parted")
        found = differences(publisher_database.conninfo, runners["cluster"].target, tables)
        assert not found, "\n".join(map(str, found))
        for log in [*tmp_path.rglob("*.log"), *cluster.folder.glob("*.log"), *cluster.folder.rglob("stderr")]:
            assert SECRET not in log.read_text(errors="replace"), log
        for name in masters:
            runners[name].sql(f"DROP SUBSCRIPTION {name}")


APPLICATION = """
import sys

from pyspark.sql import SparkSession

import subscriber
from subscriber import PgoutputSource

spark = SparkSession.builder.getOrCreate()
spark.dataSource.register(PgoutputSource)
feed = spark.readStream.format("pgoutput").options(journal=sys.argv[1], table="public.t", maxBytesPerTrigger="1").load()
query = feed.writeStream.format("json").option("path", sys.argv[2]).option("checkpointLocation", sys.argv[3])
query.trigger(availableNow=True).start().awaitTermination()


def package(_):
    import os

    import subscriber

    return os.path.abspath(subscriber.__file__)


print("package:", *{subscriber.__file__, *spark.sparkContext.parallelize(range(4), 4).map(package).collect()})
"""


def test_an_application_reads_a_feed_where_only_the_archive_has_the_package(cluster, tmp_path):
    """The Python of the executors and of the driver has its dependencies only."""
    journal, archive, application = tmp_path / "journal", tmp_path / "subscriber.zip", tmp_path / "application.py"
    journal.mkdir()
    three_transactions(journal)
    application.write_text(APPLICATION)
    with contextlib.closing(Runner("", tmp_path / "runner")) as runner:
        assert runner.call("spark", "archive", str(archive)).returncode == 0
    python = tmp_path / "python"
    # With -S Python reads no .pth file, and this package is installed by one.
    dependencies = Path(pyspark.__file__).parents[1]
    python.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{dependencies}" exec {sys.executable} -S "$@"\n')
    python.chmod(0o700)
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    output = tmp_path / "output"
    options = ["--master", cluster.url, "--executor-memory", "512m", "--py-files", str(archive)]
    arguments = [str(journal), str(output), str(tmp_path / "checkpoint")]
    answer = subprocess.run(
        [str(submit), *options, str(application), *arguments],
        env={
            **os.environ,
            "PYTHONPATH": str(archive),  # for the driver: Spark's process for streams does not read --py-files
            "JAVA_HOME": str(find_java()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_CONF_DIR": str(cluster.folder),
            "PYSPARK_PYTHON": str(python),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-5000:]
    rows = [json.loads(line) for file in output.glob("*.json") for line in file.read_text().splitlines()]
    assert sorted((row["a"], row["_change_type"], row["_commit_version"]) for row in rows) == [
        (1, "insert", 0x200), (2, "insert", 0x300), (3, "insert", 0x400),
    ]  # fmt: skip
    (shown,) = re.findall(r"^package: (.*)", answer.stdout, re.MULTILINE)
    places = [Path(place) for place in shown.split()]
    assert all("subscriber.zip" in place.parts for place in places), shown
    assert any(place.is_relative_to(cluster.folder) for place in places), shown

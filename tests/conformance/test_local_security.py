"""What other users of the machine could do to ``subscriber run``: connect to it, or put files where
it might look.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from subscriber.spark.session import spark_session
from subscriber.spark.source import PgoutputSource
from tests.crash.harness import Runner
from tests.frames import transaction
from tests.sockets import descendants, listening
from tests.streams import receive
from tests.waits import wait_until

pytestmark = [pytest.mark.spark]

ROOT = Path(__file__).resolve().parents[2]
MODULES = ("json", "pickle", "socket", "subscriber", "pyspark", "numpy", "pyarrow", "py4j", "site", "logging", "typing")
POISON = """
import os
with open({marks!r} + "/" + __name__ + "-" + str(os.getpid()), "w") as mark:
    mark.write(" ".join(open("/proc/self/cmdline").read().split(chr(0))))
raise ImportError("this module is not ours")
"""


def test_a_local_session_listens_on_loopback_only(tmp_path):
    """While it streams, and afterwards, when the Python workers wait for more: the JVM's RPC and
    blocks, py4j, workers, results
    """
    (tmp_path / "journal").mkdir()
    receive(tmp_path / "journal", [*transaction(0x200), None])
    with spark_session("local[2]", tmp_path / "spark.log") as spark:
        gateway: Any = spark.sparkContext._gateway
        java: int = gateway.proc.pid
        found: set[str] = set()

        def look() -> None:
            found.update(listening(descendants(java) | {os.getpid()}))
            assert listening({java}), "the JVM's sockets cannot be seen"

        def take(batch: Any, _number: int) -> None:
            for _ in batch.rdd.toLocalIterator(prefetchPartitions=True):
                pass
            look()

        spark.dataSource.register(PgoutputSource)
        rows = spark.readStream.format(PgoutputSource.name()).option("journal", str(tmp_path / "journal")).load()
        query = rows.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        wait_until(lambda: len(found) > 0)
        look()
        query.stop()
        assert spark.sparkContext.parallelize([1, 2], 2).map(lambda number: number + 1).collect() == [2, 3]
        look()
        assert found == {"127.0.0.1"}
        assert spark.sparkContext.getConf().get("spark.authenticate") == "true"
        command = Path(f"/proc/{java}/cmdline").read_bytes()
    assert b"secret" not in command.lower()


@pytest.mark.server
def test_nothing_is_imported_or_run_from_the_current_directory_or_beside_it(publisher_database, tmp_path):
    """The run starts in a directory that everybody can write, with modules and a Spark that another
    user has put there
    """
    marks = tmp_path / "marks"
    anybodys = tmp_path / "anybodys"
    here = anybodys / "here"
    for folder in (marks, anybodys, here, anybodys / "bin", anybodys / "jars"):
        folder.mkdir()
        folder.chmod(0o777)
    for module in MODULES:
        (here / f"{module}.py").write_text(POISON.format(marks=str(marks)))
    submit = anybodys / "bin" / "spark-submit"
    submit.write_text(f"#!/bin/sh\ntouch {marks}/spark-submit\nexit 1\n")
    submit.chmod(0o755)
    before = sorted(here.iterdir())

    publisher_database.execute(
        "CREATE TABLE t (a int PRIMARY KEY, b text); INSERT INTO t SELECT i, 'b' FROM generate_series(1, 100) i;"
        "CREATE PUBLICATION p FOR TABLE t"
    )
    runner = Runner(f"sqlite:///{tmp_path / 'target.db'}", tmp_path / "runner")
    try:
        runner.sql(
            f"CREATE SUBSCRIPTION s CONNECTION '{publisher_database.conninfo}' PUBLICATION p WITH (create_tables = true)"
        )
        publisher_database.execute("UPDATE t SET b = 'changed' WHERE a > 50")
        # As the installed command is started, which looks beside itself; and with the empty entry
        # that careless shells leave behind.
        environment = {**runner.environ(), "PYTHONPATH": f"{ROOT}{os.pathsep}"}
        environment.pop("SPARK_HOME", None)
        command = [sys.executable, "-P", "-c", START.format(here=str(here)), "run", "--once", "--master", "local[2]"]
        answer = subprocess.run(
            command, env=environment, cwd=here, capture_output=True, text=True, timeout=120, check=False
        )
        assert answer.returncode == 0, answer.stderr
        runner.sql("DROP SUBSCRIPTION s")
    finally:
        runner.close()
    assert [f"{mark.name}: {mark.read_text()}" for mark in marks.iterdir()] == []
    assert sorted(here.iterdir()) == before


START = """
import sys
sys.path[:] = [place for place in sys.path if place not in ("", {here!r})]
from subscriber.cli import main
main()
"""
"""The empty entry of PYTHONPATH is for the processes that ``run`` starts, and not for this one."""

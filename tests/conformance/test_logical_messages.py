"""``subscriber run --on-message``: what a server's pg_logical_emit_message wrote reaches a user's
function (rules A17, A25, C38).
"""

from __future__ import annotations

import json

import pytest

from tests.crash.harness import Runner

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]

LISTENER = """
import json, os, sqlite3

def hear(message):
    count = sqlite3.connect(os.environ["TARGET_FILE"]).execute("SELECT count(*) FROM t").fetchone()[0]
    if message.content == b"refused":
        raise ValueError("no")
    with open(os.environ["HEARD"], "a") as file:
        file.write(json.dumps([message.subscription, message.prefix, message.content.decode(), message.transactional,
                               message.xid is None, message.commit_time is None, count]) + "\\n")
"""


def test_messages_of_the_server_reach_a_function_in_commit_order(publisher_database, tmp_path):
    server = publisher_database
    server.execute("CREATE TABLE t (a int PRIMARY KEY)")
    server.execute("CREATE PUBLICATION p FOR TABLE t")
    (tmp_path / "listeners.py").write_text(LISTENER)
    heard, file = tmp_path / "heard", tmp_path / "target.db"
    runner = Runner(
        f"sqlite:///{file}",
        tmp_path / "runner",
        {"PYTHONPATH": str(tmp_path), "HEARD": str(heard), "TARGET_FILE": str(file)},
    )
    runner.sql(
        f"CREATE SUBSCRIPTION s CONNECTION '{server.conninfo}' PUBLICATION p WITH (create_tables = true, copy_data = false)"
    )
    try:
        server.execute("SELECT pg_logical_emit_message(false, 'app', 'first')")
        server.execute(
            "BEGIN; INSERT INTO t VALUES (1); SELECT pg_logical_emit_message(true, 'app', 'second');"
            " SAVEPOINT a; SELECT pg_logical_emit_message(true, 'app', 'rolled back'); ROLLBACK TO a;"
            " INSERT INTO t VALUES (2); COMMIT"
        )
        server.execute("BEGIN; SELECT pg_logical_emit_message(true, 'app', 'rolled back'); ROLLBACK")
        server.execute("SELECT pg_logical_emit_message(true, 'other', 'third')")
        done = runner.call("run", "--once", "--on-message", "listeners:hear")
        assert done.returncode == 0, done.stderr
        # All messages are in one batch here, which is committed before the function is called.
        assert [json.loads(line) for line in heard.read_text().splitlines()] == [
            ["s", "app", "first", False, True, True, 2],
            ["s", "app", "second", True, False, False, 2],
            ["s", "other", "third", True, False, False, 2],
        ]
        server.execute("SELECT pg_logical_emit_message(true, 'app', 'refused')")
        failed = runner.call("run", "--once", "--on-message", "listeners:hear")
        assert failed.returncode == 1
        assert 'the message listener "listeners:hear" failed: ValueError' in failed.stderr
        assert "refused" not in failed.stderr
    finally:
        runner.sql("DROP SUBSCRIPTION s")

"""The page on failover: its commands, as they stand there, make a primary and a standby ready, and
the subscription goes on at the promoted standby.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.conftest import server_or_skip
from tests.crash.harness import Runner, wait_until
from tests.failover import Node

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "failover.md"


def blocks(heading):
    """The language and the text of each code block of a section."""
    text = PAGE.read_text().split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def primary():
    """A primary that nothing was set at."""
    with server_or_skip(lambda: Node("db1")) as server:
        server.settings = {
            name: value
            for name, value in server.settings.items()
            if name not in {"hot_standby_feedback", "sync_replication_slots"}
        }
        yield server


def test_the_commands_of_the_page_let_a_subscription_follow_the_promoted_standby(primary, tmp_path):
    primary.create_database("shop")
    primary.execute(
        "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1); CREATE PUBLICATION shop FOR TABLE t", "shop"
    )
    (at_primary, at_standby, at_target, again) = blocks("Set it up")
    execute(primary, at_primary, {})
    with Node("db2", primary) as standby:
        # A standby that was made before anybody thought of subscriptions.
        standby.settings = dict(primary.settings)
        standby.start()
        standby.reload(
            {"primary_conninfo": f"host=127.0.0.1 port={primary.port} user=postgres", "primary_slot_name": ""}
        )
        names = {
            "host=db1,db2 port=5432": f"host=127.0.0.1,127.0.0.1 port={primary.port},{standby.port}",
            "host=db1 ": f"host=127.0.0.1 port={primary.port} ",
        }
        execute(standby, at_standby, names)
        primary.execute("SELECT pg_reload_conf()")
        runner = Runner(f"sqlite:///{tmp_path / 'shop.db'}", tmp_path / "runner")
        try:
            (_, *words) = shlex.split(named(at_target[1], names))
            answer = runner.call(*words)
            assert answer.returncode == 0, answer.stderr
            runner.start()
            for statement in filter(None, map(str.strip, named(again[1], names).split(";"))):
                runner.sql(statement)
            follow(runner, primary, standby)
        finally:
            runner.close()


def follow(runner, primary, standby):
    ((_, commands), (_, query)) = blocks("See whether it is ready")
    ready = f"shop is ready for a failover to 127.0.0.1:{standby.port}"

    def is_ready():
        primary.execute("SELECT pg_log_standby_snapshot()")
        return ready in runner.call("status").stdout

    wait_until(is_ready, "the page's line of status")
    for line in commands.splitlines():
        answer = runner.call(*shlex.split(line)[1:])
        assert answer.returncode == 0, answer.stdout
        assert "127.0.0.1" in answer.stdout
    assert standby.execute(query) == [("shop", True)]
    primary.sigkill()
    standby.execute("SELECT pg_promote()")
    (at_new_primary,) = blocks("What happens when the primary is killed")
    execute(standby, at_new_primary, {})
    standby.execute("INSERT INTO t VALUES (2)", "shop")
    rows = lambda: runner.sql("SELECT id FROM t ORDER BY id")  # noqa: E731
    wait_until(lambda: "2" in rows(), f"the row of the new primary\n{runner.said()[-2000:]}")


def execute(server, block, names):
    language, text = block
    assert language == "sql"
    for statement in filter(None, map(str.strip, named(text, names).split(";"))):
        server.execute(statement)


def named(text, names):
    """The text with this test's servers in place of the page's."""
    for name, here in names.items():
        text = text.replace(name, here)
    return text

"""The quick start, the tutorial and README, followed literally and in their order: from a server
that is empty to the end of the tutorial, with the output that the pages show.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from subscriber.testing.servers.postgresql_server import PostgreSQLServer
from subscriber.testing.servers.processes import find_postgresql
from tests.conftest import server_or_skip
from tests.crash.harness import Runner, wait_until
from tests.markdown import section
from tests.pages import Reader, commands_of

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
DEPLOYMENT = (ROOT / "docs" / "deployment.md").read_text()
README = (ROOT / "README.md").read_text()
QUICK_START = (ROOT / "docs" / "quick-start.md").read_text()
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text()


@pytest.fixture
def reader(tmp_path) -> Iterator[Reader]:
    """With a server of its own, as initdb leaves it: its wal_level is replica, and nobody has made
    a role or a table.
    """
    with server_or_skip(lambda: PostgreSQLServer(find_postgresql(18), {"wal_level": "replica"})) as server:
        server.create_database("shop")
        runner = Runner("", tmp_path / "runner")
        place = f"host=127.0.0.1 port={server.port}"
        yield Reader(
            runner,
            {"host=pg.example": place, "/var/lib/shop": str(tmp_path)},
            [str(server.psql), f"{place} dbname=shop user=postgres"],
            server.restart,
        )
        runner.close()


def test_the_quick_start_and_after_it_the_tutorial_go_as_they_are_written(reader, tmp_path):
    reader.follow(QUICK_START[QUICK_START.index("\n## Prepare the publisher\n") :])
    assert not (tmp_path / "shop.db").exists()
    reader.follow(TUTORIAL)
    with closing(sqlite3.connect(tmp_path / "shop.db")) as target:
        assert target.execute("SELECT count(*) FROM customers").fetchone() == (3,)


def test_what_was_backed_up_is_restored_and_what_was_lost_comes_again(reader, tmp_path):
    """docs/deployment.md, after the first commands of the quick start."""
    reader.runner.environment["SUBSCRIBER_JOURNAL"] = str(tmp_path / "journal")
    reader.follow(QUICK_START[QUICK_START.index("\n## Prepare the publisher\n") : QUICK_START.index("\n## Five")])
    for words in commands_of(section(README, "Your own database"))[:3]:
        reader.type(words)
    begin, lost = (DEPLOYMENT.index(f"\n## {title}\n") for title in ("Backup and restore", "The journal is lost"))
    reader.follow(DEPLOYMENT[begin:lost])
    shutil.rmtree(tmp_path / "journal")
    reader.follow(section(DEPLOYMENT, "The journal is lost"))
    with closing(sqlite3.connect(tmp_path / "shop.db")) as target:
        assert target.execute("SELECT customer FROM orders ORDER BY id").fetchall() == [("Ada",), ("Emmy",)]


def test_readme_has_the_commands_of_the_quick_start():
    """So they are run by the test of the quick start."""
    assert commands_of(section(README, "Your own database")) == commands_of(section(QUICK_START, "Five commands"))


def test_the_commands_of_readme_migrate_what_its_first_commands_replicate(reader, tmp_path):
    reader.follow(QUICK_START[QUICK_START.index("\n## Prepare the publisher\n") : QUICK_START.index("\n## Five")])
    # What README leaves to the reader: --fence needs a role that owns the database.
    reader.type(["psql", "host=pg.example dbname=shop", "-c", "ALTER ROLE repl SUPERUSER"])
    publication, target, subscription, *_ = commands_of(section(README, "Your own database"))
    check, *others = commands_of(section(README, "Migrate"))
    for words in (publication, target, check, subscription, *others):
        reader.type(words)
        if words == ["subscriber", "run"]:
            wait_until(lambda: reader.runner.status()["shop"]["tables"] == {"r": 1}, "the table to be ready")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        assert database.execute("SELECT customer FROM orders").fetchall() == [("Ada",)]

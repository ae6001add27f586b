"""The page on deployment: what its last chapters say is typed while it is true: a publisher that
has failed over, and full disks.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from subscriber.testing.servers.open_servers import PostgreSQLServer
from tests.crash.conftest import filled, small_file_system
from tests.crash.harness import Runner, wait_until
from tests.failover import Pair, pair_or_skip
from tests.markdown import section
from tests.pages import Reader

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "deployment.md").read_text()
TABLE = (
    "CREATE TABLE t (id int PRIMARY KEY, a text); INSERT INTO t VALUES (1, 'x'); CREATE PUBLICATION shop FOR TABLE t"
)


class Shop:
    """A run that replicates table t of a publisher into SQLite, and a reader of the page."""

    def __init__(self, folder: Path, conninfo: str, options: str, names: dict[str, str], psql: list[str]) -> None:
        self.database = folder / "target" / "shop.db"
        self.database.parent.mkdir(exist_ok=True)
        self.runner = Runner(f"sqlite:///{self.database}", folder)
        self.runner.sql(
            f"CREATE SUBSCRIPTION shop CONNECTION '{conninfo}' PUBLICATION shop WITH (create_tables{options})"
        )
        self.runner.start()
        self.wait_for([1])
        self.reader = Reader(self.runner, names, psql)

    def ids(self) -> list[int]:
        with contextlib.closing(sqlite3.connect(self.database, timeout=30)) as target:
            try:
                return [number for (number,) in target.execute("SELECT id FROM t ORDER BY id")]
            except sqlite3.OperationalError:
                return []  # the table is not created yet

    def wait_for(self, ids: list[int]) -> None:
        wait_until(lambda: self.ids() == ids, f"rows {ids}\n{self.runner.said()[-3000:]}")

    def wait_for_state(self, state: str) -> None:
        wait_until(
            lambda: self.runner.status()["shop"]["state"] == state, f"state {state}\n{self.runner.said()[-2000:]}"
        )


# The publisher failed over ------------------------------------------------------------------------


@pytest.fixture
def pair() -> Iterator[Pair]:
    with pair_or_skip() as opened:
        opened.create_database("shop")
        opened.execute(TABLE, "shop")
        yield opened


@pytest.mark.parametrize("synchronized", [True, False])
def test_a_subscription_follows_the_promoted_standby_with_its_slot_or_a_new_one(pair, tmp_path, synchronized):
    first, second = pair.primary, pair.standby
    names = {
        "host=pg1.example,pg2.example": f"host=127.0.0.1,127.0.0.1 port={first.port},{second.port}",
        "user=repl": "user=postgres",
    }
    shop = Shop(tmp_path, first.conninfo("shop"), ", failover" if synchronized else "", names, [])
    with contextlib.closing(shop.runner):
        if synchronized:
            pair.wait_until_ready("shop")
        pair.wait_until_caught_up()
        pair.kill_primary()
        pair.promote()
        pair.primary.reload({"synchronized_standby_slots": ""})
        shop.wait_for_state("retrying")
        # The first block is all, if the slot was synchronized.
        text = section(PAGE, "The publisher failed over")
        follow, _, recreate = text.partition("If the slot was not synchronized")
        shop.reader.follow(follow)
        pair.execute("INSERT INTO t VALUES (2, 'x')", "shop")
        if not synchronized:
            shop.wait_for_state("stopped")
            assert 'replication slot "shop" does not exist' in shop.runner.status()["shop"]["last_error"]
            wait_until(lambda: not shop.runner.running, "the run to end: nothing is left to do")
            shop.reader.follow(recreate)
        shop.wait_for([1, 2])


# The disk is full ---------------------------------------------------------------------------------


@pytest.fixture
def publisher(postgresql18) -> Iterator[PostgreSQLServer]:
    postgresql18.create_database("shop")
    postgresql18.execute(TABLE, "shop")
    yield postgresql18
    postgresql18.drop_database("shop")


@pytest.fixture
def shop(publisher, tmp_path) -> Iterator[Shop]:
    """With a small file system for the journal, and one for the target."""
    with (
        small_file_system(tmp_path / "target", "16m") as of_target,
        small_file_system(tmp_path / "journal", "16m") as of_journal,
    ):
        if not (of_target and of_journal):
            pytest.skip("mounting a tmpfs is not allowed here")
        psql = [str(publisher.psql), publisher.conninfo("shop")]
        shop = Shop(tmp_path, publisher.conninfo("shop"), "", {}, psql)
        with contextlib.closing(shop.runner):
            yield shop
            with contextlib.suppress(psycopg.Error):
                shop.runner.sql("DROP SUBSCRIPTION shop")


@pytest.mark.parametrize("place", ["journal", "target"])
def test_a_run_goes_on_by_itself_when_there_is_space_again(shop, publisher, tmp_path, place):
    with filled(tmp_path / place):
        for number in range(2, 42):
            publisher.execute(f"INSERT INTO t VALUES ({number}, repeat('x', 100000))", "shop")
        full = {"journal": "could not write the journal", "target": "is not available (SQLITE_FULL)"}[place]
        wait_until(lambda: full in shop.runner.said(), f"{full}\n{shop.runner.said()}")
        look, _, _ = section(PAGE, "The disk is full").partition("- *Of the publisher*")
        shop.reader.follow(look)
    shop.wait_for(list(range(1, 42)))
    shop.wait_for_state("streaming")


def test_a_slot_that_was_given_up_is_replaced_when_there_is_space(shop, publisher):
    assert shop.runner.terminate() == 0
    _, _, drop = section(PAGE, "The disk is full").partition("- *Of the publisher*")
    at_publisher, _, recreate = drop.partition("When there is space")
    shop.reader.follow(at_publisher)
    publisher.execute("INSERT INTO t VALUES (2, 'x')", "shop")
    shop.reader.follow(recreate)
    shop.wait_for([1, 2])

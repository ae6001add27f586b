"""Publisher and target demand a password that only the program of ``SUBSCRIBER_PASSWORD_COMMAND``
knows: every connection of every process asks it, and nothing shows what it has said.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from subscriber.base.errors import TargetUnavailable
from subscriber.targets import open_target
from subscriber.testing.servers.open_servers import PostgreSQLServer, find_postgresql
from tests.conftest import server_or_skip
from tests.crash.harness import Runner, wait_until

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]

PREFIX = "s3cret-"
PROGRAM = """
echo "$(cat /proc/$PPID/comm): $(tr '\\0' ' ' < /proc/$PPID/cmdline)for $PGUSER at $PGHOST:$PGPORT/$PGDATABASE" >> {folder}/asked
cat /proc/[0-9]*/cmdline /proc/$PPID/environ >> {folder}/seen 2> {folder}/errors
cat {folder}/$PGUSER
"""
"""It notes which process asks, and what other users of the machine can see at that time."""
_RUN = r"main\(\) run --master local\[2\]"
_RECEIVER = r"walreceiver: \S+ -m subscriber\.(base\.fork_server [^\n]+|worker\.receiver_process)"
_EXECUTOR = r"python\S*: \S+ -m (pyspark\.daemon pyspark\.worker|subscriber\.base\.fork_server [^\n]+)"


class Guarded:
    """A publisher ``shop`` with the role ``reader``, and a target ``copy`` with the role
    ``writer``, on one server.
    """

    def __init__(self, server: PostgreSQLServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        (folder / "program").write_text(PROGRAM.format(folder=folder))
        place = f"127.0.0.1:{server.port}"
        self.asks_for_reader, self.asks_for_writer = f"for reader at {place}/shop", f"for writer at {place}/copy"
        self.conninfo = server.conninfo("shop", user="reader")
        self.runner = Runner(
            f"postgresql+psycopg://writer@{place}/copy",
            folder / "runner",
            {
                "SUBSCRIBER_PASSWORD_COMMAND": f". {folder}/program",
                "SUBSCRIBER_PARTITION_BYTES": "512kB",
                "PGPASSFILE": "/dev/null",
            },
        )

    def change_passwords(self) -> None:
        for role in ("reader", "writer"):
            password = PREFIX + secrets.token_hex(8)
            self.server.execute(f"ALTER ROLE {role} PASSWORD '{password}'")
            (self.folder / role).write_text(f"{password}\n")

    def tell(self, *arguments: str) -> str:
        """The output of a command that must succeed."""
        answer = self.runner.call(*arguments)
        assert answer.returncode == 0, answer.stderr
        assert PREFIX not in answer.stdout + answer.stderr
        return answer.stdout

    def catches_up(self) -> None:
        wait_until(lambda: self.rows("copy") == self.rows("shop"), f"equal tables\n{self.runner.said()[-3000:]}")

    def cut_publisher(self) -> None:
        self.server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'reader'")

    def rows(self, database: str) -> list[tuple[object, ...]]:
        return self.server.execute("SELECT count(*), sum(id), max(b) FROM t", database)

    def asked(self) -> str:
        return (self.folder / "asked").read_text()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with server_or_skip(lambda: PostgreSQLServer(find_postgresql(18))) as server:
        hba = server.data_directory / "pg_hba.conf"
        hba.write_text(f"host all reader,writer 127.0.0.1/32 scram-sha-256\n{hba.read_text()}")
        server.execute("CREATE ROLE reader LOGIN REPLICATION; CREATE ROLE writer LOGIN")
        server.execute("CREATE DATABASE shop")
        server.execute("CREATE DATABASE copy OWNER writer")
        server.execute("SELECT pg_reload_conf()")
        server.execute(
            "CREATE TABLE t (id int PRIMARY KEY, b text); GRANT SELECT ON t TO reader; CREATE PUBLICATION p FOR TABLE t;"
            " INSERT INTO t SELECT i, repeat('b', 200) FROM generate_series(1, 12000) i; ANALYZE t",
            "shop",
        )
        guarded = Guarded(server, tmp_path_factory.mktemp("credentials"))
        guarded.change_passwords()
        create = f"CREATE SUBSCRIPTION s CONNECTION '{guarded.conninfo}' PUBLICATION p WITH (create_tables = true)"
        guarded.tell("sql", "-c", create)
        try:
            guarded.runner.start()
            guarded.catches_up()
            yield guarded
        finally:
            guarded.runner.close()


def test_every_connection_asks_for_its_password_and_nothing_shows_it(guarded):
    """names_are_data, and rotation: new connections use other passwords than the first ones."""
    guarded.change_passwords()
    guarded.server.execute("UPDATE t SET b = 'changed' WHERE id > 11000; DELETE FROM t WHERE id < 100", "shop")
    guarded.cut_publisher()
    guarded.catches_up()
    guarded.tell("verify", "s")
    guarded.tell("status")

    asked = guarded.asked()
    for process in _RUN, _RECEIVER, _EXECUTOR:
        assert re.search(f"{process} {guarded.asks_for_reader}", asked)
    assert re.search(f"{_RUN} {guarded.asks_for_writer}", asked)
    shown = (guarded.folder / "seen").read_bytes()
    assert b"subscriber" in shown
    assert PREFIX.encode() not in shown
    for file in guarded.runner.folder.rglob("*"):
        assert not file.is_file() or PREFIX.encode() not in file.read_bytes(), file
    ((conninfo,),) = guarded.server.execute("SELECT subconninfo FROM subscriber_subscription", "copy")
    assert PREFIX not in conninfo


def test_a_program_that_fails_for_a_while_is_asked_again(guarded):
    secret = guarded.folder / "reader"
    kept = secret.rename(guarded.folder / "kept")
    guarded.cut_publisher()
    guarded.server.execute("DELETE FROM t WHERE id < 200", "shop")
    wait_until(lambda: "the program exited with exit code 1" in guarded.runner.said(), "the program to fail")
    kept.rename(secret)
    guarded.catches_up()
    assert guarded.runner.running


def test_a_target_asks_again_for_each_connection(guarded, monkeypatch):
    for name, value in guarded.runner.environment.items():
        monkeypatch.setenv(name, value)
    with open_target(guarded.runner.target) as target:
        for _ in range(2):
            guarded.change_passwords()
            target.engine.dispose()
            with target.begin() as connection:
                assert connection.scalar(sa.text("SELECT current_user")) == "writer"
        monkeypatch.setenv("SUBSCRIBER_PASSWORD_COMMAND", "exit 3")
        target.engine.dispose()
        with pytest.raises(TargetUnavailable, match="the program exited with exit code 3"), target.begin():
            pass

"""A publisher after pg_upgrade is another system with the same slot. The subscription continues
after the program has checked the step. No Spark is used.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from subscriber.base.errors import JournalGap, SlotLost, SubscriberError
from subscriber.base.lsn import INVALID_LSN, MAX_LSN
from subscriber.base.settings import Settings
from subscriber.commands.slot_position import adopt_slot
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.connection import connect_publisher
from subscriber.stream.journal.browse import browse
from subscriber.stream.journal.positions import journal_positions
from subscriber.stream.journal.storage import journal_url
from subscriber.targets import open_target
from subscriber.testing.servers.open_servers import PostgreSQLServer
from subscriber.testing.servers.processes import find_postgresql
from subscriber.worker.receiver_process import Assignment, receive
from tests.conformance.test_commands_of_ours import Session
from tests.conftest import Database, server_or_skip
from tests.crash.harness import wait_until

pytestmark = [pytest.mark.server, pytest.mark.slow]


@pytest.fixture
def server() -> Iterator[PostgreSQLServer]:
    with server_or_skip(lambda: PostgreSQLServer(find_postgresql(18))) as running:
        if not (running.bin / "pg_upgrade").exists():
            pytest.skip("there is no pg_upgrade beside this server")
        yield running


@pytest.fixture
def session(server, tmp_path) -> Iterator[Session]:
    server.create_database("shop")
    database = Database(server, "shop", server.conninfo("shop"))
    database.execute("CREATE TABLE t (a int PRIMARY KEY, b text); CREATE PUBLICATION p FOR TABLE t")
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as target:
        made = Session(target, database, Settings(journal=str(tmp_path / "journal")))
        made.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
        made.run("CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION p WITH (copy_data = false, enabled = false)")
        yield made


def receive_all(session: Session) -> None:
    """Receive until everything that is committed now is in the journal."""
    subscription, applied = adopt_slot(session.target, session.subscription(), session.settings)
    assert subscription.system_identifier is not None
    journal = journal_url(session.settings.journal, subscription.system_identifier, "s")
    assignment = Assignment(
        "s", subscription.conninfo, "s", ("p",), "parallel", False, False, "any", subscription.system_identifier, journal, applied
    )  # fmt: skip
    stop, errors = threading.Event(), list[SubscriberError]()

    def work() -> None:
        try:
            receive(assignment, session.settings, stop, lambda *_, **__: None)
        except SubscriberError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        with connect_publisher(subscription.conninfo, "test") as server:
            barrier = PublisherClient(server).write_barrier()
        wait_until(lambda: errors or journal_positions(journal)[0] >= barrier, "everything to be received")
    finally:
        stop.set()
        thread.join()
    if errors:
        raise errors[0]


def received(session: Session) -> list[str]:
    system = session.subscription().system_identifier
    assert system is not None
    found = browse(journal_url(session.settings.journal, system, "s"), INVALID_LSN, MAX_LSN, show_values=True)
    return [line.description for line in found if line.action == "I"]


def upgrade(server: PostgreSQLServer, folder: Path) -> None:
    """Upgrade the server with pg_upgrade to a new cluster, which replaces its data directory."""
    server.stop()
    old = server.data_directory
    owner = old.stat()
    new = old.with_name("upgraded")

    def as_owner(*command: object) -> None:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=old.parent,
            user=owner.st_uid,
            group=owner.st_gid,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    as_owner(
        server.bin / "initdb", "-D", new, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C.UTF-8"
    )
    (new / "postgresql.conf").write_text((old / "postgresql.conf").read_text())
    for name in old.glob("*.conf"):
        if name.name != "pg_hba.conf":
            shutil.copy2(name, new / name.name)
    as_owner(
        server.bin / "pg_upgrade", "-b", server.bin, "-B", server.bin, "-d", old, "-D", new, "-U", "postgres", "--no-sync"
    )  # fmt: skip
    old.rename(folder / "old")
    new.rename(old)
    server.start()


def test_the_slot_of_an_upgraded_publisher_is_used_further(server, session, tmp_path):
    session.publisher.execute("INSERT INTO t VALUES (1, 'before')")
    receive_all(session)
    before = session.subscription().system_identifier
    upgrade(server, tmp_path)
    session.publisher.execute("INSERT INTO t VALUES (2, 'after')")
    with connect_publisher(session.publisher.conninfo, "test") as connection:
        now = PublisherClient(connection).system_identifier()
    assert now != before

    with pytest.raises(SubscriberError) as refused:
        receive_all(session)
    assert before in refused.value.message
    assert f"SET (system_identifier = '{now}')" in str(refused.value.hint)

    session.run(f"ALTER SUBSCRIPTION s SET (system_identifier = '{now}')")
    receive_all(session)
    assert received(session) == ["INSERT (a: '1', b: 'before')", "INSERT (a: '2', b: 'after')"]
    session.run(f"ALTER SUBSCRIPTION s SET (system_identifier = '{now}')")  # a second time changes nothing


def test_the_step_is_refused_if_its_number_the_journal_or_the_slot_does_not_fit(server, session, tmp_path):
    session.publisher.execute("INSERT INTO t VALUES (1, 'before')")
    receive_all(session)
    error = session.refused("ALTER SUBSCRIPTION s SET (system_identifier = '77')")
    assert error.message.endswith("not 77")
    assert session.refused("ALTER SUBSCRIPTION s SET (system_identifier = 'x')").message == (
        'invalid value for parameter "system_identifier": "x"'
    )
    assert session.refused("ALTER SUBSCRIPTION s SET (system_identifier = '7', binary = true)").sqlstate == "42601"
    session.run("ALTER SUBSCRIPTION s ENABLE")
    assert session.refused("ALTER SUBSCRIPTION s SET (system_identifier = '77')").sqlstate == "55000"
    session.run("ALTER SUBSCRIPTION s DISABLE")

    upgrade(server, tmp_path)
    with connect_publisher(session.publisher.conninfo, "test") as connection:
        now = PublisherClient(connection).system_identifier()
    here = session.settings
    session.settings = Settings(journal=str(tmp_path / "elsewhere"))
    error = session.refused(f"ALTER SUBSCRIPTION s SET (system_identifier = '{now}')")
    assert isinstance(error, JournalGap)
    assert error.message == 'there is no journal of slot "s" here'
    session.settings = here
    # A server with a slot of that name whose position is lower is not the upgraded server.
    session.publisher.execute("SELECT pg_drop_replication_slot('s')")
    error = session.refused(f"ALTER SUBSCRIPTION s SET (system_identifier = '{now}')")
    assert isinstance(error, SlotLost)
    assert error.message == 'replication slot "s" does not exist'

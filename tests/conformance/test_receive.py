"""``subscriber receive``: a slot into a journal without a target, from a real publisher."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyarrow.fs import LocalFileSystem

from subscriber.base.errors import JournalGap, SlotInUse
from subscriber.base.lsn import INVALID_LSN, MAX_LSN
from subscriber.base.settings import Settings
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.connection import ReplicationConnection, connect_publisher
from subscriber.publisher.slots import create_slot
from subscriber.stream.journal import storage
from subscriber.stream.journal.browse import browse, list_journals
from subscriber.stream.journal.named_consumers import advance, register
from subscriber.stream.journal.positions import journal_bytes, journal_positions
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.retention import Consumer, write_consumer
from subscriber.stream.journal.storage import open_storage
from subscriber.worker import slot_receiver
from subscriber.worker.slot_receiver import SlotReceiver, SlotSource
from tests.conftest import Database
from tests.crash.harness import PATIENCE, wait_until
from tests.receivers import TABLE, ReceiveCommand


@pytest.fixture
def receive(publisher_database: Database, tmp_path: Path) -> Iterator[ReceiveCommand]:
    publisher_database.execute(TABLE)
    command = ReceiveCommand(publisher_database, tmp_path)
    yield command
    command.close()


def slots(database: Database) -> list[str]:
    return [
        name
        for (name,) in database.execute(
            "SELECT slot_name::text FROM pg_replication_slots WHERE database = current_database()"
        )
    ]


def make_slot(receive: ReceiveCommand) -> None:
    with ReplicationConnection(receive.database.conninfo, "test") as connection:
        create_slot(connection, receive.slot, snapshot="nothing")


def received(receive: ReceiveCommand) -> None:
    """Wait until everything that is committed now is durable in the journal."""
    with connect_publisher(receive.database.conninfo, "test") as connection:
        barrier = PublisherClient(connection).write_barrier()
    wait_until(lambda: journal_positions(receive.journal)[0] >= barrier, "the journal to have everything")


def test_a_slot_is_created_once_and_received_until_the_command_is_stopped(receive):
    receive.start("--create-slot")
    receive.wait_for("receiving slot")
    assert slots(receive.database) == [receive.slot]
    receive.database.execute("INSERT INTO t VALUES (1, 'x'); UPDATE t SET b = 'y'; DELETE FROM t")
    received(receive)
    assert receive.changes() == [
        "INSERT (a: '1', b: 'x')",
        "UPDATE (a: '1', b: 'y')",
        "DELETE old key (a: '1', b: null)",
    ]
    assert receive.stop(signal.SIGINT) == 0
    receive.start("--create-slot")
    receive.wait_for("receiving slot", 2)
    receive.database.execute("INSERT INTO t VALUES (2, 'x')")
    received(receive)
    assert receive.changes()[3:] == ["INSERT (a: '2', b: 'x')"]
    assert receive.stop(signal.SIGTERM) == 0
    assert "ERROR" not in receive.said()


def test_once_ends_when_everything_is_durable_that_the_publisher_had(receive):
    make_slot(receive)
    receive.database.execute("INSERT INTO t SELECT i, 'x' FROM generate_series(1, 1000) i")
    ended = receive.call("--once")
    assert ended.returncode == 0, ended.stderr
    assert len(receive.changes()) == 1000
    assert receive.call("--once").returncode == 0
    assert len(receive.changes()) == 1000


def test_the_changes_of_several_publications_are_received(receive):
    receive.database.execute("CREATE TABLE u (a int PRIMARY KEY); CREATE PUBLICATION q FOR TABLE u")
    make_slot(receive)
    receive.database.execute("INSERT INTO t VALUES (1, 'x'); INSERT INTO u VALUES (2)")
    assert receive.call("--once", "--publication", "q").returncode == 0
    assert receive.changes() == ["INSERT (a: '1', b: 'x')", "INSERT (a: '2')"]


def test_everything_stays_without_a_consumer_and_what_a_consumer_has_not_passed_stays_with_one(receive):
    make_slot(receive)
    for number in range(3):
        receive.database.execute(f"INSERT INTO t VALUES ({number}, 'x')")
        assert receive.call("--once").returncode == 0
    assert len(receive.changes()) == 3
    storage = open_storage(receive.journal)
    begin = register(storage, "orders")
    second = JournalReader(storage).entries(begin)[1].end
    advance(storage, "orders", second)
    assert receive.call("--once").returncode == 0
    assert receive.changes() == ["INSERT (a: '2', b: 'x')"]


def test_a_consumer_that_stays_away_is_dropped_and_the_journal_stays_within_its_bound(receive):
    receive.environment["SUBSCRIBER_JOURNAL_ABSENT_CONSUMERS"] = "drop 1MB"
    receive.environment["SUBSCRIBER_SEGMENT_BYTES"] = "64kB"
    receive.start("--create-slot")
    receive.wait_for("receiving slot")
    storage = open_storage(receive.journal)
    register(storage, "absent")
    for number in range(4):
        receive.database.execute(
            f"INSERT INTO t SELECT {number} * 1000 + i, repeat(md5(i::text), 30) FROM generate_series(1, 1000) i"
        )
    receive.wait_for('consumer "absent" of the journal was dropped at')
    wait_until(lambda: journal_bytes(receive.journal) <= 1024 * 1024, "the journal to be trimmed")
    with pytest.raises(JournalGap, match='consumer "absent" was dropped'):
        register(storage, "absent")
    assert register(storage, "new") == JournalReader(storage).control().begin
    assert receive.stop(signal.SIGTERM) == 0


def test_a_slot_that_is_not_pgoutputs_is_refused_and_gets_no_journal(receive):
    receive.database.execute(f"SELECT pg_create_physical_replication_slot('{receive.slot}')")
    try:
        ended = receive.call("--create-slot")
    finally:
        receive.database.execute(f"SELECT pg_drop_replication_slot('{receive.slot}')")
    assert ended.returncode == 1
    assert 'has no output plugin (it is a physical slot), but "pgoutput" is needed' in ended.stderr
    assert "HINT:  Use another --slot, or drop that slot at the publisher." in ended.stderr
    assert not receive.journals.exists()


def test_a_name_that_no_slot_can_have_is_refused_by_the_publisher(receive):
    ended = receive.call("--create-slot", slot="../Spark")
    assert ended.returncode == 1
    assert 'replication slot name "../Spark" contains invalid character' in ended.stderr
    assert not receive.journals.exists()


def test_an_error_is_an_object_of_the_json_log(receive):
    ended = receive.call("--log-format", "json")
    assert ended.returncode == 1
    last = json.loads(ended.stderr.splitlines()[-1])
    assert last["message"] == f'replication slot "{receive.slot}" does not exist'
    assert last["hint"] == "Add --create-slot to create it."


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"connection": "dbname=x nonsense"}, "invalid connection string syntax", None),
        ({"slot": "nowhere"}, 'replication slot "nowhere" does not exist', "Add --create-slot to create it."),
        (
            {"publication": "order"},
            'publication "order" does not exist',
            'Perhaps you meant the publication "orders".',
        ),
    ],
    ids=["connection", "slot", "publication"],
)
def test_a_typo_ends_the_command_with_its_reason_and_creates_nothing(receive, options, message, hint):
    receive.database.execute("CREATE PUBLICATION orders FOR TABLE t")
    ended = receive.call(**options)
    assert ended.returncode == 1
    assert message in ended.stderr
    assert hint is None or f"HINT:  {hint}" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert slots(receive.database) == []
    assert not receive.journals.exists()


def test_a_database_that_does_not_exist_ends_the_command_with_the_option_to_correct(receive):
    wrong = receive.database.conninfo.replace(receive.database.name, "nowhere")
    ended = receive.call("--create-slot", connection=wrong)
    assert ended.returncode == 1
    assert 'database "nowhere" does not exist' in ended.stderr
    assert "HINT:  Check dbname of --connection." in ended.stderr


def test_a_publisher_that_cannot_be_reached_is_tried_again(receive):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    receive.start("--create-slot", connection=f"host=127.0.0.1 port={port} dbname=x user=u password=secret")
    receive.wait_for("(attempt 1, trying again in")
    assert "Check that the publisher runs and can be reached, and host and port of --connection." in receive.said()
    assert receive.stop(signal.SIGINT) == 0
    assert "secret" not in receive.said()


def test_once_gives_a_publisher_up_that_cannot_be_reached(receive):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    ended = receive.call("--once", connection=f"host=127.0.0.1 port={port} dbname=x")
    assert ended.returncode == 1
    assert "(attempt 1, trying again in" in ended.stderr
    assert "\nERROR:  could not connect to the publisher" in ended.stderr


def test_a_slot_that_another_receiver_has_is_refused_and_with_standby_taken_over(receive, tmp_path):
    receive.start("--create-slot")
    receive.wait_for("receiving slot")
    ended = receive.call()
    assert ended.returncode == 1
    assert f'replication slot "{receive.slot}" is active for PID' in ended.stderr
    elsewhere = ReceiveCommand(receive.database, tmp_path / "elsewhere")
    elsewhere.folder.mkdir()
    ended = elsewhere.call()
    assert ended.returncode == 1
    assert "is active for PID" in ended.stderr
    assert not elsewhere.journals.exists()
    second = ReceiveCommand(receive.database, receive.folder)
    try:
        second.start("--standby")
        second.wait_for("waiting until the other receiver ends")
        receive.close()
        second.wait_for("receiving slot", 2)
        receive.database.execute("INSERT INTO t VALUES (1, 'x')")
        received(receive)
        assert receive.changes() == ["INSERT (a: '1', b: 'x')"]
        assert second.stop(signal.SIGTERM) == 0
    finally:
        second.close()


def ask(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_metrics_and_health_say_how_far_receiver_and_consumers_are(receive):
    receive.start("--create-slot", "--http", "127.0.0.1:0")
    receive.wait_for("receiving slot")
    port = int(re.findall(r"http://127\.0\.0\.1:(\d+)/", receive.said())[0])
    register(open_storage(receive.journal), "orders")
    receive.database.execute("INSERT INTO t VALUES (1, 'x')")
    received(receive)

    def scrape() -> dict[str, float]:
        families = text_string_to_metric_families(ask(port, "/metrics")[1])
        samples = [
            sample for family in families for sample in family.samples if sample.labels.get("slot") == receive.slot
        ]
        return {
            "".join(
                [sample.name, *(f" {value}" for name, value in sample.labels.items() if name != "slot")]
            ): sample.value
            for sample in samples
        }

    def has_sampled() -> bool:
        found = scrape()
        return (
            found.get("subscriber_journal_consumer_lag_bytes orders", 0) > 0 and "subscriber_receive_lag_bytes" in found
        )

    wait_until(has_sampled, "the lag of the consumer")
    found = scrape()
    assert found["subscriber_receiver_state streaming"] == 1
    assert found["subscriber_received_transactions_total"] == 1
    assert found["subscriber_journal_entries"] == 1
    assert found["subscriber_journal_bytes"] > 0
    assert found["subscriber_slot_active"] == 1
    assert found["subscriber_publisher_up"] == 1
    assert ask(port, "/livez") == (200, "ok\n")
    assert ask(port, "/readyz") == (200, "ok\n")
    assert ask(port, "/health?errors=0")[0] == 200
    assert receive.stop(signal.SIGTERM) == 0


def test_a_receiver_tells_systemd_that_it_is_ready_and_that_it_ends(receive, tmp_path):
    address = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(address))
        listening.settimeout(60)
        receive.environment |= {"NOTIFY_SOCKET": str(address), "WATCHDOG_USEC": "1000000"}
        receive.start("--create-slot")
        told = ""
        while "READY=1" not in told or "WATCHDOG=1" not in told:
            told += listening.recv(4096).decode()
        assert receive.stop(signal.SIGTERM) == 0
        while "STOPPING=1" not in told:
            told += listening.recv(4096).decode()


def test_the_slot_of_a_subscription_is_refused(receive):
    make_slot(receive)
    assert receive.call("--once").returncode == 0
    storage = open_storage(receive.journal)
    write_consumer(
        storage,
        Consumer("8c1f" * 8, 1),
        journal_positions(receive.journal)[0],
        subscription="shop",
        place="sqlite:////srv/shop.db",
    )
    ended = receive.call("--once")
    assert ended.returncode == 1
    assert f'replication slot "{receive.slot}" is used by subscription "shop" of sqlite:////srv/shop.db' in ended.stderr


def test_a_slot_that_was_dropped_is_not_created_again_beside_its_journal(receive):
    make_slot(receive)
    assert receive.call("--once").returncode == 0
    receive.database.execute(f"SELECT pg_drop_replication_slot('{receive.slot}')")
    ended = receive.call("--once", "--create-slot")
    assert ended.returncode == 1
    assert f'replication slot "{receive.slot}" does not exist, but there is a journal of it' in ended.stderr
    assert f"rm -r {receive.journal}" in ended.stderr
    assert slots(receive.database) == []


def test_a_slot_that_somebody_else_has_confirmed_is_refused(receive):
    make_slot(receive)
    receive.database.execute("INSERT INTO t VALUES (1, 'x')")
    assert receive.call("--once").returncode == 0
    receive.database.execute("INSERT INTO t VALUES (2, 'x')")
    receive.database.execute(f"SELECT pg_replication_slot_advance('{receive.slot}', pg_current_wal_flush_lsn())")
    ended = receive.call("--once")
    assert ended.returncode == 1
    assert "the slot was confirmed up to" in ended.stderr
    assert "To start again: stop the consumers" in ended.stderr
    assert "SUBSCRIPTION" not in ended.stderr


def test_a_publication_that_is_dropped_meanwhile_is_told(receive):
    receive.database.execute("CREATE PUBLICATION q FOR TABLE t")
    receive.start("--create-slot", "--publication", "q")
    receive.wait_for("receiving slot")
    receive.database.execute("DROP PUBLICATION q")
    receive.database.execute("INSERT INTO t VALUES (1, 'x')")
    receive.wait_for('publication "q" did not exist at the publisher at')
    assert receive.stop(signal.SIGTERM) == 0


@contextmanager
def running(receiver: SlotReceiver) -> Iterator[None]:
    """The receiver in a thread of this process."""
    stop = threading.Event()
    thread = threading.Thread(target=receiver.run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE)


def test_of_two_receivers_on_one_url_the_one_without_the_slot_waits_and_every_change_is_written_once(
    publisher_database, tmp_path, monkeypatch
):
    """A URL has no lock: the slot says who writes, and the publisher may give it to another."""
    database, slot = publisher_database, f"s_{publisher_database.name}"
    database.execute(TABLE)
    monkeypatch.setattr(storage, "filesystem", lambda url: (LocalFileSystem(), url.replace("mock://", str(tmp_path))))
    source = SlotSource(database.conninfo, slot, ("p",), create=True)
    first = SlotReceiver(source, Settings(journal="mock:///bucket", wal_retrieve_retry_interval=2.0))
    second = SlotReceiver(source, Settings(journal="mock:///bucket"), standby=True)

    def keys() -> list[str]:
        (journal,) = list_journals("mock:///bucket")
        lines = browse(journal.url, INVALID_LSN, MAX_LSN, show_values=True)
        return [line.description for line in lines if line.action in "IUDT"]

    with running(first):
        wait_until(lambda: first.state == "streaming", "the first receiver to stream")
        with running(second):
            wait_until(lambda: second.state == "standby", "the second one to wait")
            database.execute("INSERT INTO t VALUES (1, 'x')")

            def is_taken_over() -> bool:
                if first.state == "streaming":
                    database.execute(
                        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
                        f" WHERE slot_name = '{slot}' AND active_pid IS NOT NULL"
                    )
                return second.state == "streaming" and isinstance(first.attempts.error, SlotInUse)

            monkeypatch.setattr(slot_receiver, "_STANDBY_SECONDS", 0.05)  # it asks before the first one does
            wait_until(is_taken_over, "the second one to have the slot, and the first one to ask for it in vain")
            database.execute("INSERT INTO t VALUES (2, 'y')")
            wait_until(lambda: len(keys()) == 2, "the second one to write")
        wait_until(lambda: first.state == "streaming", "the first one to have the slot again")
        database.execute("INSERT INTO t VALUES (3, 'z')")
        wait_until(lambda: len(keys()) == 3, "the first one to write")
    assert keys() == [f"INSERT (a: '{key}', b: '{text}')" for key, text in ((1, "x"), (2, "y"), (3, "z"))]

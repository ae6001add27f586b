"""What `subscriber run --http` says of itself, while it replicates from a real server."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from prometheus_client.parser import text_string_to_metric_families

from subscriber.base.lsn import parse_lsn
from tests.conftest import Database, fresh_database
from tests.crash.harness import Runner, wait_until
from tests.dashboards import PageReader

TOKEN = "0123456789abcdef"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
Sample = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Run:
    """A run of one subscription, with its server, which tells a service manager."""

    def __init__(self, publisher: Database, folder: Path) -> None:
        self.publisher = publisher
        self.name = publisher.name
        publisher.execute(
            "CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1); CREATE PUBLICATION p FOR TABLE t"
        )
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.manager.bind(str(folder / "notify"))
        variables = {"NOTIFY_SOCKET": str(folder / "notify"), "WATCHDOG_USEC": "1000000"}
        variables["SUBSCRIBER_JOURNAL_KEEP_SIZE"] = "10"  # what is applied is still to be shown
        self.runner = Runner(f"sqlite:///{folder / 'target.db'}", folder, variables)
        self.runner.sql(
            f"CREATE SUBSCRIPTION {self.name} CONNECTION '{publisher.conninfo}' PUBLICATION p WITH (create_tables)"
        )
        (folder / "token").write_text(f"{TOKEN}\n")
        token_file = ("--http-token-file", str(folder / "token"))
        self.runner.start("local[2]", "--http", "127.0.0.1:0", *token_file, "--http-admin", "--http-show-values")
        wait_until(lambda: self._said() is not None, "the address of the server")
        said = self._said()
        assert said is not None
        self.port = int(said[1])

    def _said(self) -> re.Match[str] | None:
        return re.search(r"http://127\.0\.0\.1:(\d+)/", self.runner.said())

    def ask(self, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(connection):
            connection.request("GET", path, headers=AUTHORIZED)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def page(self, path: str) -> PageReader:
        status, page = self.ask(path)
        assert status == 200, page
        return PageReader(page)

    def address(self) -> str:
        """Of the subscription's page."""
        return self.page("/").links[self.name]

    def give(self, action: str) -> list[str]:
        """Give a command on a page; returns its row when it has taken effect."""
        path = f"{self.address()}/commands/{action}"
        form = {"Origin": f"http://127.0.0.1:{self.port}", "Content-Type": "application/x-www-form-urlencoded"}
        fields = self.page(path).fields
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(connection):
            connection.request("POST", path, urlencode(fields), AUTHORIZED | form)
            assert connection.getresponse().status == 303

        def effect() -> list[str] | None:
            rows = self.page(self.address()).rows
            row = next(row for row in rows if row[1:2] == [fields["statement"]])
            return row if row[3] not in ("", "not seen yet") else None

        found: list[str] = wait_until(effect, f"{action} to take effect")
        return found

    def metrics(self) -> Sample:
        status, text = self.ask("/metrics")
        assert status == 200
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics().get((f"subscriber_{name}", frozenset({"subscription": self.name, **labels}.items())))

    def close(self) -> None:
        self.runner.close()
        self.manager.close()


@pytest.fixture(scope="module")
def run(postgresql18, tmp_path_factory) -> Iterator[Run]:
    with contextlib.contextmanager(fresh_database)(postgresql18) as publisher:
        running = Run(publisher, tmp_path_factory.mktemp("http"))
        with contextlib.closing(running):
            wait_until(lambda: running.value("tables", state="r") == 1, "the table to be ready")
            yield running
            running.runner.sql(f"DROP SUBSCRIPTION {running.name}")


def holds(run: Run, what: str, name: str, expected: Any, **labels: str) -> None:
    wait_until(lambda: run.value(name, **labels) == expected, what)


@pytest.mark.spark
def test_a_run_shows_what_it_replicates_and_that_it_has_everything(run):
    for number in range(2, 12):
        run.publisher.execute(f"INSERT INTO t VALUES ({number})")
    run.publisher.execute("UPDATE t SET a = 100 WHERE a = 2; DELETE FROM t WHERE a = 3")
    holds(run, "the rows", "rows_total", 10.0, schema="public", table="t", operation="insert")
    holds(run, "the delete", "rows_total", 1.0, schema="public", table="t", operation="delete")
    holds(run, "the proof that nothing is behind", "lag_seconds", 0.0)
    found: dict[Any, float] = run.metrics()

    def value(name: str, **labels: str) -> float:
        return found[f"subscriber_{name}", frozenset({"subscription": run.name, **labels}.items())]

    assert value("subscription_state", state="streaming") == 1
    assert value("received_transactions_total") >= 11
    assert value("received_bytes_total") > 500
    assert value("commit_to_visible_seconds_count") >= 1
    assert value("batch_seconds_total", stage="apply") > 0
    assert value("batch_seconds_total", stage="decode") > 0
    assert value("publisher_up") == 1
    assert value("slot_active") == 1
    assert value("slot_wal_status", status="reserved") == 1
    assert value("slot_failover") == 0
    assert value("receiver_resident_memory_bytes") > 10_000_000
    assert abs(value("publisher_clock_offset_seconds")) < 60
    assert value("last_confirmed_timestamp_seconds") <= value("last_message_timestamp_seconds") + 60
    jvm = ("subscriber_jvm_resident_memory_bytes", frozenset[tuple[str, str]]())
    wait_until(lambda: run.metrics().get(jvm, 0.0) > 50_000_000, "Spark's JVM to be sampled")
    status = run.runner.status()[run.name]
    assert status["publisher_version"].startswith("18")
    assert (status["unknown"], status["journal_bytes"] >= 0) == ([], True)


@pytest.mark.spark
def test_a_run_is_alive_ready_and_healthy_and_status_says_the_same(run):
    assert run.ask("/livez") == (200, "ok\n")
    assert run.ask("/readyz") == (200, "ok\n")
    wait_until(lambda: run.ask("/health?lag=60s&errors=0")[0] == 200, "the run to be healthy")
    wait_until(
        lambda: run.runner.call("status", "--check", "lag=60s,errors=0").returncode == 0, "status --check to agree"
    )
    status, page = run.ask("/")
    assert status == 200
    assert run.name in page
    (subid,) = re.findall(r'href="/subscriptions/(\d+)"', page)
    status, page = run.ask(f"/subscriptions/{subid}")
    assert status == 200
    assert "public.t" in page
    assert "PostgreSQL 18" in page


@pytest.mark.spark
def test_the_service_manager_is_told_of_readiness_state_and_life(run):
    told: set[str] = set()

    def has_told_all() -> bool:
        told.update(run.manager.recv(4096).decode().splitlines())
        return {"READY=1", "WATCHDOG=1", "STATUS=1 streaming"} <= told

    wait_until(has_told_all, "the service manager to be told")


@pytest.mark.spark
def test_an_event_brings_a_commit_to_an_open_page(run):
    connection = http.client.HTTPConnection("127.0.0.1", run.port, timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", "/events?subscription=1", headers=AUTHORIZED)
        events = connection.getresponse()
        assert events.headers["content-type"].startswith("text/event-stream")
        before = run.publisher.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
        run.publisher.execute("INSERT INTO t VALUES (1000)")
        committed = int(before[0][0])

        def is_shown() -> bool:
            """Whether the next event has the batch of the commit, which is the newest."""
            line = events.readline().decode()
            if not line.startswith("data: "):
                return False
            batches = json.loads(line.removeprefix("data: ")).partition('id="batches"')[2]
            ends = re.findall(r"<td>([0-9A-F]+/[0-9A-F]+)</td>", batches)
            return bool(ends) and parse_lsn(ends[0]) > committed

        wait_until(is_shown, "an event")


@pytest.mark.spark
def test_the_lag_is_0_and_nothing_is_logged_while_the_publisher_writes_for_others(run):
    said = run.runner.said()
    run.publisher.execute("CREATE TABLE unpublished AS SELECT generate_series(1, 1000)")
    ((end,),) = run.publisher.execute("SELECT pg_current_wal_insert_lsn() - '0/0'")

    def is_proven() -> bool:
        return bool((run.value("publisher_lsn") or 0) >= end and run.value("lag_seconds") == 0.0)

    wait_until(is_proven, "the proof that nothing is behind")
    wait_until(lambda: (run.value("received_lsn") or 0) >= end, "the received position")
    assert run.runner.said() == said


@pytest.mark.spark
def test_a_disabled_subscription_is_shown_as_such_and_is_no_fault(run):
    run.runner.sql(f"ALTER SUBSCRIPTION {run.name} DISABLE")
    holds(run, "the state", "subscription_state", 1.0, state="disabled")
    assert run.value("lag_seconds") is None
    assert run.ask("/health?lag=60s&errors=0")[0] == 200
    run.runner.sql(f"ALTER SUBSCRIPTION {run.name} ENABLE")
    holds(run, "the state", "subscription_state", 1.0, state="streaming")


@pytest.mark.spark
def test_pages_show_the_journal_and_the_publications_of_the_server(run):
    run.runner.sql(f"ALTER SUBSCRIPTION {run.name} DISABLE")
    holds(run, "the state", "subscription_state", 1.0, state="disabled")
    run.runner.sql(f"ALTER SUBSCRIPTION {run.name} ENABLE")
    run.publisher.execute("INSERT INTO t VALUES (5000)")

    def transaction() -> str | None:
        status, page = run.ask(f"{run.address()}/journal")
        rows = PageReader(page).rows if status == 200 else []
        return next((row[0] for row in rows if row[6:7] == ["public.t"]), None)

    lsn = wait_until(transaction, "the transaction in the journal")
    messages = run.page(run.page(f"{run.address()}/journal").links[lsn]).rows
    assert [row[2] for row in messages if row[2].startswith("INSERT")]

    def publications() -> list[str] | None:
        return next((row for row in run.page(run.address()).rows if row[:1] == ["p"]), None)

    row = wait_until(publications, "the publication")
    assert row == ["p", "insert, update, delete, truncate", "public.t", "all", ""]
    assert "No cutover is in progress" in run.page(f"{run.address()}/cutover").text


@pytest.mark.spark
def test_commands_on_pages_are_followed_by_the_run(run):
    assert run.give("disable")[2] == "ALTER SUBSCRIPTION"
    assert run.value("subscription_state", state="disabled") == 1.0
    run.give("enable")
    holds(run, "the state", "subscription_state", 1.0, state="streaming")
    run.publisher.execute("CREATE TABLE u (a int PRIMARY KEY); ALTER PUBLICATION p ADD TABLE u")
    answer = run.give("refresh")[2]
    assert answer == 'NOTICE:  created table "public.u" at the subscriber\nALTER SUBSCRIPTION'
    wait_until(lambda: run.value("tables", state="r") == 2, "the new table to be ready")

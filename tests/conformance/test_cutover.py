"""A whole cutover, by the command, on each kind of target: the application's inserts work
afterwards, and the state before can be restored.
"""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.crash.harness import COMMAND, wait_until
from tests.cutovers import Shop, open_shop

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def shop(request, publisher_database, tmp_path: Path) -> Iterator[Shop]:
    with open_shop(request.param, request, publisher_database, tmp_path) as opened:
        yield opened


KINDS = [
    "postgresql",
    pytest.param("sqlite", marks=pytest.mark.long),  # test_migration_chapter.py has it in short
    pytest.param("mariadb", marks=pytest.mark.long),
    pytest.param("duckdb", marks=pytest.mark.long),
]


@pytest.mark.parametrize("shop", KINDS, indirect=True)
def test_an_application_is_switched_over_and_may_go_back_until_it_has_written(shop, tmp_path):
    dry = shop.cutover("--fence", "--verify", "--dry-run")
    assert dry.returncode == 0, dry.stdout + dry.stderr
    assert (shop.fence(), shop.status()["cutover"]) == ([], None)

    # A session with an open transaction: the command waits, tells for whom, and goes on afterwards.
    with psycopg.connect(shop.publisher.conninfo, application_name="webshop") as late:
        late.execute("INSERT INTO orders (customer, amount) VALUES (1, 999)")
        answer = shop.cutover("--fence", "--timeout", "3s")
        assert answer.returncode == 1, answer.stdout
        assert 'application "webshop"' in answer.stderr
        assert "--abandon, which lifts the fence, too" in answer.stderr
        assert shop.fence() != []
        assert shop.status()["cutover"]["step"] == "writes"
        late.commit()
    answer = shop.cutover("--fence", "--verify", "--json", "--report", str(tmp_path / "report"))
    assert answer.returncode == 0, answer.stdout + answer.stderr
    report = json.loads(answer.stdout)
    assert [step["status"] for step in report["steps"]] == ["done"] * 7
    assert [table["target_rows"] for table in report["findings"]["verify"]["report"]["tables"]] == [20, 51]
    assert len(list((tmp_path / "report").iterdir())) == 2
    status = shop.status()
    assert (status["enabled"], status["cutover"]["state"]) == (False, "switched")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction), psycopg.connect(shop.publisher.conninfo) as new:
        new.execute("INSERT INTO orders (customer) VALUES (1)")
    refused = shop.runner.call("sql", "-c", f"ALTER SUBSCRIPTION {shop.name} ENABLE")
    assert "which was switched over" in refused.stderr

    back = shop.cutover("--abandon")
    assert back.returncode == 0, back.stderr
    assert (shop.fence(), shop.status()["enabled"]) == ([], True)
    shop.publisher.execute("INSERT INTO orders (customer, amount) VALUES (2, 1)")
    answer = shop.cutover("--verify")  # waits for what was written, too
    assert answer.returncode == 0, answer.stdout + answer.stderr
    shop.in_target("INSERT INTO orders (customer, amount) VALUES (3, 2)")
    assert shop.in_target("SELECT max(id) FROM orders") == [(53,)]
    back = shop.cutover("--abandon")
    assert back.returncode == 1
    assert '"public.orders" had 52 rows and has 53' in back.stderr

    done = shop.cutover("--finish")
    assert done.returncode == 0, done.stdout + done.stderr
    assert shop.runner.status() == {}
    assert shop.publisher.execute(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{shop.name}'") == []
    unknown = shop.cutover()
    assert unknown.returncode == 1
    assert "does not exist" in unknown.stderr


@pytest.mark.long
@pytest.mark.parametrize("shop", ["postgresql"], indirect=True)
def test_with_a_way_back_the_old_database_gets_what_the_application_writes(shop):
    answer = shop.cutover("--fence", "--reverse", "--verify")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    name = shop.status()["cutover"]["way_back"]
    shop.in_target("INSERT INTO orders (customer, amount) VALUES (3, 2)")
    shop.in_target("UPDATE customers SET name = 'new' WHERE id = 1")
    shop.in_target("DELETE FROM orders WHERE id = 1")

    def came_back():
        return shop.publisher.execute("SELECT count(*), max(id), min(id) FROM orders") == [(50, 51, 2)]

    wait_until(came_back, "the application's rows at the old database")
    assert shop.publisher.execute("SELECT name FROM customers WHERE id = 1") == [("new",)]

    # Going back loses nothing, and what came back is not applied to the target a second time.
    back = shop.cutover("--abandon")
    assert back.returncode == 0, back.stdout + back.stderr
    assert "origin = none" in back.stdout
    for place in (
        "pg_subscription WHERE subname",
        "pg_replication_slots WHERE slot_name",
        "pg_publication WHERE pubname",
    ):
        assert shop.publisher.execute(f"SELECT 1 FROM {place} = '{name}'") == []
    assert shop.in_target(f"SELECT 1 FROM pg_publication WHERE pubname = '{name}'") == []
    assert 'sequence "public"."orders_id_seq" is set forward to 51' in back.stdout
    shop.publisher.execute("INSERT INTO orders (customer, amount) VALUES (1, 1)")
    wait_until(lambda: shop.in_target("SELECT count(*), max(id) FROM orders") == [(51, 52)], "the stream to go on")
    assert shop.status()["last_error"] is None
    answer = shop.cutover("--verify")
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.long
@pytest.mark.parametrize("shop", ["sqlite"], indirect=True)
def test_a_session_that_began_before_the_fence_is_ended_only_if_that_is_asked(shop):
    with psycopg.connect(shop.publisher.conninfo, autocommit=True, application_name="pool") as old:
        answer = shop.cutover("--fence", "--timeout", "2s")
        assert answer.returncode == 1
        assert 'application "pool"' in answer.stderr
        assert "--terminate would end them" in answer.stderr
        old.execute("INSERT INTO orders (customer) VALUES (1)")  # it can still write
        answer = shop.cutover("--fence", "--terminate")
        assert answer.returncode == 0, answer.stdout + answer.stderr
        with pytest.raises(psycopg.OperationalError):
            old.execute("SELECT 1")


@pytest.mark.long
@pytest.mark.parametrize("shop", ["sqlite"], indirect=True)
def test_control_c_keeps_the_state_and_says_both_ways_on(shop):
    with psycopg.connect(shop.publisher.conninfo) as late:
        late.execute("INSERT INTO orders (customer) VALUES (1)")
        with subprocess.Popen(
            [*COMMAND, "cutover", shop.name, "--fence"],
            env=shop.runner.environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as command:  # fmt: skip
            wait_until(shop.fence, "the fence")
            second = shop.cutover()
            assert second.returncode == 1
            assert "another command carries out a cutover" in second.stderr
            command.send_signal(signal.SIGINT)
            out, _ = command.communicate(timeout=60)
        assert command.returncode == 130
        assert "interrupted" in out
        assert f"The same command goes on: subscriber cutover {shop.name} --fence" in out
        assert "--abandon" in out
        assert "The fence stays." in out
        assert shop.status()["cutover"]["process"] is None
    back = shop.cutover("--abandon")
    assert back.returncode == 0, back.stderr
    assert shop.fence() == []


@pytest.mark.long
@pytest.mark.parametrize("shop", ["sqlite"], indirect=True)
def test_writes_that_go_on_without_a_fence_are_noticed(shop):
    with psycopg.connect(shop.publisher.conninfo, autocommit=True) as application:
        ended = threading.Event()

        def write():
            while not ended.wait(0.05):
                application.execute("INSERT INTO orders (customer) VALUES (1)")

        thread = threading.Thread(target=write)
        thread.start()
        try:
            answer = shop.cutover("--timeout", "5s")
        finally:
            ended.set()
            thread.join()
        assert answer.returncode == 1
        assert "stopping the writes has not ended within 5 s" in answer.stderr
        assert shop.status()["enabled"] is True

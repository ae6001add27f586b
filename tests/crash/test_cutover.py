"""A cutover that is killed before or after any of its steps goes on with the same command, and can
be abandoned.
"""

from __future__ import annotations

import contextlib
import signal

import pytest

from subscriber.base.failpoints import FAILPOINTS
from tests.conftest import fresh_database
from tests.crash.harness import Runner, wait_until
from tests.cutovers import SHOP, Shop

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.crash, pytest.mark.slow, pytest.mark.long]

STEPS = sorted(
    name for name in FAILPOINTS if name.startswith("cutover.") and "undo" not in name and "finish" not in name
)
OPTIONS = ("--fence", "--verify", "--reverse")


@pytest.fixture(scope="module")
def publisher(postgresql18):
    yield from fresh_database(postgresql18)


@pytest.fixture(scope="module")
def new_database(postgresql18):
    yield from fresh_database(postgresql18)


@pytest.fixture(scope="module")
def shop(publisher, new_database, tmp_path_factory):
    publisher.execute(SHOP)
    runner = Runner(new_database.url, tmp_path_factory.mktemp("cutover"))
    made = Shop(publisher, runner, new_database.url, f"s_{publisher.name}")
    with contextlib.closing(runner):
        runner.sql(
            f"CREATE SUBSCRIPTION {made.name} CONNECTION '{publisher.conninfo}' PUBLICATION shop"
            " WITH (create_tables = true)"
        )
        runner.start()
        wait_until(lambda: made.status()["tables"] == {"r": 2}, "the tables to be ready")
        publisher.execute("INSERT INTO orders (customer, amount) VALUES (1, 1)")  # makes the origin
        wait_until(lambda: made.in_target("SELECT count(*) FROM orders") == [(51,)], "a row to be applied")
        yield made


def killed(shop: Shop, failpoint: str, *options: str) -> None:
    answer = shop.runner.call("cutover", shop.name, *options, SUBSCRIBER_FAILPOINTS=f"{failpoint}=kill")
    assert answer.returncode == -signal.SIGKILL, answer.stdout + answer.stderr


def is_restored(shop: Shop) -> None:
    status = shop.status()
    assert (status["enabled"], status["cutover"]) == (True, None)
    assert shop.fence() == []
    for catalog in ("pg_subscription WHERE subname", "pg_publication WHERE pubname"):
        query = f"SELECT 1 FROM {catalog} LIKE 'subscriber_reverse_%'"
        assert shop.publisher.execute(query) == []
        assert shop.in_target(query) == []
    slots = "SELECT slot_name::text FROM pg_replication_slots WHERE slot_name LIKE 'subscriber_reverse_%'"
    assert shop.publisher.execute(slots) == []


@pytest.mark.parametrize("failpoint", STEPS)
def test_a_kill_at_any_step_is_gone_on_from_and_can_be_undone(shop, failpoint):
    """any_crash"""
    killed(shop, failpoint, *OPTIONS)
    back = shop.cutover("--abandon")
    assert back.returncode == 0, back.stdout + back.stderr
    is_restored(shop)
    killed(shop, failpoint, *OPTIONS)
    on = shop.cutover(*OPTIONS)
    assert on.returncode == 0, on.stdout + on.stderr
    status = shop.status()
    assert (status["enabled"], status["cutover"]["state"]) == (False, "switched")
    back = shop.cutover("--abandon")
    assert back.returncode == 0, back.stdout + back.stderr
    is_restored(shop)


@pytest.mark.parametrize("failpoint", STEPS)
def test_control_c_at_any_step_says_the_state_and_both_ways_on(shop, failpoint):
    answer = shop.runner.call("cutover", shop.name, *OPTIONS, SUBSCRIBER_FAILPOINTS=f"{failpoint}=interrupt")
    assert answer.returncode == 130, answer.stdout + answer.stderr
    assert "Traceback" not in answer.stderr
    if failpoint == "cutover.writes.before" or failpoint.startswith(("cutover.preconditions.", "cutover.schema.")):
        assert "Nothing was changed. To begin again: subscriber cutover" in answer.stdout
        is_restored(shop)
        return
    status = shop.status()["cutover"]
    told = shop.runner.call("status").stdout
    command = f"subscriber cutover {shop.name}"
    assert "The fence stays. To lift it" in answer.stdout
    if status["state"] == "switched":
        for text in (answer.stdout, told):
            assert f"{command} --finish" in text
            assert f"{command} --abandon" in text
    else:
        asked = " ".join(sorted(OPTIONS, key=["--fence", "--verify", "--reverse"].index))
        assert f"The same command goes on: {command} {asked}" in answer.stdout
        assert f"to go on: {command} {asked}; to go back: {command} --abandon" in told
    back = shop.runner.call("cutover", shop.name, "--abandon", SUBSCRIBER_FAILPOINTS="cutover.undo.after=interrupt")
    assert back.returncode == 130, back.stdout + back.stderr
    assert f"What is left is undone by the same command: {command} --abandon" in back.stdout
    back = shop.cutover("--abandon")
    assert back.returncode == 0, back.stdout + back.stderr
    is_restored(shop)


@pytest.mark.parametrize("failpoint", ["cutover.undo.before@2", "cutover.undo.after@1", "cutover.undo.after@2"])
def test_a_kill_while_it_is_abandoned_is_gone_on_from(shop, failpoint):
    """any_crash"""
    answer = shop.cutover(*OPTIONS)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    name, _, passes = failpoint.partition("@")
    answer = shop.runner.call("cutover", shop.name, "--abandon", SUBSCRIBER_FAILPOINTS=f"{name}=kill@{passes}")
    assert answer.returncode == -signal.SIGKILL, answer.stdout + answer.stderr
    back = shop.cutover("--abandon")
    assert back.returncode == 0, back.stdout + back.stderr
    is_restored(shop)


def test_a_kill_while_it_is_finished_leaves_it_to_be_finished_or_done(shop):
    """any_crash"""
    answer = shop.cutover()
    assert answer.returncode == 0, answer.stdout + answer.stderr
    killed(shop, "cutover.finish.before", "--finish")
    assert shop.status()["cutover"]["state"] == "switched"
    killed(shop, "cutover.finish.after", "--finish")
    assert shop.runner.status() == {}
    assert shop.publisher.execute(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{shop.name}'") == []

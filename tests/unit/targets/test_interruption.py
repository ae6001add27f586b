"""target.interruption: another thread's work ends between two statements and inside one, and is
rolled back.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from subscriber.base.errors import Stopped, TargetUnavailable
from subscriber.targets import Interruption, Target, open_target

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
PATIENCE = 30.0


@pytest.fixture(params=["sqlite", "duckdb"])
def target(request, tmp_path) -> Iterator[Target]:
    with open_target(f"{request.param}:///{tmp_path / 'target.db'}") as opened:
        with opened.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE t (a INTEGER)")
        yield opened


def rows(target: Target) -> int:
    with target.begin() as connection:
        return int(connection.exec_driver_sql("SELECT count(*) FROM t").scalar_one())


def test_a_statement_that_runs_is_ended_and_its_transaction_rolled_back(target):
    interruption = Interruption(target)
    began, ended = threading.Event(), threading.Event()
    raised: list[BaseException] = []

    def work() -> None:
        try:
            with target.begin() as connection, interruption.of(connection):
                connection.exec_driver_sql("INSERT INTO t VALUES (1)")
                began.set()
                connection.exec_driver_sql(ENDLESS)
        except BaseException as error:
            raised.append(error)
        ended.set()

    threading.Thread(target=work, daemon=True).start()
    assert began.wait(PATIENCE)
    interruption.stop.set()
    for _ in range(int(PATIENCE * 10)):
        interruption.interrupt()  # one that comes before the statement is lost, so whoever stops it does it again
        if ended.wait(0.1):
            break
    assert [type(error) for error in raised] == [Stopped]
    assert rows(target) == 0


def test_nothing_is_begun_once_it_is_to_end(target):
    interruption = Interruption(target)
    interruption.stop.set()
    with pytest.raises(Stopped), target.begin() as connection, interruption.of(connection):
        connection.exec_driver_sql("INSERT INTO t VALUES (1)")
    assert rows(target) == 0


def test_an_error_is_what_it_is_while_nobody_stops_the_work(target):
    interruption = Interruption(target)
    with pytest.raises(TargetUnavailable), target.begin() as connection, interruption.of(connection):
        raise TargetUnavailable("it is away")


def test_where_no_statement_runs_an_interrupt_does_nothing(target):
    interruption = Interruption(target)
    interruption.interrupt()
    with target.begin() as connection, interruption.of(connection):
        connection.exec_driver_sql("INSERT INTO t VALUES (1)")
        interruption.interrupt()
    interruption.interrupt()
    assert rows(target) == 1

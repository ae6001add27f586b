"""The report of the sessions that an operation waits for: after a moment, once for each answer, and
without an effect on the operation.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import pytest

from subscriber.base import waiting
from subscriber.base.waiting import notices_to, prepared, session, watched

PATIENCE = 30.0


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(waiting, "PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(waiting, "_LONGEST_SECONDS", 0.01)


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it has not happened"
        time.sleep(0.002)


def test_a_command_reports_the_session_it_waits_for_and_again_when_it_is_another():
    told: list[str] = []
    answers = ["process 1", "process 1", "process 1", "process 2"]
    asked: list[str] = []

    def ask() -> list[str]:
        asked.append(answers[min(len(asked), len(answers) - 1)])
        return asked[-1:]

    with notices_to(told.append), watched("the command", ask):
        wait_until(lambda: len(asked) > len(answers) + 2)
    assert told == ["the command waits for process 1", "the command waits for process 2"]


def test_a_run_logs_the_sessions_it_waits_for(caplog):
    with caplog.at_level(logging.INFO), watched("the run", lambda: ["process 1", "process 2"]):
        wait_until(lambda: "the run waits for process 1; process 2" in caplog.text)


def test_an_operation_that_ends_soon_or_waits_for_no_session_reports_nothing(monkeypatch):
    told: list[str] = []
    asked = threading.Event()

    def nobody() -> list[str]:
        asked.set()
        return []

    with notices_to(told.append):
        with watched("what takes long itself", nobody):
            assert asked.wait(PATIENCE)
        monkeypatch.setattr(waiting, "PATIENCE_SECONDS", 3600.0)
        with watched("what ends soon", lambda: pytest.fail("nobody waits")):
            pass
    assert told == []


def test_an_error_of_the_question_does_not_reach_the_operation_that_waits(caplog):
    asked: list[int] = []

    def ask() -> list[str]:
        asked.append(1)
        raise ValueError("customer 17")

    with caplog.at_level(logging.DEBUG), watched("the run", ask):
        wait_until(lambda: len(asked) > 2)
    assert "ValueError" in caplog.text
    assert "customer 17" not in caplog.text


def test_of_many_sessions_the_first_five_are_named():
    told: list[str] = []
    with notices_to(told.append), watched("it", lambda: [f"process {number}" for number in range(7)]):
        wait_until(lambda: told)
    assert told == ["it waits for process 0; process 1; process 2; process 3; process 4 and 2 more"]


def test_an_unknown_property_of_a_session_is_omitted():
    assert session(7, None, None, None) == "process 7"
    assert session(7, "app", "noon", "idle in transaction", database="d", name="psql") == (
        'process 7 (user "app", database "d", application "psql", idle in transaction, since noon)'
    )
    assert prepared("g", "app", "noon", "d") == 'prepared transaction "g" in database "d" (prepared by "app" at noon)'

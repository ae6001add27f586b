"""The sessions that hold a lock, described. tests/conformance/test_waiting.py asks a server."""

from __future__ import annotations

from typing import Any

import pytest

from subscriber.targets.mariadb.blockers import blockers
from tests.unit.targets.recorded_server import RecordedServer

URL = "mariadb+pymysql://user@host/db"
METADATA = [{"state": "Waiting for table metadata lock"}]


def holder(number: int, command: str | None) -> dict[str, Any]:
    known = number or None
    return {
        "id": number, "user": known and "u", "db": known and "d", "command": command, "since": "2026-11-21 01:02:03",
    }  # fmt: skip


def asked(answers: dict[str, Any]) -> list[str]:
    with RecordedServer(answers).engine(URL).connect() as connection:
        return blockers(connection, 7)


def test_the_holder_of_a_row_lock_is_named():
    """A session that sleeps in a transaction is idle in transaction, in PostgreSQL's words."""
    assert asked({"innodb_lock_waits": [holder(9, "Sleep")]}) == [
        'process 9 (user "u", database "d", idle in transaction, since 2026-11-21 01:02:03)'
    ]


def test_a_row_lock_of_a_prepared_transaction_has_no_session():
    assert asked({"innodb_lock_waits": [holder(0, None)]}) == [
        "a prepared transaction (since 2026-11-21 01:02:03; XA RECOVER lists the prepared transactions)"
    ]


@pytest.mark.parametrize("state", ["Waiting for table metadata lock", "Waiting for backup lock"])
def test_only_those_that_may_hold_a_metadata_lock_are_known(state):
    texts = asked({"SELECT state": [{"state": state}], "UNION ALL": [holder(9, "Query"), holder(0, None)]})
    assert [text.startswith("a lock of the table's definition, perhaps held by ") for text in texts] == [True, True]
    assert "Query" in texts[0]
    assert "a prepared transaction" in texts[1]


@pytest.mark.parametrize("state", [[], [{"state": None}], [{"state": "Sending data"}], [{"state": "Waiting for disk"}]])
def test_a_session_that_waits_for_no_lock_waits_for_nobody(state):
    assert asked({"SELECT state": state, "UNION ALL": [holder(9, "Query")]}) == []

"""TRUNCATE in MariaDB. tests/targets/test_writing.py truncates tables of a real server."""

from __future__ import annotations

import pytest

from subscriber.errors import ConflictError
from subscriber.targets import TargetColumn, TargetTable
from subscriber.targets.mariadb.counters import CounterRestarts
from subscriber.targets.mariadb.errors import MariaDBErrors
from subscriber.targets.mariadb.writing import MariaDBWriting
from tests.unit.targets.recorded_server import RecordedServer

URL = "mariadb+pymysql://user@host/db"
COUNTER = TargetColumn("a", "int(11)", "int", nullable=False, null_is_generated=True)
COUNTING = TargetTable(None, "t", (COUNTER,), ("a",))
PLAIN = TargetTable(None, "u", (TargetColumn("a", "int(11)", "int"),), ("a",))


def truncate(server: RecordedServer, *tables: TargetTable, restart_identity: bool) -> list[TargetTable]:
    """The tables whose counters are to be reset."""
    engine, errors = server.engine(URL), MariaDBErrors()
    counters = CounterRestarts(engine, errors)
    with engine.connect() as connection, counters.collected(connection) as wanted:
        MariaDBWriting(errors, counters).truncate(connection, tables, restart_identity=restart_identity)
    return wanted


@pytest.mark.parametrize(("restart", "reset"), [(True, [COUNTING]), (False, [])])
def test_truncate_deletes_all_rows_and_resets_the_counters_later(restart, reset):
    """C29: TRUNCATE and ALTER TABLE would commit."""
    server = RecordedServer()
    assert truncate(server, COUNTING, PLAIN, restart_identity=restart) == reset
    changes = [statement for statement in server.statements if not statement.startswith("SELECT")]
    assert changes == ["CONNECT", "DELETE FROM t", "DELETE FROM u", "ROLLBACK"]


def test_nothing_is_deleted_if_another_table_references_one_of_them():
    """C30"""
    server = RecordedServer({"key_column_usage": [{"place": "db", "name": "c", "here": 1}]})
    with pytest.raises(ConflictError, match="cannot truncate a table referenced in a foreign key constraint"):
        truncate(server, COUNTING, PLAIN, restart_identity=True)
    assert not any(statement.startswith("DELETE") for statement in server.statements)

"""Pipelines of psycopg. tests/property/test_bulk_writes.py sends them to a real server."""

from __future__ import annotations

from contextlib import nullcontext

import psycopg
import pytest

from subscriber.errors import SubscriberError, TargetUnavailable, UnsupportedValue
from subscriber.targets.postgresql.pipeline import PostgreSQLPipeline
from tests.unit.targets.recorded_server import RecordedServer

URL = "postgresql+psycopg://user@host/db"
STATEMENTS = [("UPDATE t SET a = %s", (1,)), ("DELETE FROM t WHERE a = %s", (2,))]


def test_statements_are_sent_in_their_order():
    server = RecordedServer(info={"pipeline": nullcontext})
    with server.engine(URL).connect() as connection:
        assert len(PostgreSQLPipeline().execute(connection, STATEMENTS)) == 2
    assert server.statements[1:3] == ["UPDATE t SET a = 1", "DELETE FROM t WHERE a = 2"]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (psycopg.errors.NumericValueOutOfRange("secret"), UnsupportedValue),
        (psycopg.errors.QueryCanceled("secret"), TargetUnavailable),
        (psycopg.OperationalError("secret"), TargetUnavailable),
    ],
)
def test_an_error_is_translated(error, expected):
    """names_are_data"""
    server = RecordedServer({"UPDATE": error}, info={"pipeline": nullcontext})
    with server.engine(URL).connect() as connection, pytest.raises(SubscriberError) as raised:
        PostgreSQLPipeline().execute(connection, STATEMENTS)
    assert type(raised.value) is expected
    assert "secret" not in raised.value.report()
    assert raised.value.__suppress_context__

"""PostgreSQL's sequences. tests/targets/test_writing.py sets one in a real server."""

from __future__ import annotations

import psycopg
import pytest

from subscriber.errors import SubscriberError
from subscriber.schema.shape import SequencePosition
from subscriber.targets import TargetTable
from subscriber.targets.postgresql.errors import PostgreSQLErrors
from subscriber.targets.postgresql.sequences import PostgreSQLSequences
from subscriber.targets.target_table import TargetSequence
from tests.unit.targets.recorded_server import RecordedServer

URL = "postgresql+psycopg://user@host/db"
SEQUENCES = PostgreSQLSequences(PostgreSQLErrors())
TABLE = TargetTable("s", "t", (), None)
NAME = 's."100%"'
FOUND = TargetSequence(NAME, SequencePosition(last_value=41, is_called=True, increment=-2), -9, 9)
ANSWERS = {
    "pg_sequence q": [{"name": NAME, "seqincrement": -2, "seqmin": -9, "seqmax": 9}],
    "SELECT last_value": [{"last_value": 41, "is_called": True}],
}


def test_the_sequence_of_a_column_has_its_position_and_its_limits():
    server = RecordedServer(dict(ANSWERS))
    with server.engine(URL).connect() as connection:
        assert SEQUENCES.of_column(connection, TABLE, "a") == FOUND
    assert server.statements[2] == 'SELECT last_value, is_called FROM s."100%%"'


def test_a_sequence_is_found_by_its_name():
    with RecordedServer(dict(ANSWERS)).engine(URL).connect() as connection:
        assert SEQUENCES.named(connection, "s", "100%") == FOUND


def test_a_column_without_a_sequence_has_none():
    with RecordedServer().engine(URL).connect() as connection:
        assert SEQUENCES.of_column(connection, TABLE, "a") is None
        assert SEQUENCES.named(connection, "s", "absent") is None


@pytest.mark.parametrize("is_called", [True, False])
def test_a_sequence_goes_on_as_the_publishers(is_called):
    """D14"""
    server = RecordedServer()
    with server.engine(URL).connect() as connection:
        SEQUENCES.set(connection, FOUND, SequencePosition(last_value=41, is_called=is_called))
    (statement,) = (one for one in server.statements if "setval" in one)
    assert statement.startswith(f"SELECT setval(CAST('{NAME}' AS REGCLASS), 41")
    assert str(is_called).lower() in statement.lower()


def test_an_error_of_the_driver_is_translated():
    server = RecordedServer({"setval": psycopg.errors.InsufficientPrivilege("secret")})
    with server.engine(URL).connect() as connection, pytest.raises(SubscriberError) as raised:
        SEQUENCES.set(connection, FOUND, FOUND.position)
    assert raised.value.sqlstate == "42501"

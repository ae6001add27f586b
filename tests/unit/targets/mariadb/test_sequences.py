"""AUTO_INCREMENT as a sequence. tests/targets/test_writing.py sets one in a real server."""

from __future__ import annotations

import pytest

from subscriber.schema.shape import SequencePosition
from subscriber.targets import TargetColumn, TargetTable
from subscriber.targets.mariadb.errors import MariaDBErrors
from subscriber.targets.mariadb.sequences import MariaDBSequences
from subscriber.targets.target_table import TargetSequence
from tests.unit.targets.recorded_server import RecordedServer

URL = "mariadb+pymysql://user@host/db"
COUNTER = TargetColumn("a", "smallint(6)", "smallint", nullable=False, null_is_generated=True)
TABLE = TargetTable(None, "t", (COUNTER, TargetColumn("b", "int(11)", "int")), ("a",))
SEQUENCES = MariaDBSequences(MariaDBErrors())


@pytest.mark.parametrize(
    ("following", "position"),
    [
        (1, SequencePosition(last_value=1, is_called=False)),
        (42, SequencePosition(last_value=41, is_called=True)),
    ],
    ids=["never used", "used"],
)
def test_a_counter_stores_the_next_value(following, position):
    server = RecordedServer({"auto_increment": [{"auto_increment": following}]})
    with server.engine(URL).connect() as connection:
        found = SEQUENCES.of_column(connection, TABLE, "a")
    assert found == TargetSequence(".t", position, 1, 32_767, TABLE)


@pytest.mark.parametrize("name", ["b", "absent"])
def test_only_an_auto_increment_column_has_a_counter(name):
    server = RecordedServer()
    with server.engine(URL).connect() as connection:
        assert SEQUENCES.of_column(connection, TABLE, name) is None
    assert server.statements[:1] == ["CONNECT"] and "auto_increment" not in " ".join(server.statements)


@pytest.mark.parametrize(("is_called", "following"), [(True, 42), (False, 41)])
def test_a_counter_goes_on_as_the_publishers_sequence(is_called, following):
    """D14"""
    server = RecordedServer()
    table = TargetTable("s", "t", TABLE.columns, TABLE.key)
    counter = TargetSequence("s.t", SequencePosition(last_value=1, is_called=False), 1, 32_767, table)
    with server.engine(URL).connect() as connection:
        SEQUENCES.set(connection, counter, SequencePosition(last_value=41, is_called=is_called))
    assert f"ALTER TABLE s.t AUTO_INCREMENT = {following}" in server.statements

"""What is asked about a table's rules. A server's own answers are in
tests/conformance/test_bulk_postgresql.py and tests/targets/test_shapes.py.
"""

from __future__ import annotations

import pytest

from subscriber.targets import TargetTable
from subscriber.targets.postgresql.table_rules import is_connected, refuses_rows, takes_many_rows
from tests.unit.targets.recorded_server import RecordedServer

URL = "postgresql+psycopg://user@host/db"
TABLE = TargetTable("s", "t", (), ("a",))


@pytest.mark.parametrize(("key", "keys"), [(("a",), 1), (None, 0)])
def test_a_table_with_more_unique_indexes_than_its_key_is_connected(key, keys):
    server = RecordedServer({"collisdeterministic": [{"connected": True}]})
    with server.engine(URL).connect() as connection:
        assert is_connected(connection, TargetTable("s", "t", (), key), fires="RA")
    assert f"HAVING count(*) > {keys}" in server.statements[1]
    assert "CAST('RA' AS text)" in server.statements[1]


@pytest.mark.parametrize(
    ("fires", "requires", "as_rows", "expected"),
    [
        (False, False, True, True),
        (True, False, False, False),
        (False, True, True, False),
        (False, True, False, True),
    ],
    ids=["no rule", "a trigger fires", "a domain refuses NULL", "a domain, and no values of the row type"],
)
def test_many_rows_are_written_at_once_where_each_alone_would_give_the_same(fires, requires, as_rows, expected):
    server = RecordedServer({"AS fires": [{"fires": fires, "requires": requires}]})
    with server.engine(URL).connect() as connection:
        assert takes_many_rows(connection, TABLE, fires="RA", as_rows=as_rows) is expected


@pytest.mark.parametrize("answer", [True, False])
def test_the_server_says_whether_a_table_may_refuse_rows(answer):
    server = RecordedServer({"has_table_privilege": [{"refuses": answer}]})
    with server.engine(URL).connect() as connection:
        assert refuses_rows(connection, TABLE) is answer
    assert "n.nspname = 's' AND c.relname = 't'" in server.statements[1]

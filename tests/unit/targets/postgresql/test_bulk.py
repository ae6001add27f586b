"""The statements of bulk writes. tests/targets/test_bulk.py and
tests/conformance/test_bulk_postgresql.py execute them.
"""

from __future__ import annotations

import psycopg
import pyarrow as pa
import pytest

from subscriber.errors import ApplyError, ConflictError
from subscriber.targets import LeafRouting, TargetColumn, TargetTable
from subscriber.targets.loader import LoadColumn
from subscriber.targets.postgresql import bulk as postgresql_bulk
from subscriber.targets.postgresql.catalog import PostgreSQLTable
from subscriber.targets.roles.bulk import BulkColumn
from tests.unit.targets.recorded_server import RecordedServer

URL = "postgresql+psycopg://user@host/db"
A, B, C = TargetColumn("a", "bigint", "bigint"), TargetColumn('b"%', "text", "text"), TargetColumn("c", "text", "text")
TABLE = TargetTable("s.x", "t", (A, B, C), ("a",))
KEY = BulkColumn(A, 20, pa.array(["1", "2", "3"]))
WRITTEN = BulkColumn(B, 25, pa.array(["x", None, "y,z"]))
ROWS = 'FROM unnest(CAST({} AS "s.x".t[])) AS subscriber_rows WHERE "s.x".t.a = subscriber_rows.a'


@pytest.fixture
def server() -> RecordedServer:
    return RecordedServer()


@pytest.fixture
def connection(server):
    with server.engine(URL).connect() as opened:
        yield opened


def test_new_rows_are_copied(target, server, connection):
    assert target.bulk.insert(connection, TABLE, [KEY, WRITTEN]) == 3
    assert server.statements[1:] == ['COPY "s.x".t (a, "b""%") FROM STDIN', "END OF COPY"]
    assert server.copied == [b"1\tx\n2\t\\N\n3\ty,z\n"]


def test_rows_are_updated_by_a_join_with_an_array_of_rows(target, server, connection):
    """Values are bound, also those of the key, which SET has if it was sent."""
    target.bulk.update(connection, TABLE, [KEY], [KEY, WRITTEN])
    array = repr(r'{"(1,\"x\",)","(2,,)","(3,\"y,z\",)"}')
    set_ = 'SET a=subscriber_rows.a, "b""%"=subscriber_rows."b""%"'
    assert server.statements[1:] == [f'UPDATE ONLY "s.x".t {set_} {ROWS.format(array)}']


def test_an_update_that_sets_nothing_writes_the_rows_again(target, server, connection):
    """C18: as the single statement does"""
    target.bulk.update(connection, TABLE, [KEY], [])
    array = repr('{"(1,,)","(2,,)","(3,,)"}')
    assert server.statements[1:] == [f'UPDATE ONLY "s.x".t SET a="s.x".t.a {ROWS.format(array)}']


def test_rows_are_deleted_by_a_join_with_an_array_of_rows(target, server, connection):
    target.bulk.delete(connection, TABLE, [KEY])
    (statement,) = server.statements[1:]
    assert statement.startswith('DELETE FROM ONLY "s.x".t USING unnest(CAST(')


def test_a_row_that_another_origin_wrote_last_is_not_found(target, server, connection):
    """C19: the single statements record the conflict"""
    server.answers["pg_replication_origin_session_setup"] = [{"number": 7, "tracked": True}]
    target.origins._made["pg_1"] = "pg_1"
    target.origins.set(connection, "pg_1")
    target.bulk.update(connection, TABLE, [KEY], [WRITTEN])
    target.bulk.delete(connection, TABLE, [KEY])
    for statement in server.statements[-2:]:
        assert "pg_xact_commit_timestamp_origin(xmin)" in statement
        assert statement.endswith("!= 7) IS NOT true")


def test_a_change_of_the_key_is_refused(target, connection):
    with pytest.raises(ValueError, match="cannot change their key"):
        target.bulk.update(connection, TABLE, [KEY], [BulkColumn(A, 20, pa.array(["1", "2", "4"]))])


def test_rows_are_sent_in_parts_by_their_bytes(target, server, connection, monkeypatch):
    """bounded_memory"""
    monkeypatch.setattr(postgresql_bulk, "_BYTES_AT_A_TIME", 10)
    target.bulk.insert(connection, TABLE, [KEY])
    assert server.copied == [b"1\n2\n", b"3\n"]
    target.bulk.delete(connection, TABLE, [KEY])
    assert [statement.count("(1,,)") for statement in server.statements[-2:]] == [1, 0]


def test_an_array_that_the_server_could_not_take_is_not_sent(target, server, connection, monkeypatch):
    """The server would end the connection, and the same would be tried again for ever."""
    monkeypatch.setattr(postgresql_bulk, "_MOST_CHARACTERS", 10)
    with pytest.raises(ApplyError) as raised:
        target.bulk.delete(connection, TABLE, [KEY])
    assert (raised.value.sqlstate, raised.value.transient) == ("54000", False)
    assert server.statements == ["CONNECT"]


def test_an_error_has_no_values(target, server, connection):
    """names_are_data"""
    server.answers["UPDATE"] = psycopg.errors.UniqueViolation("secret")
    with pytest.raises(ConflictError) as raised:
        target.bulk.update(connection, TABLE, [KEY], [WRITTEN])
    assert "secret" not in raised.value.report()
    assert raised.value.__suppress_context__


@pytest.mark.parametrize(
    ("fires", "requires", "insert", "found"),
    [(False, False, True, True), (True, False, False, False), (False, True, True, False)],
    ids=["plain", "trigger", "domain that is NOT NULL"],
)
def test_the_catalogs_tell_which_tables_are_written_row_by_row(
    target, server, connection, fires, requires, insert, found
):
    server.answers["AS requires"] = [{"fires": fires, "requires": requires}]
    assert (target.bulk.least_rows(connection, TABLE, ()) is not None) is insert
    assert (target.bulk.least_rows(connection, TABLE, [LoadColumn(A, 20)]) is not None) is found


def test_rows_are_not_found_by_a_key_of_partitions_or_of_another_type(target, server, connection):
    routing = LeafRouting("tableoid", "1", ("a",))
    partitioned = PostgreSQLTable("s", "t", (A,), ("a",), "partitioned table", routing=routing)
    assert target.bulk.least_rows(connection, partitioned, [LoadColumn(A, 20)]) is None
    assert target.bulk.least_rows(connection, TABLE, [LoadColumn(A, 25)]) is None
    assert server.statements == ["CONNECT"]

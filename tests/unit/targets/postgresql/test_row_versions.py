"""The last writer of a row. tests/conformance/test_origins.py asks a server."""

from __future__ import annotations

from subscriber.targets import RowVersion, TargetTable
from subscriber.targets.postgresql.row_versions import PostgreSQLRowVersions
from tests.unit.targets.recorded_server import RecordedServer

URL = "postgresql+psycopg://user@host/db"
VERSIONS = PostgreSQLRowVersions()
TABLE = TargetTable("s", "t", (), None)
WRITTEN = {"nspname": "s", "relname": "t_1", "at": "2026-11-21 01:02:03+00", "origin": "pg_1"}


def read(table: TargetTable, **row: str | None) -> RowVersion | None:
    server = RecordedServer({"pg_xact_commit_timestamp_origin": [WRITTEN | row]})
    with server.engine(URL).connect() as connection:
        return VERSIONS.read(connection, table, ["731", "16400"])


def test_a_row_is_selected_with_its_transaction_and_its_place():
    assert [str(column) for column in VERSIONS.columns()] == ["xmin::text", "tableoid::text"]


def test_the_last_writer_has_a_transaction_a_time_and_an_origin():
    """C20"""
    assert read(TABLE) == RowVersion(731, "2026-11-21 01:02:03+00", "pg_1")


def test_without_commit_times_only_the_transaction_is_known():
    assert read(TABLE, at=None, origin=None) == RowVersion(731)


def test_a_row_of_a_partitioned_table_is_in_a_partition():
    found = read(TargetTable("s", "t", (), None, "partitioned table"))
    assert found is not None
    assert found.leaf == ("s", "t_1")


def test_a_partitions_index_has_another_name_than_the_tables():
    server = RecordedServer({"pg_inherits": [{"relname": "t_1_pkey"}]})
    with server.engine(URL).connect() as connection:
        assert VERSIONS.index_of_partition(connection, TABLE, "t_pkey", ("s", "t_1")) == "t_1_pkey"
    with RecordedServer().engine(URL).connect() as connection:
        assert VERSIONS.index_of_partition(connection, TABLE, "t_pkey", ("s", "t_1")) == "t_pkey"

from __future__ import annotations

import pytest
import sqlalchemy as sa
from psycopg.conninfo import conninfo_to_dict

from subscriber.targets.postgresql.cluster import PostgreSQLCluster
from subscriber.targets.postgresql.errors import PostgreSQLErrors
from tests.unit.targets.recorded_server import RecordedServer

HERE = {"pg_control_system": [{"system_identifier": "7", "current_database": "db"}]}


@pytest.mark.parametrize(
    ("identifier", "database", "found"), [("7", "db", True), ("7", "other", False), ("8", "db", False)]
)
def test_a_database_is_known_by_the_identifier_of_its_cluster_and_its_name(identifier, database, found):
    engine = RecordedServer(HERE).engine("postgresql+psycopg://user@host/db")
    with engine.connect() as connection:
        assert PostgreSQLCluster(engine, PostgreSQLErrors()).has_database(connection, identifier, database) is found


def test_the_connection_string_is_libpqs_with_every_part_of_the_url():
    engine = sa.create_engine("postgresql+psycopg://me:p%40ss%20word@db:5433/the%20shop?sslmode=require")
    found = conninfo_to_dict(PostgreSQLCluster(engine, PostgreSQLErrors()).conninfo())
    assert found == {
        "host": "db", "port": "5433", "user": "me", "password": "p@ss word", "dbname": "the shop", "sslmode": "require",
    }  # fmt: skip

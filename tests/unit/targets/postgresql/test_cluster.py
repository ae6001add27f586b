from __future__ import annotations

import pytest

from subscriber.targets.postgresql.cluster import PostgreSQLCluster
from subscriber.targets.postgresql.errors import PostgreSQLErrors
from tests.unit.targets.recorded_server import RecordedServer

HERE = {"pg_control_system": [{"system_identifier": "7", "current_database": "db"}]}


@pytest.mark.parametrize(
    ("identifier", "database", "found"), [("7", "db", True), ("7", "other", False), ("8", "db", False)]
)
def test_a_database_is_known_by_the_identifier_of_its_cluster_and_its_name(identifier, database, found):
    with RecordedServer(HERE).engine("postgresql+psycopg://user@host/db").connect() as connection:
        assert PostgreSQLCluster(PostgreSQLErrors()).has_database(connection, identifier, database) is found

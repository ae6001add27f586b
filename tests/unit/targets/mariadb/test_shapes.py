"""The role shapes of MariaDB. How a table is read is tested in test_catalog.py."""

from __future__ import annotations

import pytest
from pymysql.err import OperationalError

from subscriber.errors import TargetUnavailable
from subscriber.targets.mariadb.errors import MariaDBErrors
from subscriber.targets.mariadb.shapes import MariaDBShapes
from tests.unit.targets.recorded_server import RecordedServer

URL = "mariadb+pymysql://user@host/db"


def test_a_table_that_does_not_exist_is_none():
    with RecordedServer().engine(URL).connect() as connection:
        assert MariaDBShapes(MariaDBErrors()).reflect(connection, "public", "absent") is None


def test_an_error_of_the_driver_is_translated():
    server = RecordedServer({"information_schema": OperationalError(1205, "Lock wait timeout exceeded")})
    with server.engine(URL).connect() as connection, pytest.raises(TargetUnavailable, match="LOCK_WAIT_TIMEOUT"):
        MariaDBShapes(MariaDBErrors()).reflect(connection, "public", "t")

"""The column types of the catalog in the SQL of each database."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.engine.interfaces import Dialect

from subscriber.catalog.column_types import NAME, TEXT


def dialect(url: str) -> Dialect:
    return sa.make_url(url).get_dialect()()


def mysql_8() -> Dialect:
    """The dialect as it is after the first connection to a MySQL server."""
    connected = mysql.dialect()
    connected.server_version_info = (8, 0, 36)
    return connected


@pytest.mark.parametrize(
    ("database", "sql"),
    [
        (dialect("mariadb://"), "VARCHAR(63) COLLATE utf8mb4_nopad_bin"),
        (mysql_8(), "VARCHAR(63) COLLATE utf8mb4_0900_bin"),
        (dialect("postgresql://"), "VARCHAR(63)"),
        (dialect("sqlite://"), "VARCHAR(63)"),
    ],
    ids=["MariaDB", "MySQL", "PostgreSQL", "SQLite"],
)
def test_a_name_is_compared_with_its_case_and_with_the_spaces_at_its_end(database, sql):
    """The default collations of MySQL and MariaDB compare "S" and "s" as equal, and most of them
    "s " and "s".
    """
    assert NAME.compile(database) == sql


@pytest.mark.parametrize(("url", "sql"), [("mysql://", "LONGTEXT"), ("mariadb://", "LONGTEXT"), ("sqlite://", "TEXT")])
def test_a_text_has_any_length(url, sql):
    """MySQL's TEXT has at most 65535 bytes."""
    assert TEXT.compile(dialect(url)) == sql

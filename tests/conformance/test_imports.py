"""Commands on a PostgreSQL target import no more than on a SQLite target."""

from __future__ import annotations

import pytest

from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.targets import open_target
from tests.imports import imported_by_command


@pytest.fixture
def url(publisher_database):
    with open_target(publisher_database.url) as target:
        ensure_catalog(target.engine)
    return publisher_database.url


def test_status_imports_neither_arrow_nor_spark(url):
    libraries, _ = imported_by_command("status", "--target", url)
    assert libraries == {"click", "psycopg", "rich", "sqlalchemy"}


def test_a_query_imports_neither_arrow_nor_spark(url):
    query = "SELECT 1, 'a', NULL, 1.5, 2.5::real, now(), '{1,2}'::int[]"
    libraries, modules = imported_by_command("sql", "--target", url, "-c", query)
    assert libraries == {"click", "psycopg", "sqlalchemy"}
    assert "subscriber.commands.dispatch" not in modules

"""``subscriber verify`` of tables with a history: open versions are the publisher's rows."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from subscriber.postgres.schema.history_rules import OPEN_LSN
from tests.subscribing import Session
from tests.target_databases import opened
from tests.verifying import counts, subscribe, verify

pytestmark = [pytest.mark.server, pytest.mark.slow]

KINDS = ["sqlite", "postgresql", "duckdb", "mariadb"]


@pytest.fixture(params=KINDS)
def session(request, publisher_database, tmp_path):
    publisher_database.execute(
        "CREATE TABLE t (k int PRIMARY KEY, v text); CREATE TABLE u (k int PRIMARY KEY, v text);"
        "INSERT INTO t VALUES (1, 'one'), (2, 'two'); CREATE PUBLICATION p FOR TABLE t, u"
    )
    with opened(request.param, request, tmp_path) as target:
        made = Session(target, publisher_database, str(tmp_path / "journal"))
        subscribe(made, options=", history = scd2, history_tables = 'public.u = append'")
        yield made


def keep(session: Session, key: int, text: str, ends: int = OPEN_LSN) -> None:
    """Add a version."""
    row = {"k": key, "v": text, "_from_lsn": 1, "_from_sequence": 2, "_to_lsn": ends, "_to_sequence": 0}
    with session.target.begin() as connection:
        table = session.target.shapes.reflect(connection, "public", "t")
        assert table is not None
        connection.execute(sa.insert(table.clause()).values(row))


def test_open_versions_are_compared_with_the_rows_of_the_publisher(session):
    keep(session, 1, "eins", ends=7)
    keep(session, 1, "one")
    keep(session, 2, "two")
    keep(session, 3, "three", ends=8)
    versions, rows = verify(session).tables
    assert (counts(versions), versions.target_rows, versions.error) == ((0, 0, 0), 2, None)
    assert rows.error is not None and 'table "public.u" has a history' in rows.error

    keep(session, 4, "four")
    versions, _ = verify(session).tables
    assert counts(versions) == (0, 0, 1)


def test_open_versions_are_not_repaired(session):
    keep(session, 1, "uno")
    versions, _ = verify(session, repair=True).tables
    assert counts(versions) == (1, 1, 0)
    assert versions.error is not None and "are not repaired" in versions.error
    assert counts(verify(session).tables[0]) == (1, 1, 0)

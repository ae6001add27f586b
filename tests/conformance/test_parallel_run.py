"""``parallel_apply`` in a run, from the command to what is in a PostgreSQL target."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Database, fresh_database
from tests.crash.harness import Runner

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]

TRANSACTIONS = """
CREATE PROCEDURE work(first int, last int) LANGUAGE plpgsql AS $$
BEGIN
  FOR x IN first .. last LOOP
    INSERT INTO t SELECT x * 10 + i, x, repeat('x', 40) FROM generate_series(0, 9) i;
    UPDATE t SET v = v || x WHERE a = x * 10 OR x % 2500 = 0 AND a = x * 8;
    COMMIT;
  END LOOP;
END $$
"""
WRITERS = (
    "SELECT count(DISTINCT v.roident) FROM t, pg_xact_commit_timestamp_origin(t.xmin) v"
    " JOIN pg_replication_origin o ON o.roident = v.roident AND o.roname ~ '_pg_[0-9]+_[1-3]$'"
)
ORIGINS = (
    "SELECT count(*) FROM pg_replication_origin, pg_database"
    " WHERE datname = current_database() AND starts_with(roname, 'subscriber_' || oid || '_')"
)
ROWS = "SELECT a, n, v FROM t ORDER BY a"


@pytest.fixture
def target_database(postgresql18) -> Iterator[Database]:
    yield from fresh_database(postgresql18)


def test_a_run_applies_a_backlog_by_several_writers(publisher_database: Database, target_database, tmp_path: Path):
    """commit_order, progress_with_data; C38: the origins go with the subscription"""
    publisher, name = publisher_database, f"s_{publisher_database.name}"
    runner = Runner(target_database.url, tmp_path)
    publisher.execute("CREATE TABLE t (a int PRIMARY KEY, n int, v text); CREATE PUBLICATION p FOR TABLE t")
    publisher.execute(TRANSACTIONS)
    publisher.execute("CALL work(1, 10)")
    runner.sql(
        f"CREATE SUBSCRIPTION {name} CONNECTION '{publisher.conninfo}' PUBLICATION p"
        " WITH (create_tables = true, parallel_apply = 3)"
    )
    try:
        answer = runner.once()
        assert answer.returncode == 0, answer.stderr
        publisher.execute("CALL work(11, 12000)")
        answer = runner.once()
        assert answer.returncode == 0, answer.stderr
        assert target_database.execute(ROWS) == publisher.execute(ROWS)
        ((writers,),) = target_database.execute(WRITERS)
        assert writers > 1
        assert target_database.execute(ORIGINS) == [(4,)]
        assert target_database.execute("SELECT subparallelapply FROM subscriber_subscription") == [(3,)]
    finally:
        runner.sql(f"DROP SUBSCRIPTION {name}")
        runner.close()
    assert target_database.execute(ORIGINS) == [(0,)]

"""Tables with a history against a real publisher: the copy, the stream and a copy that replaces
rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.conformance.test_unrepresentable_values import execute, once
from tests.crash.harness import Runner
from tests.target_databases import opened

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]

KINDS = (
    "sqlite",
    pytest.param("postgresql", marks=pytest.mark.long),
    pytest.param("duckdb", marks=pytest.mark.long),
    pytest.param("mariadb", marks=pytest.mark.long),
)
ROWS = "SELECT k, v, _op, _xid IS NULL, _unchanged FROM {} ORDER BY _lsn, _sequence, k"
VERSIONS = "SELECT k, v, _valid_from IS NULL, _to_lsn = 9223372036854775807 FROM u"
"""The versions of rows: the copied and the open ones are known by this."""
LARGE = "(SELECT string_agg(md5(n::text), '') FROM generate_series(1, 400) n)"


@pytest.fixture(params=KINDS)
def runner(request, publisher_database, tmp_path) -> Iterator[Runner]:
    kind = request.param
    publisher_database.execute(
        "CREATE TABLE t (k int PRIMARY KEY, v text, large text NOT NULL DEFAULT '');"
        "ALTER TABLE t ALTER large SET STORAGE EXTERNAL;"
        "CREATE TABLE u (k int PRIMARY KEY, v text);"
        "INSERT INTO t VALUES (1, 'one'), (2, 'two'); INSERT INTO u VALUES (1, 'one');"
        f"UPDATE t SET large = {LARGE} WHERE k = 1;"
        "CREATE PUBLICATION p FOR TABLE t, u"
    )
    with contextlib.ExitStack() as stack:
        url = f"{kind}:///{tmp_path / f'target.{kind}'}"
        if kind in ("mariadb", "postgresql"):
            target = stack.enter_context(opened(kind, request, tmp_path))
            url = target.engine.url.render_as_string(hide_password=False)
        runner = Runner(url, tmp_path)
        stack.callback(runner.close)
        runner.sql(
            f"CREATE SUBSCRIPTION s CONNECTION '{publisher_database.conninfo}' PUBLICATION p"
            f" WITH (slot_name = {publisher_database.name}, create_tables = true, history = append,"
            " history_tables = 'public.u = scd2')"
        )
        yield runner


def test_a_history_has_the_copied_rows_then_every_change(runner, publisher_database):
    once(runner)
    copied = [(1, "one", "insert", True, None), (2, "two", "insert", True, None)]
    assert execute(runner.target, ROWS.format("t")) == copied

    publisher_database.execute(
        "UPDATE t SET v = 'uno' WHERE k = 1; UPDATE t SET k = 3 WHERE k = 2; DELETE FROM t WHERE k = 3"
    )
    publisher_database.execute("UPDATE u SET v = 'uno', k = 2; INSERT INTO u VALUES (1, 'one'); TRUNCATE t")
    once(runner)
    changes = [
        (1, "uno", "update_postimage", False, "large"),
        (2, None, "update_preimage", False, "v, large"),
        (3, "two", "update_postimage", False, None),
        (3, None, "delete", False, "v, large"),
        (None, None, "truncate", False, None),
    ]
    assert execute(runner.target, ROWS.format("t")) == copied + changes
    versions = [(1, "one", False, True), (1, "one", True, False), (2, "uno", False, True)]
    assert sorted(execute(runner.target, VERSIONS)) == versions

    publisher_database.execute("INSERT INTO t VALUES (4, 'four')")
    once(runner)
    runner.sql("ALTER SUBSCRIPTION s REFRESH TABLE public.t, public.u")
    once(runner)
    again = [
        (4, "four", "insert", False, None),
        (None, None, "truncate", True, None),
        (4, "four", "insert", True, None),
    ]
    assert execute(runner.target, ROWS.format("t")) == copied + changes + again

    ended = [(1, "one", False, False), (1, "one", True, False), (2, "uno", False, False)]
    assert sorted(execute(runner.target, VERSIONS)) == sorted([*ended, (1, "one", True, True), (2, "uno", True, True)])

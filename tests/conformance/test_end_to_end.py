"""The whole way, for every version of the publisher and every target: one history in two runs, then
a question a test.

::

    18 ─ history one ─┐                  ┌─ COMMIT / ROLLBACK PREPARED, more changes ─┐
    16 ─ history one ─┼─▶ run --once ──▶ ┼───────────────────────────────────────────┼─▶ run --once ─▶ the tests
    15 ─ history one ─┘  (all of them)   └───────────────────────────────────────────┘

A version's tables are in a schema of its own, ``v18``: three subscriptions of one target run side
by side.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field
from typing import Any

import pytest
import sqlalchemy as sa

from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.targets import open_target
from tests.conftest import Database, fresh_database
from tests.crash.harness import Runner, differences

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]

VERSIONS = (18, 16, 15)

PUBLISHER = """
CREATE SCHEMA {v};
CREATE TABLE {v}.items (id int PRIMARY KEY, name text, amount numeric(10,2), at timestamptz, big text);
ALTER TABLE {v}.items ALTER big SET STORAGE EXTERNAL;
CREATE TABLE {v}.twins (a int, b text);
ALTER TABLE {v}.twins REPLICA IDENTITY FULL;
CREATE TABLE {v}.lines (id int PRIMARY KEY, note text);
CREATE TABLE {v}.emptied (a int, b bytea);
CREATE TABLE {v}.promised (id int PRIMARY KEY, what text);
CREATE PUBLICATION {v} FOR TABLE {v}.items, {v}.twins, {v}.lines, {v}.emptied, {v}.promised;
INSERT INTO {v}.items VALUES (98, 'before the subscription', NULL, NULL, NULL), (99, 'as well', NULL, NULL, NULL);
"""

# The columns have another order, and one column exists only here.
TARGET = """
CREATE TABLE {s}items{e} (big text, own text DEFAULT 'mine', at {timestamptz}, name text, amount {numeric}, id int PRIMARY KEY);
CREATE TABLE {s}twins{e} (b text, a int);
CREATE TABLE {s}lines{e} (id int PRIMARY KEY, note text);
CREATE TABLE {s}emptied{e} (a int, b {bytea});
CREATE TABLE {s}promised{e} (id int PRIMARY KEY, what text);
"""

FIRST_HISTORY = (
    (
        "INSERT INTO {v}.items SELECT n, 'item ' || n, n / 4.0, timestamptz '2026-11-21 01:02:03.5+02', NULL"
        " FROM generate_series(1, 10) n"
    ),
    "INSERT INTO {v}.items VALUES (50, 'toasted', 0.10, 'infinity', repeat(md5('x'), 1000))",
    "UPDATE {v}.items SET name = NULL WHERE id = 2",
    "UPDATE {v}.items SET id = 30, name = 'moved' WHERE id = 3",
    "UPDATE {v}.items SET name = 'still toasted' WHERE id = 50",
    "UPDATE {v}.items SET id = 51 WHERE id = 50",
    "DELETE FROM {v}.items WHERE id = 4",
    # The target has neither of the two rows.
    "UPDATE {v}.items SET name = 'nowhere' WHERE id = 99",
    "DELETE FROM {v}.items WHERE id = 98",
    "INSERT INTO {v}.twins SELECT 1, 'x' FROM generate_series(1, 4)",
    "UPDATE {v}.twins SET b = 'y' WHERE ctid = (SELECT min(ctid) FROM {v}.twins)",
    "DELETE FROM {v}.twins WHERE ctid = (SELECT max(ctid) FROM {v}.twins)",
    "INSERT INTO {v}.twins VALUES (NULL, NULL), (NULL, NULL)",
    "DELETE FROM {v}.twins WHERE ctid = (SELECT max(ctid) FROM {v}.twins WHERE a IS NULL)",
    "INSERT INTO {v}.emptied VALUES (1, '\\x00ff')",
    "TRUNCATE {v}.emptied",
    "INSERT INTO {v}.emptied VALUES (2, '\\x00')",
    # Large enough to be streamed, with subtransactions that are committed, rolled back, and rolled
    # back together with their committed subtransactions.
    (
        "BEGIN; INSERT INTO {v}.lines SELECT n, repeat('a', 50) FROM generate_series(1, 2000) n;"
        " SAVEPOINT one; INSERT INTO {v}.lines SELECT n, 'undone' FROM generate_series(2001, 4000) n;"
        " ROLLBACK TO one; SAVEPOINT two; INSERT INTO {v}.lines SELECT n, 'kept' FROM generate_series(4001, 6000) n;"
        " SAVEPOINT three; UPDATE {v}.lines SET note = 'undone too' WHERE id < 1000; ROLLBACK TO three;"
        " RELEASE two; DELETE FROM {v}.lines WHERE id % 10 = 0; COMMIT"
    ),
    "BEGIN; INSERT INTO {v}.lines SELECT n, 'undone' FROM generate_series(10001, 12000) n; ROLLBACK",
    "BEGIN; INSERT INTO {v}.promised VALUES (1, 'kept'); PREPARE TRANSACTION 'keep_{d}'",
    "BEGIN; INSERT INTO {v}.promised VALUES (2, 'broken'); PREPARE TRANSACTION 'break_{d}'",
    (
        "BEGIN; INSERT INTO {v}.promised SELECT n, repeat('p', 50) FROM generate_series(101, 3000) n;"
        " PREPARE TRANSACTION 'large_{d}'"
    ),
)
SECOND_HISTORY = (
    "UPDATE {v}.items SET name = 'after the first run' WHERE id IN (1, 51)",
    "COMMIT PREPARED 'large_{d}'",
    "ROLLBACK PREPARED 'break_{d}'",
    "INSERT INTO {v}.promised VALUES (2, 'anew')",
    "COMMIT PREPARED 'keep_{d}'",
    "BEGIN; UPDATE {v}.promised SET what = 'both in one run' WHERE id = 1; PREPARE TRANSACTION 'keep_{d}'",
    "COMMIT PREPARED 'keep_{d}'",
)


@dataclass
class System:
    """Three publishers and one target, after two runs.

    Attributes:
        runner: what ran.
        publishers: by major version.
        promised: rows of ``promised`` in the target after the first run.
        log: what the runs said.
    """

    runner: Runner
    publishers: dict[int, Database]
    promised: dict[int, int] = field(default_factory=dict)
    log: str = ""

    @property
    def sqlite(self) -> bool:
        return self.runner.target.startswith("sqlite")

    def query(self, sql: str, version: int) -> list[tuple[Any, ...]]:
        """Query the target; ``{t:name}`` in the SQL stands for a table."""
        for table in ("items", "promised"):
            sql = sql.replace(f"<{table}>", f'"v{version}.{table}"' if self.sqlite else f"v{version}.{table}")
        with open_target(self.runner.target) as target, target.begin() as connection:
            result = connection.execute(sa.text(sql))
            return [tuple(row) for row in result] if result.returns_rows else []

    def write(self, history: tuple[str, ...]) -> None:
        for version, database in self.publishers.items():
            for statement in history:
                database.execute(statement.replace("{v}", f"v{version}").replace("{d}", database.name))

    def run(self) -> None:
        answer = self.runner.once()
        self.log += answer.stdout + answer.stderr
        assert answer.returncode == 0, answer.stderr


def target_tables(version: int, *, sqlite: bool) -> str:
    if sqlite:
        types = {"timestamptz": "timestamptz_text", "numeric": "numeric_text", "bytea": "blob"}
        return TARGET.format(s=f'"v{version}.', e='"', **types)
    types = {"timestamptz": "timestamptz", "numeric": "numeric", "bytea": "bytea"}
    return f"CREATE SCHEMA v{version};" + TARGET.format(s=f"v{version}.", e="", **types)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def system(request, postgresql18, postgresql16, postgresql15, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    servers = dict(zip(VERSIONS, (postgresql18, postgresql16, postgresql15), strict=True))
    with contextlib.ExitStack() as stack:
        publishers = {
            version: stack.enter_context(contextlib.contextmanager(fresh_database)(server))
            for version, server in servers.items()
        }
        url = f"sqlite:///{folder / 'target.db'}"
        if request.param == "postgresql":
            url = stack.enter_context(contextlib.contextmanager(fresh_database)(postgresql18)).url
        system = System(Runner(url, folder), publishers)
        stack.callback(system.runner.close)
        for version, publisher in publishers.items():
            publisher.execute(PUBLISHER.replace("{v}", f"v{version}"))
            with open_target(url) as target, target.begin() as connection:
                for statement in target_tables(version, sqlite=system.sqlite).split(";"):
                    if statement.strip():
                        connection.exec_driver_sql(statement)
            system.runner.sql(
                f"CREATE SUBSCRIPTION s{version} CONNECTION '{publisher.conninfo}' PUBLICATION v{version}"
                " WITH (copy_data = false, two_phase = true)"
            )
        system.write(FIRST_HISTORY)
        system.run()
        for version in VERSIONS:
            ((system.promised[version],),) = system.query("SELECT count(*) FROM <promised>", version)
            system.query("UPDATE <items> SET own = 'changed here' WHERE id IN (1, 51)", version)
        system.write(SECOND_HISTORY)
        system.run()
        yield system


@pytest.fixture(params=VERSIONS, ids="pg{}".format)
def version(request):
    return request.param


def test_every_table_is_equal(system, version):
    """commit_order, C1, C7-C11, C14-C16, C29, C42-C44: all kinds of changes, row by row"""
    schema = f"v{version}"
    tables: tuple[PublishedTable | str, ...] = (
        PublishedTable(schema, "items", filters=("id < 90",)),
        *(f"{schema}.{name}" for name in ("twins", "lines", "emptied", "promised")),
    )
    found = differences(system.publishers[version].conninfo, system.runner.target, tables)
    assert not found, "\n".join(map(str, found))


def test_the_large_transactions_were_streamed(system, version):
    """C42: otherwise the histories would not test streaming"""
    rows = system.publishers[version].execute(
        f"SELECT stream_txns FROM pg_stat_replication_slots WHERE slot_name = 's{version}'"
    )
    assert rows[0][0] >= 2


def test_unchanged_toast_keeps_its_value_through_updates_and_a_new_key(system, version):
    """A11, C8, absence_is_typed"""
    ((length, name),) = system.query("SELECT length(big), name FROM <items> WHERE id = 51", version)
    assert (length, name) == (32_000, "after the first run")


def test_a_column_that_only_the_target_has_is_left_alone(system, version):
    """C2, C7, C8: filled by its default, kept by updates"""
    owned = system.query("SELECT id, own FROM <items> ORDER BY id", version)
    assert [own for id_, own in owned if id_ in (1, 51)] == ["changed here"] * 2
    assert {own for id_, own in owned if id_ not in (1, 51)} == {"mine"}


def test_a_prepared_transaction_is_seen_when_it_is_committed_and_not_before(system, version):
    """C46, C47: prepared in one run, finished before the next"""
    assert system.promised[version] == 0
    ((rows, broken),) = system.query(
        "SELECT count(*), count(CASE WHEN what = 'broken' THEN 1 END) FROM <promised>", version
    )
    assert (rows, broken) == (2 + 2900, 0)


def test_changes_of_missing_rows_are_skipped_and_counted(system, version):
    """C18; a PostgreSQL target that tracks commit timestamps detects rows that a local session has
    written
    """
    counted = system.runner.status()[f"s{version}"]["conflicts"]
    assert {kind: number for kind, number in counted.items() if kind.endswith("missing")} == {
        "update_missing": 1,
        "delete_missing": 1,
    }
    assert system.query("SELECT id FROM <items> WHERE id > 90", version) == []


def test_a_stopped_subscription_that_caught_up_has_no_lag(system, version):
    """C36: the slot, the journal and the target agree"""
    status = system.runner.status()[f"s{version}"]
    assert status["lag_seconds"] in (0, None)  # other tests may have written WAL since
    assert (status["runner"]["alive"], status["runner"]["ended_at"] is None) == (False, False)
    assert status["slot_active"] is False
    assert status["last_error"] is None
    assert status["tables"] == {"r": 5}


def test_the_log_tells_no_values_and_no_bugs(system):
    """names_are_data"""
    assert "Traceback" not in system.log
    for value in ("toasted", "undone", "moved", "broken"):
        assert value not in system.log
    for kind in ("update_missing", "delete_missing"):
        assert f"conflict={kind}" in system.log


def test_the_journal_tells_what_was_received(system, version):
    name = next(path for path in system.runner.journal.iterdir() if f"s{version}" in path.name)
    answer = system.runner.call("journal", "show", "--journal", str(name), "--json")
    assert answer.returncode == 0, answer.stderr
    lines = [json.loads(line) for line in answer.stdout.splitlines()]
    finishes = [line["finish_lsn"] for line in lines]
    assert finishes == sorted(finishes, key=lambda text: [int(part, 16) for part in text.split("/")])
    assert "toasted" not in answer.stdout
    wrong = system.runner.call("journal", "show", "--journal", str(name), "--from", "12/XY")
    assert wrong.returncode in (1, 2)
    assert '"12/XY"' in wrong.stderr
    assert "Traceback" not in wrong.stderr


def test_a_second_runner_is_turned_away(system):
    """progress_with_data: the first run holds the target's lock"""
    with open_target(system.runner.target) as target, target.running():
        answer = system.runner.call("run", "--once")
    assert answer.returncode == 1
    assert 'another "subscriber run" is already running for' in answer.stderr
    assert "Traceback" not in answer.stderr

"""The initial copy from real publishers: what is copied, at which moment, and what happens after a
failure.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from subscriber.base.errors import (
    PipelineError,
    PublisherError,
    PublisherNotReady,
    PublisherUnavailable,
    SubscriberError,
    UnsupportedValue,
)
from subscriber.base.settings import KIB, Settings
from subscriber.postgres.schema.server_features import ServerFeatures
from subscriber.publisher import copy_out
from subscriber.publisher.connection import connect_publisher
from subscriber.publisher.copy_out import CopyBlock, CopyReader
from subscriber.publisher.copy_plan import CopyRange, plan_copy, table_files
from subscriber.publisher.server_publications import ServerPublications
from subscriber.publisher.snapshot import CopySession, exported_snapshot, snapshot_session
from subscriber.spark import copy as copy_module
from subscriber.spark.copy import CopyProgress, CopySource, copy_table
from subscriber.spark.pending_session import PendingSession
from subscriber.spark.session import starting_spark
from subscriber.targets import Target, open_target
from tests.conftest import Database
from tests.crash.harness import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.server]

PATIENCE = 30.0


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PendingSession]:
    with starting_spark("local[2]", tmp_path_factory.mktemp("spark") / "spark.log") as starting:
        yield starting


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Target]:
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as target:
        yield target


class Copier:
    """Copies tables of a publisher into a target, as the table synchronization does."""

    def __init__(self, spark: PendingSession, publisher: Database, target: Target, partition_bytes: int) -> None:
        self.publisher = publisher
        self.target = target
        self.stop = threading.Event()
        self.on_progress: Callable[[CopyProgress], None] = lambda _done: None
        self._spark = spark
        self._settings = dataclasses.replace(Settings.from_environment({}), partition_bytes=partition_bytes)

    @contextmanager
    def source(self, table: str, publications: tuple[str, ...] = ("p",)) -> Iterator[CopySource]:
        schema, _, name = table.rpartition(".")
        schema = schema or "public"
        with connect_publisher(self.publisher.conninfo, "test") as connection:
            files = table_files(connection, [(schema, name)])
        conninfo = self.publisher.conninfo
        with (
            exported_snapshot(conninfo, "sub", self.stop) as snapshot,
            CopySession(conninfo, "sub", snapshot.name, publications=publications) as session,
        ):
            yield CopySource(conninfo, "sub", schema, name, snapshot.name, files.get((schema, name), ()), session)

    def copy(self, source: CopySource) -> CopyProgress:
        return copy_table(
            self._spark,
            source,
            self.target,
            self.target.begin,
            self._settings,
            on_progress=self.on_progress,
            stop=self.stop,
        )

    def __call__(self, table: str, publications: tuple[str, ...] = ("p",)) -> CopyProgress:
        with self.source(table, publications) as source:
            return self.copy(source)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.target.engine.connect() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(query)]

    def run(self, *statements: str) -> None:
        with self.target.transactions.write_engine().begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)


@pytest.fixture
def copier(spark: PendingSession, publisher_database: Database, sqlite: Target) -> Copier:
    """From PostgreSQL 18 into SQLite, in ranges of 256 kB."""
    return Copier(spark, publisher_database, sqlite, 256 * KIB)


@pytest.fixture
def versions(spark: PendingSession, database: Database, sqlite: Target) -> Copier:
    """From each version in turn."""
    return Copier(spark, database, sqlite, 256 * KIB)


def left_behind(publisher: Database) -> list[tuple[Any, ...]]:
    """Sessions and slots that a copy has left behind."""
    for _ in range(100):
        left = publisher.execute(
            "SELECT application_name, state FROM pg_stat_activity WHERE application_name = 'sub'"
            " UNION ALL SELECT slot_name, 'slot' FROM pg_replication_slots"
        )
        if not left:
            break
        threading.Event().wait(0.1)
    return left


# What is copied -----------------------------------------------------------------------------------


def test_every_row_is_copied_once_whatever_the_ranges(versions):
    """D6"""
    versions.publisher.execute(
        "CREATE TABLE t(a int PRIMARY KEY, b text); CREATE PUBLICATION p FOR TABLE t;"
        "INSERT INTO t SELECT i, repeat(md5(i::text), 3) FROM generate_series(1, 20000) i; DELETE FROM t WHERE a % 7 = 0"
    )
    versions.run("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)")
    done = versions("t")
    expected = versions.publisher.execute("SELECT count(*), sum(a), max(b), min(b) FROM t")
    assert versions.rows("SELECT count(*), sum(a), max(b), min(b) FROM t") == expected
    assert done.rows == expected[0][0]
    assert left_behind(versions.publisher) == []


def test_values_are_those_of_the_publisher(copier):
    """Values with everything that COPY's formats give a meaning to; NULL is not the empty string
    (absence_is_typed).
    """
    values = [
        "",
        " ",
        "a\\nb",
        "a\nb",
        "a\r\nb",
        "\r",
        "\n",
        "\\.",
        "\\N",
        '"',
        ",",
        "\t",
        "\x01",
        "\x02",
        "\x01\x01\x02",
        "ä€😀",
        "\ufeffx",
    ]
    copier.publisher.execute("CREATE TABLE t(a int, b text, c text); CREATE PUBLICATION p FOR TABLE t")
    with psycopg.connect(copier.publisher.conninfo) as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO t VALUES (%s, %s, %s)", [(n, v, None) for n, v in enumerate(values)])
        cursor.execute("INSERT INTO t VALUES (NULL, NULL, 'x')")
    copier.run("CREATE TABLE t(a INT, b TEXT, c TEXT)")
    copier("t")
    assert copier.rows("SELECT * FROM t ORDER BY a NULLS LAST") == [(n, v, None) for n, v in enumerate(values)] + [
        (None, None, "x")
    ]


def test_a_table_of_one_column_keeps_null_and_empty_apart(copier):
    copier.publisher.execute(
        "CREATE TABLE t(b text); CREATE PUBLICATION p FOR TABLE t; INSERT INTO t VALUES (NULL), (''), ('\\.'), (NULL)"
    )
    copier.run("CREATE TABLE t(b TEXT)")
    copier("t")
    assert copier.rows("SELECT b FROM t ORDER BY 1") == [(None,), (None,), ("",), ("\\.",)]


def test_a_table_without_columns_has_rows_all_the_same(copier):
    copier.publisher.execute(
        "CREATE TABLE t(); CREATE PUBLICATION p FOR TABLE t; INSERT INTO t SELECT FROM generate_series(1, 3)"
    )
    copier.run("CREATE TABLE t(x TEXT DEFAULT 'd')")
    assert copier("t").rows == 3
    assert copier.rows("SELECT x FROM t") == [("d",)] * 3


def test_an_empty_table_is_copied_too(versions):
    versions.publisher.execute("CREATE TABLE t(a int); CREATE PUBLICATION p FOR TABLE t")
    versions.run("CREATE TABLE t(a INT)")
    assert versions("t") == CopyProgress(0, 0, 0, 0)


def test_odd_names_are_names(copier):
    """names_are_data"""
    copier.publisher.execute(
        'CREATE SCHEMA "S x"; CREATE TABLE "S x"."T""a%s"("SELECT" int, "b ""%" text, "ctid2" int);'
        """CREATE PUBLICATION "P '1" FOR TABLE "S x"."T""a%s" WHERE ("SELECT" > 1);"""
        """INSERT INTO "S x"."T""a%s" SELECT i, repeat('x', 500), i FROM generate_series(1, 1000) i"""
    )
    copier.run('CREATE TABLE "S x.T""a%s"("SELECT" INT, "b ""%" TEXT, ctid2 INT)'.replace("%", "%"))
    assert copier('S x.T"a%s', ("P '1",)).rows == 999


def test_only_published_columns_are_copied_and_the_others_get_their_default(versions):
    """D7, C7"""
    versions.publisher.execute(
        "CREATE TABLE t(a int PRIMARY KEY, b text, c text); ALTER TABLE t DROP COLUMN b; ALTER TABLE t ADD d int;"
        "CREATE PUBLICATION p FOR TABLE t (d, a); INSERT INTO t VALUES (1, 'c', 2)"
    )
    versions.run("CREATE TABLE t(d INT, extra TEXT DEFAULT 'e', c TEXT DEFAULT 'no', a INT PRIMARY KEY)")
    versions("t")
    assert versions.rows("SELECT a, c, d, extra FROM t") == [(1, "no", 2, "e")]


def test_different_column_lists_are_refused(versions):
    """D7"""
    versions.publisher.execute(
        "CREATE TABLE t(a int PRIMARY KEY, b text); CREATE PUBLICATION p FOR TABLE t (a); CREATE PUBLICATION q FOR TABLE t"
    )
    versions.run("CREATE TABLE t(a INT PRIMARY KEY, b TEXT)")
    with pytest.raises(
        PublisherNotReady, match=r'cannot use different column lists for table "public\.t" in different'
    ):
        versions("t", ("p", "q"))


def test_generated_columns_are_copied_where_they_are_published(copier):
    """D7: from 18 on."""
    copier.publisher.execute(
        "CREATE TABLE t(a int, g int GENERATED ALWAYS AS (a * 2) STORED); INSERT INTO t VALUES (4);"
        "CREATE PUBLICATION p FOR TABLE t WITH (publish_generated_columns = stored); CREATE PUBLICATION q FOR TABLE t"
    )
    copier.run("CREATE TABLE t(a INT, g INT)")
    copier("t")
    copier("t", ("q",))
    assert copier.rows("SELECT * FROM t") == [(4, 8), (4, None)]


def test_a_row_is_copied_that_passes_the_filter_of_any_publication(versions):
    """D8: whatever the publications publish."""
    versions.publisher.execute(
        "CREATE TABLE t(a int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 10);"
        "CREATE PUBLICATION p FOR TABLE t WHERE (a < 3) WITH (publish = 'update');"
        "CREATE PUBLICATION q FOR TABLE t WHERE (a > 9); CREATE PUBLICATION r FOR ALL TABLES"
    )
    versions.run("CREATE TABLE t(a INT PRIMARY KEY)")
    versions("t", ("p", "q"))
    assert versions.rows("SELECT a FROM t ORDER BY a") == [(1,), (2,), (10,)]
    versions.run("DELETE FROM t")
    assert versions("t", ("p", "q", "r")).rows == 10


def test_a_filter_that_fails_does_not_show_the_value(copier):
    """names_are_data, D10"""
    copier.publisher.execute(
        "CREATE TABLE t(a text); INSERT INTO t VALUES ('secret'); ALTER TABLE t REPLICA IDENTITY FULL;"
        "CREATE PUBLICATION p FOR TABLE t WHERE (length(decode(a, 'hex')) > 1)"
    )
    copier.run("CREATE TABLE t(a TEXT)")
    with pytest.raises(
        PublisherError, match=r'could not start initial contents copy for table "public\.t": a row filter'
    ) as raised:
        copier("t")
    assert raised.value.sqlstate == "22023"
    assert "digit" not in raised.value.report()


def test_a_partitioned_table_is_copied_through_its_own_filter_and_columns(versions):
    """D7, D9: partitions have their columns in another order, and are partitioned again."""
    versions.publisher.execute(
        "CREATE TABLE t(a int, b text) PARTITION BY RANGE (a);"
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (500);"
        "CREATE TABLE t2(b text, x int, a int); ALTER TABLE t2 DROP COLUMN x;"
        "ALTER TABLE t ATTACH PARTITION t2 FOR VALUES FROM (500) TO (600);"
        "CREATE TABLE t3 PARTITION OF t FOR VALUES FROM (600) TO (2000) PARTITION BY LIST (a);"
        "CREATE TABLE t3d PARTITION OF t3 DEFAULT;"
        "CREATE PUBLICATION p FOR TABLE t WHERE (a % 2 = 0) WITH (publish_via_partition_root);"
        "INSERT INTO t SELECT i, repeat('x', 200) FROM generate_series(0, 1999) i"
    )
    versions.run("CREATE TABLE t(a INT, b TEXT)")
    assert versions("t").rows == 1000
    assert versions.rows("SELECT count(DISTINCT a), min(b), sum(a) FROM t") == [(1000, "x" * 200, 999000)]


def test_a_partitioned_table_without_partitions_has_no_rows(copier):
    copier.publisher.execute(
        "CREATE TABLE t(a int) PARTITION BY RANGE (a); CREATE PUBLICATION p FOR TABLE t WITH (publish_via_partition_root)"
    )
    copier.run("CREATE TABLE t(a INT)")
    assert copier("t").rows == 0


def test_children_by_inheritance_are_tables_of_their_own(copier):
    """D7: ONLY."""
    copier.publisher.execute(
        "CREATE TABLE t(a int); CREATE TABLE child() INHERITS (t); INSERT INTO t VALUES (1); INSERT INTO child VALUES (2);"
        "CREATE PUBLICATION p FOR TABLE t"
    )
    copier.run("CREATE TABLE t(a INT)")
    copier("t")
    assert copier.rows("SELECT a FROM t") == [(1,)]


def test_who_may_read_the_partitioned_table_only_reads_it_as_a_whole(copier, publisher_database):
    role = f"reader_{publisher_database.name}"
    publisher_database.execute(
        "CREATE TABLE t(a int) PARTITION BY RANGE (a); CREATE TABLE t1 PARTITION OF t DEFAULT;"
        "CREATE PUBLICATION p FOR TABLE t WITH (publish_via_partition_root); INSERT INTO t SELECT generate_series(1, 9);"
        f"CREATE ROLE {role} LOGIN REPLICATION; GRANT SELECT ON t TO {role}"
    )
    try:
        conninfo = psycopg.conninfo.make_conninfo(publisher_database.conninfo, user=role)
        copier.publisher = dataclasses.replace(publisher_database, conninfo=conninfo)
        copier.run("CREATE TABLE t(a INT)")
        assert copier("t").rows == 9
    finally:
        publisher_database.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_rows_that_a_policy_hides_are_not_copied_as_postgresql_does_but_not_without_a_word(versions, database, caplog):
    """D10: see the manual's chapter on the security of logical replication, with the option for a
    copy that should fail instead.
    """
    role = f"reader_{database.name}"
    database.execute(
        "CREATE TABLE t(a int); CREATE PUBLICATION p FOR TABLE t; INSERT INTO t SELECT generate_series(1, 9);"
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY large ON t USING (a > 5);"
        f"CREATE ROLE {role} LOGIN REPLICATION; GRANT SELECT ON t TO {role}"
    )
    conninfo = partial(psycopg.conninfo.make_conninfo, database.conninfo, user=role)
    versions.run("CREATE TABLE t(a INT)")
    try:
        versions.publisher = dataclasses.replace(database, conninfo=conninfo(options="-c row_security=off"))
        with pytest.raises(PublisherError, match="row-level security"):
            versions("t")
        caplog.clear()
        versions.publisher = dataclasses.replace(database, conninfo=conninfo())
        assert versions("t").rows == 4
        (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
        assert warning.getMessage().startswith(f'row security of table "public.t" hides rows from role "{role}"')
        versions.run("DELETE FROM t")
        caplog.clear()
        versions.publisher = database
        assert versions("t").rows == 9
        assert not [record for record in caplog.records if record.levelno == logging.WARNING]
    finally:
        database.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_older_servers_read_ranges_by_naming_the_rows(database, monkeypatch):
    """PostgreSQL before 14 has no scan for a range of ctids; the query that replaces it works on
    all versions, without a scan.
    """
    monkeypatch.setattr(ServerFeatures, "tid_range_scans", False)
    database.execute(
        "CREATE TABLE t(a int, b text); CREATE PUBLICATION p FOR TABLE t;"
        "INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, 5000) i; ANALYZE t"
    )
    with planned(database) as (plan, reader):
        assert len(plan.ranges) > 5
        rows = [row for part in plan.ranges for row in read_text(reader, part)]
        command = plan.query.command(plan.ranges[1], "text").removeprefix("COPY (").split(") TO STDOUT")[0]
        shown = str(database.execute(f"EXPLAIN {command}"))
    assert sorted(int(row.split("\t")[0]) for row in rows) == list(range(1, 5001))
    assert "Tid Scan on t" in shown


def test_copies_from_one_snapshot_share_a_session_which_keeps_no_table_locked(copier):
    """Two connections for each of 10,000 tables would be 20,000."""
    names = [f"t{number}" for number in range(5)]
    for name in names:
        copier.publisher.execute(f"CREATE TABLE {name}(a int PRIMARY KEY); INSERT INTO {name} VALUES (1)")
        copier.run(f"CREATE TABLE {name}(a INTEGER PRIMARY KEY)")
    copier.publisher.execute("CREATE PUBLICATION p FOR ALL TABLES")
    with copier.source("t0") as first:
        for name in names:
            with connect_publisher(copier.publisher.conninfo, "test") as connection:
                files = table_files(connection, [("public", name)])["public", name]
            assert copier.copy(dataclasses.replace(first, table=name, files=files)).rows == 1
            copier.publisher.execute(f"SET lock_timeout = '5s'; ALTER TABLE {name} ADD COLUMN b int")
        backends = "SELECT count(DISTINCT pid) FROM pg_stat_activity WHERE application_name = 'sub'"
        assert copier.publisher.execute(backends) == [(2,)], "that of the snapshot, and that of the copies"
    assert left_behind(copier.publisher) == []


def test_a_session_is_used_again_after_a_table_that_could_not_be_read(copier):
    copier.publisher.execute(
        "CREATE TABLE bad(a int); CREATE TABLE t(a int); INSERT INTO t VALUES (1); INSERT INTO bad VALUES (0);"
        "CREATE PUBLICATION p FOR TABLE bad WHERE (1 / a > 0), t"
    )
    copier.run("CREATE TABLE bad(a INTEGER)", "CREATE TABLE t(a INTEGER)")
    with copier.source("t") as source, connect_publisher(copier.publisher.conninfo, "test") as connection:
        files = table_files(connection, [("public", "bad")])["public", "bad"]
        with pytest.raises(PublisherError, match="a row filter cannot be evaluated"):
            copier.copy(dataclasses.replace(source, table="bad", files=files))
        assert copier.copy(source).rows == 1


# Ranges and steps ---------------------------------------------------------------------------------


@contextmanager
def planned(publisher: Database, partition_bytes: int = 64 * KIB) -> Iterator[tuple[Any, CopyReader]]:
    """The plan of table t, and a reader of text."""
    with connect_publisher(publisher.conninfo, "test") as connection:
        files = table_files(connection, [("public", "t")])["public", "t"]
    with exported_snapshot(publisher.conninfo, "sub") as snapshot:
        with snapshot_session(publisher.conninfo, "sub", snapshot.name) as connection:
            plan = plan_copy(connection, ServerPublications(connection, ("p",)), "public", "t", partition_bytes, files)
        yield plan, CopyReader(publisher.conninfo, "sub", snapshot.name, plan.query, "text")


def read_text(reader: CopyReader, part: CopyRange, partition_bytes: int = 1 << 40) -> list[str]:
    """The lines of a range and of its rests."""
    lines, pending = [], [part]
    while pending:
        for item in reader.read_range(pending.pop(), partition_bytes):
            if isinstance(item, CopyRange):
                pending.append(item)
            else:
                assert item.data.count(b"\n") == item.rows
                lines += item.data.decode().splitlines()
    return lines


def test_rows_with_giant_values_come_in_steps_smaller_than_a_page(publisher_database, monkeypatch):
    """bounded_memory: sixty rows of one page have twelve megabytes, which the size of the page does
    not show (they compress well).
    """
    monkeypatch.setattr(copy_out, "STEP_BYTES", 256 * KIB)
    monkeypatch.setattr(copy_out, "LARGEST_STEP_BYTES", 1024 * KIB)
    publisher_database.execute(
        "CREATE TABLE t(a int, b text); CREATE PUBLICATION p FOR TABLE t;"
        "INSERT INTO t SELECT i, repeat('x', 200000) FROM generate_series(1, 60) i"
    )
    with planned(publisher_database) as (plan, reader):
        sizes: list[int] = []
        rests = 0
        pending = list(plan.ranges)
        while pending:
            given = 0
            for item in reader.read_range(pending.pop(), 1024 * KIB):
                if isinstance(item, CopyRange):
                    pending.append(item)
                    rests += 1
                else:
                    given += len(item.data)
            sizes.append(given)
    assert sum(sizes) == sum(len(str(i)) + 2 + 200000 for i in range(1, 61))
    assert max(sizes) < (1024 + 1024 + 256) * KIB
    assert rests > 5


def test_a_giant_row_is_a_range_of_its_own_and_comes_whole(publisher_database, monkeypatch):
    """bounded_memory: a reader holds no more than a step; the rows before and after it are not
    affected
    """
    monkeypatch.setattr(copy_out, "LARGEST_STEP_BYTES", 1024 * KIB)
    publisher_database.execute(
        "CREATE TABLE t(a int, b text); CREATE PUBLICATION p FOR TABLE t;"
        "INSERT INTO t SELECT i, repeat('x', CASE i WHEN 7 THEN 3000000 ELSE 10 END) FROM generate_series(1, 20) i"
    )
    with planned(publisher_database) as (plan, reader):
        items = [item for part in plan.ranges for item in reader.read_range(part, 1 << 40)]
        (giant,) = [item for item in items if isinstance(item, CopyRange)]
        (whole,) = reader.read_whole(giant, threading.Event())
    rest = b"".join(item.data for item in items if isinstance(item, CopyBlock))
    assert [int(line.split(b"\t")[0]) for line in rest.splitlines()] == [*range(1, 7), *range(8, 21)]
    assert (giant.giant, whole.data) == (True, b"7\t" + b"x" * 3000000 + b"\n")


def test_a_range_that_has_given_enough_leaves_its_rest(publisher_database):
    publisher_database.execute(
        "CREATE TABLE t(a int, b text); CREATE PUBLICATION p FOR TABLE t;"
        "INSERT INTO t SELECT i, repeat(md5(i::text), 100) FROM generate_series(1, 3000) i"
    )
    with planned(publisher_database, 1 << 30) as (plan, reader):
        (part,) = plan.ranges
        assert len(read_text(reader, part, 1)) == 3000


def test_bytes_that_are_no_text_are_named_without_them(postgresql18, caplog):
    """names_are_data: PostgreSQL's message shows the bytes, and so would the message of a driver
    that could not roll back
    """
    name = f"bytes_{os.getpid()}"
    postgresql18.execute(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    database = Database(postgresql18, name, postgresql18.conninfo(name))
    try:
        database.execute("CREATE TABLE t(a int, b text); CREATE PUBLICATION p FOR TABLE t")
        with psycopg.connect(database.conninfo, autocommit=True) as connection:
            connection.execute(b"INSERT INTO t VALUES (1, E'\\xe4x')")
        with planned(database) as (plan, reader), pytest.raises(PublisherError) as raised:
            read_text(reader, plan.ranges[0])
    finally:
        postgresql18.drop_database(name)
    assert raised.value.message.endswith('for table "public.t": a text of the publisher cannot be read as UTF8')
    assert "0xe4" not in raised.value.report() + caplog.text


def test_estimates_are_those_of_the_table(publisher_database):
    publisher_database.execute(
        "CREATE TABLE t(a int, b text); CREATE PUBLICATION p FOR TABLE t WHERE (a < 10);"
        "INSERT INTO t SELECT i, repeat(md5(i::text), 300) FROM generate_series(1, 1000) i; ANALYZE t"
    )
    (size,) = publisher_database.execute("SELECT pg_table_size('t')")[0]
    with planned(publisher_database) as (plan, _reader):
        assert plan.estimated_rows == 1000
        assert plan.estimated_bytes == pytest.approx(size, rel=0.01)
        assert sum(part.estimated_bytes for part in plan.ranges) == pytest.approx(size, rel=0.01)


# The snapshot -------------------------------------------------------------------------------------


def test_what_is_written_during_the_copy_is_not_in_it(versions):
    """D6: one moment for all ranges; rows that move to other pages are neither lost nor doubled."""
    versions.publisher.execute(
        "CREATE TABLE t(a int PRIMARY KEY, b text, c int DEFAULT 0); CREATE PUBLICATION p FOR TABLE t;"
        "INSERT INTO t SELECT i, repeat('x', 300) FROM generate_series(1, 5000) i"
    )
    versions.run("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c INT)")
    writing = threading.Event()

    def write(_done: CopyProgress) -> None:
        if not writing.is_set():
            writing.set()
            versions.publisher.execute(
                "DELETE FROM t WHERE a % 3 = 0; UPDATE t SET c = 1; INSERT INTO t VALUES (0, 'new')"
            )

    versions.on_progress = write
    with versions.source("t") as source:
        versions.publisher.execute("UPDATE t SET c = 2 WHERE a > 100")
        versions.copy(source)
    assert writing.is_set()
    assert versions.rows("SELECT count(*), sum(a), sum(c) FROM t") == [(5000, 12502500, 0)]


@pytest.mark.parametrize(
    "statement", ["TRUNCATE t", "VACUUM FULL t", "ALTER TABLE t ALTER a TYPE bigint", "DROP TABLE t"]
)
def test_a_table_that_is_written_anew_after_the_snapshot_is_not_copied(copier, statement):
    """The table would look empty, without a message."""
    copier.publisher.execute("CREATE TABLE t(a int); CREATE PUBLICATION p FOR TABLE t; INSERT INTO t VALUES (1)")
    copier.run("CREATE TABLE t(a INT)")
    with copier.source("t") as source:
        copier.publisher.execute(statement)
        with pytest.raises(PublisherError, match=r'table "public\.t" was rewritten on the publisher since') as raised:
            copier.copy(source)
    assert raised.value.transient


@pytest.mark.parametrize("statement", ["TRUNCATE t", "ALTER TABLE t RENAME TO old; CREATE TABLE t(a int, b text)"])
def test_a_table_that_is_written_anew_between_two_ranges_is_not_copied(copier, statement):
    copier.publisher.execute(
        "CREATE TABLE t(a int, b text); CREATE PUBLICATION p FOR TABLE t;"
        "INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 3000) i"
    )
    copier.run("CREATE TABLE t(a INT, b TEXT)")
    done = threading.Event()

    def rewrite(_done: CopyProgress) -> None:
        if not done.is_set():
            copier.publisher.execute(statement)
            done.set()

    copier.on_progress = rewrite
    with pytest.raises(PublisherError, match="was rewritten"):
        copier("t")
    assert done.is_set()
    assert copier.rows("SELECT count(*) FROM t") == [(0,)]
    assert left_behind(copier.publisher) == []


def test_other_changes_of_a_table_do_not_disturb_its_copy(copier):
    """No lock waits for the end of the copy, and the copy does not wait for a lock that waits for
    it.
    """
    copier.publisher.execute(
        "CREATE TABLE t(a int, b text); CREATE PUBLICATION p FOR TABLE t;"
        "INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 3000) i"
    )
    copier.run("CREATE TABLE t(a INT, b TEXT)")
    done = threading.Event()

    def alter(_done: CopyProgress) -> None:
        if not done.is_set():
            copier.publisher.execute("SET lock_timeout = '20s'; ALTER TABLE t ADD c int")
            done.set()

    copier.on_progress = alter
    assert copier("t").rows == 3000
    assert done.is_set()


@pytest.mark.parametrize("rows", [1, 3000], ids=["by the driver", "by Spark"])
def test_the_target_is_free_while_a_lock_at_the_publisher_keeps_the_copy_waiting(copier, monkeypatch, rows):
    copier.publisher.execute(
        "CREATE TABLE t(a int, b text); CREATE PUBLICATION p FOR TABLE t;"
        f"INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, {rows}) i"
    )
    copier.run("CREATE TABLE t(a INT, b TEXT)", "CREATE TABLE other(a INT)")
    planned, locked = threading.Event(), threading.Event()
    plan = copy_module._plan

    def plan_and_wait(*arguments: Any) -> Any:
        found = plan(*arguments)
        planned.set()
        assert locked.wait(PATIENCE)
        return found

    monkeypatch.setattr(copy_module, "_plan", plan_and_wait)
    with ThreadPoolExecutor(1) as pool, psycopg.connect(copier.publisher.conninfo) as holder:
        copying = pool.submit(copier, "t")
        assert planned.wait(PATIENCE)
        holder.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        locked.set()
        waiting = "SELECT count(*) > 0 FROM pg_locks WHERE relation = 't'::regclass AND NOT granted"
        wait_until(lambda: copier.publisher.execute(waiting) == [(True,)], "the copy waits for the lock")
        # SQLite has one writer: this would be refused after five seconds.
        copier.run("INSERT INTO other VALUES (1)")
        assert not copying.done()
        holder.rollback()
        assert copying.result(PATIENCE).rows == rows


def test_a_snapshot_that_is_gone_is_said_to_be(copier):
    copier.publisher.execute("CREATE TABLE t(a int); CREATE PUBLICATION p FOR TABLE t")
    copier.run("CREATE TABLE t(a INT)")
    with copier.source("t") as source:
        pass
    with pytest.raises(PublisherUnavailable, match="the snapshot of the initial copy is no longer there"):
        copier.copy(source)


def test_the_snapshots_session_outlives_the_servers_timeouts(versions):
    name = versions.publisher.name
    versions.publisher.execute(
        f"ALTER DATABASE {name} SET idle_in_transaction_session_timeout = 1; ALTER DATABASE {name} SET statement_timeout = 1000"
    )
    versions.publisher.execute("CREATE TABLE t(a int); CREATE PUBLICATION p FOR TABLE t; INSERT INTO t VALUES (1)")
    versions.run("CREATE TABLE t(a INT)")
    with versions.source("t") as source:
        threading.Event().wait(0.2)
        assert versions.copy(source).rows == 1


def test_waiting_for_a_snapshot_ends_when_it_is_asked_to(publisher_database):
    """A transaction in progress delays every new slot."""
    stop = threading.Event()
    with psycopg.connect(publisher_database.conninfo) as connection:
        connection.execute("SELECT pg_current_xact_id()")
        threading.Timer(0.3, stop.set).start()
        with pytest.raises(PublisherError) as raised, exported_snapshot(publisher_database.conninfo, "sub", stop):
            pass
    assert raised.value.sqlstate == "57014"
    assert left_behind(publisher_database) == []


# What fails ---------------------------------------------------------------------------------------


def big_table(copier: Copier) -> None:
    copier.publisher.execute(
        "CREATE TABLE t(a int, b text); CREATE PUBLICATION p FOR TABLE t;"
        "INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 3000) i"
    )
    copier.run("CREATE TABLE t(a INT, b TEXT)", "INSERT INTO t VALUES (-1, 'before')")


def test_a_table_that_is_not_there_is_named(copier):
    """D10"""
    copier.publisher.execute("CREATE PUBLICATION p")
    with pytest.raises(PublisherNotReady, match=r'table "public\.absent" not found on publisher'):
        copier("absent")


def test_an_error_of_the_servers_is_the_reason(copier, publisher_database):
    """D10"""
    role = f"stranger_{publisher_database.name}"
    publisher_database.execute(
        f"CREATE TABLE t(a int); CREATE PUBLICATION p FOR TABLE t; CREATE ROLE {role} LOGIN REPLICATION"
    )
    copier.run("CREATE TABLE t(a INT)")
    try:
        conninfo = psycopg.conninfo.make_conninfo(publisher_database.conninfo, user=role)
        copier.publisher = dataclasses.replace(publisher_database, conninfo=conninfo)
        with pytest.raises(PublisherNotReady) as raised:
            copier("t")
    finally:
        publisher_database.execute(f"DROP ROLE {role}")
    expected = 'could not start initial contents copy for table "public.t": permission denied for table t'
    assert (raised.value.message, raised.value.sqlstate) == (expected, "42501")


def test_a_publisher_that_ends_our_sessions_is_tried_again_and_nothing_stays(copier):
    big_table(copier)
    done = threading.Event()

    def kill(_done: CopyProgress) -> None:
        if not done.is_set():
            copier.publisher.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sub'"
            )
            done.set()

    copier.on_progress = kill
    with pytest.raises(SubscriberError) as raised:
        copier("t")
    assert raised.value.transient
    assert isinstance(raised.value, PublisherUnavailable)
    assert copier.rows("SELECT a FROM t") == [(-1,)]
    assert left_behind(copier.publisher) == []


@pytest.mark.parametrize("partition_bytes", [256 * KIB, 1 << 30], ids=["jobs", "one job"])
def test_a_copy_that_is_stopped_leaves_nothing_behind(spark, copier, partition_bytes):
    """No job, no thread, no session, no row."""
    big_table(copier)
    copier._settings = dataclasses.replace(copier._settings, partition_bytes=partition_bytes)
    copier.on_progress = lambda _done: copier.stop.set()
    before = threading.active_count()
    with pytest.raises(PipelineError, match="the initial copy was stopped"):
        copier("t")
    assert spark.session().sparkContext.statusTracker().getActiveJobsIds() == []
    assert threading.active_count() == before
    assert copier.rows("SELECT a FROM t") == [(-1,)]
    copier.stop.clear()
    assert left_behind(copier.publisher) == []


def test_a_row_that_the_target_refuses_ends_the_copy(copier):
    copier.publisher.execute(
        "CREATE TABLE t(a int); CREATE PUBLICATION p FOR TABLE t; INSERT INTO t VALUES (1), (NULL), (3)"
    )
    copier.run("CREATE TABLE t(a INT NOT NULL)")
    with pytest.raises(SubscriberError, match="null value violates not-null constraint") as raised:
        copier("t")
    assert raised.value.relation == "public.t"
    assert copier.rows("SELECT a FROM t") == []


def test_the_password_is_in_no_log_and_in_no_repr(spark, copier, tmp_path_factory):
    """names_are_data"""
    big_table(copier)
    conninfo = psycopg.conninfo.make_conninfo(copier.publisher.conninfo, password="geheim")
    copier.publisher = dataclasses.replace(copier.publisher, conninfo=conninfo)
    with copier.source("t") as source:
        copier.copy(source)
        assert "geheim" not in repr(source)
        with planned(copier.publisher) as (_plan, reader):
            assert "geheim" not in repr(reader)
    for log in tmp_path_factory.getbasetemp().rglob("spark.log"):
        assert "geheim" not in log.read_text()
    assert "geheim" not in str(spark.session().sparkContext.getConf().getAll())


# PostgreSQL as the target -------------------------------------------------------------------------


@pytest.fixture
def into_postgresql(spark: PendingSession, publisher_database: Database, postgresql16: Any) -> Iterator[Copier]:
    from tests.conftest import fresh_database

    for database in fresh_database(postgresql16):
        with open_target(database.url) as target:
            yield Copier(spark, publisher_database, target, 256 * KIB)


def test_postgresql_reads_the_publishers_text_itself(into_postgresql):
    copier = into_postgresql
    table = (
        "t(a int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, b text, c int4range[], d bytea, e jsonb, f interval,"
        " g float8, h bool)"
    )
    copier.publisher.execute(
        f"CREATE TABLE {table}; CREATE PUBLICATION p FOR TABLE t;"
        r"""INSERT INTO t(b, c, d, e, f, g, h) VALUES
        (E'a\tb\nc\\d', '{"[1,2)"}', '\x00ff', '{"a": "\\n"}', '-1 day +02:03', 'NaN', true),
        (NULL, NULL, NULL, NULL, NULL, NULL, NULL), ('', '{}', '', '{}', '0', '-0', false)"""
    )
    copier.run(f"CREATE TABLE {table}", "ALTER TABLE t ADD extra int DEFAULT 5")
    assert copier("t").rows == 3
    query = "SELECT a, b, c::text, d::text, e::text, f::text, g::text, h FROM t ORDER BY a"
    assert copier.rows(query) == copier.publisher.execute(query)
    assert copier.rows("SELECT DISTINCT extra FROM t") == [(5,)]


def test_types_that_are_the_same_on_both_sides_travel_in_binary_and_arrive_the_same(into_postgresql, monkeypatch):
    """Each type that is trusted with it, its extremes, and the target's own length and scale."""
    monkeypatch.setattr("subscriber.spark.copy._FORMATS", {"binary": "binary"})  # any other is an error
    copier = into_postgresql
    types = {
        "bool": "true", "bytea": r"'\x00ff'", "int8": "-9223372036854775808", "int2": "-32768",
        "int4": "2147483647", "text": r"E'a\tb\n\\N'", "json": """'{ "a":1}'""", "float4": "'-Infinity'", "float8": "'NaN'",
        "varchar": "''", "date": "'infinity'", "time": "'24:00'", "timestamp": "'4714-11-24 BC'",
        "timestamptz": "'294276-12-31 23:59:59.999999+00'", "numeric": "'NaN'", "uuid": "gen_random_uuid()",
        "jsonb": """'{"b": "\\u00e4"}'""", "numeric(9,4)": "12345.6789", "varchar(5)": "'12345'",
    }  # fmt: skip
    columns = ", ".join(f"c{number} {name}" for number, name in enumerate(types))
    copier.publisher.execute(
        f"CREATE TABLE t(k int, {columns}); CREATE TABLE many(a int, b text); CREATE PUBLICATION p FOR TABLE t, many;"
        f"INSERT INTO t VALUES (1, {', '.join(types.values())}); INSERT INTO t(k) VALUES (2); INSERT INTO t(k, c13) VALUES (3, '-infinity');"
        "INSERT INTO many SELECT i, repeat('x', 1000) FROM generate_series(1, 3000) i"
    )
    rounded = columns.replace("numeric(9,4)", "numeric(7,1)")
    for schema in (columns, rounded):
        copier.run(f"CREATE TABLE t(k int, {schema})")
        copier("t")
        query = f"SELECT {', '.join(f'c{number}::text' for number in range(len(types)))} FROM t ORDER BY k"
        expected = copier.publisher.execute(
            query.replace("c17::text", "c17::numeric(7,1)::text" if schema == rounded else "c17::text")
        )
        assert copier.rows(query) == expected
        copier.run("DROP TABLE t")
    copier.run("CREATE TABLE many(a int, b text)")
    assert copier("many").rows == 3000
    assert copier.rows("SELECT count(*), sum(a), min(b) FROM many") == [(3000, 4501500, "x" * 1000)]


def test_with_binary_a_copy_takes_no_value_that_the_column_does_not_read(into_postgresql, monkeypatch):
    """D7: from a publisher that PostgreSQL would copy from in binary form; NULL is nothing."""
    copier = into_postgresql
    copier.publisher.execute(
        "CREATE TABLE t(a int PRIMARY KEY, b bigint, c text); CREATE PUBLICATION p FOR TABLE t; INSERT INTO t VALUES (1, NULL, 'x')"
    )
    copier.run("CREATE TABLE t(a int PRIMARY KEY, b int, c varchar(9))")

    def copy_in_binary() -> int:
        with copier.source("t") as source:
            done: CopyProgress = copier.copy(dataclasses.replace(source, binary=True))
        return done.rows

    assert copy_in_binary() == 1
    copier.publisher.execute("DELETE FROM t; INSERT INTO t VALUES (2, 7, 'y')")
    with pytest.raises(UnsupportedValue, match=r"^incorrect binary data format$") as raised:
        copy_in_binary()
    assert (raised.value.column, raised.value.relation, raised.value.sqlstate) == ("b", "public.t", "22P03")
    assert copier.rows("SELECT a FROM t") == [(1,)]
    monkeypatch.setattr(ServerFeatures, "binary_copy", False)
    assert copy_in_binary() == 1


def test_an_empty_table_is_copied_in_binary(into_postgresql):
    into_postgresql.publisher.execute("CREATE TABLE t(a int); CREATE PUBLICATION p FOR TABLE t")
    into_postgresql.run("CREATE TABLE t(a int)")
    assert into_postgresql("t").rows == 0


def test_postgresqls_errors_name_the_column_and_not_the_value(into_postgresql):
    """names_are_data: COPY's context shows the line."""
    copier = into_postgresql
    copier.publisher.execute(
        "CREATE TABLE t(a int, b text); CREATE PUBLICATION p FOR TABLE t; INSERT INTO t VALUES (1, 'secret')"
    )
    copier.run("CREATE TABLE t(b int, a int)")
    with pytest.raises(SubscriberError, match="invalid input syntax for the column's type") as raised:
        copier("t")
    assert (raised.value.column, raised.value.relation, raised.value.sqlstate) == ("b", "public.t", "22P02")
    assert "secret" not in raised.value.report()
    assert (
        raised.value.detail
        == 'Column "b" of table "public.t" has type text at the publisher and integer in the target.'
    )
    assert raised.value.context == 'initial copy of table "public.t", column "b"'
    copier.run("DROP TABLE t", "CREATE TABLE t(a int, b text CHECK (b <> 'secret'))")
    with pytest.raises(SubscriberError, match='violates check constraint "t_b_check"') as raised:
        copier("t")
    assert "secret" not in raised.value.report()


def test_a_value_that_a_column_does_not_hold_is_told_with_both_types_of_the_column(copier):
    """The same on a target that reads the values itself; and a NULL with both tables."""
    copier.publisher.execute(
        "CREATE TABLE t(a text, b text); CREATE PUBLICATION p FOR TABLE t; INSERT INTO t VALUES ('secret', NULL)"
    )
    copier.run("CREATE TABLE t(b TEXT, a BIGINT)")
    with pytest.raises(SubscriberError, match=r"^invalid input syntax for type bigint$") as raised:
        copier("t")
    assert (
        raised.value.detail == 'Column "a" of table "public.t" has type text at the publisher and BIGINT in the target.'
    )
    assert raised.value.context == 'initial copy of table "public.t", column "a"'
    assert "secret" not in raised.value.report()
    copier.run("DROP TABLE t", "CREATE TABLE t(a TEXT, b TEXT NOT NULL)")
    with pytest.raises(SubscriberError) as raised:
        copier("t")
    assert str(raised.value.detail).endswith("The publisher has (a text, b text), the target (a TEXT, b TEXT).")


def test_postgresql_has_rows_without_columns_too(into_postgresql):
    copier = into_postgresql
    copier.publisher.execute(
        "CREATE TABLE t(); CREATE PUBLICATION p FOR TABLE t; INSERT INTO t SELECT FROM generate_series(1, 3)"
    )
    copier.run("CREATE TABLE t(x int DEFAULT 7)")
    copier("t")
    assert copier.rows("SELECT x FROM t") == [(7,)] * 3


def test_a_stopped_copy_into_postgresql_leaves_the_connection_usable(into_postgresql):
    copier = into_postgresql
    big_table(copier)
    copier.on_progress = lambda _done: copier.stop.set()
    with pytest.raises(PipelineError, match="stopped"):
        copier("t")
    copier.stop.clear()
    copier.on_progress = lambda _done: None
    assert copier("t").rows == 3000

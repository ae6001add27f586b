"""What a publisher's ALTER TABLE does to the target, on every target: renamed and replaced columns,
and values of older rows.

A server is altered, its slot is read, and what it sends is applied as the pipeline does; the
publisher's rows are the measure.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

import psycopg
import pytest
import sqlalchemy as sa

from subscriber.apply.applier import Rules
from subscriber.apply.apply_batch import apply_batch, retry_with_column_defaults
from subscriber.apply.exact import ExactApplier
from subscriber.base import failpoints
from subscriber.base.errors import PublisherUnavailable, TargetRelationError
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import RELATION_SHAPE, SCHEMA_CHANGE
from subscriber.catalog.schema_changes import schema_changes_of, store_published_shapes
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.changes import Frame
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.publisher.catalog import read_attributes
from subscriber.publisher.server_publications import ServerPublications
from subscriber.verify.canonical_text import text_of
from tests.appliers import obeying
from tests.conftest import Database
from tests.crash.harness import Runner, wait_until
from tests.frames import frame
from tests.target_databases import KINDS, AppliedTo, applied_to

pytestmark = pytest.mark.server

_slots = count(1)


class Followed:
    """A publisher's table ``t``, which a target follows."""

    def __init__(self, publisher: Database, database: AppliedTo, table: str) -> None:
        self.publisher = publisher
        self.database = database
        self.rules = obeying(schema_changes="add_columns")
        self.publish(f"CREATE TABLE t ({table}); CREATE PUBLICATION pub FOR TABLE t")
        self.slot = f"{publisher.name}_{next(_slots)}"
        self.publish(f"SELECT pg_create_logical_replication_slot('{self.slot}', 'pgoutput')")
        self._shapes: dict[int, m.Relation] = {}
        with database.target.begin() as connection, psycopg.connect(publisher.conninfo) as server:
            attributes = read_attributes(server, ServerPublications(server, ["pub"]), "public", "t")
            assert attributes is not None
            store_published_shapes(connection, 1, [(PublishedTable("public", "t"), attributes)])
        self.restart()

    def restart(self) -> None:
        """Continue as another process: it knows only the catalog."""
        self.applier = ExactApplier(
            self.database.target, subscription="sub", subid=1, read_rules=lambda _: self.rules, ask=self.ask
        )

    def ask(self, remote):
        with psycopg.connect(self.publisher.conninfo) as server:
            return read_attributes(server, ServerPublications(server, ["pub"]), remote.namespace, remote.name)

    def publish(self, sql: str):
        return self.publisher.execute(sql)

    def execute(self, *statements: str):
        return self.database.execute(*statements)

    def follow(self) -> None:
        """Apply what was sent; if that fails, the same is sent again."""
        rows = self.publish(
            "SELECT data, lsn - '0/0' FROM pg_logical_slot_peek_binary_changes("
            f"'{self.slot}', NULL, NULL, 'proto_version', '1', 'publication_names', 'pub')"
        )
        messages = [decode(data) for data, _ in rows]
        ends = [message.end_lsn for message in messages if isinstance(message, m.Commit)]
        if not ends:
            return
        frames = list(self._frames(messages))
        start = self.applier.read_progress()
        retry_with_column_defaults(
            self.applier, lambda: apply_batch(self.applier, lambda: frames, start, LSN(ends[-1]))
        )

    def _frames(self, messages: Sequence[m.Message]) -> Iterator[Frame]:
        """One frame for each shape."""
        text = self.database.target.capabilities.postgresql_text
        some: list[m.Message] = []
        for message in messages:
            if isinstance(message, m.Relation):
                if some:
                    yield frame(self._shapes.values(), some, text=text)
                some = []
                self._shapes[message.relation_id] = message
            else:
                some.append(message)
        yield frame(self._shapes.values(), some, text=text)

    def stopped(self) -> TargetRelationError:
        with pytest.raises(TargetRelationError) as raised:
            self.follow()
        return raised.value

    def assert_same(self, *columns: str, key: str = "a") -> None:
        """The target's rows are the publisher's."""
        listed = ", ".join(columns)
        # Not a cast, which writes true for t.
        casts = ", ".join(f"CASE WHEN {column} IS NOT NULL THEN format('%s', {column}) END" for column in columns)
        theirs = self.publish(f"SELECT {casts} FROM t ORDER BY {key}")
        types = [
            oid
            for column in columns
            for ((oid,),) in [
                self.publish(
                    f"SELECT atttypid::int8 FROM pg_attribute WHERE attrelid = 't'::regclass AND attname = '{column}'"
                )
            ]
        ]
        with self.database.target.engine.connect() as connection:
            table = self.database.target.shapes.reflect(connection, "public", "t")
            assert table is not None
            readable = [
                self.database.target.values.readable(column) for name in columns if (column := table.column(name))
            ]
            query = sa.select(*readable).select_from(table.clause()).order_by(sa.text(key))
            ours = self.database.target.read_result(connection.execute(query)).rows
        ours = [tuple(text_of(oid, value) for oid, value in zip(types, row, strict=True)) for row in ours]
        assert ours == theirs, listed

    def changes(self) -> list[tuple[str | None, str | None]]:
        """Statement and difference of each row of the history."""
        with self.database.target.engine.connect() as connection:
            table = SCHEMA_CHANGE.c
            assert not connection.execute(sa.select(table.changeid).where(table.finished.is_(sa.false()))).all()
            rows = connection.execute(sa.select(table.statement, table.difference).order_by(table.changeid))
            return [tuple(row) for row in rows]

    def differences(self) -> list[str]:
        return [difference for _, difference in self.changes() if difference is not None]


@pytest.fixture(params=KINDS)
def database(request, tmp_path):
    with applied_to(request.param, request, tmp_path) as opened:
        yield opened


@pytest.fixture
def begin(publisher_database, database):
    def call(table: str, target: str) -> Followed:
        database.execute(f"CREATE TABLE t ({target})")
        return Followed(publisher_database, database, table)

    return call


@pytest.fixture
def followed(begin):
    """Three rows with a text."""
    one = begin("a int PRIMARY KEY, b text", "a INT PRIMARY KEY, b VARCHAR(20)")
    one.publish("INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'z')")
    one.follow()
    return one


def statement_in(hint: object) -> str:
    """The statement to run where a column was renamed."""
    return str(hint).partition("If it was renamed, use ")[2].partition(" in the target. If not,")[0]


# Renamed columns ----------------------------------------------------------------------------------


@pytest.mark.parametrize("restarted", [False, True])
def test_a_renamed_column_is_not_a_new_one(followed, restarted):
    """The subscription stops with both shapes and the statement to run, also after a restart; then
    it continues.
    """
    followed.publish("ALTER TABLE t RENAME COLUMN b TO c")
    followed.publish("INSERT INTO t VALUES (4, 'w')")
    if restarted:
        followed.restart()
    error = followed.stopped()
    assert error.message == 'logical replication target relation "public.t" is missing replicated column: "c"'
    assert "The publisher had (a integer, b text) before." in str(error.detail)
    assert "The publisher has (a integer, c text), the target (a " in str(error.detail)
    assert [row[1] for row in followed.execute("SELECT * FROM t ORDER BY a")] == ["x", "y", "z"]
    followed.execute(statement_in(error.hint))
    followed.follow()
    followed.assert_same("a", "c")
    assert followed.changes() == []


def test_with_stop_a_renamed_column_is_said_to_be_one_too(followed):
    """The hint is not the ADD COLUMN that would lose the existing values"""
    followed.rules = Rules()
    followed.publish("ALTER TABLE t RENAME COLUMN b TO c")
    followed.publish("INSERT INTO t VALUES (4, 'w')")
    followed.execute(statement_in(followed.stopped().hint))
    followed.follow()
    followed.assert_same("a", "c")


def test_two_renames_at_once_and_back(begin):
    one = begin("a int PRIMARY KEY, b text, c int, d text", "a INT PRIMARY KEY, b VARCHAR(9), c INT, d VARCHAR(9)")
    one.publish("INSERT INTO t VALUES (1, 'x', 5, 'y')")
    one.follow()
    one.publish("ALTER TABLE t RENAME COLUMN b TO b2; ALTER TABLE t RENAME COLUMN d TO d2")
    one.publish("INSERT INTO t VALUES (2, 'v', 6, 'w')")
    one.execute(*statement_in(one.stopped().hint).split("; "))
    one.follow()
    one.assert_same("a", "b2", "c", "d2")
    one.publish("ALTER TABLE t RENAME COLUMN b2 TO b")
    one.publish("INSERT INTO t VALUES (3, 'v', 6, 'w')")
    one.execute(statement_in(one.stopped().hint))
    one.follow()
    one.assert_same("a", "b", "c", "d2")


def test_a_renamed_column_of_the_key(followed):
    followed.publish("ALTER TABLE t RENAME COLUMN a TO id")
    followed.publish("UPDATE t SET b = 'u' WHERE id = 2")
    followed.execute(statement_in(followed.stopped().hint))
    followed.follow()
    followed.assert_same("id", "b", key="id")


def test_a_rename_together_with_a_new_column(followed):
    """The user renames the one column; then the other is added"""
    followed.publish("BEGIN; ALTER TABLE t RENAME COLUMN b TO c; ALTER TABLE t ADD d int DEFAULT 7; COMMIT")
    followed.publish("INSERT INTO t VALUES (4, 'w', 8)")
    followed.execute(statement_in(followed.stopped().hint))
    followed.follow()
    followed.assert_same("a", "c", "d")
    assert followed.differences() == []


def test_a_column_that_is_replaced_stops_too_and_what_is_in_the_target_is_said_to_differ(followed, caplog):
    """It cannot be distinguished from a rename; the other statement of the hint is for it"""
    followed.publish("BEGIN; ALTER TABLE t DROP b; ALTER TABLE t ADD c text; COMMIT")
    followed.publish("INSERT INTO t VALUES (4, 'w')")
    hint = str(followed.stopped().hint)
    followed.execute(hint.partition("If not, use ")[2].partition(" in the target;")[0])
    with caplog.at_level(logging.WARNING):
        followed.follow()
    followed.assert_same("a", "c")
    assert followed.execute("SELECT b FROM t WHERE a = 1") == [("x",)]
    assert len(followed.differences()) == 1
    assert "may differ from the publisher's" in caplog.text


def test_a_column_that_is_dropped_first_and_another_that_is_added_later(followed):
    """This cannot be a rename: there was a message with neither column"""
    followed.publish("ALTER TABLE t DROP b")
    followed.publish("INSERT INTO t VALUES (4)")
    followed.follow()
    followed.publish("ALTER TABLE t ADD c text DEFAULT 'new'")
    followed.publish("INSERT INTO t VALUES (5, 'w')")
    followed.restart()
    followed.follow()
    followed.assert_same("a", "c")
    assert followed.execute("SELECT b FROM t ORDER BY a") == [("x",), ("y",), ("z",), (None,), (None,)]
    assert followed.differences() == []


def test_a_column_that_the_targets_people_renamed_too_early_is_not_added_again(followed):
    followed.execute("ALTER TABLE t RENAME COLUMN b TO c")
    followed.publish("INSERT INTO t VALUES (4, 'w')")
    error = followed.stopped()
    assert "It was replicated before" in str(error.detail)
    followed.execute("ALTER TABLE t RENAME COLUMN c TO b")
    followed.follow()
    followed.assert_same("a", "b")


def test_columns_renamed_among_each_other_are_said_to_differ(begin):
    """The names are the same; the order differs, because columns keep their numbers"""
    one = begin("a int PRIMARY KEY, b text, c text", "a INT PRIMARY KEY, b VARCHAR(9), c VARCHAR(9)")
    one.publish("INSERT INTO t VALUES (1, 'x', 'y')")
    one.follow()
    one.publish("ALTER TABLE t RENAME b TO n; ALTER TABLE t RENAME c TO b; ALTER TABLE t RENAME n TO c")
    one.publish("INSERT INTO t VALUES (2, 'x', 'y')")
    one.follow()
    (difference,) = one.differences()
    assert "exchanged their names" in difference


def test_a_name_is_data(begin):
    """names_are_data: the statement is quoted as the target's SQL has it"""
    one = begin("a int PRIMARY KEY, b text", "a INT PRIMARY KEY, b VARCHAR(9)")
    one.publish("INSERT INTO t VALUES (1, 'x')")
    one.follow()
    one.publish('ALTER TABLE t RENAME b TO "5% `x`; --"')
    one.publish("INSERT INTO t VALUES (2, 'y')")
    one.execute(statement_in(one.stopped().hint))
    one.follow()
    assert one.execute("SELECT * FROM t ORDER BY a") == [(1, "x"), (2, "y")]


def test_the_first_shape_after_an_update_of_the_program_is_not_guessed(begin):
    """The catalog of an earlier version does not record the shape that was applied last, and the
    target has a column that the publisher does not have
    """
    one = begin("a int PRIMARY KEY, b text", "a INT PRIMARY KEY, b VARCHAR(9)")
    with one.database.target.begin() as connection:
        connection.execute(sa.delete(RELATION_SHAPE))
    one.publish("ALTER TABLE t RENAME b TO c")
    one.publish("INSERT INTO t VALUES (1, 'x')")
    assert "It is not known whether" in str(one.stopped().detail)
    one.execute("ALTER TABLE t RENAME COLUMN b TO c")
    one.follow()
    one.assert_same("a", "c")


# Values of older rows -----------------------------------------------------------------------------

DEFAULTS = (
    "int DEFAULT 5",
    "int NOT NULL DEFAULT -5",
    "text DEFAULT 'it''s 100%s \\ %(x)s'",
    "text DEFAULT ''",
    "numeric(10,2) NOT NULL DEFAULT 1.5",
    "boolean DEFAULT true",
    "timestamptz NOT NULL DEFAULT now()",
    "date DEFAULT '2026-01-02'",
    "float8 DEFAULT 1e23",
    "jsonb DEFAULT '{\"k\": [1]}'",
    "int[] DEFAULT '{1,NULL,3}'",
    "text[] DEFAULT ARRAY['a,b', '{x}', 'q\"']",
    "bytea DEFAULT '\\x00ff5c'",
    "uuid DEFAULT '00000000-0000-0000-0000-00000000000a'",
    "varchar(5) DEFAULT current_setting('server_version_num')::varchar(2)",
    "interval DEFAULT '1 mon 2 days'",
)


def test_older_rows_get_the_values_that_they_have_at_the_publisher(followed):
    """attmissingval, however the default and the rows have changed since; through the conversion of
    the column's type
    """
    names = [f"c{number}" for number in range(len(DEFAULTS))]
    followed.publish("INSERT INTO t VALUES (4, 'before')")
    added = ", ".join(f"ADD {name} {declared}" for name, declared in zip(names, DEFAULTS, strict=True))
    followed.publish(f"ALTER TABLE t {added}")
    followed.publish("INSERT INTO t (a, b) VALUES (5, 'after')")
    changed = ", ".join(f"ALTER {name} DROP NOT NULL, ALTER {name} SET DEFAULT NULL" for name in names)
    followed.publish(f"ALTER TABLE t {changed}")
    followed.publish(f"UPDATE t SET ({', '.join(names)}) = ROW({', '.join(['NULL'] * len(names))}) WHERE a = 2")
    followed.publish("INSERT INTO t (a, b) VALUES (6, 'later'); DELETE FROM t WHERE a = 3")
    followed.follow()
    followed.assert_same("a", "b", *names)
    assert followed.differences() == []
    followed.restart()
    followed.publish("ALTER TABLE t ADD d int DEFAULT 1; UPDATE t SET b = 'u' WHERE a = 4")
    followed.follow()
    followed.assert_same("a", "b", *names, "d")


def test_a_column_without_default_is_null_in_older_rows_and_that_is_exact(followed):
    followed.publish("ALTER TABLE t ADD c int; INSERT INTO t VALUES (4, 'w', 1); ALTER TABLE t ADD d int; ")
    followed.publish("INSERT INTO t VALUES (5, 'w', 1, 2)")
    followed.follow()
    followed.assert_same("a", "b", "c", "d")
    assert followed.differences() == []
    assert len(followed.changes()) == 2


def test_what_was_altered_is_said_and_written_down(followed, caplog):
    followed.publish("ALTER TABLE t ADD c int DEFAULT 4711; INSERT INTO t VALUES (4, 'w', 1)")
    with caplog.at_level(logging.WARNING):
        followed.follow()
    with followed.database.target.engine.connect() as connection:
        (change,) = schema_changes_of(connection, 1)
    assert change.statement is not None
    assert "ADD COLUMN" in change.statement
    assert (change.relation, change.difference, change.differs) == ("public.t", None, False)
    assert change.remote_lsn is not None
    assert f'has altered table "public.t": {change.statement}' in caplog.text
    assert "4711" not in caplog.text


def test_what_nobody_can_tell_is_said(followed, caplog):
    """In the history and in the log, with the way to copy the table again"""
    alterations = (
        ("c", "ADD c float8 DEFAULT random()", "is not a constant"),
        ("d", "ADD d int GENERATED BY DEFAULT AS IDENTITY", "is not a constant"),
        ("e", "ADD e uuid DEFAULT gen_random_uuid()", "is not a constant"),
    )
    for name, added, why in alterations:
        followed.publish(f"ALTER TABLE t {added}")
        followed.publish(f"ALTER TABLE t ALTER {name} DROP {'IDENTITY' if 'IDENTITY' in added else 'DEFAULT'}")
        followed.publish(
            "INSERT INTO t (a, b, d) SELECT max(a) + 1, 'w', 1 FROM t"
            if name == "d"
            else "UPDATE t SET b = 'u' WHERE a = 1"
        )
        with caplog.at_level(logging.WARNING):
            followed.follow()
        assert why in followed.differences()[-1]
    assert len(followed.differences()) == len(alterations)
    assert "HINT:  To copy the table again" in caplog.text


def test_what_a_rewritten_table_had_nobody_can_tell(followed):
    """VACUUM FULL removes the missing value from the publisher's catalog"""
    for statement in ("ALTER TABLE t ADD c int DEFAULT 5", "ALTER TABLE t ALTER c DROP DEFAULT", "VACUUM FULL t"):
        followed.publish(statement)
    followed.publish("INSERT INTO t VALUES (4, 'w', 1)")
    followed.follow()
    (difference,) = followed.differences()
    assert "rewritten since" in difference


def test_with_a_column_list_nobody_can_tell_what_came_before(followed):
    followed.publish("ALTER TABLE t ADD c int DEFAULT 5")
    followed.publish("ALTER PUBLICATION pub SET TABLE t (a, b, c)")
    followed.publish("INSERT INTO t VALUES (4, 'w', 1)")
    followed.follow()
    (difference,) = followed.differences()
    assert "a column list" in difference


def test_a_column_that_was_not_published_before_is_said_to_differ(begin):
    """It is not a new column: earlier rows have values"""
    one = begin("a int PRIMARY KEY, b text", "a INT PRIMARY KEY")
    one.publish("ALTER PUBLICATION pub SET TABLE t (a)")
    one.publish("INSERT INTO t VALUES (1, 'x')")
    with one.database.target.begin() as connection, psycopg.connect(one.publisher.conninfo) as server:
        attributes = read_attributes(server, ServerPublications(server, ["pub"]), "public", "t")
        assert attributes is not None
        assert not attributes.whole
        store_published_shapes(connection, 1, [(PublishedTable("public", "t", columns=("a",)), attributes)])
    one.follow()
    one.publish("ALTER PUBLICATION pub SET TABLE t")
    one.publish("INSERT INTO t VALUES (2, 'y')")
    one.follow()
    assert one.execute("SELECT a, b FROM t ORDER BY a") == [(1, None), (2, "y")]
    assert len(one.differences()) == 1


def test_a_table_that_was_dropped_and_created_again_is_said_until_it_is_copied_again(followed, caplog):
    """Its new rows are applied, as PostgreSQL does; only the rows of the former table stay."""
    followed.publish("DROP TABLE t; CREATE TABLE t (a int PRIMARY KEY, b text); ALTER PUBLICATION pub ADD TABLE t")
    followed.publish("INSERT INTO t VALUES (10, 'new')")
    with caplog.at_level(logging.WARNING):
        followed.follow()
    assert followed.differences() == ["The target still has the rows of the former table."]
    assert caplog.text.count("it was dropped and created again, or another table was renamed") == 1
    assert "HINT:  To copy the table again: ALTER SUBSCRIPTION sub REFRESH TABLE public.t;" in caplog.text
    followed.publish("INSERT INTO t VALUES (11, 'new')")
    followed.restart()
    followed.follow()
    assert len(followed.differences()) == 1
    assert followed.execute("SELECT a FROM t WHERE a >= 10 ORDER BY a") == [(10,), (11,)]


def test_a_table_that_takes_the_name_of_another_one_is_said(followed):
    followed.publish("CREATE TABLE other (a int PRIMARY KEY, b text); ALTER PUBLICATION pub ADD TABLE other")
    followed.publish("ALTER TABLE t RENAME TO former; ALTER TABLE other RENAME TO t; INSERT INTO t VALUES (10, 'new')")
    followed.follow()
    assert followed.differences() == ["The target still has the rows of the former table."]


def test_a_table_that_was_rewritten_or_emptied_is_the_same_table(followed):
    for statement in ("VACUUM FULL t", "TRUNCATE t", "ALTER TABLE t ALTER b TYPE varchar(9)", "CLUSTER t USING t_pkey"):
        followed.publish(statement)
        followed.publish("INSERT INTO t SELECT coalesce(max(a), 0) + 1, 'y' FROM t")
        followed.follow()
    assert followed.differences() == []


def test_an_empty_table_does_not_differ(followed):
    followed.publish("TRUNCATE t")
    followed.publish("ALTER TABLE t ADD c float8 DEFAULT random(); INSERT INTO t VALUES (4, 'w', 1)")
    followed.follow()
    followed.assert_same("a", "b", "c")
    assert followed.differences() == []


def test_where_others_write_to_the_table_nothing_is_overwritten(followed):
    followed.rules = replace(obeying(schema_changes="add_columns"), is_shared=lambda _: True)
    followed.publish("ALTER TABLE t ADD c int DEFAULT 5; INSERT INTO t VALUES (4, 'w', 1)")
    followed.follow()
    assert followed.execute("SELECT c FROM t ORDER BY a") == [(None,), (None,), (None,), (1,)]
    (difference,) = followed.differences()
    assert "another subscription" in difference


def test_the_column_waits_for_the_publisher_who_knows_the_value(followed):
    """A wrong value is worse than a delay; nothing of the batch is in the target, and nothing is
    lost
    """
    followed.publish("ALTER TABLE t ADD c int DEFAULT 5; INSERT INTO t VALUES (4, 'w', 1)")

    def away(_remote):
        raise PublisherUnavailable("could not connect")

    ask, followed.ask = followed.ask, away
    followed.restart()
    with pytest.raises(PublisherUnavailable) as raised:
        followed.follow()
    assert (raised.value.relation, raised.value.transient) == ("public.t", True)
    followed.ask = ask
    followed.restart()
    followed.follow()
    followed.assert_same("a", "b", "c")


@pytest.mark.parametrize("place", ["target.alter.before", "target.alter.after", "target.commit.before"])
def test_a_process_that_ends_beside_the_alter_table_leaves_nothing_half_done(followed, monkeypatch, place):
    """any_crash: if DDL commits, the column exists and its values are not written"""

    class Killed(BaseException):
        pass

    def hit(name: str) -> None:
        if name == place:
            raise Killed

    followed.publish("INSERT INTO t VALUES (4, 'before')")
    followed.publish("ALTER TABLE t ADD c int DEFAULT 5; INSERT INTO t VALUES (5, 'w', 1)")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(failpoints, "hit", hit)
        followed.follow()
    followed.restart()
    followed.follow()
    followed.assert_same("a", "b", "c")
    assert followed.differences() == []
    assert len(followed.changes()) == 1


def test_rows_of_the_same_transaction_from_before_the_column(followed):
    """They have the default at the publisher; if DDL commits, the difference is reported"""
    followed.publish(
        "BEGIN; INSERT INTO t VALUES (4, 'x'); ALTER TABLE t ADD c int DEFAULT 5; INSERT INTO t VALUES (5, 'w', 1); COMMIT"
    )
    followed.follow()
    if followed.database.target.capabilities.transactional_ddl:
        followed.assert_same("a", "b", "c")
        assert followed.differences() == []
    else:
        assert followed.execute("SELECT c FROM t ORDER BY a") == [(5,), (5,), (5,), (None,), (1,)]
        (difference,) = followed.differences()
        assert "had already inserted" in difference


# By `subscriber run` ------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_status_tells_what_was_altered_and_the_way_to_copy_a_table_again_works(publisher_database, tmp_path):
    """The copy knows the table's shape; a rename stops, and is mended while it runs; the HINT's
    steps are run as they stand there
    """
    publisher = publisher_database
    publisher.execute(
        "CREATE TABLE t (a int PRIMARY KEY, b text); INSERT INTO t VALUES (1, 'x'); CREATE PUBLICATION p FOR TABLE t"
    )
    place = tmp_path / "target.db"
    with contextlib.closing(Runner(f"sqlite:///{place}", tmp_path)) as runner:
        subscription = publisher.name
        runner.sql(
            f"CREATE SUBSCRIPTION {subscription} CONNECTION '{publisher.conninfo}' PUBLICATION p"
            " WITH (create_tables, schema_changes = add_columns)"
        )

        def rows(query):
            with contextlib.closing(sqlite3.connect(place, timeout=30)) as connection:
                try:
                    return connection.execute(query).fetchall()
                except sqlite3.OperationalError:
                    return None

        def status():
            (found,) = json.loads(runner.call("status", "--json").stdout)
            return found["schema_changes"]

        runner.start()
        wait_until(lambda: rows("SELECT a, b FROM t") == [(1, "x")], "the copy")
        publisher.execute("ALTER TABLE t ADD c int NOT NULL DEFAULT 5; INSERT INTO t VALUES (2, 'y', 6)")
        wait_until(lambda: rows("SELECT a, c FROM t ORDER BY a") == [(1, 5), (2, 6)], "a column with its default")
        publisher.execute("ALTER TABLE t RENAME b TO b2; UPDATE t SET b2 = 'z' WHERE a = 1")
        wait_until(lambda: "RENAME COLUMN b TO b2 in the target" in runner.said(), "the rename to be said")
        with contextlib.closing(sqlite3.connect(place, timeout=30)) as connection:
            connection.execute("ALTER TABLE t RENAME COLUMN b TO b2")
        wait_until(lambda: rows("SELECT a, b2 FROM t ORDER BY a") == [(1, "z"), (2, "y")], "the renamed column")
        publisher.execute("ALTER TABLE t ADD d float8 DEFAULT random(); UPDATE t SET b2 = 'u' WHERE a = 1")
        wait_until(lambda: rows("SELECT b2 FROM t WHERE a = 1") == [("u",)], "a column that nobody can fill")
        assert [one["difference"] is not None for one in status()] == [False, True]
        text = runner.call("status").stdout
        assert "Tables that were altered" in text
        assert "may differ from the publisher's" in text
        refresh = f"ALTER SUBSCRIPTION {subscription} REFRESH TABLE public.t"
        assert f"To copy the table again: {refresh};" in text
        runner.sql(refresh)
        expected = [(a, float(d)) for a, d in publisher.execute("SELECT a, d FROM t ORDER BY a")]
        wait_until(lambda: rows("SELECT a, d FROM t ORDER BY a") == expected, "the table to be copied again")
        wait_until(
            lambda: all(one["difference"] is None or one["resolved_at"] for one in status()),
            "the difference to be resolved",
        )
        assert "may differ" not in runner.call("status").stdout
        assert runner.interrupt() == 0
        assert "Traceback" not in runner.said()

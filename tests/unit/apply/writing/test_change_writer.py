"""Changes of rows in a target, as PostgreSQL's worker applies them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest
import sqlalchemy as sa

from subscriber.apply.exact import ExactApplier
from subscriber.apply.reorder import OrderMatters
from subscriber.apply.statements.change_statements import ROWS_AT_A_TIME
from subscriber.apply.writing.change_writer import ChangeWriter
from subscriber.base.errors import ConflictError, Stopped, TargetRelationError, TargetUnavailable
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.protocol import messages as m
from subscriber.targets import Target
from subscriber.targets.base.errors import Errors
from subscriber.targets.base.target import base_target
from tests.changes import T, U, delete, insert, update
from tests.failures import applied_before
from tests.frames import frame, relation, transaction, values
from tests.runs import runs

START, END = LSN(100), LSN(1000)
pytestmark = pytest.mark.usefixtures("tables")


def test_a_binary_value_is_converted_for_a_column_without_a_postgresql_type(applier, rows):
    """C5: like a text value. A column of a PostgreSQL type would refuse it (scenario 882)."""
    remote = relation("public.t", {"a": "int8", "b": "int4"}, ["a"])
    changes = transaction(200, insert("1", "5"))
    applier.apply([frame([remote], changes, binary=("a", "b"))], start=START, end=END)
    assert rows() == [{"a": 1, "c": None, "b": "5", "own": "mine"}]


def test_an_insert_fills_the_targets_own_columns_with_their_defaults(run, rows):
    """C7"""
    result = run(*transaction(200, insert("1", "x", None)))
    assert rows() == [{"a": 1, "c": None, "b": "x", "own": "mine"}]
    assert (result.transactions, result.changes, result.progress, result.commit_timestamp) == (1, 1, END, 1_000_000)


def test_an_unchanged_value_in_an_insert_is_null(run, rows):
    """C6"""
    run(*transaction(200, insert("1", m.UNCHANGED, "c")))
    assert rows() == [{"a": 1, "c": "c", "b": None, "own": "mine"}]


def test_an_update_without_old_tuple_searches_by_the_new_one(run, rows, execute):
    """C8, C9: the target's own column keeps its value."""
    execute("INSERT INTO t VALUES (1, 'c', 'b', 'kept'), (2, 'c', 'b', 'kept')")
    run(*transaction(200, update(("1", "B", "C"))))
    assert rows() == [{"a": 1, "c": "C", "b": "B", "own": "kept"}, {"a": 2, "c": "c", "b": "b", "own": "kept"}]


def test_an_update_of_the_key_searches_by_the_old_key(run, rows, execute):
    """C8"""
    execute("INSERT INTO t VALUES (1, 'c', 'b', 'kept')")
    run(*transaction(200, update(("5", "b", None), key=("1", None, None))))
    assert rows() == [{"a": 5, "c": None, "b": "b", "own": "kept"}]


def test_an_unchanged_column_keeps_its_value_and_a_null_does_not(run, rows, execute):
    """C9, absence_is_typed"""
    execute("INSERT INTO t VALUES (1, 'c', 'b', NULL)")
    run(*transaction(200, update(("1", m.UNCHANGED, None))))
    assert rows() == [{"a": 1, "c": None, "b": "b", "own": None}]


def test_keys_can_be_swapped_through_a_third_value(run, rows, execute):
    execute("INSERT INTO t VALUES (1, NULL, 'one', NULL), (2, NULL, 'two', NULL)")
    steps = [("1", "3", "one"), ("2", "1", "two"), ("3", "2", "one")]
    run(*transaction(200, *(update((new, text, None), key=(old, None, None)) for old, new, text in steps)))
    assert {row["a"]: row["b"] for row in rows()} == {1: "two", 2: "one"}


def test_changes_of_several_tables_keep_their_order(run, rows):
    """commit_order"""
    run(
        *transaction(
            200,
            insert("1", "x", None),
            insert("1", "u", into=2),
            delete("1", None, None),
            insert("1", "y", None),
            update(("1", "z", None)),
        )
    )
    assert rows() == [{"a": 1, "c": None, "b": "z", "own": "mine"}]
    assert rows("u") == [{"b": "u", "a": 1, "own": None}]


def test_a_missing_row_is_counted_and_skipped(run, rows, execute, caplog):
    """C18, C19"""
    execute("INSERT INTO t VALUES (1, NULL, NULL, NULL)")
    caplog.set_level(logging.INFO)
    changes: list[m.Message] = [
        update(("7", "secret", None)),
        update(("1", "there", None)),
        delete("8", None, None),
        delete("9", None, None),
    ]
    result = run(*transaction(200, *changes))
    assert result.conflicts == {"update_missing": 1, "delete_missing": 2}
    assert rows() == [{"a": 1, "c": None, "b": "there", "own": None}]
    assert execute("SELECT confl_update_missing, confl_delete_missing FROM subscriber_stat_subscription_stats") == [
        (1, 2)
    ]
    assert 'conflict detected on relation "public.t": conflict=update_missing' in caplog.text
    assert "Could not find the row to be updated." in caplog.text
    assert "Could not find the row to be deleted." in caplog.text
    assert "secret" not in caplog.text


def test_a_null_equals_null_in_a_whole_row_search(run, rows, execute):
    """C14"""
    execute("INSERT INTO u VALUES (NULL, 1, NULL), ('x', 1, NULL)")
    run(*transaction(200, update(("2", None), old=("1", None), of=2)))
    assert rows("u") == [{"b": None, "a": 2, "own": None}, {"b": "x", "a": 1, "own": None}]


def test_one_change_touches_at_most_one_of_several_equal_rows(run, rows, execute):
    """C16"""
    execute("INSERT INTO u VALUES ('x', 1, NULL), ('x', 1, NULL), ('x', 1, NULL)")
    changes: list[m.Message] = [m.Delete(2, "O", values("1", "x")), update(("1", "y"), old=("1", "x"), of=2)]
    assert run(*transaction(200, *changes)).conflicts == {}
    assert rows("u") == [{"b": "y", "a": 1, "own": None}, {"b": "x", "a": 1, "own": None}]


def test_a_row_with_a_value_in_the_targets_own_column_is_not_found(run, rows, execute):
    """C15"""
    execute("INSERT INTO u VALUES ('x', 1, 'own')")
    assert run(*transaction(200, m.Delete(2, "O", values("1", "x")))).conflicts == {"delete_missing": 1}
    assert len(rows("u")) == 1


def test_a_table_without_an_identity_is_refused_at_the_first_update_only(applier, execute):
    """C12"""
    execute("CREATE TABLE v (a INTEGER)")
    remote = relation("public.v", {"a": "int4"}, ["a"])
    harmless: list[m.Message] = [insert("1"), m.Truncate((16384,), cascade=False, restart_identity=False), insert("2")]
    applier.apply([frame([remote], transaction(200, *harmless))], start=START, end=LSN(200))
    with pytest.raises(TargetRelationError, match="has neither REPLICA IDENTITY index nor PRIMARY KEY"):
        applier.apply([frame([remote], transaction(300, update(("2",))))], start=LSN(200), end=END)
    assert execute("SELECT a FROM v") == [(2,)]


def test_an_update_that_sets_no_column_needs_its_row(applier, execute):
    """C9, C18: every column is unchanged."""
    only = relation("public.t", {"a": "int4"}, ["a"])
    message = m.Update(16384, "K", values("1"), values(m.UNCHANGED))
    result = applier.apply([frame([only], transaction(200, message))], start=START, end=END)
    assert result.conflicts == {"update_missing": 1}


def test_a_relation_without_columns_can_be_inserted_into(applier, execute):
    bare = relation("public.t", {})
    applier.apply([frame([bare], transaction(200, insert(), insert()))], start=START, end=END)
    assert execute("SELECT own FROM t") == [("mine",), ("mine",)]


def test_truncate_empties_the_named_tables(run, rows, execute):
    """C29"""
    execute("INSERT INTO t VALUES (1, NULL, NULL, NULL)")
    execute("INSERT INTO u VALUES ('x', 1, NULL)")
    truncate = m.Truncate((16384, 2), cascade=True, restart_identity=False)
    assert run(*transaction(200, truncate, insert("2", None, None))).changes == 2
    assert [row["a"] for row in rows()] == [2]
    assert rows("u") == []


def test_truncate_never_cascades(run, execute):
    """C29, C30"""
    execute("CREATE TABLE child (a INTEGER REFERENCES t (a))")
    with pytest.raises(ConflictError, match="cannot truncate a table referenced in a foreign key constraint") as raised:
        run(*transaction(200, m.Truncate((16384,), cascade=True, restart_identity=False)))
    assert 'during message type "TRUNCATE"' in str(raised.value.context)


@pytest.mark.parametrize("paramstyle", ["qmark", "named", "numeric"])
def test_a_target_that_only_sqlalchemy_knows_gets_the_same_rows(tmp_path, paramstyle):
    """Its parameters have places or names, and its rows are counted one by one."""
    url = sa.make_url(f"sqlite:///{tmp_path / 'generic.db'}")
    with base_target(url, sa.create_engine(url, paramstyle=paramstyle)) as target:
        with target.begin() as connection:
            CATALOG.create_all(connection)
            OriginProgress(1).create(connection, START)
            connection.exec_driver_sql("CREATE TABLE t (p0 TEXT, a INTEGER PRIMARY KEY)")
        remote = relation("public.t", {"a": "int4", "p0": "text"}, ["a"])
        changes: list[m.Message] = [
            *(insert(str(number), "x") for number in range(4)),
            m.Update(16384, "K", values("0", None), values("10", "y")),
            m.Update(16384, "K", values("9", None), values("11", "y")),
            m.Delete(16384, "K", values("1", None)),
            m.Delete(16384, "K", values("8", None)),
        ]
        applier = ExactApplier(target, subscription="sub", subid=1)
        result = applier.apply([frame([remote], transaction(200, *changes))], start=START, end=END)
        assert result.conflicts == {"update_missing": 1, "delete_missing": 1}
        with target.begin() as connection:
            rows = {row.a: row.p0 for row in connection.exec_driver_sql("SELECT a, p0 FROM t")}
        assert rows == {2: "x", 3: "x", 10: "y"}


def test_a_null_never_becomes_a_generated_rowid(run):
    """absence_is_typed: SQLite would generate a key."""
    with pytest.raises(ConflictError, match='null value in column "a"') as raised:
        run(*transaction(200, insert(None, "x", None)))
    assert raised.value.sqlstate == "23502"
    assert 'column "a" in transaction 731' in str(raised.value.context)


def test_a_bad_value_stops_only_its_own_transaction(run):
    """C35: a group is converted at once, but the error belongs to one transaction."""
    with pytest.raises(ConflictError) as raised:
        run(*transaction(200, insert("1", None, None)), *transaction(300, insert(None, None, None), xid=9))
    assert applied_before(raised.value) == 200
    assert "in transaction 9," in str(raised.value.context)


def test_a_part_of_a_group_is_written_alone(target, rows):
    """The changes of another table come between."""
    made = frame([T, U], [insert("1", "x", None), insert("1", "u", into=2), insert("2", "y", None)])
    first, *_ = runs(made)
    with target.begin() as connection:
        using = ChangeWriter(target, connection, {})
        using.open_frame(made)
        using.write(first)
    assert [row["a"] for row in rows()] == [1]


def test_a_batch_that_must_end_ends_between_two_parts_of_its_rows(target, rows):
    """bounded_memory: a large transaction is rolled back soon."""
    checks = count()

    def check() -> None:
        if next(checks) == 2:
            raise Stopped("the work was stopped")

    made = frame([T], [insert(str(number), "x", None) for number in range(3 * ROWS_AT_A_TIME)])
    with pytest.raises(Stopped), target.begin() as connection:
        using = ChangeWriter(target, connection, {}, check=check)
        using.open_frame(made)
        using.write(runs(made)[0])
    assert next(checks) == 3, "one check for the frame, and one before each part"
    assert rows() == []


def test_rows_of_other_origins_are_left_to_the_publishers_order(target, rows, execute):
    """C19: the conflict is recorded there"""

    class Origins:
        def others(self, connection: sa.Connection) -> sa.ColumnElement[bool]:
            return sa.column("b") == sa.literal_column("'theirs'")

    target.origins = Origins()
    execute("INSERT INTO t (a, b) VALUES (1, 'own'), (2, 'theirs')")
    written = []
    for key in ("1", "2"):
        made = frame([T], [update((key, "new", None))])
        with target.begin() as connection:
            using = ChangeWriter(target, connection, {})
            using.open_frame(made)
            written.append(using.write_together(made.groups[0]))
    assert written == [True, False]
    assert [row["b"] for row in rows()] == ["new", "theirs"]


# Changes wait, and are sent to the target together.


class RecordedPipeline:
    """A pipeline that executes its statements one by one."""

    def __init__(self) -> None:
        self.sent: list[list[str]] = []

    def execute(self, connection: sa.Connection, statements: Sequence[tuple[str, Sequence[Any]]]) -> Sequence[int]:
        self.sent.append([sql.split()[0] for sql, _ in statements])
        with Errors("the target").reporting():
            return [connection.exec_driver_sql(sql, tuple(row)).rowcount for sql, row in statements]


@pytest.fixture
def pipeline(target) -> RecordedPipeline:
    target.statement_pipeline = RecordedPipeline()
    found: RecordedPipeline = target.statement_pipeline
    return found


def write_later(target: Target, *changes: m.Message, flushes: bool = True) -> None:
    with target.begin() as connection:
        using = ChangeWriter(target, connection, {}, check=lambda: None)
        made = frame([T, U], changes)
        using.open_frame(made)
        using.write_optimistically()
        for run in runs(made):
            assert using.write(run) == ()
        if flushes:
            using.flush()
            using.flush()


def test_changes_wait_and_are_sent_together(target, pipeline, rows):
    write_later(target, insert("1", "x", None), update(("1", "y", m.UNCHANGED)), insert("2", "x", None), delete("2"))
    assert pipeline.sent == [["INSERT", "UPDATE", "INSERT", "DELETE"]]
    assert [(row["a"], row["b"]) for row in rows()] == [(1, "y")]


@pytest.mark.parametrize("change", [update(("7", "x", None)), delete("7")])
def test_a_missing_row_is_found_before_the_frame_ends(target, pipeline, rows, change):
    """C18: the exact path then records the conflict"""
    with pytest.raises(OrderMatters):
        write_later(target, insert("1", "x", None), change, insert("2", "x", None))
    assert rows() == []


def test_changes_that_wait_are_executed_before_an_error_is_raised(target, pipeline, execute):
    """C37: an error of an earlier change comes first"""
    execute("DROP TABLE u")
    with pytest.raises(TargetRelationError):
        write_later(target, insert("1", "x", None), insert("1", "x", into=2))
    assert pipeline.sent == [["INSERT"]]
    with pytest.raises(OrderMatters):
        write_later(target, delete("7"), insert("1", "x", into=2))


def test_a_change_that_fails_is_left_to_the_exact_path(target, pipeline, rows):
    with pytest.raises(OrderMatters):
        write_later(target, insert("1", "x", None), insert("1", "x", None))
    assert rows() == []


def test_an_error_that_is_not_of_a_change_is_raised(target, pipeline):
    pipeline.execute = lambda *_: (_ for _ in ()).throw(TargetUnavailable("gone"))
    with pytest.raises(TargetUnavailable):
        write_later(target, insert("1", "x", None))


def test_changes_do_not_wait_where_origins_are_compared(target, pipeline, rows):
    """C19"""

    class Origins:
        def others(self, connection: sa.Connection) -> sa.ColumnElement[bool]:
            return sa.false()

    target.origins = Origins()
    write_later(target, insert("1", "x", None), flushes=False)
    assert (pipeline.sent, len(rows())) == ([], 1)


def test_changes_that_a_trigger_may_suppress_do_not_wait(target, pipeline, rows, monkeypatch):
    """A row that exists would look like one that is missing."""
    monkeypatch.setattr(target.writing, "may_suppress", lambda _: True)
    write_later(target, insert("1", "x", None), flushes=False)
    assert (pipeline.sent, len(rows())) == ([], 1)


def test_changes_that_wait_are_executed_before_a_truncate(target, pipeline, rows):
    with target.begin() as connection:
        using = ChangeWriter(target, connection, {}, check=lambda: None)
        made = frame([T], [insert("1", "x", None)])
        using.open_frame(made)
        using.write_optimistically()
        using.write(runs(made)[0])
        using.truncate([T], restart_identity=False)
    assert (pipeline.sent, rows()) == ([["INSERT"]], [])

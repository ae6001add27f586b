from __future__ import annotations

import logging
import sqlite3
import traceback
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from subscriber import failpoints
from subscriber.apply.applier import ApplyResult
from subscriber.apply.batch_rules import Rules
from subscriber.apply.exact import ExactApplier
from subscriber.catalog import CATALOG, OriginProgress
from subscriber.errors import (
    ApplyError,
    ConflictError,
    JournalCorrupt,
    JournalGap,
    ProgressConflict,
    ProtocolError,
    TargetRelationError,
    TargetUnavailable,
)
from subscriber.lsn import LSN
from subscriber.protocol import messages as m
from subscriber.protocol.changes import Frame
from subscriber.targets.generic.target import generic_target
from tests.failures import applied_before, conflict_kind
from tests.frames import frame, prepared, relation, transaction, values

T = relation("public.t", {"a": "int4", "b": "text", "c": "text"}, ["a"])
U = relation("public.u", {"a": "int4", "b": "text"}, identity="f", oid=2)
START, END = LSN(100), LSN(1000)

Texts = tuple[str | m.Absence | None, ...]


@pytest.fixture(autouse=True)
def tables(execute):
    execute("CREATE TABLE t (a INTEGER PRIMARY KEY, c TEXT, b TEXT, own TEXT DEFAULT 'mine')")
    execute("CREATE TABLE u (b TEXT, a INTEGER, own TEXT)")


@pytest.fixture
def run(applier):
    def call(*messages: m.Message, end: int = END, before: int | None = None, start: int = START) -> ApplyResult:
        limit = None if before is None else LSN(before)
        result: ApplyResult = applier.apply([frame([T, U], messages)], start=LSN(start), end=LSN(end), before=limit)
        return result

    return call


@pytest.fixture
def rows(execute):
    return lambda table="t": execute(f"SELECT * FROM {table} ORDER BY rowid")


def insert(*texts: str | m.Absence | None, into: int = 16384) -> m.Insert:
    return m.Insert(into, values(*texts))


def update(new: Texts, *, key: Texts | None = None, old: Texts | None = None, of: int = 16384) -> m.Update:
    if key is not None:
        return m.Update(of, "K", values(*key), values(*new))
    return m.Update(of, None if old is None else "O", None if old is None else values(*old), values(*new))


# --- changes ----------------------------------------------------------------------------------


def test_a_binary_value_is_converted_for_a_column_that_has_none_of_postgresqls_types(applier, rows):
    """C5: as a text would be; with the types of PostgreSQL's, it refuses (scenario 882)"""
    remote = relation("public.t", {"a": "int8", "b": "int4"}, ["a"])
    changes = transaction(200, insert("1", "5"))
    applier.apply([frame([remote], changes, binary=("a", "b"))], start=START, end=END)
    assert rows() == [(1, None, "5", "mine")]


def test_an_insert_fills_the_targets_own_columns_with_their_defaults(run, rows):
    """C7"""
    result = run(*transaction(200, insert("1", "x", None)))
    assert rows() == [(1, None, "x", "mine")]
    assert (result.transactions, result.changes, result.progress, result.commit_timestamp) == (1, 1, END, 1_000_000)


def test_an_unchanged_value_in_an_insert_is_null(run, rows):
    """C6"""
    run(*transaction(200, insert("1", m.UNCHANGED, "c")))
    assert rows() == [(1, "c", None, "mine")]


def test_an_update_without_old_tuple_searches_by_the_new_one(run, rows, execute):
    """C8, C9: the target's own column keeps its value"""
    execute("INSERT INTO t VALUES (1, 'c', 'b', 'kept'), (2, 'c', 'b', 'kept')")
    run(*transaction(200, update(("1", "B", "C"))))
    assert rows() == [(1, "C", "B", "kept"), (2, "c", "b", "kept")]


def test_an_update_of_the_key_searches_by_the_old_key(run, rows, execute):
    """C8"""
    execute("INSERT INTO t VALUES (1, 'c', 'b', 'kept')")
    run(*transaction(200, update(("5", "b", None), key=("1", None, None))))
    assert rows() == [(5, None, "b", "kept")]


def test_an_unchanged_column_keeps_its_value_and_a_null_does_not(run, rows, execute):
    """C9, absence_is_typed"""
    execute("INSERT INTO t VALUES (1, 'c', 'b', NULL)")
    run(*transaction(200, update(("1", m.UNCHANGED, None))))
    assert rows() == [(1, None, "b", None)]


def test_keys_can_be_swapped_through_a_third_value(run, rows, execute):
    execute("INSERT INTO t VALUES (1, NULL, 'one', NULL), (2, NULL, 'two', NULL)")
    steps = [("1", "3", "one"), ("2", "1", "two"), ("3", "2", "one")]
    run(*transaction(200, *(update((new, text, None), key=(old, None, None)) for old, new, text in steps)))
    assert [(row[0], row[2]) for row in rows()] == [(1, "two"), (2, "one")]


def test_changes_of_several_tables_keep_their_order(run, rows):
    """commit_order"""
    run(
        *transaction(
            200,
            insert("1", "x", None),
            insert("1", "u", into=2),
            m.Delete(16384, "K", values("1", None, None)),
            insert("1", "y", None),
            update(("1", "z", None)),
        )
    )
    assert rows() == [(1, None, "z", "mine")]
    assert rows("u") == [("u", 1, None)]


def test_a_missing_row_is_counted_and_skipped(run, rows, execute, caplog):
    """C18, C19"""
    execute("INSERT INTO t VALUES (1, NULL, NULL, NULL)")
    caplog.set_level(logging.INFO)
    changes: list[m.Message] = [
        update(("7", "secret", None)),
        update(("1", "there", None)),
        m.Delete(16384, "K", values("8", None, None)),
        m.Delete(16384, "K", values("9", None, None)),
    ]
    result = run(*transaction(200, *changes))
    assert result.conflicts == {"update_missing": 1, "delete_missing": 2}
    assert rows() == [(1, None, "there", None)]
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
    assert rows("u") == [(None, 2, None), ("x", 1, None)]


def test_one_change_touches_at_most_one_of_several_equal_rows(run, rows, execute):
    """C16"""
    execute("INSERT INTO u VALUES ('x', 1, NULL), ('x', 1, NULL), ('x', 1, NULL)")
    changes: list[m.Message] = [m.Delete(2, "O", values("1", "x")), update(("1", "y"), old=("1", "x"), of=2)]
    assert run(*transaction(200, *changes)).conflicts == {}
    assert rows("u") == [("y", 1, None), ("x", 1, None)]


def test_a_row_with_a_value_in_the_targets_own_column_is_not_found(run, rows, execute):
    """C15"""
    execute("INSERT INTO u VALUES ('x', 1, 'own')")
    assert run(*transaction(200, m.Delete(2, "O", values("1", "x")))).conflicts == {"delete_missing": 1}
    assert len(rows("u")) == 1


def test_the_lack_of_an_identity_shows_at_the_first_update_only(applier, execute):
    """C12"""
    execute("CREATE TABLE v (a INTEGER)")
    remote = relation("public.v", {"a": "int4"}, ["a"])
    harmless: list[m.Message] = [insert("1"), m.Truncate((16384,), cascade=False, restart_identity=False), insert("2")]
    applier.apply([frame([remote], transaction(200, *harmless))], start=START, end=LSN(200))
    with pytest.raises(TargetRelationError, match="has neither REPLICA IDENTITY index nor PRIMARY KEY"):
        applier.apply([frame([remote], transaction(300, update(("2",))))], start=LSN(200), end=END)
    assert execute("SELECT a FROM v") == [(2,)]


def test_an_update_of_nothing_still_needs_its_row(applier, execute):
    """C9, C18: every column unchanged"""
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
    assert [row[0] for row in rows()] == [2]
    assert rows("u") == []


def test_truncate_never_cascades(run, execute):
    """C29, C30"""
    execute("CREATE TABLE child (a INTEGER REFERENCES t (a))")
    with pytest.raises(ConflictError, match="cannot truncate a table referenced in a foreign key constraint") as raised:
        run(*transaction(200, m.Truncate((16384,), cascade=True, restart_identity=False)))
    assert 'during message type "TRUNCATE"' in str(raised.value.context)


def test_messages_and_origins_are_ignored(run, rows):
    """C38"""
    begin, commit = transaction(200)
    message = m.LogicalMessage(True, LSN(150), "p", b"x")
    assert run(begin, m.Origin(LSN(5), "node"), message, insert("1", None, None), commit).changes == 1


def test_a_relation_that_is_not_subscribed_is_looked_up_and_ignored(target, execute, rows):
    """C4 as the servers do it (scenario 073): the worker opens a relation before it asks; D12"""
    asked = []

    def subscribed(shape, lsn):
        asked.append((shape.name, lsn))
        return shape.name == "t"

    applier = ExactApplier(target, subscription="sub", subid=1, read_rules=lambda _: Rules(subscribed))
    unknown = relation("public.unknown", {"a": "int4"}, oid=9)
    for change in (insert("1", into=9), m.Truncate((9,), False, False)):
        changes: list[m.Message] = [insert("1", None, None), change]
        with pytest.raises(TargetRelationError, match=r'"public\.unknown" does not exist'):
            applier.apply([frame([T, unknown], transaction(200, *changes))], start=START, end=END)
    execute("CREATE TABLE unknown (a INTEGER PRIMARY KEY)")
    changes = [insert("1", None, None), insert("1", into=9), m.Truncate((9,), False, False)]
    result = applier.apply([frame([T, unknown], transaction(200, *changes))], start=START, end=END)
    assert result.changes == 1
    assert ("unknown", 192) in asked
    assert (len(rows()), execute("SELECT * FROM unknown")) == (1, [])


@pytest.mark.parametrize("start", [START, LSN(50)], ids=["skipped", "applied before"])
def test_a_transaction_that_is_left_out_needs_no_table(target, stored, start):
    """C40: the worker looks at nothing of it"""
    unknown = relation("public.unknown", {"a": "int4"}, oid=9)
    finish = 200 if start == START else 90
    rules = Rules(lambda *_: False, skip_lsn=LSN(finish - 8))
    applier = ExactApplier(target, subscription="sub", subid=1, read_rules=lambda _: rules)
    applier.apply([frame([unknown], transaction(finish, insert("1", into=9)))], start=start, end=END)
    assert stored() == END


@pytest.mark.parametrize("paramstyle", ["qmark", "named", "numeric"])
def test_a_target_that_only_sqlalchemy_knows_gets_the_same_rows(tmp_path, paramstyle):
    """Parameters by place or by name, rows counted one by one."""
    url = sa.make_url(f"sqlite:///{tmp_path / 'generic.db'}")
    with generic_target(url, sa.create_engine(url, paramstyle=paramstyle)) as target:
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
            rows = connection.exec_driver_sql("SELECT a, p0 FROM t ORDER BY a").all()
        assert rows == [(2, "x"), (3, "x"), (10, "y")]


@pytest.mark.parametrize("paramstyle", ["qmark", "named"])
def test_a_row_that_is_stored_otherwise_is_found_with_parameters_by_place_or_by_name(tmp_path, paramstyle):
    """C14: only what is searched by is bound as it is stored"""
    url = sa.make_url(f"sqlite:///{tmp_path / 'generic.db'}")
    with generic_target(url, sa.create_engine(url, paramstyle=paramstyle)) as target:
        with target.begin() as connection:
            CATALOG.create_all(connection)
            OriginProgress(1).create(connection, START)
            connection.exec_driver_sql("CREATE TABLE t (a TEXT, b TEXT, PRIMARY KEY (a, b))")
            connection.exec_driver_sql("INSERT INTO t VALUES ('1.0', 'x'), ('1.000', 'y'), ('10', 'y')")
        remote = relation("public.t", {"a": "numeric", "b": "text"}, ["a", "b"])
        move = m.Update(16384, "K", values("1.00", "y"), values("1.00", "z"))
        applier = ExactApplier(target, subscription="sub", subid=1)
        applier.apply([frame([remote], transaction(200, move))], start=START, end=END)
        with target.begin() as connection:
            rows = connection.exec_driver_sql("SELECT a, b FROM t ORDER BY b").all()
        assert rows == [("1.0", "x"), ("10", "y"), ("1.00", "z")]


# --- progress ---------------------------------------------------------------------------------


def test_replaying_a_batch_changes_nothing(run, rows, stored):
    """progress_with_data, C34"""
    batch = [*transaction(200, insert("1", "x", None)), *transaction(300, insert("2", "y", None))]
    run(*batch, end=300)
    assert run(*batch, end=300) == ApplyResult(LSN(300))
    assert stored() == 300
    assert len(rows()) == 2


def test_a_batch_that_begins_below_the_progress_applies_only_what_is_new(run, rows, stored):
    """progress_with_data"""
    first = transaction(200, insert("1", "x", None))
    run(*first, end=200)
    result = run(*first, *transaction(300, insert("2", "y", None)), end=300)
    assert (result.transactions, result.changes) == (1, 1)
    assert stored() == 300
    assert len(rows()) == 2


def test_a_commit_record_that_begins_where_the_last_one_ended_is_new(run, rows):
    """C34: commit records may be neighbours in the WAL, then one's end is the next one's start"""
    run(*transaction(200, insert("1", None, None)), end=200)
    neighbour = transaction(208, insert("2", None, None), commit_lsn=200)
    assert run(*neighbour, end=208, start=200).transactions == 1
    assert len(rows()) == 2


def test_a_second_pass_may_stop_between_transactions(run, rows, stored):
    """C35: also where the next commit record begins right there"""
    history = [
        *transaction(200, insert("1", None, None)),
        *transaction(300, insert("2", None, None), commit_lsn=250),
        *prepared(500, insert("3", None, None)),
    ]
    assert run(*history, end=250, before=250).transactions == 1
    assert stored() == 250
    assert run(*history, end=450, before=450).transactions == 1
    assert [row[0] for row in rows()] == [1, 2]


def test_each_transactions_conflicts_are_counted_once(run):
    """C18"""
    missing = m.Delete(16384, "K", values("9", None, None))
    result = run(*transaction(200, missing), *transaction(300, missing), *transaction(400))
    assert result.conflicts == {"delete_missing": 2}


def test_a_batch_that_begins_above_the_progress_is_a_gap(run, stored):
    """progress_with_data: never skipped"""
    with pytest.raises(JournalGap, match="applied up to 0/64, but the batch begins at 0/65") as raised:
        run(*transaction(200), start=101)
    assert applied_before(raised.value) is None
    assert stored() == 100


def test_a_batch_without_transactions_moves_the_progress(run, stored):
    run(end=500)
    assert stored() == 500


def test_an_unknown_origin_is_refused(target):
    applier = ExactApplier(target, subscription="other", subid=2)
    with pytest.raises(ProgressConflict, match='"pg_2" does not exist'):
        applier.apply([], start=START, end=END)


def test_a_transaction_may_span_frames(applier, rows):
    begin, first, second, commit = transaction(200, insert("1", None, None), insert("2", None, None))
    frames = [frame([T], [begin, first]), frame([T], [second]), frame([T], [commit])]
    assert applier.apply(frames, start=START, end=END).changes == 2
    assert len(rows()) == 2


def test_frames_are_taken_one_at_a_time(target):
    """bounded_memory"""
    events = []

    def frames() -> Iterator[Frame]:
        for number in range(3):
            events.append("frame")
            yield frame([T], transaction(200 + 100 * number, insert(str(number), None, None)))

    def noting(_relation, _lsn):
        events.append("change")
        return True

    applier = ExactApplier(target, subscription="sub", subid=1, read_rules=lambda _: Rules(noting))
    applier.apply(frames(), start=START, end=END)
    assert events == ["frame", "change"] * 3


def test_the_failpoints_stand_on_both_sides_of_the_commit(run, target, monkeypatch):
    """any_crash, progress_with_data"""
    other = sqlite3.connect(target.url.database)
    seen = []

    def look(name):
        rows = other.execute("SELECT count(*) FROM t").fetchone()
        lsn = other.execute("SELECT remote_lsn FROM subscriber_replication_origin_status").fetchone()
        seen.append((name, *rows, *lsn))

    monkeypatch.setattr(failpoints, "hit", look)
    run(*transaction(200, insert("1", None, None)), end=200)
    other.close()
    assert seen == [("target.commit.before", 0, "0/64"), ("target.commit.after", 1, "0/C8")]


def test_two_runners_cannot_both_apply(target, applier, rows):
    """progress_with_data: a second one that read the same progress is stopped by the
    compare-and-set
    """

    def frames() -> Iterator[Frame]:
        with target.engine.connect() as elsewhere:
            assert OriginProgress(1).read(elsewhere) == 100
        yield frame([T], transaction(200, insert("1", None, None)))

    applier.apply(frames(), start=START, end=LSN(200))
    with target.begin() as connection, pytest.raises(ProgressConflict):
        OriginProgress(1).lock(connection, START)
    assert len(rows()) == 1


# --- errors -----------------------------------------------------------------------------------


def failing() -> list[m.Message]:
    good = transaction(200, insert("1", "x", None), xid=700) + transaction(300, insert("2", "x", None), xid=701)
    return good + transaction(400, insert("3", "y", None), insert("1", "secret", None), xid=702)


def test_a_failing_transaction_rolls_the_whole_batch_back(run, rows, stored):
    """C35, commit_order"""
    with pytest.raises(ApplyError):
        run(*failing())
    assert rows() == []
    assert stored() == 100


def test_a_unique_violation_speaks_as_postgresql_does(run):
    """C19, C22, C37, names_are_data"""
    with pytest.raises(ConflictError) as raised:
        run(*failing())
    error = raised.value
    assert error.message == 'conflict detected on relation "public.t": conflict=insert_exists'
    assert (error.sqlstate, error.relation, error.lsn, conflict_kind(error)) == (
        "23505",
        "public.t",
        392,
        "insert_exists",
    )
    assert error.detail == "Key (a) already exists."
    assert error.context == (
        'processing remote data for replication origin "pg_1" during message type "INSERT" for replication target'
        ' relation "public.t" in transaction 702, finished at 0/188'
    )
    assert "secret" not in error.report()
    assert "secret" not in "".join(traceback.format_exception(error))


def test_the_good_prefix_can_be_committed_in_a_second_pass(run, rows, stored):
    """C35: what finished before the failing transaction is applied"""
    with pytest.raises(ApplyError) as raised:
        run(*failing())
    before = applied_before(raised.value)
    assert before == 300
    result = run(*failing(), end=before, before=before)
    assert (result.transactions, stored()) == (2, 300)
    assert [row[0] for row in rows()] == [1, 2]


def test_an_update_to_an_existing_key_is_update_exists(run, execute):
    execute("INSERT INTO t (a) VALUES (1), (2)")
    with pytest.raises(ConflictError, match="conflict=update_exists"):
        run(*transaction(200, update(("2", None, None), key=("1", None, None))))


def test_a_null_never_becomes_a_generated_rowid(run):
    """absence_is_typed: SQLite would choose a key of its own"""
    with pytest.raises(ConflictError, match='null value in column "a"') as raised:
        run(*transaction(200, insert(None, "x", None)))
    assert raised.value.sqlstate == "23502"
    assert 'column "a" in transaction 731' in str(raised.value.context)


def test_a_bad_value_stops_only_its_own_transaction(run):
    """C35: the group is converted at once, the error belongs to one transaction"""
    with pytest.raises(ConflictError) as raised:
        run(*transaction(200, insert("1", None, None)), *transaction(300, insert(None, None, None), xid=9))
    assert applied_before(raised.value) == 200
    assert "in transaction 9," in str(raised.value.context)


def test_a_missing_table_stops_with_the_relation(run, execute):
    """C3, C37"""
    execute("DROP TABLE u")
    with pytest.raises(TargetRelationError, match=r'"public\.u" does not exist') as raised:
        run(*transaction(200, insert("1", None, None)), *transaction(300, insert("1", "x", into=2)))
    assert applied_before(raised.value) == 200
    assert raised.value.lsn == 292


def test_a_change_of_the_targets_table_is_seen_by_the_next_batch(run, execute, rows):
    """C1: resolved again after local DDL"""
    run(*transaction(200, insert("1", "x", None)), end=200)
    execute("ALTER TABLE t RENAME TO old")
    execute("CREATE TABLE t (c TEXT, b TEXT, a INTEGER PRIMARY KEY)")
    run(*transaction(300, insert("1", "x", None)), end=300, start=200)
    assert rows() == [(None, "x", 1)]


@pytest.mark.parametrize(
    "messages",
    [
        [insert("1", None, None)],
        [m.Commit(LSN(192), LSN(200), 0)],
        [m.Begin(LSN(192), 0, 1), m.Begin(LSN(292), 0, 2)],
        [m.Relation(1, "public", "t", "d", ())],
    ],
)
def test_messages_out_of_order_are_protocol_errors(run, messages):
    """C31, C44"""
    with pytest.raises(ProtocolError) as raised:
        run(*messages)
    assert raised.value.sqlstate == "08P01"


def test_a_batch_that_ends_inside_a_transaction_is_refused(run, rows):
    """commit_order: a transaction is never split"""
    with pytest.raises(JournalCorrupt, match="ends inside transaction 731"):
        run(*transaction(200, insert("1", None, None))[:-1])
    assert rows() == []


def test_a_transaction_beyond_the_batchs_end_is_refused(run):
    """progress_with_data: else it would be applied again"""
    with pytest.raises(JournalCorrupt, match="beyond its batch's end 0/C7"):
        run(*transaction(200, insert("1", None, None)), end=199)


def test_an_error_of_the_source_keeps_the_good_prefix(applier):
    def frames() -> Iterator[Frame]:
        yield frame([T], transaction(200, insert("1", None, None)))
        raise ProtocolError("broken")

    with pytest.raises(ProtocolError) as raised:
        applier.apply(frames(), start=START, end=END)
    assert applied_before(raised.value) == 200


def test_a_locked_database_is_to_be_tried_again(run, target, monkeypatch):
    with target.engine.connect() as connection:
        connection.connection.driver_connection.execute("PRAGMA busy_timeout = 0")
    other = sqlite3.connect(target.url.database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(TargetUnavailable, match="SQLITE_BUSY") as raised:
            run(*transaction(200))
    finally:
        other.close()
    assert raised.value.transient
    assert applied_before(raised.value) is None


# --- two-phase --------------------------------------------------------------------------------


def test_a_prepared_transaction_is_applied_when_it_commits(run, rows, stored):
    """C50, C51"""
    result = run(*prepared(500, insert("1", "x", None)), end=500)
    assert (result.transactions, result.commit_timestamp, stored()) == (1, 2, 500)
    assert len(rows()) == 1


def test_a_prepared_transaction_that_is_applied_already_is_read_past(run, rows):
    """C50a: replaying it would violate the key"""
    old = prepared(500, insert("1", "x", None), m.Delete(16384, "K", values("77", None, None)))
    assert run(*old, end=500).conflicts == {"delete_missing": 1}
    result = run(*old, *transaction(600, insert("2", "y", None)), end=600)
    assert (result.transactions, result.changes, result.conflicts) == (1, 1, {})
    assert len(rows()) == 2


def test_a_prepared_transaction_with_nothing_to_violate_is_read_past_too(run, rows):
    old = prepared(500, insert("1", "x", into=2))
    run(*old, end=500)
    run(*old, end=600)
    assert len(rows("u")) == 1


def test_a_new_prepared_transaction_in_a_replay_is_applied(run, rows):
    old = transaction(200, insert("1", None, None))
    run(*old, end=200)
    result = run(*old, *prepared(500, insert("2", None, None)), end=500)
    assert (result.transactions, len(rows())) == (1, 2)


def test_a_failing_prepared_transaction_leaves_the_prefix(run, rows):
    """C35: its error counts only if it belongs to the batch"""
    batch = [*transaction(200, insert("1", None, None)), *prepared(500, insert("1", None, None), xid=9)]
    with pytest.raises(ConflictError) as raised:
        run(*batch, end=500)
    assert applied_before(raised.value) == 200
    assert run(*batch, end=200, before=200).transactions == 1
    with pytest.raises(ConflictError, match="insert_exists"):
        run(*batch, end=500)
    assert len(rows()) == 1


def test_a_second_pass_stops_before_a_prepared_transaction_that_finished_later(run, rows):
    """It was prepared before the last good transaction, and committed after it."""
    late = prepared(500, insert("9", None, None))
    begin, change, prepare, commit = late
    run(*transaction(450, insert("1", None, None)), begin, change, prepare, commit, end=450, before=450)
    assert [row[0] for row in rows()] == [1]


def test_an_empty_frame_is_nothing(applier):
    assert applier.apply([Frame((), ())], start=START, end=END).transactions == 0


# SKIP ---------------------------------------------------------------------------------------------


@pytest.fixture
def skip(target):
    """Applies frames with a skip LSN, and says whether it was cleared."""

    def call(lsn: int, *messages: m.Message) -> tuple[ApplyResult, bool]:
        cleared = []
        rules = Rules(skip_lsn=LSN(lsn), clear_skip=lambda connection: cleared.append(connection.in_transaction()))
        applier = ExactApplier(target, subscription="sub", subid=1, read_rules=lambda _: rules)
        return applier.apply([frame([T, U], messages)], start=START, end=END), cleared == [True]

    return call


def test_the_changes_of_the_skipped_transaction_are_dropped_and_the_skip_is_used_up(skip, rows, stored):
    """C40, C41: truncates too; its neighbour is applied"""
    skipped = transaction(200, insert("1", None, None), m.Truncate((16384,), False, False))
    result, cleared = skip(192, *skipped, *transaction(300, insert("2", None, None)))
    assert cleared
    assert [row[0] for row in rows()] == [2]
    assert result.changes == 1
    assert stored() == END


def test_a_transaction_that_is_not_the_one_clears_the_skip_with_a_warning(skip, rows, caplog):
    """C41"""
    _, cleared = skip(500, *transaction(200, insert("1", None, None)))
    assert cleared
    assert [row[0] for row in rows()] == [1]
    assert 'skip-LSN of subscription "sub" cleared' in caplog.text


def test_an_empty_transaction_leaves_the_skip(skip):
    """C41"""
    assert skip(500, *transaction(200))[1] is False


def test_a_skip_that_was_used_up_does_not_skip_what_comes_after(skip, rows):
    """C41: also where a transaction before the skipped one has cleared it"""
    first, second = transaction(200, insert("1", None, None)), transaction(300, insert("2", None, None))
    skip(292, *first, *second)
    assert [row[0] for row in rows()] == [1, 2]


def test_a_prepared_transaction_can_be_skipped(skip, rows):
    """C40: by the LSN of its PREPARE"""
    messages = prepared(300, insert("1", None, None))
    _, cleared = skip(200, *messages)
    assert cleared
    assert rows() == []


# Progress of another kind -------------------------------------------------------------------------


def test_what_is_moved_with_the_data_may_be_something_else(target, rows):
    """progress_with_data: a table that catches up has a position of its own"""

    class Kept:
        name = "other"
        of_subscription = False
        position = LSN(100)

        def read(self, connection):
            return self.position

        def lock(self, connection, expected):
            assert expected == self.position

        def advance(self, connection, from_lsn, to_lsn):
            assert connection.in_transaction()
            self.position = to_lsn

    kept = Kept()
    applier = ExactApplier(target, subscription="sub", subid=1, kept=kept)
    applier.apply([frame([T], transaction(200, insert("1", None, None)))], start=START, end=LSN(200))
    assert kept.position == 200
    assert len(rows()) == 1
    with target.begin() as connection:
        assert OriginProgress(1).read(connection) == 100

"""The exact path into a real PostgreSQL: behaviour that only a server can show."""

from __future__ import annotations

import logging
import traceback
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Literal

import psycopg
import pytest

from subscriber.apply.apply_batch import apply_batch
from subscriber.apply.exact import ExactApplier
from subscriber.base.errors import (
    AlreadyRunning,
    ConflictError,
    TargetRelationError,
    TargetUnavailable,
    UnsupportedValue,
)
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.changes import Frame
from subscriber.postgres.schema.shape import SequencePosition
from subscriber.postgres.types.registry import family_of
from subscriber.targets import open_target
from tests.appliers import obeying
from tests.conftest import fresh_database
from tests.crash.harness import wait_until
from tests.failures import applied_before
from tests.frames import OIDS, frame, relation, transaction, values
from tests.target_databases import set_sequence

START, END = LSN(100), LSN(1000)
SECRET = "sec" + "ret"  # tracebacks quote source lines
T = relation("public.t", {"a": "int4", "b": "text"}, ["a"])


@pytest.fixture
def database(postgresql18):
    yield from fresh_database(postgresql18)


@pytest.fixture
def target(database):
    with open_target(database.url) as opened:
        with opened.begin() as connection:
            CATALOG.create_all(connection)
            OriginProgress(1).create(connection, START)
        yield opened


@pytest.fixture
def apply(target):
    applier = ExactApplier(target, subscription="sub", subid=1)

    def call(relations, *messages, end=END, start=START, before=None, text=True, binary=()):
        frames = [frame(relations, messages, text=text, binary=binary)]
        return applier.apply(frames, start=LSN(start), end=LSN(end), before=before)

    return call


def insert(*texts: str | m.Absence | None, into: int = 16384) -> m.Insert:
    return m.Insert(into, values(*texts))


def test_changes_reach_the_table(apply, database):
    """C7-C9, C18: executemany counts the rows it found"""
    database.execute("CREATE TABLE t (b text, a int PRIMARY KEY, own text DEFAULT 'mine')")
    result = apply(
        [T],
        *transaction(
            200,
            *(insert(str(number), "x") for number in range(5)),
            m.Update(16384, None, None, values("0", m.UNCHANGED)),
            m.Update(16384, None, None, values("1", None)),
            m.Update(16384, None, None, values("77", None)),
            m.Update(16384, "K", values("2", None), values("20", "moved")),
            *(m.Delete(16384, "K", values(key, None)) for key in ("3", "88", "99")),
        ),
    )
    assert database.execute("SELECT a, b, own FROM t ORDER BY a") == [
        (0, "x", "mine"),
        (1, None, "mine"),
        (4, "x", "mine"),
        (20, "moved", "mine"),
    ]
    assert result.conflicts == {"update_missing": 1, "delete_missing": 2}
    assert result.changes == 12


VALUES = {
    "bool": ["t", "f"],
    "int2": ["-32768"],
    "int8": ["9223372036854775807"],
    "float4": ["0.1", "NaN", "-Infinity", "1e-45"],
    "float8": ["5e-324", "-0", "Infinity", "NaN"],
    "numeric": ["NaN", "Infinity", "1.50", "0.000", "123456789012345678901234567890.123456789"],
    "text": ["", "007", "é%s:x\\", "'"],
    "bytea": ["\\x", "\\x00ff27"],
    "date": ["infinity", "0044-03-15 BC", "294276-12-31"],
    "time": ["24:00:00", "00:00:00.000001"],
    "timestamp": ["-infinity", "4713-01-01 00:00:00 BC", "2026-11-21 01:02:03.000004"],
    "timestamptz": ["infinity", "2026-11-21 01:02:03+00"],
    "interval": ["-1 days +02:03:00", "1 year 2 mons -3 days", "00:00:00"],
    "uuid": ["12345678-1234-1234-1234-123456789012"],
    "json": ['{"a":  1}', "7"],
    "jsonb": ['{"a": 1}'],
    "int4[]": ["{}", "{1,NULL}", "[0:1]={1,2}"],
}


@pytest.mark.parametrize("text", [True, False], ids=["text", "arrow"])
@pytest.mark.parametrize("type_name", sorted(VALUES))
def test_the_server_reads_its_own_text(apply, database, type_name, text):
    """C5: as text, and as the decoders' output (binary streams)"""
    database.execute(f"CREATE TABLE v (k int PRIMARY KEY, v {type_name})")
    remote = relation("public.v", {"k": "int4", "v": type_name}, ["k"])
    numbered = list(enumerate(VALUES[type_name]))
    apply([remote], *transaction(200, *(insert(str(k), v) for k, v in numbered), insert("-1", None)), text=text)
    literals = ", ".join(f"({k}, $v${v}$v$::{type_name})" for k, v in numbered)
    differing = database.execute(
        f"SELECT k FROM v FULL JOIN (VALUES {literals}, (-1, NULL)) w (k, v) USING (k)"
        " WHERE v.v::text IS DISTINCT FROM w.v::text"
    )
    assert differing == []
    assert family_of(OIDS[type_name]).arrow_type


def test_any_name_is_only_a_name(apply, database):
    """names_are_data"""
    names = ["%s", ":p0", 'q"q', ") VALUES (", "p0", "ctid%", "select"]
    quoted = ", ".join('"' + name.replace('"', '""') + '" text' for name in names)
    database.execute('CREATE SCHEMA "s.%(x)s"')
    database.execute(f'CREATE TABLE "s.%(x)s"."t;--" (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, {quoted})')
    remote = relation("s.%(x)s.t;--", {"id": "int4", **dict.fromkeys(names, "text")}, ["id"])
    empty = [""] * len(names)
    apply(
        [remote],
        *transaction(200, insert("1", *names), insert("2", *empty), m.Update(16384, None, None, values("2", *names))),
    )
    assert database.execute('SELECT * FROM "s.%(x)s"."t;--" ORDER BY id') == [(1, *names), (2, *names)]


def test_one_of_several_equal_rows_is_changed(apply, database):
    """C14-C16"""
    database.execute("CREATE TABLE u (a int, b text, own text)")
    database.execute("INSERT INTO u VALUES (1, NULL), (1, NULL), (1, NULL), (2, 'x')")
    database.execute("UPDATE u SET own = 'own' WHERE a = 2")
    remote = relation("public.u", {"a": "int4", "b": "text"}, identity="f")
    changes: list[m.Message] = [
        m.Update(16384, "O", values("1", None), values("5", None)),
        m.Delete(16384, "O", values("1", None)),
        m.Delete(16384, "O", values("2", "x")),
    ]
    # The rows were written by a local session, and the server records that (C18).
    assert apply([remote], *transaction(200, *changes)).conflicts == {
        "update_origin_differs": 1,
        "delete_origin_differs": 1,
        "delete_missing": 1,
    }
    assert database.execute("SELECT a FROM u ORDER BY a") == [(1,), (2,), (5,)]


def test_a_local_replica_identity_index_goes_before_the_primary_key(apply, database):
    """C11"""
    database.execute("CREATE TABLE t (id int PRIMARY KEY DEFAULT 0, a int NOT NULL UNIQUE, b text)")
    database.execute("ALTER TABLE t REPLICA IDENTITY USING INDEX t_a_key")
    change = m.Update(16384, None, None, values("1", "y"))
    apply([T], *transaction(200, insert("1", "x"), change))
    assert database.execute("SELECT a, b FROM t") == [(1, "y")]


def test_triggers_and_foreign_keys_do_not_act(apply, database):
    """C23"""
    database.execute("CREATE TABLE p (a int PRIMARY KEY)")
    database.execute("CREATE TABLE t (a int PRIMARY KEY REFERENCES p, b text)")
    database.execute(
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.b := TG_NAME; RETURN NEW; END'"
    )
    for name in ("ordinary", "replica"):
        database.execute(f"CREATE TRIGGER {name} BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()")
    database.execute("ALTER TABLE t ENABLE REPLICA TRIGGER replica")
    apply([T], *transaction(200, insert("1", "x")))
    assert database.execute("SELECT * FROM t") == [(1, "replica")]


def test_a_role_that_may_not_be_replica_is_told_so_once(postgresql18, database, caplog):
    """C23"""
    database.execute("CREATE ROLE plain LOGIN")
    database.execute("GRANT CREATE ON SCHEMA public TO plain")
    try:
        url = database.url.replace("//postgres", "//plain")
        assert "plain" in url
        with caplog.at_level(logging.WARNING), open_target(url) as target:
            for _ in range(2):
                with target.begin() as connection:
                    connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS public.mine (a int)")
        assert caplog.text.count("may not set session_replication_role") == 1
    finally:
        database.execute("DROP OWNED BY plain")
        database.execute("DROP ROLE plain")


def test_truncate_is_restricted_and_leaves_children_alone(apply, database):
    """C29, C30"""
    database.execute("CREATE TABLE t (a serial PRIMARY KEY, b text)")
    database.execute("CREATE TABLE child () INHERITS (t)")
    database.execute("INSERT INTO t (b) VALUES ('x')")
    database.execute("INSERT INTO child VALUES (9, 'x')")
    truncate = m.Truncate((16384,), cascade=True, restart_identity=True)
    apply([T], *transaction(200, truncate), end=200)
    assert database.execute("SELECT a FROM t") == [(9,)]
    assert database.execute("SELECT nextval('t_a_seq')") == [(1,)]
    database.execute("CREATE TABLE referring (a int REFERENCES t)")
    with pytest.raises(TargetRelationError, match="cannot truncate a table referenced in a foreign key constraint"):
        apply([T], *transaction(300, truncate), start=200, end=300)


def test_a_partitioned_table_is_a_target(apply, database):
    """C26, C27, C29"""
    database.execute("CREATE TABLE t (a int PRIMARY KEY, b text) PARTITION BY RANGE (a)")
    database.execute("CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (10)")
    database.execute("CREATE TABLE high PARTITION OF t FOR VALUES FROM (10) TO (20)")
    move = m.Update(16384, "K", values("1", None), values("11", "x"))
    apply([T], *transaction(200, insert("1", "x"), insert("2", "x"), move), end=200)
    assert database.execute("SELECT tableoid::regclass::text, a FROM t ORDER BY a") == [("low", 2), ("high", 11)]
    apply([T], *transaction(300, m.Truncate((16384,), False, False)), start=200)
    assert database.execute("SELECT count(*) FROM t") == [(0,)]


@pytest.mark.parametrize(
    ("ddl", "kind", "sqlstate", "message"),
    [
        ("b text UNIQUE", ConflictError, "23505", 'conflict detected on relation "public.t": conflict=insert_exists'),
        (
            "b text CHECK (b = '')",
            ConflictError,
            "23514",
            'new row for relation "t" violates check constraint "t_b_check"',
        ),
        ("b varchar(2)", UnsupportedValue, "22001", "value too long for type character varying(2)"),
        ("b int", UnsupportedValue, "22P02", "invalid input syntax for the column's type"),
    ],
)
def test_a_refused_value_is_reported_without_the_value(apply, database, ddl, kind, sqlstate, message):
    """C22, C37, names_are_data"""
    database.execute(f"CREATE TABLE t (a int PRIMARY KEY, {ddl})")
    with pytest.raises(kind) as raised:
        apply([T], *transaction(200, xid=5), *transaction(300, insert("1", SECRET), insert("2", SECRET)))
    error = raised.value
    assert (error.sqlstate, error.message, error.relation) == (sqlstate, message, "public.t")
    assert applied_before(error) == 200
    assert 'during message type "INSERT" for replication target relation "public.t"' in str(error.context)
    assert str(error.context).endswith("in transaction 731, finished at 0/124")
    assert SECRET not in "".join(traceback.format_exception(error)) + error.report()
    assert database.execute("SELECT remote_lsn FROM subscriber_replication_origin_status") == [("0/64",)]


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        (
            "CREATE DOMAIN short AS text CONSTRAINT two CHECK (length(value) < 3); CREATE TABLE t (a int PRIMARY KEY, b short)",
            'value for domain short violates check constraint "two"',
        ),
        (
            "CREATE TABLE t (a int PRIMARY KEY, b text) PARTITION BY RANGE (a)",
            'no partition of relation "t" found for row',
        ),
        (
            "CREATE TABLE p (a int, b text) PARTITION BY RANGE (a); CREATE TABLE t PARTITION OF p FOR VALUES FROM (5) TO (9)",
            'new row for relation "t" violates partition constraint',
        ),
    ],
)
def test_a_check_of_a_domain_or_partition_is_named_as_postgresql_names_it(apply, database, ddl, message):
    """C37: without the value"""
    database.execute(ddl)
    with pytest.raises(ConflictError) as raised:
        apply([T], *transaction(200, insert("1", SECRET)))
    assert (raised.value.sqlstate, raised.value.message) == ("23514", message)
    assert SECRET not in raised.value.report()


def test_the_length_of_an_array_s_elements_is_not_that_of_its_text(apply, database):
    """C5"""
    database.execute("CREATE TABLE t (a int PRIMARY KEY, b char(3)[])")
    apply([T], *transaction(200, insert("1", "{a,bcd}")))
    assert database.execute("SELECT b FROM t") == [(["a  ", "bcd"],)]


def test_a_value_that_the_column_cannot_read_names_the_column(apply, database):
    """C37"""
    database.execute("CREATE TABLE t (b int, a int PRIMARY KEY)")
    for change in (insert("1", SECRET), m.Update(16384, "K", values("1", None), values("2", SECRET))):
        with pytest.raises(UnsupportedValue) as raised:
            apply([T], *transaction(200, change))
        assert raised.value.column == "b"
        assert 'relation "public.t" column "b" in transaction' in str(raised.value.context)


def test_a_binary_value_that_the_column_does_not_read_stops_its_transaction(apply, database):
    """C5, C35: with the message of PostgreSQL 18; the transaction before it is applied, because
    NULL fits every type.
    """
    database.execute("CREATE TABLE t (a int PRIMARY KEY, b bigint)")
    remote = relation("public.t", {"a": "int4", "b": "int4"}, ["a"])
    messages = [*transaction(200, insert("1", None)), *transaction(300, insert("2", "8765"))]
    with pytest.raises(UnsupportedValue, match=r"^insufficient data left in message$") as raised:
        apply([remote], *messages, binary=("a", "b"))
    error = raised.value
    assert (error.sqlstate, error.relation, error.column, error.lsn) == ("08P01", "public.t", "b", LSN(292))
    assert "SET (binary = false)" in str(error.hint)
    assert "8765" not in error.report()
    assert applied_before(error) == LSN(200)
    apply([remote], *messages, end=LSN(200), before=LSN(200), binary=("a", "b"))
    assert database.execute("SELECT * FROM t") == [(1, None)]
    apply([remote], *messages, start=LSN(200), binary=("a",))
    assert database.execute("SELECT * FROM t WHERE a = 2") == [(2, 8765)]


def test_an_old_row_in_binary_form_is_read_whole(apply, database):
    """C5, C8: the native worker reads the whole old row before it searches the row by its key."""
    database.execute("CREATE TABLE t (a int PRIMARY KEY, b bigint); INSERT INTO t VALUES (1, 7), (2, NULL)")
    remote = relation("public.t", {"a": "int4", "b": "int4"}, identity="f")
    apply([remote], *transaction(200, m.Delete(16384, "O", values("2", None))), end=LSN(200), binary=("a", "b"))
    assert database.execute("SELECT a FROM t") == [(1,)]
    delete = m.Delete(16384, "O", values("1", "7"))
    with pytest.raises(UnsupportedValue, match="insufficient data"):
        apply([remote], *transaction(300, delete), start=LSN(200), binary=("a", "b"))


def test_a_switched_off_binary_converts_what_is_in_the_journal_already(target, database):
    """C5, C39: PostgreSQL requests the values again, as text."""
    database.execute("CREATE TABLE t (a int PRIMARY KEY, b bigint)")
    remote = relation("public.t", {"a": "int4", "b": "int4"}, ["a"])
    applier = ExactApplier(target, subscription="sub", subid=1, read_rules=lambda _: obeying(binary=False))
    frames = [frame([remote], transaction(200, insert("2", "5")), text=True, binary=("a", "b"))]
    applier.apply(frames, start=START, end=END)
    assert database.execute("SELECT * FROM t") == [(2, 5)]


def test_a_null_names_its_column(apply, database):
    database.execute("CREATE TABLE t (a int PRIMARY KEY, b text NOT NULL)")
    with pytest.raises(ConflictError, match='null value in column "b" of relation "t" violates not-null') as raised:
        apply([T], *transaction(200, insert("1", None)))
    assert 'relation "public.t" column "b" in transaction' in str(raised.value.context)


def test_missing_and_generated_columns_and_kinds(apply, database):
    """C3"""
    database.execute("CREATE TABLE t (a int PRIMARY KEY)")
    with pytest.raises(TargetRelationError, match='is missing replicated column: "b"'):
        apply([T], *transaction(200, insert("1", "x")))
    for clause in ("STORED", "VIRTUAL"):
        database.execute("DROP TABLE t")
        database.execute(f"CREATE TABLE t (a int PRIMARY KEY, b text GENERATED ALWAYS AS ('x') {clause})")
        with pytest.raises(TargetRelationError, match='has incompatible generated column: "b"'):
            apply([T], *transaction(200, insert("1", "x")))
    database.execute("DROP TABLE t")
    database.execute("CREATE VIEW t AS SELECT 1 AS a, 'x' AS b")
    with pytest.raises(TargetRelationError, match=r'cannot use relation "public\.t" as logical replication target'):
        apply([T], *transaction(200, insert("1", "x")))


def test_a_runner_whose_lock_was_lost_ends_well(target, database):
    """The server was restarted, for instance: the lock ended with its session."""
    with target.running():
        database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_database d ON d.oid = database"
            " WHERE locktype = 'advisory' AND datname = current_database()"
        )
    with target.running(), open_target(database.url) as other, pytest.raises(AlreadyRunning), other.running():
        pass


def test_a_server_that_is_not_there_is_unavailable():
    """The message has libpq's reason."""
    target = open_target("postgresql://nobody:secret@127.0.0.1:1/none")
    with pytest.raises(TargetUnavailable) as raised, target.begin():
        pass
    assert "refused" in str(raised.value.detail)
    assert "secret" not in raised.value.report()


def test_a_lost_connection_is_to_be_tried_again(target, apply, database):
    """any_crash: the next attempt gets a new connection"""
    database.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
    with pytest.raises(TargetUnavailable) as raised, target.begin() as connection:
        pid = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        database.execute(f"SELECT pg_terminate_backend({pid})")
        connection.exec_driver_sql("SELECT 1")
    assert raised.value.transient
    assert apply([T], *transaction(200, insert("1", "x"))).changes == 1


def test_the_sequences_of_a_column_go_on_as_the_publishers(target, database):
    """D14: identity, serial, and the sequence of a default; in any schema, with any name"""
    database.execute(
        'CREATE SCHEMA "S x"; CREATE SEQUENCE "S x"."sha%red"; CREATE TABLE "S x"."T" (i int GENERATED ALWAYS AS IDENTITY,'
        ' s serial, d int DEFAULT 1 + nextval(\'"S x"."sha%red"\'), n int)'
    )
    position = SequencePosition(last_value=41, is_called=True)
    with target.begin() as connection:
        table = target.shapes.reflect(connection, "S x", "T")
        assert [set_sequence(target, connection, table, column, position) for column in "isdn"] == [
            True,
            True,
            True,
            False,
        ]
    assert database.execute('INSERT INTO "S x"."T" (n) VALUES (1) RETURNING i, s, d') == [(42, 42, 43)]


def test_a_target_knows_whether_it_is_a_database(target, database):
    """C54: a subscription of a database to itself is refused"""
    identifier = database.execute("SELECT system_identifier::text FROM pg_control_system()")[0][0]
    with target.begin() as connection:
        assert target.cluster.has_database(connection, identifier, database.name)
        assert not target.cluster.has_database(connection, identifier, "another")
        assert not target.cluster.has_database(connection, "7", database.name)


def test_names_without_a_schema_find_nothing_of_the_users(apply, database):
    """C23: the search_path is empty for triggers and defaults; the catalog's tables are found
    nevertheless
    """
    database.execute("CREATE TABLE t (a int PRIMARY KEY, b text DEFAULT current_setting('search_path'))")
    database.execute(
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM 1 FROM t; RETURN NULL; END$$"
    )
    shape = relation("public.t", {"a": "int4"}, ["a"])
    apply([shape], *transaction(200, insert("1")), end=200)
    assert database.execute("SELECT * FROM t") == [(1, "")]
    database.execute("CREATE TRIGGER always AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()")
    database.execute("ALTER TABLE t ENABLE ALWAYS TRIGGER always")
    with pytest.raises(TargetRelationError, match='relation "t" does not exist'):
        apply([shape], *transaction(300, insert("2")), start=200, end=300)


def test_a_deferrable_key_finds_no_rows(apply, database):
    """C12, C13: as up to PostgreSQL 16; newer versions count every row as missing, and lose the
    changes
    """
    database.execute("CREATE TABLE t (a int PRIMARY KEY DEFERRABLE, b text)")
    with pytest.raises(TargetRelationError, match="neither REPLICA IDENTITY index nor PRIMARY KEY") as raised:
        apply([T], *transaction(200, insert("1", "x")), *transaction(300, m.Delete(16384, "K", values("1", None))))
    assert applied_before(raised.value) == 200
    full = relation("public.t", {"a": "int4", "b": "text"}, identity="f")
    apply([full], *transaction(400, insert("1", "x"), m.Delete(16384, "O", values("1", "x")), insert("2", "y")))
    assert database.execute("SELECT a FROM t") == [(2,)]


def test_row_security_that_is_effective_for_our_role_is_refused(postgresql18, database):
    """C24: with PostgreSQL's text, for every kind of change; the policies would hide rows without
    any message
    """
    database.execute("CREATE ROLE guest LOGIN")
    try:
        database.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
        database.execute("GRANT ALL ON t TO guest")
        database.execute("GRANT CREATE ON SCHEMA public TO guest")
        with open_target(database.url.replace("//postgres", "//guest")) as target, target.begin() as connection:
            CATALOG.create_all(connection)
            OriginProgress(1).create(connection, START)
            assert target.shapes.reflect(connection, "public", "t") is not None
        database.execute("ALTER TABLE t ENABLE ROW LEVEL SECURITY")
        with open_target(database.url.replace("//postgres", "//guest")) as target:
            applier = ExactApplier(target, subscription="sub", subid=1)
            for change in (insert("1", "x"), m.Truncate((16384,), cascade=False, restart_identity=False)):
                with pytest.raises(TargetRelationError) as raised:
                    applier.apply([frame([T], transaction(200, change), text=True)], start=START, end=END)
                assert raised.value.message == (
                    'user "guest" cannot replicate into relation with row-level security enabled: "t"'
                )
                assert raised.value.sqlstate == "0A000"
    finally:
        database.execute("DROP OWNED BY guest")
        database.execute("DROP ROLE guest")


def test_one_of_the_equal_rows_of_a_partitioned_table_is_changed(apply, database):
    """C16, C26: rows of two partitions may have the same ctid"""
    database.execute("CREATE TABLE t (a int, b text) PARTITION BY RANGE (a)")
    database.execute("CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (10)")
    database.execute("CREATE TABLE high PARTITION OF t FOR VALUES FROM (10) TO (20)")
    database.execute("INSERT INTO t VALUES (1, 'x'), (1, 'x'), (11, 'x'), (11, 'x')")
    full = relation("public.t", {"a": "int4", "b": "text"}, identity="f")
    update = m.Update(16384, "O", values("1", "x"), values("12", "x"))
    apply([full], *transaction(200, m.Delete(16384, "O", values("11", "x")), update))
    assert database.execute("SELECT a FROM t ORDER BY a") == [(1,), (11,), (12,)]


def test_a_row_in_the_way_is_found_where_it_has_the_ctid_of_the_row_that_is_changed(target, database):
    """C16, C22, C26: a row is identified by its partition and its ctid together"""
    database.execute("CREATE TABLE t (a int, b text, UNIQUE (a, b)) PARTITION BY RANGE (a)")
    database.execute("CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (10)")
    database.execute("CREATE TABLE high PARTITION OF t FOR VALUES FROM (10) TO (20)")
    database.execute("INSERT INTO t VALUES (1, 'x'), (11, 'y')")
    assert database.execute("SELECT DISTINCT ctid::text FROM t") == [("(0,1)",)]
    full = relation("public.t", {"a": "int4", "b": "text"}, identity="f")
    move = m.Update(16384, "O", values("1", "x"), values("11", "y"))
    applier = ExactApplier(target, subscription="sub", subid=1)

    def read():
        return [frame([full], transaction(200, move))]

    with pytest.raises(ConflictError, match=r'relation "public.high": conflict=update_exists') as raised:
        apply_batch(applier, read, START, END)
    assert 'unique index "high_a_b_key", modified locally in transaction' in str(raised.value.detail)


@pytest.fixture
def keyed_leaves(database):
    """Table t (own, a, b) with keys (a) on its partitions only. Row 1 is in both partitions; the
    publisher's row is in ``low``.
    """
    database.execute("CREATE TABLE t (own int, a int, b text) PARTITION BY LIST (lower(b))")
    database.execute("CREATE TABLE low PARTITION OF t (PRIMARY KEY (a)) FOR VALUES IN ('x', 'y')")
    database.execute("CREATE TABLE high PARTITION OF t DEFAULT PARTITION BY RANGE (a)")
    database.execute("CREATE TABLE top PARTITION OF high (PRIMARY KEY (a)) DEFAULT")
    database.execute("INSERT INTO t VALUES (7, 1, 'X'), (8, 1, 'Z'), (9, 2, 'Z')")
    return database


def test_a_row_is_found_by_the_key_of_its_partition_where_the_whole_table_has_none(apply, keyed_leaves):
    """C11, C12, C16, C26: so that a column that only the target has does not hide the row (C15);
    the key is unique in one partition only
    """
    full = relation("public.t", {"a": "int4", "b": "text"}, identity="f")
    stay = m.Update(16384, "O", values("1", "x"), values("1", "Y"))
    move = m.Update(16384, "O", values("2", "other"), values("3", "x"))
    result = apply([full], *transaction(200, stay, move, m.Delete(16384, "O", values("2", "other"))), end=200)
    assert result.conflicts == {"update_origin_differs": 2, "delete_missing": 1}
    rows = "SELECT tableoid::regclass::text, own, a, b FROM t ORDER BY own"
    assert keyed_leaves.execute(rows) == [("low", 7, 1, "Y"), ("top", 8, 1, "Z"), ("low", 9, 3, "x")]


def test_a_partitions_key_finds_nothing_where_the_partition_is_not_told(apply, keyed_leaves):
    """C8, C12, C26: the new row determines the partition, a key does not. PostgreSQL's worker takes
    missing values for NULL, and finds no row
    """
    apply([T], *transaction(200, m.Update(16384, None, None, values("1", "y"))), end=200)
    assert keyed_leaves.execute("SELECT own FROM t WHERE b = 'y'") == [(7,)]
    with pytest.raises(TargetRelationError, match="has neither REPLICA IDENTITY index nor PRIMARY KEY") as raised:
        apply([T], *transaction(300, m.Delete(16384, "K", values("1", None))), start=200)
    assert "Only its partitions have keys" in str(raised.value.detail)


def test_a_key_has_the_names_that_its_columns_have_now(apply, database):
    """C11: an index keeps the names that its columns had when it was created"""
    database.execute("CREATE TABLE t (old int PRIMARY KEY, b text)")
    database.execute("ALTER TABLE t RENAME old TO a")
    apply([T], *transaction(200, insert("1", "x"), m.Update(16384, None, None, values("1", "y"))))
    assert database.execute("SELECT a, b FROM t") == [(1, "y")]


@pytest.mark.parametrize("identity", ["d", "f"])
def test_rows_of_tables_that_inherit_are_others(apply, database, identity):
    """C14, C16: PostgreSQL's worker opens only the named table"""
    database.execute(f"CREATE TABLE t (a int {'PRIMARY KEY' if identity == 'd' else ''}, b text)")
    database.execute("CREATE TABLE child () INHERITS (t)")
    database.execute("INSERT INTO child VALUES (1, 'x'), (2, 'x'), (3, 'x')")
    shape = relation("public.t", {"a": "int4", "b": "text"}, ["a"], identity=identity)
    kind: Literal["K", "O"] = "K" if identity == "d" else "O"
    changes = (
        insert("1", "x"),
        insert("2", "x"),
        m.Update(16384, kind, values("1", "x"), values("1", "y")),
        m.Delete(16384, kind, values("2", "x")),
        m.Delete(16384, kind, values("3", "x")),
    )
    assert apply([shape], *transaction(200, *changes)).conflicts == {"delete_missing": 1}
    assert database.execute("SELECT * FROM ONLY t") == [(1, "y")]
    assert database.execute("SELECT * FROM child ORDER BY a") == [(1, "x"), (2, "x"), (3, "x")]


def test_a_rule_that_would_rewrite_changes_is_refused(apply, database):
    """C23: PostgreSQL's worker ignores all rules; a statement ignores those that are not for
    replicas
    """
    database.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
    database.execute("CREATE RULE away AS ON INSERT TO t DO INSTEAD NOTHING")
    apply([T], *transaction(200, insert("1", "x")), end=200)
    database.execute("ALTER TABLE t ENABLE ALWAYS RULE away")
    with pytest.raises(TargetRelationError, match='its rule "away" acts on replicated changes'):
        apply([T], *transaction(300, insert("2", "x")), start=200)
    assert database.execute("SELECT a FROM t") == [(1,)]


def test_a_row_that_a_trigger_leaves_as_it_is_is_not_missing(apply, database):
    """C18, C23"""
    database.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
    database.execute("INSERT INTO t VALUES (1, 'x'), (2, 'x')")
    database.execute("CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
    database.execute("CREATE TRIGGER kept BEFORE UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION f()")
    database.execute("ALTER TABLE t ENABLE REPLICA TRIGGER kept")
    updates = [m.Update(16384, "K", values(a, None), values(a, "y")) for a in "123"]
    deletes = [m.Delete(16384, "K", values(a, None)) for a in "12345"]
    conflicts = apply([T], *transaction(200, *updates, *deletes)).conflicts
    assert {kind: n for kind, n in conflicts.items() if "missing" in kind} == {"update_missing": 1, "delete_missing": 3}


OWN_TYPE = """CREATE SCHEMA ext;
CREATE TYPE ext.ci;
CREATE FUNCTION ext.i(cstring) RETURNS ext.ci LANGUAGE internal IMMUTABLE STRICT AS 'textin';
CREATE FUNCTION ext.o(ext.ci) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout';
CREATE TYPE ext.ci (INPUT = ext.i, OUTPUT = ext.o, LIKE = pg_catalog.text);
CREATE CAST (ext.ci AS text) WITHOUT FUNCTION AS IMPLICIT;
CREATE FUNCTION ext.cmp(ext.ci, ext.ci) RETURNS int LANGUAGE sql IMMUTABLE STRICT AS 'SELECT bttextcmp(lower($1), lower($2))';
CREATE FUNCTION ext.eq(ext.ci, ext.ci) RETURNS bool LANGUAGE sql IMMUTABLE STRICT AS 'SELECT lower($1) = lower($2)';
CREATE OPERATOR ext.= (LEFTARG = ext.ci, RIGHTARG = ext.ci, FUNCTION = ext.eq);
CREATE OPERATOR CLASS ext.ci_ops DEFAULT FOR TYPE ext.ci USING btree AS OPERATOR 3 ext.=, FUNCTION 1 ext.cmp(ext.ci, ext.ci)"""
"""A type that behaves like citext, which not every installation has; it cannot be ordered."""


def test_values_of_an_extensions_type_are_equal_if_the_type_says_so(apply, database):
    """C13, C14: by the operator of the type's operator class, whatever the search_path"""
    database.execute(OWN_TYPE)
    database.execute("CREATE TABLE t (a ext.ci PRIMARY KEY, b text)")
    database.execute("CREATE DOMAIN ours AS ext.ci; CREATE TABLE u (a ours, b text)")
    database.execute("INSERT INTO t VALUES ('One', 'x'); INSERT INTO u VALUES ('One', 'x'), (NULL, 'x')")
    keyed = relation("public.t", {"a": "text", "b": "text"}, ["a"])
    whole = relation("public.u", {"a": "text", "b": "text"}, identity="f", oid=16385)
    changes = (
        m.Update(16384, None, None, values("ONE", "y")),
        m.Update(16385, "O", values("oNE", "x"), values("two", "y")),
        m.Delete(16385, "O", values(None, "x")),
    )
    assert "update_missing" not in apply([keyed, whole], *transaction(200, *changes), end=200).conflicts
    assert database.execute("SELECT * FROM t") == [("ONE", "y")]
    assert database.execute("SELECT * FROM u") == [("two", "y")]


COMPARED = {
    "n": ("numeric", "numeric(10,1)", "1.04"),
    "l": ("numeric[]", "numeric(10,1)[]", "{1.04,NULL}"),
    "d": ("numeric", "tenths", "2.26"),
    "v": ("text", "varchar(3)", "abc  "),
    "t": ("timestamp", "timestamp(0)", "2020-02-03 04:05:06.7"),
    "i": ("interval", "interval(1)", "1 day 00:00:01.26"),
    "p": ("text", 'pairs."a%s"', "(1,x)"),
    "r": ("text", "regclass", "pg_class"),
}


@pytest.mark.parametrize("identity", ["d", "f"])
def test_values_are_compared_as_the_column_would_have_them(apply, database, identity):
    """C5, C8, C14: the column's input function makes the search tuple, with the column's scale"""
    database.execute("CREATE DOMAIN tenths AS numeric(4,1); CREATE DOMAIN more AS tenths; CREATE SCHEMA pairs")
    database.execute('CREATE TYPE pairs."a%s" AS (x int, y text)')
    declared = ", ".join(f"{name} {sql}" for name, (_, sql, _) in COMPARED.items())
    key = f", PRIMARY KEY ({', '.join(COMPARED)})" if identity == "d" else ""
    database.execute(f"CREATE TABLE t ({declared}, m more, b int{key})")
    types = {name: kind for name, (kind, _, _) in COMPARED.items()} | {"m": "numeric", "b": "int4"}
    shape = relation("public.t", types, list(COMPARED), identity=identity)
    row = [text for _, _, text in COMPARED.values()] + ["7.77"]
    kind: Literal["K", "O"] = "K" if identity == "d" else "O"
    update = m.Update(16384, kind, values(*row, "1"), values(*row, "2"))
    assert apply([shape], *transaction(200, insert(*row, "1"), update)).conflicts == {}
    assert database.execute("SELECT b, n::text, m::text, r::text FROM t") == [(2, "1.0", "7.8", "pg_class")]


def test_what_is_set_for_peoples_sessions_does_not_hold_for_ours(target, apply, database):
    """C23: as for PostgreSQL's worker, apart from its time zone, which defaults and triggers see"""
    database.execute(
        "CREATE TABLE t (a int PRIMARY KEY, b text, at timestamp DEFAULT timestamptz '2020-02-03 04:05:06+00')"
    )
    for setting in (
        "statement_timeout = '5min'",
        "idle_in_transaction_session_timeout = '1min'",
        "idle_session_timeout = '1min'",
        "synchronous_commit = off",
        "timezone = 'Asia/Kolkata'",
        "datestyle = 'SQL, DMY'",
        "default_transaction_read_only = on",
    ):
        database.execute(f'ALTER DATABASE "{database.name}" SET {setting}')
    target.engine.dispose()
    apply([T], *transaction(200, insert("1", "x")))
    assert database.execute("SELECT at::text FROM t") == [("03/02/2020 09:35:06",)]
    with target.begin() as connection:
        shown = [
            connection.exec_driver_sql(f"SHOW {name}").scalar_one()
            for name in ("statement_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout")
        ]
        assert shown == ["0", "0", "0"]
        # The journal is trimmed after a commit, so the commit must be on disk.
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar_one() == "local"


def one_frame(history: list[m.Message]) -> list[Frame]:
    return [frame([T], history, text=True)]


def test_what_is_refused_at_commit_stops_at_its_own_transaction(target, database):
    """C35, C37: the transactions before it are committed, and the error has the LSN that SKIP
    takes
    """
    database.execute("CREATE TABLE t (a int PRIMARY KEY, b text CHECK (b <> 'worse'))")
    database.execute(
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$BEGIN IF NEW.b = 'bad' THEN RAISE '{SECRET}'; END IF; RETURN NULL; END$$"
    )
    database.execute(
        "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION f()"
    )
    database.execute("ALTER TABLE t ENABLE ALWAYS TRIGGER late")
    applier = ExactApplier(target, subscription="sub", subid=1)
    for last in ("x", "worse"):
        rows = ["x", "x", "x", "x", "bad", "x", last]
        history = [
            message
            for number, b in enumerate(rows)
            for message in transaction(200 + 50 * number, insert(str(number), b), xid=700 + number)
        ]
        for _ in range(2):
            with pytest.raises(ConflictError, match="a trigger of the target refused the change") as raised:
                apply_batch(applier, partial(one_frame, history), START, END)
            assert str(raised.value.context).endswith(
                'during message type "COMMIT" in transaction 704, finished at 0/188'
            )
            assert (raised.value.lsn, applied_before(raised.value)) == (0x188, 350)
            assert SECRET not in raised.value.report()
            assert database.execute("SELECT a FROM t ORDER BY a") == [(0,), (1,), (2,), (3,)]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SET TRANSACTION READ ONLY; CREATE TABLE public.x ()", "takes no writes: it is a standby, or read only"),
        ("SET LOCAL statement_timeout = '1ms'; SELECT pg_sleep(1)", "(statement canceled, SQLSTATE 57014)"),
    ],
)
def test_a_server_that_cannot_do_it_now_is_asked_again(target, statement, said):
    """C35: the error is transient, and has the reason"""
    with pytest.raises(TargetUnavailable) as raised, target.begin() as connection:
        connection.exec_driver_sql(statement)
    assert raised.value.message.endswith(said)


@pytest.mark.parametrize("identity", ["d", "f"])
def test_a_row_that_another_session_puts_back_is_found(apply, database, identity):
    """C18: PostgreSQL's worker searches again for a row that was deleted while it waited; this
    holds for a single change and for several
    """
    database.execute(f"CREATE TABLE t (a int {'PRIMARY KEY' if identity == 'd' else ''}, b text)")
    database.execute("INSERT INTO t SELECT i, 'x' FROM generate_series(1, 9) i")
    shape = relation("public.t", {"a": "int4", "b": "text"}, ["a"], identity=identity)
    waiting = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    for end, last, before, after in ((200, 1, "x", "y"), (300, 9, "y", "z")):
        database.execute(f"UPDATE t SET b = '{before}'")
        updates = [
            m.Update(16384, "O", values(str(a), before), values(str(a), after))
            if identity == "f"
            else m.Update(16384, None, None, values(str(a), after))
            for a in range(1, last + 1)
        ]
        with psycopg.connect(database.conninfo) as other, ThreadPoolExecutor(1) as pool:
            other.execute("DELETE FROM t WHERE a = 1")
            other.execute("INSERT INTO t VALUES (1, %s)", [before])
            applied = pool.submit(apply, [shape], *transaction(end, *updates), start=end - 100, end=end)
            wait_until(lambda: database.execute(waiting), "the change waits")
            other.commit()
            assert "update_missing" not in applied.result().conflicts
        assert database.execute(f"SELECT count(*) FROM t WHERE b = '{after}'") == [(last,)]

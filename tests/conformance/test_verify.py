"""``subscriber verify`` against real servers: what differs is found and repaired, and nothing else.

The target's tables are created by the subscription and filled by ``--repair`` itself, so these
tests also show that a repair writes every type as apply does.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa

from subscriber.base.errors import ApplyError, PublisherUnavailable, UsageError
from subscriber.base.lsn import LSN
from subscriber.catalog.schema_changes import Alteration, SchemaChanges, schema_changes_of, skipped_publication
from subscriber.commands.dispatch import run_command
from subscriber.commands.subscription_grammar import Query, parse
from subscriber.targets import open_target
from subscriber.verify import compare_tables, read_both_sides, verify_table
from subscriber.verify import repair_table as repairing
from subscriber.verify import verify_subscription as verify_module
from subscriber.verify.repair_table import repair_table
from subscriber.verify.report import VerifyOptions, VerifyProgress
from subscriber.verify.verify_subscription import TABLE_ATTEMPTS, verify_subscription
from tests.conftest import Database
from tests.subscribing import Session, a_role, with_role
from tests.target_databases import opened
from tests.verifying import IdleHold, counts, subscribe, verify

pytestmark = [pytest.mark.server, pytest.mark.slow]

KINDS = [
    "sqlite",
    "postgresql",
    pytest.param("mariadb", marks=pytest.mark.long),
    pytest.param("duckdb", marks=pytest.mark.long),
]

SCHEMA = """
CREATE TABLE typed (id bigint PRIMARY KEY, o bool, n numeric(20,6), m numeric, f float8, r real, d date, t timestamp,
  z timestamptz, c time, u uuid, y bytea, j jsonb, a int[], b char(6), v varchar(40), w text);
CREATE TABLE bag (a int, b text, c numeric(10,2));
CREATE TABLE parted (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE low PARTITION OF parted FOR VALUES FROM (MINVALUE) TO (4);
CREATE TABLE high PARTITION OF parted DEFAULT;
CREATE TABLE part (id int PRIMARY KEY, v text, secret text, g int GENERATED ALWAYS AS (id * 2) STORED);
CREATE TABLE vacant (id int PRIMARY KEY);
INSERT INTO typed SELECT n, n % 2 = 0, n * 1.5, n * 1.10, n / 3.0, n / 7.0, '2026-11-01'::date + n,
  '2026-11-01 01:02:03.5'::timestamp + n * '1 hour'::interval, '2026-11-01 01:02:03+02'::timestamptz, '01:02:03.4',
  md5(n::text)::uuid, decode(md5(n::text), 'hex'), '{"b": 1, "a": [1, null]}', ARRAY[n, NULL], 'ab', 'line' || chr(10),
  repeat('text ', n % 9) FROM generate_series(1, 300) n;
INSERT INTO typed (id, f, w) VALUES (-1, '-0', ''), (-2, 1e300, NULL), (-3, 12345.678, E'a\\\\b\\t"c"');
INSERT INTO bag VALUES (1, 'x', 1.5), (1, 'x', 1.5), (NULL, NULL, NULL), (2, '', 0);
INSERT INTO parted SELECT n, 'v' || n FROM generate_series(1, 9) n;
INSERT INTO part SELECT n, 'v' || n, 'secret' FROM generate_series(1, 20) n;
CREATE PUBLICATION p FOR TABLE typed, bag, parted, part (id, v) WHERE (id > 5), vacant
  WITH (publish_via_partition_root = true);
"""


@pytest.fixture(params=KINDS)
def session(request, publisher_database, tmp_path):
    publisher_database.execute(SCHEMA)
    with opened(request.param, request, tmp_path) as target:
        yield Session(target, publisher_database, str(tmp_path / "journal"))


def test_a_broken_a_missing_and_a_surplus_row_are_found_and_repaired(session):
    subscribe(session)
    filled = verify(session, repair=True)
    assert [one.error for one in filled.tables] == [None] * 5
    by_name = {one.table: one for one in filled.tables}
    assert {name: one.only_publisher for name, one in by_name.items()} == {
        "public.typed": 303, "public.bag": 4, "public.parted": 9, "public.part": 15, "public.vacant": 0,
    }  # fmt: skip
    assert filled.is_equal
    same = verify(session)
    assert [counts(one) for one in same.tables] == [(0, 0, 0)] * 5
    assert same.lsn is not None

    session.execute(
        "UPDATE typed SET w = 'broken' WHERE id = 3",
        "DELETE FROM typed WHERE id IN (4, -3)",
        "INSERT INTO typed (id, w) VALUES (9999, 'surplus')",
        "INSERT INTO bag (a, b, c) VALUES (1, 'x', 1.5)",
        "DELETE FROM bag WHERE a IS NULL",
        "UPDATE parted SET v = NULL WHERE id = 8",
        "INSERT INTO part (id, v) VALUES (1, 'v1')",
        "INSERT INTO vacant (id) VALUES (1)",
    )
    found = verify(session, show_values=True)
    assert not found.is_equal
    assert {one.table.removeprefix("public."): counts(one) for one in found.tables} == {
        "typed": (1, 2, 1), "bag": (0, 1, 1), "parted": (1, 0, 0), "part": (0, 0, 1), "vacant": (0, 0, 1),
    }  # fmt: skip
    typed = next(one for one in found.tables if one.table == "public.typed")
    assert typed.columns == ("w",)
    assert {(one.kind, one.key) for one in typed.keys} == {
        ("differing", ("3",)), ("only_publisher", ("4",)), ("only_publisher", ("-3",)), ("only_target", ("9999",)),
    }  # fmt: skip
    assert all(not one.keys for one in verify(session).tables)

    repaired = verify(session, repair=True)
    assert [one.error for one in repaired.tables] == [None] * 5
    assert {one.table.removeprefix("public."): one.repaired for one in repaired.tables} == {
        "typed": 4, "bag": 2, "parted": 1, "part": 1, "vacant": 1,
    }  # fmt: skip
    assert verify(session).is_equal
    assert session.rows("SELECT count(*) FROM bag WHERE a = 1") == [(2,)]


@pytest.mark.parametrize("session", ["sqlite"], indirect=True)
def test_a_published_table_that_the_subscription_does_not_have_is_a_note(session):
    subscribe(session)
    assert verify(session).notes == ()
    session.publisher.execute("CREATE TABLE late (a int); ALTER PUBLICATION p ADD TABLE late")
    note = "table public.late is published, but the subscription does not have it: ALTER SUBSCRIPTION s REFRESH PUBLICATION;"
    assert verify(session).notes == (note,)
    assert verify(session, tables=("bag",)).notes == ()


@pytest.mark.parametrize("session", ["sqlite"], indirect=True)
def test_tables_are_chosen_by_name_and_what_cannot_be_compared_has_an_error(session):
    session.publisher.execute("CREATE SCHEMA other; CREATE TABLE other.typed (id int PRIMARY KEY)")
    session.publisher.execute("ALTER PUBLICATION p ADD TABLE other.typed")
    subscribe(session, options=", map = 'other.typed => main.renamed'")
    with pytest.raises(UsageError, match='table "typed" belongs to several schemas') as error:
        verify(session, tables=("typed",))
    assert error.value.detail == "Its tables are: other.typed, public.typed."
    with pytest.raises(UsageError, match='table "nowhere" is not part of subscription "s"'):
        verify(session, tables=("nowhere",))
    with pytest.raises(UsageError, match='subscription "t" does not exist'):
        verify(session, name="t")
    (renamed, bag) = verify(session, tables=("other.typed", "bag")).tables
    assert (renamed.table, renamed.target_table, counts(renamed)) == ("other.typed", "main.renamed", (0, 0, 0))
    assert counts(bag) == (0, 4, 0)
    session.execute(
        "DROP TABLE bag", "UPDATE subscriber_subscription_rel SET srsubstate = 'd' WHERE srrelname = 'part'"
    )
    report = verify(session)
    errors = {one.table: one.error for one in report.tables if one.error}
    assert 'relation "public.bag" does not exist' in errors["public.bag"]
    assert errors["public.part"].startswith("ERROR:  not ready: state d")
    assert len(errors) == 2
    assert not report.is_equal


@pytest.mark.parametrize("session", ["sqlite"], indirect=True)
def test_a_table_that_may_differ_no_longer_does_when_it_is_found_to_be_equal(session):
    """A sample does not prove that."""
    subscribe(session)
    verify(session, repair=True)
    with session.target.begin() as connection:
        for table in ("typed", "bag"):
            reason = skipped_publication("p")
            note = Alteration(f"public.{table}", ("public", table), reason, difference="Rows are missing.", lsn=LSN(1))
            SchemaChanges(1, "s").record(connection, note)

    def differing() -> list[str]:
        with session.target.engine.connect() as connection:
            return [one.name for one in schema_changes_of(connection, 1) if one.differs]

    session.execute("DELETE FROM typed WHERE id = 3")
    verify(session, sample=1.0)
    assert differing() == ["typed", "bag"]
    verify(session)
    assert differing() == ["typed"]
    verify(session, repair=True)
    assert differing() == []


@pytest.mark.parametrize("session", ["sqlite"], indirect=True)
def test_what_was_read_in_a_lost_hold_is_read_again(session):
    subscribe(session)
    lost = ApplyError("the hold was lost")
    hold = IdleHold([lost, lost])
    assert counts(verify(session, hold=hold, tables=("bag",)).tables[0]) == (0, 4, 0)
    assert hold.holds == 3
    with pytest.raises(ApplyError, match="the hold was lost"):
        verify(session, hold=IdleHold([lost] * 3))


@pytest.mark.parametrize("session", ["sqlite"], indirect=True)
def test_a_table_that_is_truncated_after_the_snapshot_is_read_again_without_the_others(session):
    subscribe(session)
    for times, holds in ((TABLE_ATTEMPTS - 1, TABLE_ATTEMPTS), (TABLE_ATTEMPTS, TABLE_ATTEMPTS)):
        truncations = iter(range(times))

        def truncate(truncations=truncations):
            if next(truncations, None) is not None:
                session.publisher.execute("TRUNCATE bag; INSERT INTO bag VALUES (1, 'y', 1)")

        hold = IdleHold(on_snapshot=truncate)
        found = {table.table: table for table in verify(session, hold=hold, tables=("bag", "vacant")).tables}
        assert hold.holds == holds
        assert found["public.vacant"].is_equal
        if times < TABLE_ATTEMPTS:
            assert counts(found["public.bag"]) == (0, 1, 0)
        else:
            error = found["public.bag"].error or ""
            assert "was rewritten on the publisher since the snapshot" in error
            assert "Run `subscriber verify --table public.bag s` when" in error


@pytest.mark.parametrize("session", ["sqlite"], indirect=True)
def test_a_table_that_is_refreshed_before_its_hold_is_not_compared(session):
    """Its copy may have rows of another LSN."""
    subscribe(session)
    refresh = iter(["ALTER SUBSCRIPTION s REFRESH TABLE bag"])
    hold = IdleHold(on_snapshot=lambda: [session.run(command) for command in refresh])
    found = {table.table: table for table in verify(session, hold=hold, repair=True).tables}
    assert str(found["public.bag"].error).startswith("ERROR:  not ready: state i")
    assert session.rows("SELECT count(*) FROM bag") == [(0,)]
    assert found["public.part"].repaired == 15


def test_a_table_that_is_refreshed_while_it_is_compared_is_not_repaired(session, monkeypatch):
    subscribe(session)

    def refresh_first(*arguments):
        session.run("ALTER SUBSCRIPTION s REFRESH TABLE bag")
        return repair_table(*arguments)

    monkeypatch.setattr(verify_table, "repair_table", refresh_first)
    hold = IdleHold()
    (bag,) = verify(session, hold=hold, repair=True, tables=("bag",)).tables
    assert (hold.holds, str(bag.error)[:27]) == (2, "ERROR:  not ready: state i\n")
    assert session.rows("SELECT count(*) FROM bag") == [(0,)]


@pytest.mark.parametrize("session", ["postgresql", pytest.param("mariadb", marks=pytest.mark.long)], indirect=True)
def test_a_repair_whose_row_is_locked_lets_the_apply_go_on_and_is_tried_again(session, monkeypatch):
    """The lock may be that of a prepared transaction, which ends only when the apply goes on."""
    subscribe(session)
    verify(session, repair=True)
    session.execute("UPDATE typed SET w = 'broken' WHERE id = 3")
    monkeypatch.setattr(repairing, "LOCK_SECONDS", 1)
    schema, name = session.target.ddl.qualified("public", "typed")
    table = sa.table(name, sa.column("id"), sa.column("w"), schema=schema)
    locks = [sa.update(table).where(table.c.id == 3).values(w="locked")]

    def lock_first(*arguments):
        with session.target.engine.connect() as other:
            while locks:
                other.execute(locks.pop())
            return repair_table(*arguments)

    monkeypatch.setattr(verify_table, "repair_table", lock_first)
    hold = IdleHold()
    (typed,) = verify(session, hold=hold, repair=True, tables=("typed",)).tables
    assert (hold.holds, typed.repaired, typed.error) == (2, 1, None)
    assert verify(session).is_equal


@pytest.mark.parametrize("session", ["sqlite"], indirect=True)
def test_a_repair_that_fails_leaves_the_table_as_it_was(session):
    subscribe(session)
    verify(session, repair=True)
    session.execute(
        "DELETE FROM typed WHERE id < 10",
        "CREATE TRIGGER refuse BEFORE INSERT ON typed WHEN new.id = 7 BEGIN SELECT raise(ABORT, 'no'); END",
    )
    report = verify(session, repair=True, tables=("typed",))
    assert "repair of table" in str(report.tables[0].error)
    assert not report.is_equal
    assert session.rows("SELECT count(*) FROM typed WHERE id < 10") == [(0,)]


@pytest.mark.parametrize("session", ["sqlite"], indirect=True)
def test_a_table_is_compared_only_while_it_is_published_and_what_is_not_published_is_said(session):
    subscribe(session)
    verify(session, repair=True)
    session.publisher.execute("ALTER PUBLICATION p SET (publish = 'insert, update')")
    session.execute("INSERT INTO part (id, v) VALUES (50, 'deleted at the publisher')")
    (part,) = verify(session, tables=("part",)).tables
    assert counts(part) == (0, 0, 1)
    assert (
        "the publications do not publish DELETE and TRUNCATE: what that changed at the publisher differs" in part.notes
    )
    session.publisher.execute("ALTER PUBLICATION p DROP TABLE part")
    (part,) = verify(session, tables=("part",), repair=True).tables
    assert str(part.error).startswith('ERROR:  table "public.part" is not published any more')
    assert session.rows("SELECT count(*) FROM part") == [(16,)]


@pytest.mark.parametrize("session", ["sqlite"], indirect=True)
def test_rows_that_row_security_hides_are_not_deleted_by_a_repair(session):
    subscribe(session)
    verify(session, repair=True)
    with a_role(session.publisher, "REPLICATION") as role:
        session.publisher.execute(
            f"GRANT SELECT ON bag TO {role}; ALTER TABLE bag ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON bag USING (a = 1)"
        )
        session.run(f"ALTER SUBSCRIPTION s CONNECTION '{with_role(session.publisher, role)}'")
        (bag,) = verify(session, tables=("bag",), repair=True).tables
    assert counts(bag) == (0, 0, 2)
    assert f'table "public.bag" is not repaired: row security hides rows from role "{role}"' in str(bag.error)
    assert session.rows("SELECT count(*) FROM bag") == [(4,)]


@pytest.mark.parametrize("session", ["postgresql"], indirect=True)
def test_a_table_that_may_not_be_read_in_the_target_has_an_error(session):
    subscribe(session)
    database = Database(session.publisher.server, session.target.url.database, "")
    with a_role(database, "") as role:
        database.execute(
            f"GRANT SELECT, UPDATE ON ALL TABLES IN SCHEMA public TO {role}; REVOKE SELECT ON bag FROM {role}"
        )
        url = session.target.url.set(username=role, password="x").render_as_string(hide_password=False)
        with open_target(url) as target:
            session.target = target
            found = {table.table: table for table in verify(session, tables=("bag", "vacant")).tables}
    assert found["public.vacant"].is_equal
    assert found["public.bag"].error == "ERROR:  permission denied for table bag"


UNIQUE = """
CREATE TABLE unique_codes (id int PRIMARY KEY, code varchar(9) UNIQUE NOT NULL);
INSERT INTO unique_codes SELECT n, 'c' || n FROM generate_series(1, 9) n; CREATE PUBLICATION q FOR TABLE unique_codes
"""
MOVED = (
    "DELETE FROM unique_codes",
    *(f"INSERT INTO unique_codes (id, code) VALUES ({n}, 'c{n % 9 + 1}')" for n in range(1, 10)),
)


def test_changed_rows_that_keep_unique_values_from_each_other_are_repaired(session):
    session.publisher.execute(UNIQUE)
    subscribe(session, "q")
    verify(session, repair=True)
    session.execute(*MOVED)
    (found,) = verify(session, repair=True).tables
    assert (counts(found), found.repaired, found.error) == ((9, 0, 0), 9, None)
    assert verify(session).is_equal


@pytest.mark.parametrize("session", ["sqlite", "postgresql"], indirect=True)
def test_a_row_is_not_deleted_by_a_repair_if_the_target_has_more_of_it(session):
    session.publisher.execute(UNIQUE)
    subscribe(session, "q")
    verify(session, repair=True)
    session.execute("ALTER TABLE unique_codes ADD COLUMN remark text DEFAULT 'own'", *MOVED)
    (found,) = verify(session, repair=True).tables
    assert "duplicate key value violates unique constraint" in str(found.error)
    assert "copy the table again: ALTER SUBSCRIPTION s REFRESH TABLE public.unique_codes;" in str(found.error)
    assert session.rows("SELECT DISTINCT remark FROM unique_codes") == [("own",)]
    assert session.rows("SELECT code FROM unique_codes WHERE id = 1") == [("c2",)]


@pytest.mark.parametrize("session", ["sqlite"], indirect=True)
def test_a_sample_takes_the_same_rows_on_both_sides(session):
    subscribe(session)
    verify(session, repair=True)
    (some,) = verify(session, sample=0.2, tables=("typed",)).tables
    assert some.is_equal
    assert 20 < some.publisher_rows == some.target_rows < 110
    with pytest.raises(UsageError, match="the sample must be"):
        verify(session, sample=1.5)


@pytest.mark.parametrize("session", ["sqlite"], indirect=True)
def test_a_table_of_two_subscriptions_is_not_repaired(session):
    subscribe(session)
    subscribe(session, name="t")
    (bag,) = verify(session, tables=("bag",), repair=True).tables
    assert 'subscription "t" also writes to it' in str(bag.error)
    assert 'subscription "t"' in bag.notes[-1]
    assert session.rows("SELECT count(*) FROM bag") == [(0,)]


OTHER_TYPES = """
CREATE TABLE other (id int PRIMARY KEY, a json, b text, c numeric(10,3), d varchar(9), e int, f text);
INSERT INTO other VALUES (1, '{"b":1,  "a":2}', ' 007', 1.500, 'x', 5, 'a  '), (2, '{"b":1,"b":2}', '8', 0, '', NULL, NULL);
CREATE PUBLICATION o FOR TABLE other;
"""
TYPES_THERE = {
    "postgresql": "id bigint PRIMARY KEY, a jsonb, b int, c numeric, d text, e bigint, f varchar(20)",
    "sqlite": "id BIGINT PRIMARY KEY, a TEXT, b INT, c NUMERIC_TEXT, d TEXT, e TEXT, f TEXT",
    "duckdb": "id BIGINT PRIMARY KEY, a VARCHAR, b INTEGER, c DECIMAL(12,4), d VARCHAR, e VARCHAR, f VARCHAR",
    "mariadb": "id BIGINT PRIMARY KEY, a LONGTEXT, b INT, c DECIMAL(12,4), d LONGTEXT, e BIGINT, f LONGTEXT",
}


def test_columns_of_another_type_are_compared_as_the_targets_type(session, request):
    kind = request.node.callspec.params["session"]
    session.publisher.execute(OTHER_TYPES)
    session.execute(f"CREATE TABLE other ({TYPES_THERE[kind]})")
    session.run(
        "CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION o"
        " WITH (copy_data = false, create_slot = false, slot_name = NONE, enabled = false)"
    )
    (filled,) = verify(session, repair=True).tables
    assert (filled.error, filled.repaired) == (None, 2)
    (same,) = verify(session).tables
    assert same.is_equal
    assert any(
        note.startswith("compared as the type of the target's column") and "b (text" in note for note in same.notes
    )
    session.execute("UPDATE other SET b = 70 WHERE id = 1", "UPDATE other SET f = 'a' WHERE id = 1")
    (found,) = verify(session).tables
    assert (counts(found), found.columns) == ((1, 0, 0), ("b", "f"))


@pytest.mark.parametrize("session", ["postgresql"], indirect=True)
def test_a_value_that_is_none_of_the_targets_type_is_the_error_of_its_table(session):
    """names_are_data"""
    session.publisher.execute(
        "CREATE TABLE texts (id int PRIMARY KEY, a text); CREATE PUBLICATION n FOR TABLE texts;"
        "INSERT INTO texts VALUES (1, 'secret')"
    )
    session.execute("CREATE TABLE texts (id int PRIMARY KEY, a int)")
    subscribe(session, "n")
    (found,) = verify(session).tables
    assert "a value is not one of the type that the target's column has (SQLSTATE 22P02)" in str(found.error)
    assert "Look at the columns a: correct the value" in str(found.error)
    assert "row filter" not in str(found.error)
    assert "secret" not in str(found.error)


HELD = {
    "sqlite": "k INTEGER PRIMARY KEY, n NUMERIC_TEXT(5,2), b INTEGER",
    "postgresql": "k integer PRIMARY KEY, n numeric(5,2), b bigint",
    "duckdb": "k INTEGER PRIMARY KEY, n DECIMAL(5,2), b BIGINT",
    "mariadb": "k INTEGER PRIMARY KEY, n DECIMAL(5,2), b BIGINT",
}


def test_a_value_that_the_target_cannot_hold_counts_as_null_if_the_subscription_replaces_it(session, request):
    kind = request.node.callspec.params["session"]
    session.publisher.execute(
        "CREATE TABLE held (k int PRIMARY KEY, n numeric, b bigint); CREATE PUBLICATION h FOR TABLE held;"
        "INSERT INTO held (k, n) VALUES (1, 1.25), (2, 123456), (3, NULL)"
    )
    session.execute(
        f"CREATE TABLE held ({HELD[kind]})", "INSERT INTO held (k, n) VALUES (1, 1.25), (2, NULL), (3, NULL)"
    )
    session.run(
        "CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION h"
        " WITH (copy_data = false, create_slot = false, slot_name = NONE, enabled = false)"
    )
    (found,) = verify(session).tables
    assert (counts(found), found.columns) == ((1, 0, 0), ("n",))
    session.run("ALTER SUBSCRIPTION s SET (unrepresentable_values = 'null')")
    (same,) = verify(session).tables
    assert (counts(same), same.error) == ((0, 0, 0), None)
    note = "values that the target cannot hold are NULL there, and count as NULL"
    assert f"{note}: n" in same.notes, "bigint has no such values"
    session.execute("UPDATE held SET n = 7 WHERE k = 2")
    (repaired,) = verify(session, repair=True).tables
    assert repaired.error is None
    assert (counts(repaired), repaired.repaired) == ((1, 0, 0), 1)
    assert session.rows("SELECT n FROM held WHERE k = 2") == [(None,)]


@pytest.mark.parametrize("session", ["postgresql"], indirect=True)
def test_the_form_in_which_the_target_writes_values_is_no_difference(session):
    session.publisher.execute(
        "CREATE TABLE formed (id int PRIMARY KEY, y bytea, c regclass, s text); CREATE PUBLICATION f FOR TABLE formed;"
        "INSERT INTO formed VALUES (1, '\\x00ff', 'formed', 'a')"
    )
    subscribe(session, "f")
    with session.target.begin() as connection:
        connection.exec_driver_sql(f"ALTER DATABASE {session.target.url.database} SET bytea_output = 'escape'")
    session.target.engine.dispose()
    assert verify(session, repair=True).is_equal
    assert verify(session).is_equal


@pytest.mark.parametrize("session", ["sqlite"], indirect=True)
def test_publications_that_the_subscriber_evaluates_decide_about_rows_and_columns(session):
    """B17: the filters of two publications are combined with OR."""
    session.publisher.execute("CREATE PUBLICATION carrier FOR ALL TABLES")
    for name, where in {"low": "id < 10", "high": "id > 290"}.items():
        command = parse(f"CREATE PUBLICATION {name} FOR TABLE typed (id, w) WHERE ({where})")
        assert not isinstance(command, Query)
        run_command(session.target, command, session.settings, lambda _said: None, session.publisher.conninfo)
    subscribe(session, "low, high", ", carrier = carrier")
    (filled,) = verify(session, repair=True).tables
    assert (filled.error, filled.only_publisher) == (None, 3 + 9 + 10)
    session.execute("UPDATE typed SET w = 'x' WHERE id = 5", "INSERT INTO typed (id, w) VALUES (50, 'not published')")
    assert counts(verify(session).tables[0]) == (1, 0, 1)


@pytest.mark.parametrize("session", ["sqlite", "mariadb", "postgresql"], indirect=True)
def test_tasks_and_the_command_read_each_row_of_the_target_once(session, monkeypatch):
    """The tasks run one after the other, in a thread of this process."""

    def run_tasks(tasks, _stop, *, group):
        assert group.startswith("verify public.typed")
        for task in tasks:
            yield from task(iter(()))

    monkeypatch.setattr(verify_module, "LARGE_BYTES", 1)
    monkeypatch.setattr(read_both_sides, "_ALONE_BYTES", 1)
    monkeypatch.setattr(verify_module._Verifier, "_tasks", lambda _self: run_tasks)
    subscribe(session)
    session.settings = replace(session.settings, partition_bytes=8 * 1024)
    assert verify(session, tables=("typed",), repair=True).is_equal
    for _ in range(3):
        (found,) = verify(session, tables=("typed",)).tables
        assert (found.publisher_rows, found.target_rows, found.differing) == (303, 303, 0)
    for name, most in (("HELD_ROWS", 100_000), ("_HELD_CHARACTERS", 10), ("HELD_ROWS", 0)):
        monkeypatch.setattr(compare_tables, name, most)
        session.execute("UPDATE typed SET w = 'broken' WHERE id IN (7, 150, 300)", "DELETE FROM typed WHERE id = 8")
        assert counts(verify(session, tables=("typed",)).tables[0]) == (3, 1, 0)
        assert verify(session, tables=("typed",), repair=True).is_equal
        assert verify(session, tables=("typed",)).is_equal


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("session", ["sqlite"], indirect=True)
def test_a_large_table_is_read_by_tasks(session, monkeypatch):
    monkeypatch.setattr(verify_module, "LARGE_BYTES", 1)
    session.publisher.execute(
        "INSERT INTO typed (id, w) SELECT n, repeat('text ', 9) FROM generate_series(1000, 20000) n"
    )
    subscribe(session)
    session.settings = replace(session.settings, partition_bytes=256 * 1024)
    seen: list[VerifyProgress] = []
    options = VerifyOptions(tables=("typed",), processes=2, repair=True)
    report = verify_subscription(session.target, "s", session.settings, options, seen.append, hold=IdleHold())
    assert report.is_equal, report
    assert report.tables[0].only_publisher == 19_304
    session.execute("UPDATE typed SET w = 'broken' WHERE id = 15000")
    options = VerifyOptions(tables=("typed",), processes=2)
    report = verify_subscription(session.target, "s", session.settings, options, seen.append, hold=IdleHold())
    assert counts(report.tables[0]) == (1, 0, 0)
    assert max(one.publisher_rows for one in seen) == 19_304


@pytest.mark.parametrize("session", ["sqlite"], indirect=True)
def test_a_publisher_that_goes_away_is_an_error(session):
    subscribe(session)
    session.execute("UPDATE subscriber_subscription SET subconninfo = 'host=/nowhere'")
    with pytest.raises(PublisherUnavailable):
        verify(session)

"""The side effects of a replicated change in the target, for each cell of the table in
docs/side-effects.md (rules C7, C9, C23, C29, C30).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from subscriber.base.errors import ApplyError, ConflictError, TargetRelationError
from subscriber.postgres.protocol import messages as m
from tests.frames import relation, transaction, values
from tests.target_databases import KINDS, AppliedTo, applied_to

T = relation("public.t", {"a": "int4", "b": "int4"}, ["a"])
TABLE = Path(__file__).parents[2] / "docs" / "side-effects.md"


@pytest.fixture(params=KINDS)
def on(request, tmp_path) -> Iterator[AppliedTo]:
    with applied_to(request.param, request, tmp_path) as opened:
        yield opened


def documented(what: str, kind: str) -> str:
    """The cell of the documentation's table."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in TABLE.read_text().splitlines()
        if line.startswith("| ")
    ]
    head = next(row for row in rows if row[0] == "")
    column = [name.lower() for name in head].index(kind)
    return next(row[column] for row in rows if row[0] == what)


def insert(a: int, b: int | None = 1) -> m.Insert:
    return m.Insert(16384, values(str(a), None if b is None else str(b)))


def update(a: int, b: int | None) -> m.Update:
    return m.Update(16384, None, None, values(str(a), None if b is None else str(b)))


def delete(a: int) -> m.Delete:
    return m.Delete(16384, "K", values(str(a), None))


def outcome(on: AppliedTo, *changes: m.Message, passed: str, refused: str) -> str:
    """``passed`` or, where the target forbids the changes, ``refused``."""
    try:
        on.apply([T], *transaction(200, *changes))
    except ConflictError:
        return refused
    return passed


def test_rows_may_come_before_those_that_they_refer_to(on):
    """C23: DuckDB refuses this"""
    on.execute("CREATE TABLE p (a integer PRIMARY KEY)")
    on.execute("CREATE TABLE t (a integer PRIMARY KEY, b integer, FOREIGN KEY (b) REFERENCES p (a))")
    found = outcome(on, insert(1, 7), passed="not enforced", refused="**enforced**")
    assert found == documented("foreign keys of the changed table", on.kind)


def test_rows_that_others_refer_to_may_go(on):
    """C23: no action of the foreign key is executed either; DuckDB refuses the DELETE, and a change
    of the key
    """
    action = "" if on.kind == "duckdb" else " ON DELETE CASCADE"
    on.execute("CREATE TABLE t (a integer PRIMARY KEY, b integer)", "INSERT INTO t VALUES (1, 1)")
    on.execute(f"CREATE TABLE c (a integer, FOREIGN KEY (a) REFERENCES t (a){action})")
    on.execute("INSERT INTO c VALUES (1)")
    cell = documented("foreign keys that refer to it", on.kind)
    for change in (m.Update(16384, "K", values("1", None), values("5", "2")), delete(1 if on.kind == "duckdb" else 5)):
        assert outcome(on, change, passed="not enforced, no action", refused="**enforced**") == cell
    assert on.execute("SELECT a FROM c") == [(1,)]


FULL = relation("public.t", {"a": "int4", "b": "int4"}, ["a", "b"], identity="f")


def test_what_is_no_key_of_a_row_that_others_refer_to_may_change(on):
    """C23: SET does not name the key, which DuckDB would take for a change of it; also with REPLICA
    IDENTITY FULL
    """
    on.execute("CREATE TABLE t (a integer PRIMARY KEY, b integer)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    on.execute("CREATE TABLE c (a integer, FOREIGN KEY (a) REFERENCES t (a))", "INSERT INTO c VALUES (1), (2)")
    missing = on.apply([T], *transaction(200, update(1, 5), update(2, 6), update(3, 7), update(1, 8)))
    assert missing.conflicts["update_missing"] == 1
    unchanged = m.Update(16384, None, None, values("1", m.UNCHANGED))
    assert "update_missing" not in on.apply([T], *transaction(1100, unchanged), end=2000).conflicts
    full = [m.Update(16384, "O", values(str(a), str(b)), values(str(a), str(b + 1))) for a, b in ((1, 8), (2, 6))]
    assert "update_missing" not in on.apply([FULL], *transaction(2100, *full), end=3000).conflicts
    assert on.execute("SELECT a, b FROM t ORDER BY a") == [(1, 9), (2, 7)]


UPDATE_TRIGGERS = {
    "sqlite": ["CREATE TRIGGER r AFTER UPDATE OF a ON T BEGIN INSERT INTO fired VALUES (NEW.a); END"],
    "mariadb": ["CREATE TRIGGER r AFTER UPDATE ON t FOR EACH ROW INSERT INTO fired VALUES (NEW.a)"],
    "postgresql": [
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO public.fired VALUES (NEW.a); RETURN NULL; END$$",
        "CREATE TRIGGER r AFTER UPDATE OF a ON t FOR EACH ROW EXECUTE FUNCTION f()",
        "ALTER TABLE t ENABLE REPLICA TRIGGER r",
    ],
}


@pytest.mark.parametrize("kind", UPDATE_TRIGGERS)
def test_triggers_for_an_update_of_the_key_fire_though_it_stays_as_it_is(kind, request, tmp_path):
    """PostgreSQL's worker names every column that was sent: slot_modify_data's updatedCols"""
    with applied_to(kind, request, tmp_path) as on:
        on.execute("CREATE TABLE t (a integer PRIMARY KEY, b integer)", "INSERT INTO t VALUES (1, 1)")
        on.execute("CREATE TABLE fired (a integer)", *UPDATE_TRIGGERS[kind])
        on.apply([T], *transaction(200, update(1, 2)))
        assert on.execute("SELECT a FROM fired") == [(1,)]


@pytest.mark.parametrize(
    ("what", "constraint", "change"),
    [
        ("CHECK", "CHECK (b < 5)", insert(1, 7)),
        ("NOT NULL", "", insert(1, None)),
        ("unique keys", "UNIQUE (b)", insert(1, 9)),
    ],
)
def test_constraints_of_the_row_are_enforced(on, what, constraint, change):
    """C23"""
    null = " NOT NULL" if what == "NOT NULL" else ""
    on.execute(f"CREATE TABLE t (a integer PRIMARY KEY, b integer{null}{', ' if constraint else ''}{constraint})")
    on.execute(f"INSERT INTO t VALUES (0, {9 if what == 'unique keys' else 0})")
    assert outcome(on, change, passed="not enforced", refused="enforced") == documented(what, on.kind) == "enforced"


TRIGGERS = {
    "sqlite": ["CREATE TRIGGER r AFTER INSERT ON t FOR EACH ROW BEGIN INSERT INTO fired VALUES (NEW.a); END"],
    "mariadb": ["CREATE TRIGGER r AFTER INSERT ON t FOR EACH ROW INSERT INTO fired VALUES (NEW.a)"],
    "postgresql": [
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO public.fired VALUES (CASE TG_NAME WHEN 'r' THEN 1 ELSE 2 END); RETURN NULL; END$$",
        "CREATE TRIGGER r AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
    ],
}


def test_triggers(on):
    """C23: PostgreSQL's fire if they are ENABLE REPLICA or ALWAYS; SQLite and MariaDB cannot switch
    theirs off; DuckDB has none
    """
    on.execute("CREATE TABLE t (a integer PRIMARY KEY, b integer)", "CREATE TABLE fired (a integer)")
    on.execute(*TRIGGERS.get(on.kind, ()))
    on.apply([T], *transaction(200, insert(1)))
    fired = on.execute("SELECT a FROM fired") == [(1,)]
    found = "do not fire" if not fired else "**fire**"
    if on.kind == "duckdb":
        assert documented("triggers", on.kind) == "there are none"
        with pytest.raises(Exception, match="syntax error"):
            on.execute(*TRIGGERS["sqlite"])
        return
    assert found == documented("triggers", on.kind).partition(";")[0]


def test_row_triggers_for_replicas_fire_and_those_for_statements_do_not(request, tmp_path):
    """C23, on PostgreSQL: only row-level triggers fire, except for TRUNCATE (C30)"""
    with applied_to("postgresql", request, tmp_path) as on:
        on.execute("CREATE TABLE t (a integer PRIMARY KEY, b integer)", "CREATE TABLE fired (a integer)")
        on.execute(*TRIGGERS["postgresql"], "ALTER TABLE t ENABLE ALWAYS TRIGGER r")
        on.execute(
            "CREATE TRIGGER e AFTER TRUNCATE ON t EXECUTE FUNCTION f()", "ALTER TABLE t ENABLE REPLICA TRIGGER e"
        )
        on.apply([T], *transaction(200, insert(1), m.Truncate((16384,), False, False)))
        assert on.execute("SELECT a FROM fired") == [(1,), (2,)]


REFUSING = {
    "sqlite": "CREATE TRIGGER r BEFORE INSERT ON t BEGIN SELECT RAISE(ABORT, 'hidden'); END",
    "mariadb": "CREATE TRIGGER r BEFORE INSERT ON t FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'hidden'",
    "postgresql": "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'hidden'; END$$;"
    " CREATE TRIGGER r BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f(); ALTER TABLE t ENABLE REPLICA TRIGGER r",
}


@pytest.mark.parametrize("kind", REFUSING)
def test_a_trigger_that_refuses_stops_the_transaction(kind, request, tmp_path):
    """C23, C35: on the targets whose triggers fire; an ApplyError is retried without limit, because
    the trigger may be corrected
    """
    with applied_to(kind, request, tmp_path) as on:
        on.execute("CREATE TABLE t (a integer PRIMARY KEY, b integer)", REFUSING[kind])
        with pytest.raises(ApplyError, match="a trigger of the target refused") as raised:
            on.apply([T], *transaction(200, insert(1)))
        assert "hidden" not in raised.value.report()


def test_defaults_and_generated_columns(on):
    """C7, C9: defaults are evaluated for each row of an INSERT and not for an UPDATE; generated
    columns are computed for both
    """
    on.execute(
        "CREATE TABLE t (a integer PRIMARY KEY, b integer, own integer DEFAULT 7, other integer,"
        f" g integer GENERATED ALWAYS AS (b * 2){' STORED' if on.kind == 'postgresql' else ''})"
    )
    on.apply([T], *transaction(200, insert(1, 10), insert(2, 20), insert(3, 30)))
    on.execute("UPDATE t SET own = 8, other = 9 WHERE a = 2", "UPDATE t SET own = NULL WHERE a = 3")
    unchanged = m.Update(16384, None, None, values("3", m.UNCHANGED))
    on.apply([T], *transaction(1100, update(1, None), update(2, 21), unchanged), end=2000)
    assert on.execute("SELECT a, b, own, other, g FROM t ORDER BY a") == [
        (1, None, 7, None, None),
        (2, 21, 8, 9, 42),
        (3, 30, None, None, 60),
    ]
    assert documented("defaults", on.kind) == documented("generated columns", on.kind) == "computed"


def test_truncate_is_restricted_by_tables_outside_the_set(on):
    """C29, C30: with PostgreSQL's text, though foreign keys are not enforced otherwise; CASCADE is
    ignored
    """
    on.execute("CREATE TABLE t (a integer PRIMARY KEY, b integer)")
    on.execute("CREATE TABLE c (a integer PRIMARY KEY, b integer, FOREIGN KEY (b) REFERENCES t (a))")
    on.execute("INSERT INTO t VALUES (1, 1)")
    truncate = m.Truncate((16384,), cascade=True, restart_identity=False)
    with pytest.raises(ApplyError, match="cannot truncate a table referenced in a foreign key constraint") as raised:
        on.apply([T], *transaction(200, truncate))
    assert raised.value.sqlstate == "0A000"
    assert on.execute("SELECT a FROM t") == [(1,)]
    child = relation("public.c", {"a": "int4", "b": "int4"}, ["a"], oid=3)
    on.apply([T, child], *transaction(300, m.Truncate((16384, 3), False, False)))
    assert on.execute("SELECT a FROM t") == []
    assert documented("foreign keys at TRUNCATE", on.kind).startswith("enforced")


def test_tables_that_refer_to_each_other_are_emptied_together(on):
    """C29: on DuckDB, whose foreign keys see rows that the same transaction has deleted, they
    cannot be
    """
    on.execute("CREATE TABLE t (a integer PRIMARY KEY, b integer)")
    on.execute("CREATE TABLE c (a integer PRIMARY KEY, b integer, FOREIGN KEY (b) REFERENCES t (a))")
    on.execute("INSERT INTO t VALUES (1, 1)")
    on.execute("INSERT INTO c VALUES (1, 1)")
    child = relation("public.c", {"a": "int4", "b": "int4"}, ["a"], oid=3)
    truncate = transaction(300, m.Truncate((16384, 3), False, False))
    if on.kind == "duckdb":
        with pytest.raises(ConflictError):
            on.apply([T, child], *truncate)
        return
    on.apply([T, child], *truncate)
    assert on.execute("SELECT a FROM t") == on.execute("SELECT a FROM c") == []


IDENTITY = {
    "duckdb": "a integer PRIMARY KEY, b integer, n integer DEFAULT nextval('s')",
    "mariadb": "a integer PRIMARY KEY, b integer, n integer AUTO_INCREMENT UNIQUE",
    "postgresql": "a integer PRIMARY KEY, b integer, n integer GENERATED BY DEFAULT AS IDENTITY",
}


@pytest.mark.parametrize("restart", [False, True])
def test_restart_identity(on, restart):
    """C29: CONTINUE IDENTITY leaves the counter alone; without a counter there is nothing to
    restart
    """
    if on.kind == "duckdb":
        on.execute("CREATE SEQUENCE s")
    if on.kind == "sqlite":
        on.execute("CREATE TABLE t (a INTEGER PRIMARY KEY AUTOINCREMENT, b integer)")
        on.execute("INSERT INTO t (b) VALUES (1), (1)")
    else:
        on.execute(f"CREATE TABLE t ({IDENTITY[on.kind]})", "INSERT INTO t (a, b) VALUES (1, 1), (2, 1)")
    on.apply([T], *transaction(200, m.Truncate((16384,), False, restart)))
    if on.kind == "sqlite":
        on.execute("INSERT INTO t (b) VALUES (1)")
        found = on.execute("SELECT a FROM t")
    else:
        on.execute("INSERT INTO t (a, b) VALUES (1, 1)")
        found = on.execute("SELECT n FROM t")
    assert found == [(1 if restart else 3,)]


# REFRESH TABLE ------------------------------------------------------------------------------------


def test_rows_that_others_refer_to_are_replaced_as_they_are_deleted(on):
    """C23: where foreign keys are enforced, it is a named error, and the rows stay"""
    action = "" if on.kind == "duckdb" else " ON DELETE CASCADE"
    on.execute("CREATE TABLE t (a integer PRIMARY KEY, b integer)", "INSERT INTO t VALUES (1, 1)")
    on.execute(f"CREATE TABLE c (a integer, FOREIGN KEY (a) REFERENCES t (a){action})")
    on.execute("INSERT INTO c VALUES (1)")
    if documented("foreign keys that refer to it", on.kind) == "**enforced**":
        with pytest.raises(ConflictError, match='the rows of table "t" cannot be replaced') as raised:
            replace_rows(on)
        assert raised.value.sqlstate == "23503"
        assert on.execute("SELECT a, b FROM t") == [(1, 1)]
    else:
        replace_rows(on)
        assert on.execute("SELECT a, b FROM t") == []
    assert on.execute("SELECT a FROM c") == [(1,)]


def replace_rows(on: AppliedTo) -> None:
    with on.target.reporting(), on.target.engine.connect() as connection:
        table = on.target.shapes.reflect(connection, "public", "t")
    assert table is not None
    with on.target.begin() as connection:
        on.target.writing.delete_all(connection, table)


@pytest.mark.server
def test_rows_are_not_replaced_where_foreign_keys_of_the_role_would_delete_others(request, tmp_path, monkeypatch):
    """A role of PostgreSQL that cannot be a replica"""
    with applied_to("postgresql", request, tmp_path) as on:
        on.execute("CREATE TABLE t (a integer PRIMARY KEY, b integer)", "INSERT INTO t VALUES (1, 1)")
        on.execute("CREATE TABLE c (a integer REFERENCES t ON DELETE CASCADE)", "INSERT INTO c VALUES (1)")
        monkeypatch.setattr(type(on.target.transactions), "apply_as_replica", lambda *_: None)
        with pytest.raises(ConflictError, match='the rows of table "t" cannot be replaced') as raised:
            replace_rows(on)
        assert raised.value.detail == 'Table "c" references "t", with an action ON DELETE.'
        assert (on.execute("SELECT a FROM t"), on.execute("SELECT a FROM c")) == ([(1,)], [(1,)])


@pytest.mark.server
def test_rows_that_a_trigger_keeps_are_a_named_error(request, tmp_path):
    """Otherwise the copy would add its rows to them"""
    with applied_to("postgresql", request, tmp_path) as on:
        on.execute("CREATE TABLE t (a integer, b integer)", "INSERT INTO t VALUES (1, 1)")
        on.execute(
            "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NULL; END$$",
            "CREATE TRIGGER keep BEFORE DELETE ON t FOR EACH ROW EXECUTE FUNCTION keep()",
            "ALTER TABLE t ENABLE ALWAYS TRIGGER keep",
        )
        with pytest.raises(TargetRelationError, match="because a trigger has left some of them"):
            replace_rows(on)

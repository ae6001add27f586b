"""What SQLite's tables have, and how it is added. With a publisher:
tests/conformance/test_schema_step.py.
"""

from __future__ import annotations

import pytest

from subscriber.base.errors import ConflictError
from subscriber.postgres.schema.shape import ForeignKey, IndexKey, IndexShape
from subscriber.targets.table_changes import (
    CannotBuild,
    FoundForeignKey,
    FoundIndex,
    NewCheck,
    NewComment,
    NewDefault,
    NewForeignKey,
    NewGenerated,
    NewIdentity,
    NewIndex,
)
from tests.unit.targets.tables import execute, reflected, rows

INDEX = IndexShape(name="i", keys=(IndexKey("a", descending=True), IndexKey(None, "(b + 1)")), unique=True)


@pytest.fixture
def parent(target):
    execute(
        target,
        "CREATE TABLE parent (id INTEGER PRIMARY KEY AUTOINCREMENT, n INT DEFAULT 3)",
        "CREATE TABLE t (a INT, b INT, p INT REFERENCES parent ON DELETE CASCADE, CONSTRAINT positive CHECK (a > 0))",
        "CREATE INDEX t_b ON t (b) WHERE a > 1",
        "CREATE TRIGGER tr AFTER INSERT ON parent BEGIN UPDATE t SET b = new.n; END",
        "CREATE VIEW v AS SELECT n FROM parent",
    )
    return reflected(target, "parent")


def built(target, table, change):
    with target.objects.building() as connection:
        made = target.objects.statements(connection, table, change)
        for statement in made.sql:
            connection.exec_driver_sql(statement)
        target.objects.check(connection, table)
    return made


def test_what_a_table_has_is_read(target, parent):
    with target.engine.connect() as connection:
        found = target.objects.find(connection, [reflected(target, "t")])[0]
        other = target.objects.find(connection, [parent])[0]
    assert found.indexes == (FoundIndex("t_b", ("b",), partial=True, definition="(b) WHERE a > 1"),)
    assert found.foreign_keys == (FoundForeignKey(("p",), "parent", (), "CASCADE", "NO ACTION"),)
    assert found.checks == (("positive", "a > 0"),)
    assert (other.defaults, other.counted) == ({"n": "3"}, frozenset({"id"}))
    assert other.indexes == (FoundIndex("", ("id",), unique=True),)


def test_a_definition_is_shown_as_it_is_found_when_it_is_made(target, parent):
    changes = (
        NewIndex(INDEX, "i", ("a", "(b + 1)"), "b IS NOT NULL"),
        NewCheck("c", "a <> 1"),
        NewDefault("a", "1 + 8"),
        NewGenerated("g", "INT", "a * 2"),
    )
    with target.engine.connect() as connection:
        shown = [target.objects.shown(connection, reflected(target, "t"), change) for change in changes]
    for change in changes:
        built(target, reflected(target, "t"), change)
    with target.engine.connect() as connection:
        found = target.objects.find(connection, [reflected(target, "t")])[0]
    index = next(one for one in found.indexes if one.name == "i")
    assert shown == [index.definition, dict(found.checks)["c"], found.defaults["a"], found.generated["g"]]


def test_constants_are_the_same_by_their_value_in_the_column(target, parent):
    execute(target, "CREATE TABLE c (n INT, x TEXT)")
    number, text = reflected(target, "c").columns
    with target.engine.connect() as connection:
        assert target.objects.same_constant(connection, number, "'5'", "5")
        assert not target.objects.same_constant(connection, text, "'5.0'", "5")


def test_an_index_or_a_generated_column_can_be_removed_but_no_constraint(target, parent):
    table = reflected(target, "t")
    execute(target, *target.objects.removal(table, NewIndex(INDEX, "i", ("b",)), "t_b"))
    built(target, table, NewGenerated("g", "INT", "a * 2"))
    execute(target, *target.objects.removal(table, NewGenerated("g", "INT", "a * 3"), "g"))
    assert [one.name for one in reflected(target, "t").columns] == ["a", "b", "p"]
    assert target.objects.removal(table, NewDefault("a", "1"), "a") == ()
    with pytest.raises(CannotBuild, match="made again"):
        target.objects.removal(table, NewCheck("positive", "a > 1"), "positive")


def test_an_index_has_its_order_expression_and_predicate(target, parent):
    built(target, reflected(target, "t"), NewIndex(INDEX, "i", ("a", "(b + 1)"), "b IS NOT NULL"))
    (row,) = rows(target, "SELECT sql FROM sqlite_master WHERE name = 'i'")
    assert row["sql"] == "CREATE UNIQUE INDEX i ON t (a DESC, (b + 1)) WHERE b IS NOT NULL"


def test_a_table_that_is_made_again_keeps_rows_counter_indexes_triggers_and_views(target, parent):
    execute(target, "INSERT INTO parent (id) VALUES (5), (90)", "DELETE FROM parent WHERE id = 90")
    execute(target, "CREATE INDEX parent_n ON parent (n)")
    made = built(target, parent, NewCheck("small", "n < 100"))
    assert made.rebuilds
    built(target, parent, NewDefault("n", "1 + 8"))
    assert rows(target, "SELECT count(*) AS n FROM sqlite_master WHERE sql LIKE '%DEFAULT%DEFAULT%'") == [{"n": 0}]
    execute(target, "INSERT INTO t (a) VALUES (1)", "INSERT INTO parent DEFAULT VALUES")
    assert rows(target, "SELECT * FROM parent ORDER BY id") == [{"id": 5, "n": 3}, {"id": 91, "n": 9}]
    assert rows(target, "SELECT b FROM t") == [{"b": 9}]
    assert rows(target, "SELECT n FROM v ORDER BY n") == [{"n": 3}, {"n": 9}]
    assert rows(target, "SELECT name FROM sqlite_master WHERE name = 'parent_n'") == [{"name": "parent_n"}]
    (row,) = rows(target, "SELECT \"table\" AS other FROM pragma_foreign_key_list('t')")
    assert row["other"] == "parent"


def test_a_foreign_key_that_rows_violate_is_refused_and_nothing_is_changed(target, parent):
    execute(target, "CREATE TABLE child (p INT)", "INSERT INTO child VALUES (7)")
    child = reflected(target, "child")
    key = ForeignKey(("p",), "public", "parent", ("id",), on_delete="SET NULL", deferrable=True, deferred=True)
    with pytest.raises(ConflictError) as raised:
        built(target, child, NewForeignKey(key, "fk", parent))
    assert (raised.value.sqlstate, "7" in str(raised.value)) == ("23503", False)
    assert rows(target, "SELECT * FROM pragma_foreign_key_list('child')") == []
    execute(target, "DELETE FROM child")
    built(target, child, NewForeignKey(key, "fk", parent))
    (row,) = rows(target, "SELECT sql FROM sqlite_master WHERE name = 'child'")
    assert "ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED" in row["sql"]


def test_statements_of_a_script_stand_on_the_changes_before_them(target, parent):
    table = reflected(target, "t")
    earlier = (NewCheck("one", "a <> 1"), NewGenerated("g", "INT", "a * 2"), NewIndex(INDEX, "i", ("a", "(b + 1)")))
    with target.engine.connect() as connection:
        statements = [
            target.objects.statements(connection, table, one, earlier[:number]) for number, one in enumerate(earlier)
        ]
        last = target.objects.statements(connection, table, NewCheck("two", "a <> 2"), earlier)
    execute(target, *(sql for one in (*statements, last) for sql in one.sql))
    with target.engine.connect() as connection:
        found = target.objects.find(connection, [reflected(target, "t")])[0]
    assert [name for name, _ in found.checks] == ["positive", "one", "two"]
    assert {one.name for one in found.indexes} == {"t_b", "i"}
    assert [column.name for column in reflected(target, "t").columns] == ["a", "b", "p", "g"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (NewComment("x"), "SQLite has no comments"),
        (NewIdentity("a"), "INTEGER PRIMARY KEY"),
        (NewIndex(IndexShape(name="i", keys=(IndexKey("a"),), method="gin"), "i", ("a",)), "no gin indexes"),
        (NewIndex(IndexShape(name="i", keys=(IndexKey("a", ordinary=False),)), "i", ("a",)), "operator class"),
        (
            NewIndex(IndexShape(name="i", keys=(IndexKey("a"),), unique=True, deferrable=True), "i", ("a",)),
            "immediately",
        ),
        (
            NewIndex(IndexShape(name="i", keys=(IndexKey("a"),), unique=True, nulls_distinct=False), "i", ("a",)),
            "NULLS",
        ),
        (NewIndex(IndexShape(name="i", keys=(IndexKey("a"),), constraint="exclusion"), "i", ("a",)), "exclusion"),
    ],
)
def test_what_sqlite_cannot_have_is_refused_with_the_reason(target, parent, change, reason):
    with target.engine.connect() as connection, pytest.raises(CannotBuild, match=reason):
        target.objects.statements(connection, reflected(target, "t"), change)


@pytest.mark.parametrize(
    ("text", "type_oid", "pattern"),
    [
        ("now()", 1184, "____-__-__ __:__:__%+00"),
        ("timezone('utc'::text, now())", 1114, "____-__-__ __:__:__%"),
    ],
)
def test_the_current_time_is_written_as_postgresql_writes_it(target, parent, text, type_oid, pattern):
    expression = target.objects.default(text, type_oid, parent.columns[0])
    assert rows(target, f"SELECT ({expression}) LIKE '{pattern}' AS fits") == [{"fits": 1}]
    (row,) = rows(target, f"SELECT {expression} AS now")
    assert not row["now"].removesuffix("+00").partition(".")[2].endswith("0")


def test_a_time_of_the_sessions_zone_has_no_equal(target, parent):
    assert target.objects.default("now()", 1114, parent.columns[0]) is None


def _changes(target, *names):
    key = ForeignKey(("p",), "public", "parent", ("id",), on_delete="CASCADE")
    return [
        (reflected(target, name), change)
        for name in names
        for change in (
            NewDefault("a", "1 + 8"),
            NewGenerated("g", "INT", "a * 2"),
            NewCheck("small", "a < 100"),
            NewForeignKey(key, "fk", reflected(target, "parent")),
        )
    ]


def test_changes_of_many_tables_are_made_in_one_transaction_and_the_rows_stay(target, parent):
    execute(
        target, "CREATE TABLE u (a INT, p INT) STRICT", "INSERT INTO u VALUES (7, NULL)", "INSERT INTO t (a) VALUES (1)"
    )
    before = rows(target, "SELECT rootpage FROM sqlite_master WHERE name IN ('t', 'u')")
    assert sorted(target.objects.build_together(_changes(target, "t", "u"))) == [*range(8)]
    assert rows(target, "SELECT rootpage FROM sqlite_master WHERE name IN ('t', 'u')") == before
    assert rows(target, "SELECT a, g FROM t UNION ALL SELECT a, g FROM u") == [{"a": 1, "g": 2}, {"a": 7, "g": 14}]
    with target.engine.connect() as connection:
        found = target.objects.find(connection, [reflected(target, "t"), reflected(target, "u")])
    assert [[name for name, _ in one.checks] for one in found] == [["positive", "small"], ["small"]]
    assert [len(one.foreign_keys) for one in found] == [2, 1]
    execute(target, "INSERT INTO u DEFAULT VALUES")
    assert rows(target, "SELECT max(a) AS a, max(g) AS g FROM u") == [{"a": 9, "g": 18}]
    for refused in ("INSERT INTO u (a) VALUES (100)", "INSERT INTO t (a) VALUES (100)"):
        with pytest.raises(ConflictError, match="check constraint"):
            execute(target, refused)
    assert rows(target, "SELECT integrity_check AS said FROM pragma_integrity_check") == [{"said": "ok"}]


@pytest.mark.parametrize("row", ["100, NULL", "1, 5"])
def test_a_table_whose_rows_refuse_a_change_stays_as_it_is_and_the_others_are_changed(target, parent, row):
    execute(target, "CREATE TABLE u (a INT, p INT)", f"INSERT INTO u VALUES ({row})")
    before = rows(target, "SELECT sql FROM sqlite_master WHERE name = 'u'")
    assert sorted(target.objects.build_together(_changes(target, "u", "t"))) == [4, 5, 6, 7]
    assert rows(target, "SELECT sql FROM sqlite_master WHERE name = 'u'") == before
    with target.engine.connect() as connection:
        (found,) = target.objects.find(connection, [reflected(target, "t")])
    assert "small" in dict(found.checks)


def test_what_the_text_cannot_have_is_left_to_be_built_alone(target, parent):
    table = reflected(target, "t")
    changes = [(table, NewDefault("a", "random(")), (table, NewIndex(INDEX, "i", ("a",)))]
    assert list(target.objects.build_together(changes)) == []
    changes = [(table, NewDefault("missing", "1")), (table, NewCheck("small", "a < 100"))]
    assert list(target.objects.build_together(changes)) == [1]
    assert rows(target, "SELECT * FROM t") == []

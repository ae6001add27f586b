"""A relation is found with its table's columns, once in a batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sqlalchemy as sa

from subscriber.apply.relations.missing_columns import find_table, joined, named, quoted, side_by_side
from subscriber.apply.relations.target_relations import (
    RelationMap,
    TargetRelation,
    UnchangedTables,
    check_binary,
    check_required,
    with_shapes,
)
from subscriber.base.errors import ConflictError, SubscriberError, TargetRelationError, UnsupportedValue
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.schema.relation_names import SAME_NAMES, parse_names
from subscriber.targets import TargetColumn, TargetTable
from tests.changes import T, insert, update
from tests.frames import frame, relation

AB = {"a": "int4", "b": "text"}


@pytest.fixture
def open_relation(target):
    def call(remote):
        with target.begin() as connection:
            return RelationMap(target, connection).open(remote)

    return call


def refused(call, remote) -> TargetRelationError:
    with pytest.raises(TargetRelationError) as raised:
        call(remote)
    assert raised.value.relation == remote.qualified_name
    return raised.value


def test_columns_match_by_name_whatever_their_order(execute, open_relation):
    """C2"""
    execute("CREATE TABLE t (extra INT, b TEXT, a INTEGER)")
    assert [column.name for column in open_relation(relation("public.t", AB)).columns] == ["a", "b"]


def test_one_missing_column_is_named(execute, open_relation):
    """C3"""
    execute("CREATE TABLE t (a INT)")
    message = refused(open_relation, relation("public.t", AB)).message
    assert message == 'logical replication target relation "public.t" is missing replicated column: "b"'


def test_missing_columns_are_named_in_remote_order_before_generated_ones(execute, open_relation):
    """C3"""
    execute("CREATE TABLE t (b TEXT, g INT GENERATED ALWAYS AS (1))")
    message = refused(open_relation, relation("public.t", {"z": "int4", "g": "int4", "b": "text", "a": "int4"})).message
    assert message == 'logical replication target relation "public.t" is missing replicated columns: "z", "a"'


@pytest.mark.parametrize("kind", ["STORED", "VIRTUAL"])
def test_generated_columns_cannot_be_written(execute, open_relation, kind):
    """C3"""
    execute(f"CREATE TABLE t (a INT, b TEXT GENERATED ALWAYS AS ('x') {kind})")
    message = refused(open_relation, relation("public.t", AB)).message
    assert message == 'logical replication target relation "public.t" has incompatible generated column: "b"'


def test_a_column_that_would_change_values_is_refused(execute, open_relation):
    """refuse_not_guess"""
    execute("CREATE TABLE t (a INT, b NUMERIC)")
    error = refused(open_relation, relation("public.t", AB))
    assert error.column == "b"
    assert str(error.detail).endswith("The publisher has (a integer, b text), the target (a INT, b NUMERIC).")


def test_a_relation_is_looked_up_once_for_each_shape(execute, target):
    """C1"""
    execute("CREATE TABLE t (a INT, b TEXT)")
    with target.begin() as connection:
        relations = RelationMap(target, connection)
        one = relations.open(relation("public.t", AB))
        assert relations.open(relation("public.t", AB)) is one
        assert relations.open(relation("public.t", {"a": "int4"})).columns != one.columns


def test_tables_are_read_together_whatever_their_number(execute, target):
    """A catalog of many tables is searched once for all of them, not once for each."""
    remotes = [relation(f"public.t{number}", AB) for number in range(50)]
    for number in range(50):
        execute(f"CREATE TABLE t{number} (a INT, b TEXT)")
    texts: list[str] = []
    with target.begin() as connection:
        relations = RelationMap(target, connection)
        sa.event.listen(connection, "before_cursor_execute", lambda *arguments: texts.append(arguments[2]))
        relations.read_together(remotes[:2])
        for_two = len(texts)
        relations.read_together(remotes)
        assert len(texts) == 2 * for_two
        opened = [relations.open(one) for one in remotes]
        assert len(texts) == 2 * for_two
    assert [one.table.name for one in opened] == [f"t{number}" for number in range(50)]


def test_a_table_that_was_read_together_is_read_again_for_the_next_shape(execute, target):
    execute("CREATE TABLE t (a INT, b TEXT)")
    execute("CREATE TABLE u (a INT, b TEXT)")
    narrow, wide = relation("public.t", AB), relation("public.t", {**AB, "c": "text"})
    with target.begin() as connection:
        relations = RelationMap(target, connection)
        relations.read_together([narrow, wide, relation("public.u", AB), relation("public.missing", AB)])
        assert [column.name for column in relations.open(narrow).columns] == ["a", "b"]
        connection.exec_driver_sql("ALTER TABLE t ADD COLUMN c TEXT")
        assert [column.name for column in relations.open(wide).columns] == ["a", "b", "c"]
        with pytest.raises(TargetRelationError, match=r'"public\.missing" does not exist'):
            relations.open(relation("public.missing", AB))


def test_a_table_is_read_again_only_if_a_table_has_changed(execute, target):
    execute("CREATE TABLE t (a INT, b TEXT)")
    known = UnchangedTables()

    def queries(*statements):
        texts: list[str] = []
        with target.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)
            relations = RelationMap(target, connection, known=known)
            sa.event.listen(connection, "before_cursor_execute", lambda *arguments: texts.append(arguments[2]))
            assert [column.name for column in relations.open(relation("public.t", AB)).columns] == ["a", "b"]
        return len([text for text in texts if not text.startswith("PRAGMA")])

    assert queries() > 0
    assert queries("INSERT INTO t VALUES (1, 'one')") == 0
    assert queries("CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END") > 0
    assert queries() == 0
    execute("ALTER TABLE t RENAME COLUMN b TO c")
    with pytest.raises(TargetRelationError, match='missing replicated column: "b"'):
        queries()


def test_what_a_transaction_finds_after_it_has_altered_a_table_is_not_kept(execute, target):
    """It may be rolled back."""
    execute("CREATE TABLE t (a INT)")
    known = UnchangedTables()

    def opened(remote, **rules):
        with target.begin() as connection:
            found = RelationMap(target, connection, known=known, **rules).open(remote)
            if rules:
                raise InterruptedError
            return [column.name for column in found.table.columns]

    assert opened(relation("public.t", {"a": "int4"})) == ["a"]
    with pytest.raises(InterruptedError):
        opened(relation("public.t", AB), add_columns=True)
    assert opened(relation("public.t", {"a": "int4"})) == ["a"]
    with pytest.raises(TargetRelationError, match='missing replicated column: "b"'):
        opened(relation("public.t", AB))


# names of the target ------------------------------------------------------------------------------


def test_a_relation_is_found_under_the_name_that_the_map_gives_it(execute, target):
    execute("CREATE TABLE t (z INT)")
    execute('CREATE TABLE "archive.u" (a INT, b TEXT)')
    with target.begin() as connection:
        found = RelationMap(target, connection, parse_names("public.t => archive.u")).open(relation("public.t", AB))
    assert (found.table.name, found.qualified_name, found.remote.qualified_name) == (
        "archive.u",
        "archive.u",
        "public.t",
    )


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ("SELECT 1", 'logical replication target relation "archive.u" does not exist'),
        ('CREATE VIEW "archive.u" AS SELECT 1', 'cannot use relation "archive.u" as logical replication target'),
        (
            'CREATE TABLE "archive.u" (a INT)',
            'logical replication target relation "archive.u" is missing replicated column: "b"',
        ),
    ],
)
def test_errors_name_the_targets_relation(execute, target, made, message):
    """C3: PostgreSQL's messages name the relation that the subscriber has"""
    execute(made)
    with target.begin() as connection, pytest.raises(TargetRelationError) as raised:
        RelationMap(target, connection, parse_names("public.* => archive.*, public.t => archive.u")).open(
            relation("public.t", AB)
        )
    assert (raised.value.message, raised.value.relation) == (message, "archive.u")


# changes that are ignored -------------------------------------------------------------------------


def test_a_relation_whose_changes_are_ignored_is_looked_up_as_postgresql_does(execute, target):
    """C4: a missing column stops it; a column's type is nobody's matter, and is ours only where
    values are written
    """
    execute("CREATE TABLE t (a INT, b NUMERIC)")
    execute("CREATE TABLE u (a INT)")
    with target.begin() as connection:
        relations = RelationMap(target, connection)
        relations.look_up(relation("public.t", AB))
        with pytest.raises(TargetRelationError, match=r'"public\.u" is missing replicated column: "b"'):
            relations.look_up(relation("public.u", AB))
        with pytest.raises(TargetRelationError, match="cannot hold type text"):
            relations.open(relation("public.t", AB))


def test_a_relation_whose_changes_are_ignored_gets_no_columns(execute, target):
    execute("CREATE TABLE t (a INT)")
    with target.begin() as connection:
        RelationMap(target, connection, add_columns=True).look_up(relation("public.t", AB))
    assert execute("SELECT name FROM pragma_table_info('t')") == [("a",)]


def test_a_table_of_the_catalog_cannot_be_a_target(execute, target, open_relation):
    """B1: that of a publisher which is a target, too, comes with FOR ALL TABLES; it is ignored, and
    never written
    """
    remote = relation("public.subscriber_subscription", {"subid": "int4", "subname": "text"})
    error = refused(open_relation, remote)
    assert (error.sqlstate, "subscriber's catalog" in str(error.detail)) == ("42809", True)
    execute('CREATE TABLE "archive.mine" (subid INT, subname TEXT)')
    with target.begin() as connection:
        RelationMap(target, connection).look_up(remote)
        mapped = RelationMap(target, connection, parse_names("public.subscriber_subscription => archive.mine"))
        assert mapped.open(remote).qualified_name == "archive.mine"


# What is checked of a relation beyond its columns.


R = relation("public.r", {"a": "int4", "b": "text"}, ["a"])


@pytest.fixture
def local(target, execute) -> Callable[[str], TargetRelation]:
    def call(columns: str) -> TargetRelation:
        execute(f"CREATE TABLE r ({columns})")
        with target.begin() as connection:
            return RelationMap(target, connection).open(R)

    return call


@pytest.mark.parametrize("column", ["own TEXT", "own TEXT NOT NULL DEFAULT 'x'", "own TEXT NOT NULL AS ('x') STORED"])
def test_a_column_that_needs_no_value_is_allowed(local, column):
    check_required(local(f"a INTEGER PRIMARY KEY, b TEXT, {column}"))


def test_a_column_that_needs_a_value_is_refused(local):
    with pytest.raises(TargetRelationError, match='requires a value for column: "own"') as raised:
        check_required(local("a INTEGER PRIMARY KEY, b TEXT, own TEXT NOT NULL"))
    assert raised.value.sqlstate == "23502"
    assert "The publisher has (a integer, b text)" in str(raised.value.detail)


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        (insert("1", "x", None), True),
        (insert("1", None, None), False),
        (update(("1", m.UNCHANGED, None)), False),
        (update(("1", None, None), old=("1", "x", None)), True),
    ],
    ids=["a value", "NULL", "not sent", "a value of the old row"],
)
def test_a_binary_value_is_refused_where_the_type_cannot_read_it(target, tables, monkeypatch, change, refused):
    """C5"""
    error = UnsupportedValue("incorrect binary data format", column="b")
    monkeypatch.setattr(target.values, "refused_binary", lambda oid, column, number=0: error if number == 2 else None)
    with target.begin() as connection:
        local = RelationMap(target, connection).open(T)
    (group,) = frame([T], [change], binary=("b",)).groups
    if not refused:
        check_binary(target, local, group)
        return
    with pytest.raises(UnsupportedValue, match="incorrect binary data format"):
        check_binary(target, local, group)


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (
            ConflictError("null value", sqlstate="23502", detail="Failing row."),
            "Failing row. The publisher has (a integer, b text), the target (a INTEGER, b TEXT).",
        ),
        (
            UnsupportedValue("too long", column="b"),
            'Column "b" of table "public.r" has type text at the publisher and TEXT in the target.',
        ),
        (ConflictError("duplicate key", sqlstate="23505", detail="Key (a)."), "Key (a)."),
    ],
    ids=["NOT NULL", "a value", "another error"],
)
def test_an_error_shows_the_types_where_they_may_have_caused_it(local, error: SubscriberError, detail):
    assert with_shapes(error, local("a INTEGER PRIMARY KEY, b TEXT")).detail == detail


def test_an_error_about_a_value_says_what_to_do(local):
    table = local("a INTEGER PRIMARY KEY, b TEXT")
    said = with_shapes(UnsupportedValue("NaN", column="b"), table).hint
    assert said is not None and "unrepresentable_values" in said
    assert with_shapes(UnsupportedValue("NaN", column="b", hint="Do this."), table).hint == "Do this."


# Columns in error messages.


RELATION = relation("public.t", {"a": "int4", "b": "numeric[]"})


def test_columns_are_named_in_the_singular_or_the_plural():
    assert named(RELATION.columns[:1]) == 'column: "a"'
    assert named(RELATION.columns) == 'columns: "a", "b"'


def test_names_are_quoted():
    assert quoted(["a", "B c"]) == '"a", "B c"'


def test_only_the_sentences_that_are_there_are_joined():
    assert joined("One.", None, "Two.") == "One. Two."
    assert joined(None) == ""


def test_both_shapes_are_shown_with_their_types():
    table = TargetTable("main", "t", (TargetColumn("a", "INT", "INT", True), TargetColumn("x", "", "", True)), None)
    assert side_by_side(RELATION, table) == "The publisher has (a integer, b numeric[]), the target (a INT, x)."


# The target's table of a relation is found by its exact name, or the error says why it cannot be
# used.


@pytest.fixture
def find(target) -> Callable[..., TargetTable]:
    def call(name: str, rules: str | None = None) -> TargetTable:
        names = SAME_NAMES if rules is None else parse_names(rules)
        with target.begin() as connection:
            return find_table(target, connection, names, relation(name, AB))

    return call


def refused_table(find: Callable[..., TargetTable], name: str) -> TargetRelationError:
    with pytest.raises(TargetRelationError) as raised:
        find(name)
    return raised.value


def test_a_missing_table_is_named(find):
    """C3"""
    error = refused_table(find, "public.t")
    assert error.message == 'logical replication target relation "public.t" does not exist'
    assert error.sqlstate == "55000"


def test_a_table_of_another_spelling_is_another_table(execute, find):
    """C1: names are compared exactly, although SQLite ignores case."""
    execute('CREATE TABLE "T" (a INT, b TEXT)')
    assert "does not exist" in refused_table(find, "public.t").message


def test_a_view_cannot_be_a_target(execute, find):
    """C3"""
    execute("CREATE VIEW t AS SELECT 1 AS a, '' AS b")
    error = refused_table(find, "public.t")
    assert error.message == 'cannot use relation "public.t" as logical replication target'
    assert error.detail == "This operation is not supported for views."


def test_another_schema_is_a_dotted_name_or_an_attached_database(execute, target, find, tmp_path):
    execute('CREATE TABLE "sales.t" (a INT, b TEXT)')
    assert find("sales.t").name == "sales.t"
    with target.engine.connect() as connection:
        connection.exec_driver_sql("SELECT 1")
        connection.rollback()
        connection.connection.driver_connection.execute(f"ATTACH '{tmp_path / 'other.db'}' AS archive")
        connection.exec_driver_sql("CREATE TABLE archive.t (a INT, b TEXT)")
        found = find_table(target, connection, SAME_NAMES, relation("archive.t", AB))
        assert (found.schema, found.name) == ("archive", "t")
        connection.rollback()


def test_the_publishers_schema_main_is_not_the_database_itself(execute, find):
    execute("CREATE TABLE t (a INT, b TEXT)")
    assert "does not exist" in refused_table(find, "main.t").message


def test_a_table_is_found_under_the_name_that_the_map_gives_it(execute, find):
    execute('CREATE TABLE "archive.u" (a INT, b TEXT)')
    assert find("public.t", "public.t => archive.u").name == "archive.u"


def test_a_table_of_the_catalog_is_never_found(find):
    """B1: a publisher that is a target, too, has such tables"""
    error = refused_table(find, "public.subscriber_subscription")
    assert (error.sqlstate, "subscriber's catalog" in str(error.detail)) == ("42809", True)
    assert error.hint == (
        "Create a table of another name in the target, and run ALTER SUBSCRIPTION ... SET"
        " (map = 'public.subscriber_subscription => public.published_subscriber_subscription')."
    )


def test_a_table_with_the_name_of_one_of_the_catalog_is_found_in_another_schema(execute, find):
    execute('CREATE TABLE "crm.subscriber_subscription" (a INT, b TEXT)')
    assert find("crm.subscriber_subscription").name == "crm.subscriber_subscription"

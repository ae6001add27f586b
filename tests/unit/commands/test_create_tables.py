from __future__ import annotations

import pytest

from subscriber.base.errors import NotSupportedError, PublisherNotReady, SubscriberError
from subscriber.commands.create_tables import (
    MissingTable,
    create_missing_tables,
    design_tables,
    find_differences,
    notify_of_differences,
    with_common_types,
)
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.postgres.schema.publisher_tables import PublisherTable
from subscriber.postgres.schema.relation_names import SAME_NAMES, parse_names
from subscriber.postgres.schema.shape import ForeignKey, RelatedDifference, SchemaDifference
from subscriber.publisher.client import PublisherClient
from subscriber.targets.ddl import NewTable
from tests.table_shapes import column_shape, table_shape


def published(*names: str, columns: tuple[str, ...] = ("id",)) -> list[PublishedTable]:
    return [PublishedTable("public", name, columns=columns) for name in names]


def design(session, publisher, tables, names=SAME_NAMES) -> list[MissingTable]:
    return design_tables(session.target, PublisherClient(publisher.connection), tables, tables, names)


def create(session, missing: list[MissingTable]) -> None:
    with session.target.begin() as connection:
        create_missing_tables(session.target, connection, missing, session.said.append)


def columns_of(session, table: str) -> dict[str, bool]:
    """The columns of a table, and whether they are of its primary key."""
    return {row["name"]: bool(row["pk"]) for row in session.rows(f"PRAGMA table_info({table})")}


def test_a_table_has_the_published_columns_and_their_key(session, publisher):
    publisher.add_table("film", "id", "year", "secret")
    create(session, design(session, publisher, published("film", columns=("id", "year"))))
    assert columns_of(session, "film") == {"id": True, "year": False}


def test_a_table_without_a_key_at_the_publisher_has_none(session, publisher):
    publisher.add_table("film", "id", has_key=False)
    create(session, design(session, publisher, published("film")))
    assert columns_of(session, "film") == {"id": False}


def test_a_table_is_designed_under_its_mapped_name(session, publisher):
    publisher.add_table("film", "id")
    (missing,) = design(session, publisher, published("film"), parse_names("public.film => public.movie"))
    assert (missing.published.qualified_name, missing.relation) == ("public.film", "public.movie")
    create(session, [missing])
    assert columns_of(session, "movie") == {"id": True}
    assert columns_of(session, "film") == {}
    assert session.said == ['NOTICE:  created table "public.movie" at the subscriber']


def foreign_key(name: str, column: str, referenced: str, *, oid: int) -> dict[str, object]:
    """A row of pg_constraint; the key refers to the column id."""
    return {
        "conrelid": oid, "columns": [column], "nspname": "public", "relname": referenced, "referenced": ["id"],
        "confdeltype": "a", "confupdtype": "a", "confdelsetcols": [], "full": False, "condeferrable": False,
        "condeferred": False, "plain": True, "conname": name, "ddl": "FOREIGN KEY …",
        "types": ["integer"], "other_types": ["integer"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("ddl", "kept"),
    [(None, False), ("CREATE TABLE actor (id integer PRIMARY KEY)", True)],
    ids=["not in the target", "in the target"],
)
def test_a_foreign_key_is_kept_if_its_table_is_there(session, publisher, ddl, kept):
    publisher.add_table("film", "id", "actor_id")
    publisher.answer("confdeltype", [foreign_key("film_actor_fk", "actor_id", "actor", oid=16384)])
    if ddl:
        session.execute(ddl)
    create(session, design(session, publisher, published("film", columns=("id", "actor_id"))))
    assert [row["table"] for row in session.rows("PRAGMA foreign_key_list(film)")] == (["actor"] if kept else [])


def test_a_table_that_was_dropped_meanwhile_is_an_error(session, publisher):
    with pytest.raises(PublisherNotReady) as caught:
        design(session, publisher, published("film"))
    assert caught.value.message == 'table "public.film" not found on publisher'
    assert (caught.value.sqlstate, caught.value.relation) == ("42P01", "public.film")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], []),
        (["a", "b"], [f'NOTICE:  created table "public.{name}" at the subscriber' for name in "ab"]),
        (["a", "b", "c", "d", "e"], [f'NOTICE:  created table "public.{name}" at the subscriber' for name in "abcde"]),
        (
            ["a", "b", "c", "d", "e", "f"],
            [
                (
                    'NOTICE:  created 6 tables at the subscriber: "public.a", "public.b", "public.c", "public.d",'
                    ' "public.e" and 1 more'
                )
            ],
        ),
    ],
    ids=["none", "two", "five", "six"],
)
def test_created_tables_are_told_one_by_one_up_to_five(session, publisher, names, said):
    for name in names:
        publisher.add_table(name, "id")
    create(session, design(session, publisher, published(*names)))
    assert session.said == said


def test_a_table_that_cannot_be_created_is_named_and_nothing_is_told(session, publisher):
    publisher.add_table("a", "id")
    publisher.add_table("film", "id")
    missing = design(session, publisher, published("a", "film"))
    session.execute("CREATE TABLE film (id integer)")
    with pytest.raises(SubscriberError) as caught:
        create(session, missing)
    assert (caught.value.relation, caught.value.context) == ("public.film", 'creating table "public.film"')
    assert session.said == []
    assert columns_of(session, "a") == {}


def test_all_tables_that_the_target_cannot_have_are_named_at_once(session, publisher):
    publisher.add_table("fine", "id")
    for name in ("a", "b"):
        publisher.add_table(name, "x", "X", has_key=False)
    with pytest.raises(NotSupportedError) as caught:
        design(session, publisher, published("fine", "a", "b", columns=("id", "x", "X")))
    assert caught.value.message == '2 tables cannot be created in SQLite: "public.a", "public.b"'
    assert str(caught.value.detail).startswith('Columns "x" and "X" of table "public.a" have the same name in SQLite')
    assert 'of table "public.b"' in str(caught.value.detail)
    assert str(caught.value.hint).startswith("Publish the table with a column list")


# Differences -------------------------------------------------------------------------------------


def difference(kind: str, name: str, relation: str = "public.film") -> RelatedDifference:
    return RelatedDifference(relation, SchemaDifference(kind, name, "DDL", "reason"))


def told(*differences: RelatedDifference) -> list[str]:
    said: list[str] = []
    notify_of_differences(differences, said.append)
    return said


def test_without_differences_nothing_is_told():
    assert told() == []


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("default", "public.film.x"),
        ("check constraint", "public.film.x"),
        ("trigger", "public.film.x"),
        ("view", "x"),
        ("materialized view", "x"),
        ("index", "x"),
        ("partition", "x"),
        ("partitioned table", "x"),
        ("shared sequence", "x"),
    ],
)
def test_an_object_without_a_schema_of_its_own_is_named_with_its_table(kind, shown):
    first, last = told(difference(kind, "x"))
    assert first.startswith("NOTICE:  1 ")
    assert first.endswith(f': "{shown}"')
    assert last == (
        'NOTICE:  table "subscriber_schema_difference" lists the difference from the publisher\'s schema, with DDL and reason'
    )


def test_each_kind_is_told_once_with_its_number_and_the_first_names():
    given = [difference("default", f"c{number}") for number in range(7)]
    assert told(difference("policy", "p"), *given) == [
        (
            'NOTICE:  7 defaults are left out: "public.film.c0", "public.film.c1", "public.film.c2",'
            ' "public.film.c3", "public.film.c4" and 2 more'
        ),
        'NOTICE:  1 policy of row security is left out: "public.film.p"',
        'NOTICE:  table "subscriber_schema_difference" lists all 8 differences from the publisher\'s schema, with DDL and reason',
    ]


def test_an_object_of_two_tables_is_counted_once():
    first, _ = told(difference("view", "public.v"), difference("view", "public.v", "public.actor"))
    assert first == 'NOTICE:  1 view is left out: "public.v"'


def test_a_difference_of_the_table_itself_is_named_by_the_table():
    assert told(difference("inheritance", ""))[0] == 'NOTICE:  1 parent of a table is left out: "public.film"'


def test_differences_of_the_table_and_of_the_publisher_come_in_one_order(publisher):
    """By kind, and within a kind as they were found."""
    table = PublishedTable("public", "film")
    own = (
        SchemaDifference("policy", "p", "DDL", "reason"),
        SchemaDifference("default", "b", "DDL", "reason"),
        SchemaDifference("default", "a", "DDL", "reason"),
    )
    index = {"relation": "public.film", "name": "public.film_title", "ddl": "CREATE INDEX …"}
    publisher.answer("pg_get_indexdef(i.indexrelid) FROM pg_index i\n", [index])
    missing = [MissingTable(table, "public.film", NewTable((), own))]
    found = find_differences(PublisherClient(publisher.connection), missing)
    assert [(one.difference.kind, one.difference.object) for one in found] == [
        ("default", "b"),
        ("default", "a"),
        ("index", "public.film_title"),
        ("policy", "p"),
    ]


def test_every_kind_that_the_publisher_tells_has_its_text(publisher):
    """Else the whole list could not be sorted."""
    row = {"relation": "public.film", "name": "x", "ddl": "DDL"}
    publisher.answer("%(oids)s", [row])
    publisher.answer("a.attrelid::int8, (", [])  # its columns
    table = PublishedTable("public", "film")
    found = find_differences(
        PublisherClient(publisher.connection), [MissingTable(table, "public.film", NewTable((), ()))]
    )
    assert len(found) == 10
    assert len(told(*found)) == 10 + 1


def test_a_column_with_another_type_is_named_with_it():
    changed = SchemaDifference("row size", "x", "DDL", "reason", instead="LONGTEXT")
    assert told(RelatedDifference("public.film", changed))[0] == (
        'NOTICE:  1 column has another type, so that a row is not too large: "public.film.x LONGTEXT"'
    )


# One type for both sides of a foreign key --------------------------------------------------------

OIDS = {"smallint": 21, "integer": 23, "bigint": 20, "text": 25, "date": 1082}


def table(name: str, type_name: str, references: str | None = None) -> PublisherTable:
    """A table with a column ``id``, which may refer to that of another table."""
    oid = 1700 if type_name.startswith("numeric") else OIDS.get(type_name, 1043)
    keys = () if references is None else (ForeignKey(("id",), "public", references, ("id",)),)
    return table_shape("public", name, (column_shape("id", oid, type_name),), ("id",), foreign_keys=keys)


def types_of(*shapes: PublisherTable, others: tuple[PublisherTable, ...] = ()) -> list[str]:
    return [shape.columns[0].type_name for shape, _ in with_common_types(shapes, others)]


@pytest.mark.parametrize(
    ("parent", "child", "expected"),
    [
        ("bigint", "integer", "bigint"),
        ("smallint", "bigint", "bigint"),
        ("integer", "integer", "integer"),
        ("numeric(10,2)", "numeric(12,3)", "numeric(12,3)"),
        ("numeric(10,2)", "numeric(6,4)", "numeric(12,4)"),
        ("numeric(5,0)", "bigint", "numeric(19,0)"),
    ],
)
def test_both_sides_get_the_widest_type(parent, child, expected):
    assert types_of(table("p", parent), table("c", child, "p")) == [expected] * 2
    assert types_of(table("c", child, "p"), table("p", parent)) == [expected] * 2


@pytest.mark.parametrize(
    ("parent", "child"), [("text", "character varying(9)"), ("numeric", "integer"), ("date", "text")]
)
def test_other_types_are_left_as_they_are(parent, child):
    assert types_of(table("p", parent), table("c", child, "p")) == [parent, child]


def test_columns_that_are_connected_through_others_get_one_type():
    assert types_of(table("c", "smallint", "b"), table("b", "integer", "a"), table("a", "bigint")) == ["bigint"] * 3


def test_a_table_that_refers_to_itself_or_to_one_that_is_not_there_is_left_as_it_is():
    assert types_of(table("a", "integer", "a"), table("b", "smallint", "elsewhere")) == ["integer", "smallint"]


def test_a_table_that_exists_keeps_its_type_and_decides_about_a_new_one():
    assert types_of(table("c", "integer", "p"), others=(table("p", "bigint"),)) == ["bigint"]
    assert types_of(table("c", "bigint", "p"), others=(table("p", "integer"),)) == ["bigint"]


def test_a_changed_type_is_told():
    (_, kept), (_, changed) = with_common_types([table("p", "bigint"), table("c", "integer", "p")])
    assert kept == ()
    (difference,) = changed
    assert (difference.kind, difference.object, difference.ddl, difference.instead) == (
        "foreign key type",
        "id",
        "id integer",
        "bigint",
    )

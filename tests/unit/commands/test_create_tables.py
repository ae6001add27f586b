"""The option create_tables: how missing tables are designed and created."""

from __future__ import annotations

import pytest

from subscriber.commands.create_tables import MissingTable, create_missing_tables, design_tables
from subscriber.errors import PublisherNotReady, SubscriberError
from subscriber.publisher.publisher import Publisher
from subscriber.schema.published_table import PublishedTable
from subscriber.schema.relation_names import SAME_NAMES, parse_names


def published(*names: str, columns: tuple[str, ...] = ("id",)) -> list[PublishedTable]:
    return [PublishedTable("public", name, columns=columns) for name in names]


def design(session, publisher, tables, names=SAME_NAMES) -> list[MissingTable]:
    return design_tables(session.target, Publisher(publisher.connection), tables, tables, names)


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
        "confdeltype": "a", "confupdtype": "a", "full": False, "condeferrable": False, "condeferred": False,
        "confdelsetcols": [], "plain": True, "conname": name, "ddl": "FOREIGN KEY …",
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

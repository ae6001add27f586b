"""What created tables lack: one notice for each kind, and the order of the list."""

from __future__ import annotations

import pytest

from subscriber.commands.create_tables import MissingTable
from subscriber.commands.create_tables_differences import find_differences, tell_differences
from subscriber.publisher.publisher import Publisher
from subscriber.schema.published_table import PublishedTable
from subscriber.schema.shape import RelatedDifference, SchemaDifference
from subscriber.targets.ddl import NewTable


def difference(kind: str, name: str, relation: str = "public.film") -> RelatedDifference:
    return RelatedDifference(relation, SchemaDifference(kind, name, "DDL", "reason"))


def told(*differences: RelatedDifference) -> list[str]:
    said: list[str] = []
    tell_differences(differences, said.append)
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
    found = find_differences(Publisher(publisher.connection), missing)
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
    found = find_differences(Publisher(publisher.connection), [MissingTable(table, "public.film", NewTable((), ()))])
    assert len(found) == 10
    assert len(told(*found)) == 10 + 1

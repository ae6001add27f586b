"""Does the target have the tables, and do they fit?"""

from __future__ import annotations

from typing import Any

import pytest

from subscriber.base.errors import UsageError
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.commands.check_publications import SubscribedTables
from subscriber.commands.check_target_tables import check_relations, check_tables, warn_of_shapes
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.postgres.schema.relation_names import SAME_NAMES, parse_names
from subscriber.publisher.client import PublisherClient

FILM = ("public", "film")


def refused(session, relations, names=SAME_NAMES, **options: bool) -> UsageError:
    with pytest.raises(UsageError) as caught:
        check_relations(session.target, relations, names, **options)
    return caught.value


# Names --------------------------------------------------------------------------------------------


def test_tables_that_exist_are_not_missing(session):
    session.execute("CREATE TABLE film (id integer)")
    assert check_relations(session.target, [FILM], SAME_NAMES) == []
    assert check_relations(session.target, [], SAME_NAMES) == []


def test_missing_tables_are_told_if_they_are_to_be_created(session):
    session.execute("CREATE TABLE film (id integer)")
    missing = check_relations(session.target, [FILM, ("public", "actor")], SAME_NAMES, create_tables=True)
    assert missing == [("public", "actor")]


@pytest.mark.parametrize(
    ("create_tables", "offers_creation"), [(False, True), (None, False)], ids=["could create", "cannot create"]
)
def test_a_missing_table_is_refused_in_postgresqls_words(session, create_tables, offers_creation):
    error = refused(session, [FILM], create_tables=create_tables)
    assert (error.message, error.sqlstate) == ('relation "public.film" does not exist', "42P01")
    assert (error.relation, error.detail) == ("public.film", None)
    assert ("create_tables = true" in str(error.hint)) is offers_creation


def test_a_table_that_is_missing_under_its_mapped_name_is_told_with_both_names(session):
    session.execute("CREATE TABLE film (id integer)")
    error = refused(session, [FILM], parse_names("public.film => public.movie"))
    assert error.message == 'relation "public.movie" does not exist'
    assert error.detail == 'Option "map" replicates the publisher\'s table "public.film" into it.'


def test_a_view_is_refused_in_postgresqls_words(session):
    """CheckSubscriptionRelkind."""
    session.execute("CREATE VIEW film AS SELECT 1 AS id")
    error = refused(session, [FILM])
    assert error.message == 'cannot use relation "public.film" as logical replication target'
    assert (error.sqlstate, error.detail) == ("42809", "This operation is not supported for views.")


def test_the_tables_of_the_catalog_are_refused(session):
    error = refused(session, [FILM], parse_names("public.film => public.subscriber_subscription"))
    assert error.message == 'cannot use relation "public.subscriber_subscription" as logical replication target'
    assert (error.sqlstate, error.detail) == ("42809", "The target has a table of subscriber's catalog in this place.")
    assert error.hint == (
        "Replicate it into a table of another name: WITH (map = 'public.film => public.published_film')."
    )


def test_two_relations_in_one_table_are_refused(session):
    session.execute("CREATE TABLE film (id integer)")
    error = refused(session, [FILM, ("archive", "film")], parse_names("archive.* => public.*"))
    assert error.sqlstate == "42710"
    assert "archive.film" in error.report()


def test_missing_tables_are_designed_from_the_publishers(session, publisher):
    publisher.add_table("film", "id", "year")
    tables = [PublishedTable("public", "film", columns=("id",))]
    (missing,) = check_tables(session.target, PublisherClient(publisher.connection), tables, create_tables=True)
    assert (missing.published, missing.relation) == (tables[0], "public.film")
    assert not session.rows("SELECT * FROM sqlite_master WHERE name = 'film'")


# Shapes -------------------------------------------------------------------------------------------


def warnings(session, publisher, *, changing: bool = True, **options: Any) -> list[str]:
    tables = [PublishedTable("public", name, columns=tuple(table.columns)) for name, table in publisher.tables.items()]
    published = SubscribedTables(tables, frozenset(table.key for table in tables) if changing else frozenset())
    said: list[str] = []
    warn_of_shapes(
        session.target,
        PublisherClient(publisher.connection),
        published,
        SubscriptionOptions(slot_name="s", **options),
        said.append,
    )
    return [text.partition("\n")[0] for text in said]


@pytest.mark.parametrize(
    "ddl",
    ["CREATE TABLE film (id integer PRIMARY KEY, year integer)", "CREATE TABLE other (id integer)"],
    ids=["fits", "not there yet"],
)
def test_a_table_that_fits_or_is_to_be_created_is_not_told(session, publisher, ddl):
    publisher.add_table("film", "id", "year")
    session.execute(ddl)
    assert warnings(session, publisher) == []


def test_a_column_that_is_missing_is_told_with_the_error_of_the_worker(session, publisher):
    """C1."""
    publisher.add_table("film", "id", "year")
    session.execute("CREATE TABLE film (id integer PRIMARY KEY)")
    assert warnings(session, publisher) == [
        'WARNING:  logical replication target relation "public.film" is missing replicated column: "year"'
    ]
    assert warnings(session, publisher, schema_changes="add_columns") == []


def test_a_column_that_needs_a_value_is_told_with_its_table(session, publisher):
    publisher.add_table("film", "id")
    session.execute("CREATE TABLE film (id integer PRIMARY KEY, year integer NOT NULL)")
    (told,) = warnings(session, publisher)
    assert told.startswith("WARNING:  ")
    assert '"public.film"' in told
    assert '"year"' in told


def test_a_table_without_a_key_is_told_if_rows_are_changed(session, publisher):
    publisher.add_table("film", "id", "year")
    session.execute("CREATE TABLE film (year integer PRIMARY KEY, id integer)")
    assert len(warnings(session, publisher)) == 1
    assert warnings(session, publisher, changing=False) == []


def test_a_table_without_replica_identity_is_the_publishers_to_refuse(session, publisher):
    publisher.add_table("film", "id", has_key=False)
    session.execute("CREATE TABLE film (id integer)")
    assert warnings(session, publisher) == []


def test_a_table_is_compared_under_its_mapped_name(session, publisher):
    publisher.add_table("film", "id", "year")
    session.execute("CREATE TABLE movie (id integer PRIMARY KEY)")
    (told,) = warnings(session, publisher, map=parse_names("public.film => public.movie"))
    assert '"public.movie"' in told

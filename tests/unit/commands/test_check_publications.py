"""What a subscription's publications publish, and the warnings about it."""

from __future__ import annotations

from typing import Any

import pytest

from subscriber.base.errors import NotSupportedError, PublisherNotReady, SubscriberError, UsageError
from subscriber.catalog.publications import find_publication, insert_publication, replace_publication
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.commands.check_publications import (
    SubscribedTables,
    check_publications,
    find_published_tables,
    read_uncopied,
    warn_of_origins,
)
from subscriber.postgres.publication.definition import Publication, TableEntry
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.server_publications import ServerPublications
from subscriber.targets import open_target

FILM = TableEntry("public", "film")


def check(session, publisher, *publications: str, **options: Any) -> SubscribedTables:
    given = {name: options.pop(name) for name in ("named", "known") if name in options}
    return check_publications(
        session.target,
        PublisherClient(publisher.connection),
        publications or ("p",),
        SubscriptionOptions(slot_name="s", **options),
        session.said.append,
        **given,
    )


def refused(session, publisher, *publications: str, **options: Any) -> SubscriberError:
    with pytest.raises(SubscriberError) as caught:
        check(session, publisher, *publications, **options)
    return caught.value


def first_lines(session) -> list[str]:
    return [text.partition("\n")[0] for text in session.said]


# Publications of the server -----------------------------------------------------------------------


def test_the_tables_of_the_server_are_those_that_are_subscribed_to(session, publisher):
    publisher.add_table("film", "id", "year")
    found = check(session, publisher)
    assert found == SubscribedTables(
        [PublishedTable("public", "film", columns=("id", "year"))], frozenset({("public", "film")})
    )
    assert session.said == []


def test_missing_publications_are_told_only_as_far_as_the_command_names_them(session, publisher):
    check(session, publisher, "p", "gone", "z")
    assert first_lines(session) == ['WARNING:  publications "gone", "z" do not exist on the publisher']
    session.said.clear()
    check(session, publisher, "p", "gone", "z", named=("z",))
    assert first_lines(session) == ['WARNING:  publication "z" does not exist on the publisher']


def test_the_state_of_other_subscribers_is_not_replicated(session, publisher):
    publisher.add_table("film", "id")
    publisher.add_table("subscriber_subscription", "subid")
    publisher.add_table("subscriber_runner", "jogger", "shoes")
    assert [table.name for table in check(session, publisher).tables] == ["film", "subscriber_runner"]
    assert session.said == [
        (
            "NOTICE:  the tables of subscriber's own catalog at the publisher are not replicated: "
            '"public.subscriber_subscription"'
        )
    ]


def test_tables_without_a_replica_identity_are_told(session, publisher):
    publisher.add_table("film", "id", has_key=False)
    check(session, publisher)
    assert first_lines(session) == ['WARNING:  published table "public.film" has no replica identity']


@pytest.mark.parametrize(
    ("options", "told"),
    [({}, True), ({"known": [("public", "film")]}, False), ({"copy_data": False}, False)],
    ids=["copied", "known", "not copied"],
)
def test_tables_that_cannot_be_copied_are_told(session, publisher, options, told):
    publisher.add_table("film", "id", may_read=False)
    check(session, publisher, **options)
    assert first_lines(session) == (
        ['WARNING:  role "ann" does not have the privilege to read published table "public.film"'] if told else []
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [({"origin": "none"}, True), ({"origin": "any"}, False), ({"origin": "none", "copy_data": False}, False)],
)
def test_copied_rows_of_other_origins_are_told(session, publisher, options, told):
    """C55."""
    publisher.other_origins = ["p"]
    options = SubscriptionOptions(slot_name="s", **options)
    warn_of_origins(PublisherClient(publisher.connection), "s", ["p"], options, session.said.append, 18)
    assert [text.startswith('WARNING:  subscription "s" requested copy_data with') for text in session.said] == (
        [True] if told else []
    )


# Emulated publications ----------------------------------------------------------------------------


@pytest.fixture
def emulated(session, publisher):
    """Emulated publication mine of a table film, with carrier p."""
    publisher.add_table("film", "id", "year")
    publisher.add_table("actor", "id")
    define(session, Publication("mine", tables=(FILM,)))
    return publisher


def define(session, publication: Publication) -> None:
    with session.target.begin() as connection:
        if find_publication(connection, publication.name) is None:
            insert_publication(connection, publication, "ann")
        else:
            replace_publication(connection, publication)


def test_the_tables_of_emulated_publications_are_found_without_the_server(session, emulated):
    define(session, Publication("mine", tables=(TableEntry("public", "film", ("id",), "id > 1"),)))
    found = check(session, emulated, "mine", carrier="p")
    assert [(table.name, table.columns) for table in found.tables] == [("film", ("id",))]
    assert found.changing == {("public", "film")}
    assert found.publishing is not None
    assert session.said == []


def test_an_emulated_publication_that_does_not_exist_is_refused(session, emulated):
    error = refused(session, emulated, "nope", carrier="p")
    assert isinstance(error, UsageError)
    assert '"nope"' in error.message


def test_a_target_without_a_catalog_has_no_emulated_publications_and_gets_no_file(tmp_path, publisher):
    """`subscriber check` promises to change nothing."""
    with open_target(f"sqlite:///{tmp_path / 'new.db'}") as target:
        options = SubscriptionOptions(slot_name="s", carrier="p")
        with pytest.raises(UsageError, match='publication "mine" does not exist'):
            find_published_tables(target, PublisherClient(publisher.connection), ["mine"], options, print)
    assert list(tmp_path.iterdir()) == []


def test_a_carrier_that_does_not_exist_is_refused(session, emulated):
    error = refused(session, emulated, "mine", carrier="nope")
    assert (type(error), error.message) == (PublisherNotReady, 'publication "nope" does not exist')
    assert error.sqlstate == "42704"
    assert 'CREATE PUBLICATION "nope" FOR ALL TABLES' in str(error.hint)


def test_a_carrier_that_lacks_a_table_is_refused(session, emulated):
    emulated.publications["p"] = Publication("p", tables=(TableEntry("public", "actor"),))
    error = refused(session, emulated, "mine", carrier="p")
    assert isinstance(error, NotSupportedError)
    assert "film" in error.report()


def test_a_table_that_the_publisher_lacks_is_refused_with_its_publication(session, emulated):
    define(session, Publication("mine", tables=(TableEntry("public", "gone"),)))
    error = refused(session, emulated, "mine", carrier="p")
    assert (error.message, error.sqlstate) == ('relation "public.gone" does not exist', "42P01")
    assert error.detail == 'Publication "mine" contains the table, but the publisher does not have it.'
    assert error.relation == "public.gone"


def test_a_filter_that_does_not_fit_the_table_is_refused_with_its_place(session, emulated):
    define(session, Publication("mine", tables=(TableEntry("public", "film", where="title = 'x'"),)))
    error = refused(session, emulated, "mine", carrier="p")
    assert (error.sqlstate, error.relation) == ("42703", "public.film")
    assert error.context == 'row filter of table "public.film" in publication "mine"'


# Tables that are not copied -----------------------------------------------------------------------


def test_tables_that_are_not_copied_are_read_as_far_as_they_exist(publisher):
    film, gone = PublishedTable("public", "film"), PublishedTable("public", "gone")
    publisher.answer(
        "SELECT c.oid::int8, c.relnatts",
        lambda asked: [] if asked.parameters[1] == "gone" else [{"oid": 16384, "relnatts": 3}],
    )
    found = read_uncopied(
        PublisherClient(publisher.connection), ServerPublications(publisher.connection, ["p"]), [film, gone]
    )
    assert [(table, attributes.last) for table, attributes in found] == [(film, 3)]

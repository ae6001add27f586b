"""Publications of a server are stored as emulated publications: all of them, or none."""

from __future__ import annotations

import pytest

from subscriber.base.errors import PublisherNotReady, SubscriberError, UsageError
from subscriber.catalog.publications import list_publications
from subscriber.commands.publication_commands import import_publications
from subscriber.postgres.publication.definition import Publication, TableEntry


def run(session, *names: str, replace: bool = False) -> list[str]:
    session.said.clear()
    import_publications(session.target, "host=a", names, session.said.append, replace=replace)
    return list(session.said)


def stored(session) -> dict[str, Publication]:
    with session.target.engine.connect() as connection:
        return {publication.name: publication for publication in list_publications(connection)}


@pytest.fixture
def server(publisher):
    """A publisher with a table film, publication p of all tables, and q of the table."""
    publisher.add_table("film", "id", "year")
    publisher.publications["q"] = Publication("q", tables=(TableEntry("public", "film", ("id", "year"), "(id > 1)"),))
    return publisher


def test_a_publication_is_stored_as_the_server_has_it(session, server):
    assert run(session, "q", "p", "q") == [
        'NOTICE:  imported publication "q": 1 table, 1 row filter',
        'NOTICE:  imported publication "p": all tables',
    ]
    assert stored(session) == server.publications


def test_a_publication_that_the_server_lacks_is_refused_and_none_is_stored(session, server):
    with pytest.raises(PublisherNotReady) as caught:
        run(session, "p", "gone")
    assert (caught.value.message, caught.value.sqlstate) == ('publication "gone" does not exist', "42704")
    assert stored(session) == {}


def test_a_publication_that_is_stored_already_is_replaced_only_on_request(session, server):
    run(session, "q")
    server.publications["q"] = Publication("q", all_tables=True)
    with pytest.raises(UsageError) as caught:
        run(session, "p", "q")
    assert caught.value.sqlstate == "42710"
    assert set(stored(session)) == {"q"}
    run(session, "p", "q", replace=True)
    assert stored(session) == server.publications


def test_a_filter_that_cannot_be_evaluated_is_refused_with_its_place(session, server):
    server.publications["q"] = Publication("q", tables=(TableEntry("public", "film", where="(id = txid_current())"),))
    with pytest.raises(SubscriberError) as caught:
        run(session, "p", "q")
    assert caught.value.relation == "public.film"
    assert caught.value.context == 'row filter of table "public.film" in publication "q"'
    assert stored(session) == {}


@pytest.mark.parametrize(
    ("publication", "summary"),
    [
        (Publication("q"), "no tables"),
        (Publication("q", all_tables=True), "all tables"),
        (Publication("q", all_tables=True, all_sequences=True), "all tables, all sequences"),
        (Publication("q", all_sequences=True), "all sequences"),
        (Publication("q", tables=(TableEntry("public", "film"),)), "1 table"),
        (
            Publication(
                "q",
                tables=(TableEntry("public", "film", where="(id > 1)"), TableEntry("public", "actor")),
                schemas=("s",),
            ),
            "2 tables, 1 schema, 1 row filter",
        ),
    ],
    ids=["none", "all", "everything", "sequences", "one", "several"],
)
def test_the_notice_says_what_was_imported(session, server, publication, summary):
    server.add_table("actor", "id")
    server.publications["q"] = publication
    assert run(session, "q") == [f'NOTICE:  imported publication "q": {summary}']

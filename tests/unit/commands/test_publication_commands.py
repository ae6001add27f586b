"""CREATE, ALTER and DROP PUBLICATION, as far as no publisher is needed. The rest is in
tests/conformance/test_publication_commands.py.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.base.errors import NotSupportedError, UsageError
from subscriber.catalog.publications import (
    get_publication,
    insert_publication,
    list_publications,
    replace_publication,
)
from subscriber.commands import publication_commands
from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.schema.publisher_tables import PublisherTables


@pytest.fixture
def session(session):
    """A target that has the publications p and q."""
    with session.target.begin() as connection:
        for name in ("p", "q"):
            insert_publication(connection, Publication(name), "ann")
    return session


def publications(session) -> list[str]:
    with session.target.engine.connect() as connection:
        return [publication.name for publication in list_publications(connection)]


def test_names_that_are_dropped_are_all_there_or_none_is_dropped(session):
    error = session.refused("DROP PUBLICATION p, nope")
    assert (error.sqlstate, error.message) == ("42704", 'publication "nope" does not exist')
    assert publications(session) == ["p", "q"]
    assert session.run("DROP PUBLICATION IF EXISTS p, nope, p") == "DROP PUBLICATION"
    assert publications(session) == ["q"]
    assert session.said == ['NOTICE:  publication "nope" does not exist, skipping']


def test_a_publication_that_a_subscription_goes_by_is_dropped_with_a_warning(session):
    session.subscribe("mine", publications=("p", "q"), carrier="everything")
    session.subscribe("servers")
    session.run("DROP PUBLICATION p")
    assert publications(session) == ["q"]
    (said,) = session.said
    assert said.startswith('WARNING:  subscription "mine" cannot continue without publication "p"\nHINT:  ')


def test_there_is_nobody_to_give_a_publication_to(session):
    named = session.refused("ALTER PUBLICATION nope OWNER TO me")
    assert (type(named), named.sqlstate, named.message) == (UsageError, "42704", 'role "me" does not exist')
    assert session.refused("ALTER PUBLICATION nope OWNER TO CURRENT_USER").sqlstate == "42704"
    assert isinstance(session.refused("ALTER PUBLICATION p OWNER TO CURRENT_USER"), NotSupportedError)


def test_a_publisher_is_needed_where_names_are_looked_up_and_only_there(session):
    """names_are_data: connection strings are shown without passwords."""
    assert session.run("ALTER PUBLICATION p SET (publish = 'insert')") == "ALTER PUBLICATION"
    assert session.run("ALTER PUBLICATION p RENAME TO r") == "ALTER PUBLICATION"
    session.subscribe("s", "host=a password=hush")
    session.subscribe("t", "host=b password=hush")
    error = session.refused("ALTER PUBLICATION r ADD TABLE t")
    assert error.message == "the publisher of the publication's tables is not known"
    assert error.detail == "The target's subscriptions have different publishers: host=a; host=b."
    assert "--publisher" in (error.hint or "")


def test_the_publication_is_looked_for_before_the_publisher(session):
    assert session.refused("CREATE PUBLICATION p FOR TABLE t").sqlstate == "42710"
    assert session.refused("ALTER PUBLICATION nope ADD TABLE t").sqlstate == "42704"


def test_a_change_that_another_command_made_meanwhile_is_not_overwritten(session, monkeypatch):
    asked = []

    def tables(target, publisher) -> PublisherTables:
        asked.append(publisher)
        with target.begin() as connection:
            replace_publication(connection, replace(Publication("p"), via_root=True))
        return PublisherTables(180000, {}, frozenset(), schemas=frozenset({"s"}))

    monkeypatch.setattr(publication_commands, "_tables", tables)
    with pytest.raises(UsageError) as caught:
        session.run("ALTER PUBLICATION p ADD TABLES IN SCHEMA s", "host=a")
    assert (caught.value.sqlstate, asked) == ("40001", ["host=a"])
    with session.target.engine.connect() as connection:
        assert get_publication(connection, "p") == Publication("p", via_root=True)

"""The warnings that a publisher sends changes of other origins (rule C55), with publishers that
subscribe to other servers themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from subscriber.publisher.connection import connect_publisher
from subscriber.publisher.server_publications import publications_of_followed_sequences
from tests.subscribing import Session
from tests.target_databases import applied_to

pytestmark = pytest.mark.server


@pytest.fixture
def session(request, publisher_database, tmp_path) -> Iterator[Session]:
    """A publisher that subscribes to table ``t``, which it publishes as ``p``."""
    publisher_database.execute(
        "CREATE TABLE t (a int PRIMARY KEY); CREATE TABLE own (a int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE t;"
        " CREATE PUBLICATION q FOR TABLE own"
    )
    with applied_to("sqlite", request, tmp_path) as on:
        on.execute("DELETE FROM subscriber_replication_origin_status")
        on.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)", "CREATE TABLE own (a INTEGER PRIMARY KEY)")
        session = Session(on.target, publisher_database, str(tmp_path / "journal"))
        session.settings = replace(session.settings, postgresql_version=19)
        write_to_catalog(
            session,
            "INSERT INTO pg_subscription_rel (srsubid, srrelid, srsubstate) VALUES (1, 't'::regclass, 'r')",
        )
        yield session


def write_to_catalog(session: Session, sql: str) -> None:
    """A subscription of the publisher, as far as others see it."""
    session.publisher.execute(f"SET allow_system_table_mods = on; {sql}; SET allow_system_table_mods = off")


def told(session: Session, sql: str) -> list[str]:
    return [text for text in session.run(sql) if "origin" in text]


RETAINED = """\
WARNING:  subscription "s" enabled retain_dead_tuples but might not reliably detect conflicts for changes from different origins
DETAIL:  The subscription subscribes to a publication ("p") that contains tables that are written to by other subscriptions.
HINT:  Consider using origin = NONE or disabling retain_dead_tuples."""
COPIED = """\
WARNING:  subscription "s" requested copy_data with origin = NONE but might copy data that had a different origin
DETAIL:  The subscription subscribes to a publication ("p") that contains tables that are written to by other subscriptions.
HINT:  Verify that initial data copied from the publisher tables did not come from other origins."""


def test_deleted_rows_are_retained_with_a_warning_where_the_publisher_passes_changes_on(session):
    create = "CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION {} WITH (retain_dead_tuples = true)"
    assert told(session, create.format("q")) == []
    assert told(session, "ALTER SUBSCRIPTION s ADD PUBLICATION p") == [RETAINED]
    assert told(session, "ALTER SUBSCRIPTION s REFRESH PUBLICATION") == [RETAINED]
    assert told(session, "ALTER SUBSCRIPTION s SET (origin = none)") == []
    assert told(session, "ALTER SUBSCRIPTION s SET (origin = any)") == [RETAINED]
    session.run("DROP SUBSCRIPTION s")
    assert told(session, create.format("p, q")) == [RETAINED]
    session.run("DROP SUBSCRIPTION s")


def test_a_table_is_copied_with_a_warning_and_once(session):
    create = "CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION p WITH (origin = none)"
    assert told(session, create) == [COPIED]
    assert told(session, "ALTER SUBSCRIPTION s REFRESH PUBLICATION") == []
    session.run("DROP SUBSCRIPTION s")


def test_the_sequences_that_the_publisher_follows_itself_are_found(session):
    """A server of 18 has no such function; here it publishes all sequences."""
    session.publisher.execute(
        "CREATE SEQUENCE followed; CREATE SEQUENCE made_here;"
        " CREATE FUNCTION pg_get_publication_sequences(text, OUT relid oid) RETURNS SETOF oid LANGUAGE sql"
        " AS $$SELECT oid FROM pg_class WHERE relkind = 'S'$$"
    )
    write_to_catalog(
        session,
        "INSERT INTO pg_subscription_rel (srsubid, srrelid, srsubstate) VALUES (1, 'followed'::regclass, 'r')",
    )
    with connect_publisher(session.publisher.conninfo, "s") as connection:
        assert publications_of_followed_sequences(connection, ["p"], ()) == ["p"]
        assert publications_of_followed_sequences(connection, ["p"], [("public", "made_here")]) == ["p"]
        assert publications_of_followed_sequences(connection, ["p"], [("public", "followed")]) == []

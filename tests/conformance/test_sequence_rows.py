"""Sequences that a subscription follows (rule D14): publications FOR ALL SEQUENCES, which are
emulated here, since the publisher is older than 19.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from subscriber.base.errors import SubscriberError
from subscriber.base.lsn import LSN
from subscriber.catalog.subscriptions import get_subscription
from subscriber.catalog.table_states import SubscriptionRelation, sequences_of
from subscriber.commands.publication_commands import run_publication_command
from subscriber.commands.sequence_rows import synchronize_sequences
from subscriber.commands.subscription_grammar import parse
from subscriber.postgres.publication.publication_statements import CreatePublication
from tests.subscribing import Session
from tests.target_databases import KINDS, applied_to

pytestmark = pytest.mark.server

CREATE = "CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION p WITH (carrier = all_rows, create_tables = {})"


@pytest.fixture
def session(request, publisher_database, tmp_path) -> Iterator[Session]:
    publisher_database.execute("CREATE PUBLICATION all_rows FOR ALL TABLES")
    with applied_to(request.param, request, tmp_path) as on:
        on.execute("DELETE FROM subscriber_replication_origin_status")
        yield Session(on.target, publisher_database, str(tmp_path / "journal"))


def publish(session: Session, what: str) -> None:
    command = parse(f"CREATE PUBLICATION p FOR {what}")
    assert isinstance(command, CreatePublication)
    run_publication_command(session.target, command, session.publisher.conninfo, lambda _: None)


def followed(session: Session) -> list[SubscriptionRelation]:
    with session.target.engine.connect() as connection:
        return sequences_of(connection, 1)


def synchronize(session: Session) -> list[str]:
    with session.target.engine.connect() as connection:
        subscription = get_subscription(connection, "s")
    return synchronize_sequences(session.target, subscription, session.target.begin)


def refused(session: Session, sql: str) -> tuple[str | None, str]:
    with pytest.raises(SubscriberError) as caught:
        session.run(sql)
    return caught.value.sqlstate, caught.value.message


@pytest.mark.parametrize("session", KINDS, indirect=True)
def test_the_counters_of_every_target_follow_the_sequences_of_its_tables(session):
    session.publisher.execute(
        "CREATE TABLE t (a serial PRIMARY KEY, b text); INSERT INTO t (b) VALUES ('x'), ('y'); CREATE TABLE plain (a int PRIMARY KEY)"
    )
    publish(session, "ALL TABLES, ALL SEQUENCES")
    session.run(CREATE.format("true"))
    (row,) = followed(session)
    assert (row.name, row.state.value, row.lsn) == ("t_a_seq", "i", None)
    assert synchronize(session) == []
    (row,) = followed(session)
    ((end,),) = session.publisher.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::int8")
    assert row.state.value == "r"
    assert LSN(0) < (row.lsn or LSN(0)) <= LSN(end)
    session.execute("INSERT INTO t (b) VALUES ('z')")
    assert session.rows("SELECT a FROM t WHERE b = 'z'") == [(3,)]
    session.publisher.execute("SELECT setval('t_a_seq', 50)")
    session.run("ALTER SUBSCRIPTION s REFRESH SEQUENCES")
    session.execute("INSERT INTO t (b) VALUES ('later')")
    assert session.rows("SELECT a FROM t WHERE b = 'later'") == [(51,)]
    session.publisher.execute("DROP TABLE t")
    session.run("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    assert followed(session) == []


@pytest.mark.parametrize("session", ["postgresql"], indirect=True)
def test_a_sequence_must_be_there_and_be_a_sequence(session):
    session.publisher.execute("CREATE SEQUENCE q")
    publish(session, "ALL SEQUENCES")
    assert refused(session, CREATE.format("false")) == ("42P01", 'relation "public.q" does not exist')
    session.execute("CREATE TABLE q (a int)")
    assert refused(session, CREATE.format("false")) == (
        "42809",
        'relation "public.q" type mismatch: source "sequence", target "table"',
    )
    session.execute("DROP TABLE q", "CREATE SEQUENCE u")
    session.publisher.execute("CREATE TABLE u (a int PRIMARY KEY)")
    create = "CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION all_rows"
    assert refused(session, create) == ("42809", 'cannot use relation "public.u" as logical replication target')
    session.settings = replace(session.settings, postgresql_version=19)
    assert refused(session, create) == (
        "42809",
        'relation "public.u" type mismatch: source "table", target "sequence"',
    )
    session.publisher.execute("DROP TABLE u")
    told = session.run(CREATE.format("true"))
    assert [text.partition("\n")[0] for text in told if "synchronized" in text] == [
        'WARNING:  1 sequence is not synchronized: "public.q"'
    ]
    assert followed(session) == []
    session.execute("CREATE SEQUENCE q")
    session.run("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    assert [one.name for one in followed(session)] == ["q"]


@pytest.mark.parametrize("session", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    "options", ["AS integer", "START 5", "INCREMENT 2", "MINVALUE -3 START 1", "MAXVALUE 99", "CYCLE"]
)
def test_a_sequence_that_is_defined_otherwise_is_mismatched_until_the_hint_is_followed(session, options):
    session.publisher.execute(f"CREATE SEQUENCE q {options}; SELECT nextval('q')")
    publish(session, "ALL SEQUENCES")
    session.execute("CREATE SEQUENCE q")
    session.run(CREATE.format("false"))
    assert synchronize(session) == ['mismatched or renamed sequence on subscriber ("public.q")']
    (row,) = followed(session)
    assert row.state.value == "i"
    assert row.error is not None
    session.execute(row.error.partition("Run at the target: ")[2])
    assert synchronize(session) == []
    position = session.publisher.execute("SELECT last_value, is_called FROM q")
    assert session.rows("SELECT last_value, is_called FROM q") == position

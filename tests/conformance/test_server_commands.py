"""The commands for foreign servers and user mappings compared with PostgreSQL 18, and subscriptions
with SERVER, which PostgreSQL has since 19 (scenario 949).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from subscriber.base.errors import PublisherNotReady, SubscriberError
from subscriber.base.settings import Settings
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.subscriptions import get_subscription, list_subscriptions
from subscriber.commands.dispatch import run_command
from subscriber.commands.subscription_grammar import Query, parse
from subscriber.postgres.sql.quoting import quote_literal
from subscriber.targets import Target, open_target
from subscriber.testing.servers.postgresql_server import PostgreSQL
from tests.conftest import Database, fresh_database

pytestmark = pytest.mark.server

Outcome = tuple[str, ...]
"""The notices, then the tag, or the error with its SQLSTATE, DETAIL and HINT."""

INVALID_OPTION = "HV00D"
SESSION = """
CREATE SERVER pub FOREIGN DATA WRAPPER postgres_fdw
CREATE FOREIGN DATA WRAPPER w
CREATE FOREIGN DATA WRAPPER w
CREATE EXTENSION postgres_fdw
CREATE EXTENSION postgres_fdw
CREATE EXTENSION IF NOT EXISTS postgres_fdw
CREATE SERVER pub FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host 'a', prot '1')
CREATE SERVER pub FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host 'a', user 'b')
CREATE SERVER pub FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host 'a', host 'b')
CREATE SERVER pub TYPE 't' VERSION '1' FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host 'a', port '1')
CREATE SERVER pub FOREIGN DATA WRAPPER postgres_fdw
CREATE SERVER IF NOT EXISTS pub FOREIGN DATA WRAPPER postgres_fdw
CREATE SERVER sw FOREIGN DATA WRAPPER w OPTIONS (anything 'a')
CREATE SERVER s2 FOREIGN DATA WRAPPER
CREATE SERVER s2 OPTIONS (host 'a')
ALTER SERVER nope OPTIONS (host 'a')
ALTER SERVER pub OPTIONS (host 'b')
ALTER SERVER pub OPTIONS (SET host 'b', ADD dbname 'd', DROP port)
ALTER SERVER pub OPTIONS (SET port '2')
ALTER SERVER pub OPTIONS (DROP port)
ALTER SERVER pub OPTIONS (ADD nonsense '2')
ALTER SERVER pub VERSION '2'
ALTER SERVER pub RENAME TO sw
ALTER SERVER pub RENAME TO pub2
ALTER SERVER pub2 RENAME TO pub
CREATE USER MAPPING FOR CURRENT_USER SERVER nope
CREATE USER MAPPING FOR USER SERVER pub OPTIONS (user 'u', password 'secret')
CREATE USER MAPPING FOR CURRENT_USER SERVER pub
CREATE USER MAPPING IF NOT EXISTS FOR CURRENT_USER SERVER pub
CREATE USER MAPPING FOR PUBLIC SERVER pub OPTIONS (host 'a')
CREATE USER MAPPING FOR PUBLIC SERVER pub
ALTER USER MAPPING FOR PUBLIC SERVER pub OPTIONS (ADD user 'v')
ALTER USER MAPPING FOR PUBLIC SERVER pub OPTIONS (SET password 'v')
ALTER USER MAPPING FOR PUBLIC SERVER sw OPTIONS (SET password 'v')
DROP SERVER pub
DROP SERVER pub, sw
DROP USER MAPPING FOR PUBLIC SERVER pub
DROP USER MAPPING FOR PUBLIC SERVER pub
DROP USER MAPPING IF EXISTS FOR PUBLIC SERVER pub
DROP USER MAPPING IF EXISTS FOR PUBLIC SERVER nope
DROP USER MAPPING FOR PUBLIC SERVER nope
DROP SERVER pub
DROP SERVER nope
DROP SERVER IF EXISTS nope
DROP FOREIGN DATA WRAPPER w
DROP FOREIGN DATA WRAPPER nope
DROP FOREIGN DATA WRAPPER IF EXISTS nope
DROP SERVER pub CASCADE
CREATE SERVER pub FOREIGN DATA WRAPPER postgres_fdw
CREATE USER MAPPING FOR CURRENT_USER SERVER sw
DROP FOREIGN DATA WRAPPER w CASCADE
CREATE USER MAPPING FOR CURRENT_ROLE SERVER pub
DROP EXTENSION postgres_fdw CASCADE
DROP EXTENSION postgres_fdw
DROP EXTENSION IF EXISTS postgres_fdw
""".strip().splitlines()


class Server:
    """PostgreSQL's own commands."""

    def __init__(self, conninfo: str) -> None:
        self._connection = psycopg.connect(conninfo, autocommit=True)
        self._said: list[str] = []
        self._connection.add_notice_handler(self._hear)

    def _hear(self, told: psycopg.errors.Diagnostic) -> None:
        detail = f"\nDETAIL:  {told.message_detail}" if told.message_detail else ""
        self._said.append(f"{told.severity}:  {told.message_primary}{detail}")

    def run(self, sql: str) -> Outcome:
        self._said = []
        try:
            tag = str(self._connection.execute(sql.encode()).statusmessage)
        except psycopg.Error as error:
            told = error.diag
            # Before 16, the hint lists all valid options.
            hint = "" if told.sqlstate == INVALID_OPTION else told.message_hint or ""
            return (*self._said, str(told.message_primary), str(told.sqlstate), told.message_detail or "", hint)
        return (*self._said, tag)

    def close(self) -> None:
        self._connection.close()


def ours(target: Target, sql: str) -> Outcome:
    said: list[str] = []
    try:
        command = parse(sql)
        assert not isinstance(command, Query)
        tag = run_command(target, command, Settings(""), said.append)
    except SubscriberError as error:
        syntax = error.sqlstate == "42601"
        hint = "" if syntax or error.sqlstate == INVALID_OPTION else error.hint or ""
        return (*said, error.message, error.sqlstate, "" if syntax else error.detail or "", hint)
    return (*said, tag)


@pytest.fixture
def database(postgresql15: PostgreSQL) -> Iterator[Database]:
    """Of 15, whose package has postgres_fdw."""
    yield from fresh_database(postgresql15)


def test_the_commands_have_postgresqls_outcomes(database, tmp_path):
    server = Server(database.conninfo)
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as target:
        ensure_catalog(target.engine)
        found = [(sql, ours(target, sql), server.run(sql)) for sql in SESSION]
    server.close()
    assert [(sql, mine) for sql, mine, _ in found] == [(sql, theirs) for sql, _, theirs in found]


def test_a_subscription_streams_from_a_server_of_the_catalog(publisher_database, tmp_path):
    """The password of a mapping is used, and none is shown."""
    parameters = conninfo_to_dict(publisher_database.conninfo)
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as target:
        with target.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE t (a INTEGER PRIMARY KEY)")
        publisher_database.execute("CREATE TABLE t (a int PRIMARY KEY)")
        publisher_database.execute("CREATE PUBLICATION p FOR TABLE t")
        of_server, of_user = _options(parameters, "host", "port", "dbname"), _options(parameters, "user", "password")
        for sql in (
            "CREATE EXTENSION postgres_fdw",
            f"CREATE SERVER pub FOREIGN DATA WRAPPER postgres_fdw OPTIONS ({of_server})",
            f"CREATE USER MAPPING FOR CURRENT_USER SERVER pub OPTIONS ({of_user})",
        ):
            ours(target, sql)
        assert ours(target, "CREATE SUBSCRIPTION s SERVER pub PUBLICATION p") == (
            'NOTICE:  created replication slot "s" on publisher',
            "CREATE SUBSCRIPTION",
        )
        with target.engine.connect() as connection:
            (stored,) = list_subscriptions(connection)
        assert (stored.server, conninfo_to_dict(stored.conninfo)["dbname"]) == ("pub", parameters["dbname"])
        assert conninfo_to_dict(stored.conninfo)["host"] == parameters["host"]
        ours(target, "DROP USER MAPPING FOR CURRENT_USER SERVER pub")
        with target.engine.connect() as connection, pytest.raises(PublisherNotReady, match="user mapping not found"):
            _ = get_subscription(connection, "s").conninfo
        ours(target, f"CREATE USER MAPPING FOR PUBLIC SERVER pub OPTIONS ({of_user})")
        assert ours(target, "DROP SUBSCRIPTION s")[-1] == "DROP SUBSCRIPTION"


def test_a_server_of_a_postgresql_target_can_be_named(database, tmp_path):
    """It stays where it is, and is read each time."""
    with open_target(database.url) as target:
        target.is_throwaway = True
        ensure_catalog(target.engine)
        database.execute("CREATE EXTENSION postgres_fdw")
        database.execute("CREATE SERVER own FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host 'a', dbname 'it''s')")
        create = "CREATE SUBSCRIPTION s SERVER own PUBLICATION p WITH (connect = false, slot_name = NONE)"
        missing = 'user mapping not found for user "'
        connecting = ours(target, "CREATE SUBSCRIPTION s SERVER own PUBLICATION p")
        assert [text.partition(missing)[0] for text in connecting[:2]] == ["WARNING:  ", ""]
        warned, _, tag = ours(target, create)
        assert (warned.partition(missing)[0], tag) == ("WARNING:  ", "CREATE SUBSCRIPTION")
        altering = ours(target, "ALTER SUBSCRIPTION s SERVER own")
        assert [text.partition(missing)[0] for text in altering[:2]] == ["WARNING:  ", ""]
        database.execute("CREATE USER MAPPING FOR CURRENT_USER SERVER own OPTIONS (user 'u')")
        database.execute("ALTER SERVER own OPTIONS (SET host 'b')")
        with target.engine.connect() as connection:
            stored = get_subscription(connection, "s")
        assert (stored.server, conninfo_to_dict(stored.conninfo)) == (
            "own",
            {"host": "b", "dbname": "it's", "user": "u"},
        )


def _options(parameters: Mapping[str, Any], *names: str) -> str:
    return ", ".join(f"{name} {quote_literal(str(parameters[name]))}" for name in names if name in parameters)

"""The grammar compared with PostgreSQL 18's: the same commands give the same texts and the same
catalog row.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from subscriber.base.errors import UsageError
from subscriber.catalog.subscription_options import SubscriptionOptions, option_values, to_columns
from subscriber.commands import subscription_grammar
from subscriber.commands.subscription_grammar import CreateSubscription
from subscriber.postgres.sql.keywords import COLUMN_NAMES, RESERVED, TYPE_OR_FUNCTION_NAMES
from subscriber.postgres.sql.lexer import lex

pytestmark = pytest.mark.server

CREATE = "CREATE SUBSCRIPTION s CONNECTION 'dbname=x' PUBLICATION p"


@pytest.fixture(scope="module")
def server(postgresql18):
    with psycopg.connect(postgresql18.conninfo(), autocommit=True) as connection:
        yield connection


@contextmanager
def undone(server: psycopg.Connection[Any]) -> Iterator[None]:
    with server.transaction(force_rollback=True):
        yield


def server_error(server: psycopg.Connection[Any], sql: str) -> tuple[str | None, str | None, str | None]:
    with pytest.raises(psycopg.Error) as caught, undone(server):
        server.execute(sql.encode())
    diagnosis = caught.value.diag
    return diagnosis.message_primary, diagnosis.sqlstate, diagnosis.statement_position


@pytest.mark.parametrize(("catcode", "words"), [("R", RESERVED), ("T", TYPE_OR_FUNCTION_NAMES), ("C", COLUMN_NAMES)])
def test_the_keywords_are_the_servers(server, catcode, words):
    rows = server.execute("SELECT word FROM pg_get_keywords() WHERE catcode = %s", [catcode]).fetchall()
    assert {word for (word,) in rows} == words


WRONG = [
    "CREATE SUBSCRIPTION",
    "CREATE SUBSCRIPTION;",
    "CREATE SUBSCRIPTION select CONNECTION 'dbname=x' PUBLICATION p",
    "CREATE SUBSCRIPTION Left CONNECTION 'dbname=x' PUBLICATION p",
    "CREATE SUBSCRIPTION a.b CONNECTION 'dbname=x' PUBLICATION p",
    "CREATE SUBSCRIPTION a-b CONNECTION 'dbname=x' PUBLICATION p",
    "CREATE SUBSCRIPTION 1 CONNECTION 'dbname=x' PUBLICATION p",
    "CREATE SUBSCRIPTION 1a CONNECTION 'dbname=x' PUBLICATION p",
    "CREATE SUBSCRIPTION \"\" CONNECTION 'dbname=x' PUBLICATION p",
    "CREATE SUBSCRIPTION é😀 PUBLICATION p",
    "CREATE SUBSCRIPTION s CONNECTION foo PUBLICATION p",
    "CREATE SUBSCRIPTION s CONNECTION 'dbname=x'",
    "CREATE SUBSCRIPTION s CONNECTION 'dbname=x';",
    "CREATE SUBSCRIPTION s CONNECTION 'dbname=x' PUBLICATION p,",
    "CREATE SUBSCRIPTION s CONNECTION 'dbname=x' PUBLICATION p q",
    r"CREATE SUBSCRIPTION s CONNECTION E'\u12' PUBLICATION p",
    r"CREATE SUBSCRIPTION s CONNECTION E'\U00110000' PUBLICATION p",
    f"{CREATE} WITH",
    f"{CREATE} WITH ()",
    f"{CREATE} WITH (a",
    f"{CREATE} WITH (a = )",
    f"{CREATE} WITH (a = b;",
    f"{CREATE} WITH (a = b c)",
    f"{CREATE} WITH (a.b = c)",
    f"{CREATE} WITH (connect = values)",
    f"{CREATE} WITH (connect = between)",
    f"{CREATE} x",
    f"{CREATE} WITH (nope)",
    f'{CREATE} WITH ("Enabled" = true)',
    f"{CREATE} WITH (refresh = false)",
    f"{CREATE} WITH (lsn = '0/1')",
    f"{CREATE} WITH (nope, connect = 5)",
    f"{CREATE} WITH (connect = 5, nope)",
    f"{CREATE} WITH (copy_data = false, copy_data = false)",
    f"{CREATE} WITH (copy_data = false, Copy_Data)",
    *(
        f"{CREATE} WITH ({name} = {value})"
        for name, value in [
            ("connect", "'1'"),
            ("connect", "-1"),
            ("connect", "1.0"),
            ("connect", "99999999999999"),
            ("connect", "0x2"),
            ("enabled", "yes"),
            ("create_slot", "''"),
            ("copy_data", "none"),
            ("binary", "t"),
            ("two_phase", "null"),
            ("disable_on_error", "2"),
            ("password_required", "maybe"),
            ("run_as_owner", "maybe"),
            ("failover", "maybe"),
            ("streaming", "maybe"),
            ("streaming", "2"),
            ("origin", "foo"),
            ("origin", "1"),
            ("slot_name", "''"),
            ("slot_name", '"None"'),
            ("slot_name", "'a-b'"),
            ("slot_name", "-1"),
            ("slot_name", "1.50"),
            ("slot_name", f"'{'a' * 64}'"),
            ("synchronous_commit", "foo"),
            ("synchronous_commit", "2"),
        ]
    ),
    *(f"{CREATE} WITH ({name})" for name in ("slot_name", "origin", "synchronous_commit")),
    *(f"{CREATE} WITH (connect = false, {name} = true)" for name in ("enabled", "create_slot", "copy_data")),
    f"{CREATE} WITH (enabled, create_slot, connect = false)",
    f"{CREATE} WITH (slot_name = NONE)",
    f"{CREATE} WITH (slot_name = 'none', enabled = false)",
    f"{CREATE} WITH (slot_name = none, create_slot = false)",
    f"{CREATE} WITH (slot_name = none, enabled = true)",
    f"{CREATE} WITH (slot_name = none, enabled = false, create_slot = true)",
    f"{CREATE} WITH (slot_name = none, connect = false, enabled = true)",
    "DROP SUBSCRIPTION",
    "DROP SUBSCRIPTION IF EXISTS",
    "DROP SUBSCRIPTION a, b",
    "DROP SUBSCRIPTION a CASCADE RESTRICT",
    "DROP SUBSCRIPTION table",
    "ALTER SUBSCRIPTION",
    "ALTER SUBSCRIPTION s",
    "ALTER SUBSCRIPTION s FOO",
    "ALTER SUBSCRIPTION s SET foo",
    "ALTER SUBSCRIPTION select ENABLE",
    "ALTER SUBSCRIPTION s SET",
    "ALTER SUBSCRIPTION s SET ()",
    "ALTER SUBSCRIPTION s SET (binary",
    "ALTER SUBSCRIPTION s SET (binary) x",
    "ALTER SUBSCRIPTION s SET (binary =)",
    "ALTER SUBSCRIPTION s CONNECTION",
    "ALTER SUBSCRIPTION s CONNECTION foo",
    "ALTER SUBSCRIPTION s CONNECTION foo PUBLICATION p",
    "ALTER SUBSCRIPTION s SET PUBLICATION",
    "ALTER SUBSCRIPTION s SET PUBLICATION p,",
    "ALTER SUBSCRIPTION s SET PUBLICATION p WITH",
    "ALTER SUBSCRIPTION s SET PUBLICATION p (refresh)",
    "ALTER SUBSCRIPTION s ADD p",
    "ALTER SUBSCRIPTION s ADD PUBLICATION user",
    "ALTER SUBSCRIPTION s DROP TABLE t",
    "ALTER SUBSCRIPTION s REFRESH",
    "ALTER SUBSCRIPTION s REFRESH PUBLICATION p",
    "ALTER SUBSCRIPTION s REFRESH TABLES",
    "ALTER SUBSCRIPTION s ENABLE x",
    "ALTER SUBSCRIPTION s ENABLED",
    "ALTER SUBSCRIPTION s DISABLE DISABLE",
    "ALTER SUBSCRIPTION s SKIP",
    "ALTER SUBSCRIPTION s SKIP lsn = '0/1'",
    "ALTER SUBSCRIPTION s SKIP ()",
    "ALTER SUBSCRIPTION s OWNER",
    "ALTER SUBSCRIPTION s OWNER TO",
    "ALTER SUBSCRIPTION s OWNER TO select",
    "ALTER SUBSCRIPTION s OWNER TO none",
    "ALTER SUBSCRIPTION s OWNER me",
    "ALTER SUBSCRIPTION s RENAME",
    "ALTER SUBSCRIPTION s RENAME t",
    "ALTER SUBSCRIPTION s RENAME TO",
    "ALTER SUBSCRIPTION s RENAME TO left",
    "ALTER SUBSCRIPTION IF EXISTS s ENABLE",
]


@pytest.mark.parametrize("sql", WRONG)
def test_a_wrong_command_has_the_servers_text_sqlstate_and_position(server, sql):
    """C54."""
    with pytest.raises(UsageError) as caught:
        subscription_grammar.parse(sql)
    message, sqlstate, position = server_error(server, sql)
    assert (caught.value.message, caught.value.sqlstate) == (message, sqlstate)
    if message and message.startswith("syntax error"):
        assert f"At character {position} (" in caught.value.report()


def test_a_string_that_does_not_end_differs_in_what_it_shows_only(server):
    sql = "CREATE SUBSCRIPTION s CONNECTION 'password=hunter2"
    with pytest.raises(UsageError) as caught:
        subscription_grammar.parse(sql)
    message, sqlstate, position = server_error(server, sql)
    assert message == 'unterminated quoted string at or near "\'password=hunter2"'
    assert caught.value.message == message.replace("password=hunter2", "…")
    assert caught.value.sqlstate == sqlstate
    assert f"At character {position} (" in caught.value.report()


@pytest.mark.parametrize(
    "constant",
    [
        "'it''s'",
        r"'a\nb\'",
        "$$a'b$$",
        "$t$a $$ b$t$",
        r"E'\b\f\n\r\t\\\'\z'",
        r"E'\x41\x4a4\101\7\541'",
        r"E'\xc3\xa9\u00e9\U0001F600'",
        r"E'\xg\8'",
        "U&'plain'",
        "'a'\n'b'",
        "'a' -- one\n  'b''' \n 'c'",
        "E'a\\n'\n'\\t'",
        "'é😀'",
    ],
)
def test_a_string_constant_means_what_the_server_reads(server, constant):
    (text,) = server.execute(f"SELECT {constant}::text").fetchone()
    assert [lexeme.value for lexeme in lex(constant)] == [text]


RIGHT = [
    "CREATE SUBSCRIPTION s CONNECTION 'dbname=x' PUBLICATION p WITH (connect = false)",
    "create/**/subscription Foo connection'dbname=x'publication P,\"Q\"with(Connect=FALSE,slot_name=none)",
    f'CREATE SUBSCRIPTION "{"é" * 40}" CONNECTION $$dbname=x$$ PUBLICATION {"a" * 70} WITH (connect = off, slot_name = a)',
    "CREATE SUBSCRIPTION connection CONNECTION E'dbname=\\x78' PUBLICATION publication WITH (connect = 0)",
    *(
        f"CREATE SUBSCRIPTION s CONNECTION 'dbname=x' PUBLICATION p WITH (connect = false, {option})"
        for option in [
            "binary",
            "binary = On",
            "streaming",
            "streaming = off",
            "streaming = 0",
            "streaming = Parallel",
            "two_phase",
            "disable_on_error = 1",
            "password_required = 'False'",
            "run_as_owner = TRUE",
            "failover = +1",
            "failover = 0x1",
            "origin = none",
            "origin = ANY",
            "slot_name = 5",
            'slot_name = "x"',
            "slot_name = left",
            "slot_name = select",
            "slot_name = 'none'",
            "synchronous_commit = remote_apply",
        ]
    ),
]


@pytest.mark.parametrize("sql", RIGHT)
def test_a_right_command_means_the_same_row_of_pg_subscription(server, sql):
    """C53: defaults and values."""
    command = subscription_grammar.parse(sql)
    assert isinstance(command, CreateSubscription)
    stored = to_columns(option_values(command.options))
    names = "SELECT attname FROM pg_attribute WHERE attrelid = 'pg_subscription'::regclass AND attnum > 0"
    there = {name for (name,) in server.execute(names)}
    # The others are of later versions, or of this program, and have their defaults.
    defaults = to_columns(option_values(SubscriptionOptions()))
    others = {name: value for name, value in stored.items() if name not in there}
    assert others == {name: defaults[name] for name in others}
    assert "subtransform" in others
    ours = {name: value for name, value in stored.items() if name in there} | {
        "subname": command.name,
        "subconninfo": command.conninfo,
        "subpublications": list(command.publications),
    }
    columns = ", ".join(f"{column}::text" if "state" in column or column == "substream" else column for column in ours)
    with undone(server):
        server.execute(sql)
        row = server.execute(f"SELECT {columns} FROM pg_subscription").fetchone()
    assert dict(zip(ours, row, strict=True)) == ours

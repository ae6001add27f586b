"""What was typed, shown and kept without secrets (names_are_data)."""

from __future__ import annotations

import pytest

from subscriber.base.errors import SQLSyntaxError
from subscriber.cli.secrets import point_at, without_secrets
from subscriber.commands.subscription_grammar import parse
from subscriber.postgres.sql.lexer import scan


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("CREATE SUBSCRIPTION s CONNECTION 'host=h password=hush' PUBLICATION p;", "CONNECTION 'host=h' PUBLICATION"),
        ("ALTER SUBSCRIPTION s CONNECTION 'postgresql://me:hush@h/d?x=y';", "'postgresql://me@h/d?x=y';"),
        ("C 'postgresql://h/d?pass%77ord=hush&user=me'", "'postgresql://h/d?user=me'"),
        ("C 'host=h '\n 'password=''hush hush'''", "C 'host=h'"),
        (r"C E'pass\u0077ord=hush host=''h'''", "C 'host=''h'''"),
        ("C $$sslpassword=hush$$;", "C '';"),
        ('CONECTION "host=h password=hush"', "CONECTION 'host=h'"),
        ("C 'host=h password hush'", "(a connection string that cannot be read)"),
        ("C 'postgresql://me:hush/@h/d'", "(a connection string that cannot be read)"),
    ],
)
def test_a_connection_string_is_kept_without_its_secrets(typed, kept):
    stored = without_secrets(typed)
    assert stored is not None
    assert kept in stored
    assert "hush" not in stored


@pytest.mark.parametrize(
    "typed",
    [
        "CREATE SUBSCRIPTION s CONNECTION host=h password=hush PUBLICATION p;",
        "CREATE SUBSCRIPTION s CONNECTION postgresql://me:hush@h/d PUBLICATION p;",
        "CREATE SUBSCRIPTION s CONNECTION 'password=hush",
        "SELECT 1; -- the password is hush",
    ],
)
def test_a_line_that_may_hold_a_secret_that_cannot_be_removed_is_not_kept(typed):
    assert without_secrets(typed) is None


@pytest.mark.parametrize(
    "typed",
    [
        "ALTER SUBSCRIPTION s SET (password_required = false);",
        "SELECT \"a b\", 'it''s = so' FROM t WHERE a % 2 = 0 -- even",
        "CREATE SUBSCRIPTION s CONNECTION 'host=h dbname=''a b''' PUBLICATION p",
        r"\dRs+",
    ],
)
def test_a_line_without_a_secret_is_kept_as_it_was_typed(typed):
    assert without_secrets(typed) == typed


def printed(sql: str) -> list[str]:
    with pytest.raises(SQLSyntaxError) as caught:
        parse(sql)
    return point_at(caught.value, scan(sql)).report().splitlines()


@pytest.mark.parametrize(
    ("sql", "line", "marked"),
    [
        ("DROP SUBSCRIPTION s, t", "LINE 1: DROP SUBSCRIPTION s, t", ", t"),
        ('DROP\n\tSUBSCRIPTION "漢" x;\n', 'LINE 2:  SUBSCRIPTION "漢" x;', "x;"),
        ("DROP SUBSCRIPTION", "LINE 1: DROP SUBSCRIPTION", ""),
        ("CREATE SUBSCRIPTION s CONNECTION 'a\nb' PUBLIC p", "LINE 2: CREATE SUBSCRIPTION s CONNECTION '…' PUBLIC p", "PUBLIC p"),
        ("CREATE SUBSCRIPTION s 'host=h hush'", "LINE 1: CREATE SUBSCRIPTION s '…'", "'…'"),
        ("CREATE SUBSCRIPTION s CONNECTION 'hush", "LINE 1: CREATE SUBSCRIPTION s CONNECTION '…'", "'…'"),
        ('CREATE SUBSCRIPTION s CONNECTION "password=hush" P', "LINE 1: CREATE SUBSCRIPTION s CONNECTION '…' P", "'…' P"),
    ],
)  # fmt: skip
def test_a_syntax_error_is_marked_in_its_line_where_constants_are_not_shown(sql, line, marked):
    message, excerpt, caret, *_hint = printed(sql)
    assert "hush" not in message
    assert excerpt == line
    before = line.removesuffix(marked)
    assert caret == " " * (len(before) + before.count("漢")) + "^"


def test_a_line_that_may_hold_a_secret_is_not_shown():
    (_, detail) = printed("CREATE SUBSCRIPTION s CONNECTION host=h password=hush")
    assert detail == "DETAIL:  At character 34 (line 1)."

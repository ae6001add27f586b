"""Which of PostgreSQL's expressions are written for SQLite, and that it computes the same."""

from __future__ import annotations

import sqlite3

import pytest

from subscriber.targets.translate_expression import NotKnown, TranslationRules, plain_columns, translate

TYPES = {"a": 23, "b": 25, "v": 1043, "c": 1042, "n": 1700, "f": 701, "flag": 16, "Odd": 20}


def translated(expression: str) -> str | None:
    quote = '"{}"'.format
    try:
        return translate(expression, plain_columns(TYPES, quote), TranslationRules(quote=quote))
    except NotKnown:
        return None


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        # As pg_get_expr prints them; the values are PostgreSQL's for the three rows below.
        ("(a * 2)", (-14, 0, None)),
        ("((a + 1) - 3)", (-9, -2, None)),
        ("(a % 3)", (-1, 0, None)),
        ("(- a)", (7, 0, None)),
        ("(a - '-5'::integer)", (-2, 5, None)),
        ('("Odd" * 2)', (2, 4, 6)),
        ("(b || '!'::text)", ("it's!", "!", None)),
        ("((v)::text || b)", ("vit's", "w", None)),
        ("length(b)", (4, 0, None)),
        ("COALESCE(a, 9)", (-7, 0, 9)),
        ("COALESCE(b, 'none'::text)", ("it's", "", "none")),
        ("(a >= 0)", (0, 1, None)),
        ("((a < 0) OR (a > 5))", (1, 0, None)),
        ("((b = 'it''s'::text) AND flag)", (1, 0, 0)),
        ("(b <> ''::text)", (1, 0, None)),
        ("(NOT flag)", (0, 0, 1)),
        ("(a IS NULL)", (0, 0, 1)),
        ("(a IS NOT NULL)", (1, 1, 0)),
        ("((v)::text = ANY ((ARRAY['v'::character varying, 'x'::character varying])::text[]))", (1, 0, 0)),
        ("(a = ANY (ARRAY[0, 5]))", (0, 1, None)),
        ("true", (1, 1, 1)),
        ("NULL::integer IS NULL", None),
    ],
)
def test_what_is_translated_has_postgresqls_value(expression, values):
    written = translated(expression)
    if values is None:
        assert written is None
        return
    assert written is not None
    connection = sqlite3.connect(":memory:")
    connection.execute('CREATE TABLE t (a INT, b TEXT, v TEXT, flag INT, "Odd" INT)')
    connection.executemany(
        "INSERT INTO t VALUES (?, ?, ?, ?, ?)", [(-7, "it's", "v", 1, 1), (0, "", "w", 1, 2), (None, None, "y", 0, 3)]
    )
    assert tuple(row[0] for row in connection.execute(f"SELECT {written} FROM t ORDER BY rowid")) == values
    connection.close()


@pytest.mark.parametrize(
    "expression",
    [
        "(a / 2)",  # another type in the next database
        "(n * (2)::numeric)",  # numeric is text there
        "(f + (1)::double precision)",
        "(b < 'x'::text)",  # the order is the collation's
        "(b ~~ 'x%'::text)",  # LIKE ignores case there
        "((c)::text = 'x'::text)",  # character(n) compares without its blanks
        "upper(b)",
        "public.f(a)",
        "now()",
        "(a)::text",
        "(b = a)",
        "(missing + 1)",
        "(other.a + 1)",
        "CASE WHEN (a > 1) THEN 2 ELSE 3 END",
        "(flag IS TRUE)",
        "(a = 9223372036854775808)",
        "(a * 1.5)",
        "E'a\\\\b'::text",
        "(a = ANY (ARRAY[]::integer[]))",
        "not an expression (",
    ],
)
def test_what_may_mean_something_else_is_not(expression):
    """refuse_not_guess"""
    assert translated(expression) is None

"""A text is split into statements only at the semicolons that end them, as psql splits it."""

import pytest

from subscriber.base.errors import SQLSyntaxError
from subscriber.postgres.sql.lexer import Kind, scan
from subscriber.postgres.sql.statements import cut, is_backslash_command, open_in


def places(text):
    return [(statement.sql, statement.line) for statement in cut(text)]


@pytest.mark.parametrize("text", ["", "  \n", ";", " ; ;; ", "-- only a comment", "/* ; */"])
def test_a_text_without_statements_has_none(text):
    assert cut(text) == []


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT ';';",
        'SELECT ";";',
        "SELECT $$;$$;",
        "SELECT $a$;$$;$a$;",
        "SELECT 1 /* ; */;",
        "SELECT 1 -- ;\n;",
        r"SELECT E'\';';",
        "CALL f(';');",
        "SELECT 'a\n;\nb';",
        "CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2);",
        "CREATE FUNCTION f() BEGIN ATOMIC SELECT 1; END;",
        "CREATE FUNCTION f() BEGIN ATOMIC SELECT CASE WHEN a THEN 1 END; SELECT 2; END;",
        "CREATE OR REPLACE PROCEDURE p() BEGIN ATOMIC SELECT 1; END;",
    ],
)
def test_a_semicolon_inside_something_does_not_end_a_statement(statement):
    assert places(f"{statement} x;") == [(statement, 1), ("x;", 1 + statement.count("\n"))]


def test_the_line_is_that_of_the_statements_first_token():
    text = "-- title\n\nCREATE SUBSCRIPTION s\n  CONNECTION 'a\nb';\n/* x\n */ SELECT\n 1; ;\nDROP"
    assert places(text) == [
        ("CREATE SUBSCRIPTION s\n  CONNECTION 'a\nb';", 3),
        ("SELECT\n 1;", 7),
        ("DROP", 9),
    ]


def test_the_last_statement_needs_no_semicolon():
    assert [statement.sql for statement in cut("a; b -- c")] == ["a;", "b"]


def test_windows_line_ends_count_once():
    assert [statement.line for statement in cut("a;\r\nb;\r\nc")] == [1, 2, 3]


def test_characters_outside_of_ascii_do_not_move_the_cuts():
    assert [statement.sql for statement in cut("é '😀;'; ü;")] == ["é '😀;';", "ü;"]


def test_a_text_that_does_not_end_is_refused_as_a_whole():
    """Invariant refuse_not_guess: nothing of a file is run when a later statement cannot be
    read.
    """
    with pytest.raises(SQLSyntaxError, match="unterminated quoted string") as caught:
        cut("SELECT 1;\nSELECT 'x;")
    assert "line 2" in caught.value.report()


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("", "="),
        (" -- only a comment", "="),
        ("SELECT 1; ;", "="),
        ("SELECT 1; -- done", "="),
        ("SELECT 1", "-"),
        ("SELECT 1; SELECT", "-"),
        ("SELECT 1 -- it's;", "-"),
        ("SELECT (1;", "("),
        ("SELECT (1));", "="),
        ("SELECT 1; SELECT 'x;", "'"),
        ("SELECT E'\\';", "'"),
        ("SELECT U&'x", "'"),
        ("SELECT ('", "'"),
        ('SELECT "x;', '"'),
        ('SELECT U&"x', '"'),
        ("SELECT /* /* */ ;", "*"),
        ("SELECT $a$ $$;", "$"),
    ],
)
def test_an_incomplete_text_has_the_state_that_psqls_prompt_shows(text, state):
    assert open_in(text) == state


def test_a_statement_keeps_its_lexemes_with_their_places_in_its_own_text():
    """So nothing is scanned twice."""
    for statement in cut("-- c\nSELECT 1; é  U&'!0041' UESCAPE '!' \\; b; SELECT E'\\u12', 1a"):
        assert statement.lexemes == scan(statement.sql).lexemes
        assert [one.fault for one in statement.lexemes] == [one.fault for one in scan(statement.sql).lexemes]


def test_a_backslash_before_a_semicolon_joins_statements():
    (first, second, third) = cut("a; \\; b\\;c\\::d; e")
    assert (first.sql, second.sql, third.sql) == ("a;", "; b;c::d;", "e")
    assert second.joints == (0, 3)


def test_a_backslash_command_goes_to_the_end_of_its_line_and_ends_the_statement_before_it():
    found = [(one.sql, one.command, one.line) for one in cut("a 1 \\gx it's\nb;\n\\d \"\n c")]
    assert found == [("a 1", "\\gx it's", 1), ("b;", "", 2), ("", '\\d "', 3), ("c", "", 4)]


def test_a_backslash_in_a_string_does_not_begin_a_command():
    (statement,) = cut("SELECT 'a\\b', $$\\;$$")
    assert [one.kind for one in statement.lexemes] == [Kind.WORD, Kind.STRING, Kind.SYMBOL, Kind.STRING]
    assert not is_backslash_command(statement.sql)


def test_a_statement_does_not_show_its_text():
    assert "secret" not in repr(cut("CREATE SUBSCRIPTION s CONNECTION 'password=secret'"))

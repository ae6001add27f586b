"""subscription.statements: a file is cut at semicolons that end statements, and only at those."""

import pytest

from subscriber.errors import SQLSyntaxError
from subscriber.sql.split_statements import Statement, open_in, split_statements


@pytest.mark.parametrize("text", ["", "  \n", ";", " ; ;; ", "-- only a comment", "/* ; */"])
def test_there_may_be_nothing_to_do(text):
    assert split_statements(text) == []


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
    ],
)
def test_a_semicolon_inside_something_does_not_end_a_statement(statement):
    assert split_statements(f"{statement} x;") == [
        Statement(statement, 1),
        Statement("x;", 1 + statement.count("\n")),
    ]


def test_the_line_is_that_of_the_statements_first_token():
    text = "-- title\n\nCREATE SUBSCRIPTION s\n  CONNECTION 'a\nb';\n/* x\n */ SELECT\n 1; ;\nDROP"
    assert split_statements(text) == [
        Statement("CREATE SUBSCRIPTION s\n  CONNECTION 'a\nb';", 3),
        Statement("SELECT\n 1;", 7),
        Statement("DROP", 9),
    ]


def test_the_last_statement_may_lack_its_semicolon():
    assert [statement.text for statement in split_statements("a; b -- c")] == ["a;", "b"]


def test_windows_line_ends_count_once():
    assert [statement.line for statement in split_statements("a;\r\nb;\r\nc")] == [1, 2, 3]


def test_characters_beyond_ascii_do_not_shift_anything():
    assert [statement.text for statement in split_statements("é '😀;'; ü;")] == ["é '😀;';", "ü;"]


def test_a_text_that_does_not_end_is_refused_as_a_whole():
    """Invariant refuse_not_guess: nothing of a file is run when a later statement cannot be read."""
    with pytest.raises(SQLSyntaxError, match="unterminated quoted string") as caught:
        split_statements("SELECT 1;\nSELECT 'x;")
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
def test_a_text_that_goes_on_is_in_the_middle_of_what_psqls_prompt_says(text, state):
    assert open_in(text) == state


def test_a_statement_does_not_show_its_text():
    assert "secret" not in repr(split_statements("CREATE SUBSCRIPTION s CONNECTION 'password=secret'"))

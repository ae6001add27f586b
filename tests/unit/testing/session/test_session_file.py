"""scenario.parse: a session's format, and where in a file an error is."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from subscriber.base.errors import ScenarioError
from subscriber.testing.session.session_file import (
    FEATURES,
    Requires,
    Scenario,
    SessionStatement,
    parse_scenario,
    with_output,
    without_comments,
)


def parse(body: str) -> Scenario:
    return parse_scenario("-- title\n" + body, "010_name")


def only(body: str) -> SessionStatement:
    (statement,) = parse(body).statements
    return statement


def refusal(text: str) -> ScenarioError:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text, "010_name")
    return caught.value


SESSION = dedent(
    """\
    -- Rows that a filter lets through
    -- requires: two_phase, pg>=15

    -- A comment.
    test_pub=# CREATE TABLE t (a int,
    test_pub(# b text);
    CREATE TABLE

    test_sub/2=> SELECT 1 AS one; SELECT 2 AS two;
     one
    -----
       1
    (1 row)

    -- Between two tables.
     two
    -----
       2
    (1 row)

    --
    test_pub=# INSERT INTO t VALUES (1, 'x');
    test_pub=# \\d t
    Did not find it.
    test_pub=#
    """
)


def test_a_session_is_a_title_requirements_and_statements_with_what_they_print():
    scenario = parse_scenario(SESSION, "010_name")
    assert (scenario.name, scenario.title) == ("010_name", "Rows that a filter lets through")
    assert scenario.requires == Requires(15, None, frozenset({"two_phase"}))
    assert scenario.nodes == ("test_pub", "test_sub")
    tables = (" one", "-----", "   1", "(1 row)", "", " two", "-----", "   2", "(1 row)")
    assert scenario.statements == (
        SessionStatement("test_pub", "", 5, "CREATE TABLE t (a int,\nb text);", ("CREATE TABLE",), 6),
        SessionStatement("test_sub", "2", 9, "SELECT 1 AS one; SELECT 2 AS two;", tables, 9),
        SessionStatement("test_pub", "", 22, "INSERT INTO t VALUES (1, 'x');", (), 22),
        SessionStatement("test_pub", "", 23, "\\d t", ("Did not find it.",), 23),
    )


@pytest.mark.parametrize("state", ["-", "(", "'", '"', "$", "*"])
@pytest.mark.parametrize("transaction", ["", "*", "!", "?"])
@pytest.mark.parametrize("user", "#>")
def test_every_prompt_of_psql_is_read(state, transaction, user):
    """psql's PROMPT1 and PROMPT2 are ``%/%R%x%#``."""
    body = f"db={transaction}{user} SELECT\ndb{state}{transaction}{user} 1;\n"
    assert only(body).text == "SELECT\n1;"


@pytest.mark.parametrize("line", ["x -> y", "a=#b", "=# b", " db=# x", "1db=# x", "db=## x", "db!# x"])
def test_what_is_almost_a_prompt_is_output(line):
    assert only(f"db=# SELECT 1;\n{line}\n").expected == (line,)


def test_a_continued_prompt_may_be_empty_and_have_lost_its_blank():
    assert only("db=# SELECT '\ndb'#\ndb'# x';\n").text == "SELECT '\n\nx';"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ';\n;';",
        "DO $$ BEGIN;\n-- x\nEND $$;",
        "SELECT 1 /* ;\n*/;",
        "CREATE RULE r AS ON INSERT TO t DO ALSO (INSERT INTO a VALUES (1);\nINSERT INTO b VALUES (1));",
        "SELECT 1; -- done;",
        "SELECT 1; SELECT\n2;",
    ],
)
def test_a_statement_goes_on_until_psql_sees_its_end(text):
    first, *rest = text.split("\n")
    assert only("\n".join([f"db=# {first}", *(f"db-# {line}" for line in rest), "out"])).text == text


@pytest.mark.parametrize("prompt", ["db=#", "db=# ", "db=# -- a comment", "db=# ;"])
def test_a_prompt_at_which_nothing_is_typed_is_ignored(prompt):
    assert [statement.text for statement in parse(f"{prompt}\ndb=# SELECT 1;\nx\n{prompt}\n").statements] == [
        "SELECT 1;"
    ]


def test_two_dashes_alone_are_a_table_without_columns_before_a_footer_and_a_comment_elsewhere():
    body = "db=# SELECT;\n--\n(1 row)\n--\ndb=# SELECT; SELECT;\n--\n(1 row)\n\n--\n(2 rows)\n"
    assert [statement.expected for statement in parse(body).statements] == [
        ("--", "(1 row)"),
        ("--", "(1 row)", "", "--", "(2 rows)"),
    ]


@pytest.mark.parametrize("separator", ["---", "----+---", "-------"])
def test_a_separator_line_is_no_comment(separator):
    assert only(f"db=# SELECT 1;\n a\n{separator}\n(0 rows)\n").expected == (" a", separator, "(0 rows)")


def test_line_numbers_count_lines_and_not_what_else_python_splits_at():
    assert only("-- a\u2028b\x0bc\x85d\ndb=# SELECT 1;\n x\x0cy\n") == SessionStatement(
        "db", "", 3, "SELECT 1;", (" x\x0cy",), 3
    )


def test_windows_line_ends_are_read_as_line_ends():
    statement = parse_scenario("-- title\r\ndb=# SELECT\r\ndb-# 1;\r\nout\r\n", "x").statements[0]
    assert (statement.text, statement.expected) == ("SELECT\n1;", ("out",))


# Errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "the first line must be the title"),
        ("\n-- title\n", 1, "the first line must be the title"),
        ("--\ndb=# SELECT 1;", 1, "the first line must be the title"),
        ("-- requires: two_phase\ndb=# SELECT 1;", 1, "the first line must be the title"),
        ("db=# SELECT 1;\n", 1, "the first line must be the title"),
        ("-- title\n\n-- a comment\n", 3, "the scenario has no statement"),
        ("-- title\ndb=#\n", 2, "the scenario has no statement"),
        ("-- title\n\nCREATE TABLE\n", 3, "there is output before the first prompt"),
        ("-- title\ndb=#\nCREATE TABLE\n", 3, "there is output, but no statement at the prompt"),
        ("-- title\ndb=# SELECT 1\n", 2, "the statement does not end"),
        ("-- title\ndb=# SELECT 1;\ndb=# SELECT 1; SELECT\ndb-# 2\nout\n", 4, "the statement does not end"),
        ("-- title\ndb=# SELECT 1\ndb=# SELECT 2;\n", 2, "the statement does not end"),
        ("-- title\ndb=# CREATE RULE r AS ON INSERT TO t DO ALSO (SELECT 1;\n", 2, "the statement does not end"),
        ("-- title\ndb=# SELECT ';\n", 2, "unterminated quoted string"),
        ('-- title\ndb=# SELECT ";\n', 2, "unterminated quoted identifier"),
        ("-- title\ndb=# SELECT $$;\n", 2, "unterminated dollar-quoted string"),
        ("-- title\ndb=# SELECT 1; /*\n", 2, "unterminated /* comment"),
        ("-- title\ndb-# SELECT 1;\n", 2, "there is none to continue"),
        ("-- title\ndb=# SELECT 1;\ndb-# SELECT 2;\n", 3, "there is none to continue"),
        ("-- title\ndb=# SELECT 1;\nout\ndb-# SELECT 2;\n", 4, "there is none to continue"),
        ("-- title\ndb=# \\d t\ndb-# u\n", 3, "there is none to continue"),
        ("-- title\ndb=#\ndb-# SELECT 1;\n", 3, "there is none to continue"),
        ("-- title\ndb=# SELECT\nother-# 1;\n", 3, "continues a statement of another session"),
        ("-- title\ndb=# SELECT\ndb/2-# 1;\n", 3, "continues a statement of another session"),
        ("-- title\ndb=# SELECT 1;\nDb=# SELECT 1;\n", 3, 'the name of node "Db" is not in lower case'),
        ("-- title\ndb=# SELECT 1;\ndb=# \\c other\n", 3, "\\c is not supported"),
        ("-- title\ndb=# SELECT 1 \\gx\n", 2, "a backslash command after a statement"),
        ("-- title\n-- requires: psql, magic\ndb=# SELECT 1;\n", 2, 'the requirement "magic" is not known'),
        ("-- title\n-- requires:\ndb=# SELECT 1;\n", 2, 'the requirement "" is not known'),
        ("-- title\n-- requires: pg=>15\ndb=# SELECT 1;\n", 2, 'the requirement "pg=>15" is not known'),
        ("-- title\n-- requires: pg>=16\n-- requires: pg<16\ndb=# SELECT 1;\n", 3, "no version of PostgreSQL"),
        ("-- title\ndb=# SELECT 1;\n-- requires: two_phase\n", 3, "must stand before the first statement"),
    ],
)  # fmt: skip
def test_an_error_says_what_is_wrong_and_where(text, line, message):
    error = refusal(text)
    assert message in error.message
    assert error.context == f"010_name.psql:{line}"


def test_an_unknown_requirement_is_answered_with_those_that_there_are():
    hint = refusal("-- title\n-- requires: magic\ndb=# SELECT 1;\n").hint or ""
    assert all(feature in hint for feature in FEATURES)


# Requirements -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("terms", "fits"),
    [
        ("pg>=16", {16, 17, 18}),
        ("pg>16", {17, 18}),
        ("pg<=16", {15, 16}),
        ("pg<16", {15}),
        ("pg==16", {16}),
        ("pg >= 16, pg<18", {16, 17}),
        ("pg<18, pg<=16, pg>=15, pg>14", {15, 16}),
    ],
)
def test_versions_make_a_range(terms, fits):
    requires = parse(f"-- requires: {terms}\ndb=# SELECT 1;").requires
    assert {major for major in (15, 16, 17, 18) if requires.missing(major, frozenset()) is None} == fits


def test_requirements_of_several_lines_add_up():
    requires = parse("-- requires: two_phase\n-- a comment\n-- requires: psql, pg>=15\ndb=# SELECT 1;").requires
    assert requires == Requires(15, None, frozenset({"psql", "two_phase"}))


@pytest.mark.parametrize(
    ("requires", "missing"),
    [
        (Requires(), None),
        (Requires(least=16), "needs PostgreSQL 16 or newer, and this is 15"),
        (Requires(most=14), "needs PostgreSQL 14 or older, and this is 15"),
        (Requires(features=frozenset({"psql"})), None),
        (Requires(features=frozenset({"two_phase", "psql"})), "needs two_phase"),
    ],
)
def test_what_a_setup_lacks_is_said_in_a_sentence(requires, missing):
    assert requires.missing(15, frozenset({"psql"})) == missing


# Recording --------------------------------------------------------------------------------------


def test_recorded_output_takes_the_place_of_what_was_expected_and_nothing_else_changes():
    scenario = parse_scenario(SESSION, "010_name")
    printed = ["ERROR:  no", " a \n---\n 1 \n(1 row)\n\n b \n---\n(0 rows)\n\n", "INSERT 0 1", ""]
    assert with_output(SESSION, scenario, printed) == dedent(
        """\
        -- Rows that a filter lets through
        -- requires: two_phase, pg>=15

        -- A comment.
        test_pub=# CREATE TABLE t (a int,
        test_pub(# b text);
        ERROR:  no

        test_sub/2=> SELECT 1 AS one; SELECT 2 AS two;
         a
        ---
         1
        (1 row)

         b
        ---
        (0 rows)
        -- Between two tables.

        --
        test_pub=# INSERT INTO t VALUES (1, 'x');
        INSERT 0 1
        test_pub=# \\d t
        test_pub=#
        """
    )


def test_recording_what_is_there_already_changes_nothing():
    text = "-- t\n\n\ndb=# SELECT 1;\n a\n---\n 1\n(1 row)\n\n-- c\n\ndb=# SELECT;\n--\n(1 row)\n"
    scenario = parse_scenario(text, "x")
    assert with_output(text, scenario, ["\n".join(one.expected) for one in scenario.statements]) == text


def test_output_that_would_be_read_as_a_prompt_is_not_recorded():
    text = "-- t\ndb=# SELECT 1;\ndb=# COPY t TO STDOUT;\n"
    with pytest.raises(ScenarioError, match="read as a prompt") as caught:
        with_output(text, parse_scenario(text, "x"), ["", "db=# x"])
    assert caught.value.context == "x.psql:3"


def test_lines_that_a_file_takes_for_comments_are_left_out_of_an_output():
    assert without_comments(["a", "", "-- b", "--", "--", "(1 row)", "db=# c"]) == ["a", "--", "(1 row)", "db=# c"]


def test_the_example_of_the_modules_docstring_is_a_scenario():
    from subscriber.testing.session import session_file as module

    drawn = (module.__doc__ or "").split("::\n\n")[1].split("\n\n**")[0]
    scenario = parse_scenario("\n".join(line[4:58].rstrip() for line in drawn.split("\n")), "x")
    assert [(one.node, one.session) for one in scenario.statements] == [("test_pub", ""), ("test_sub", "2")]


def test_the_documented_example_is_a_scenario():
    readme = (Path(__file__).resolve().parents[4] / "scenarios" / "README.md").read_text()
    example = readme.split("```sql\n")[1].split("```")[0]
    assert parse_scenario(example, "readme").nodes == ("test_pub", "test_sub")

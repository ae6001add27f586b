"""scenario.session.psql_input: text is cut where psql cuts it."""

from __future__ import annotations

import pytest

from subscriber.base.errors import NotSupportedError, SQLSyntaxError
from subscriber.testing.session.psql_input import check_backslash_command, cut, is_backslash_command


def texts(text: str) -> list[str]:
    return [query.text for query in cut(text)]


@pytest.mark.parametrize("text", ["", " \n", ";", ";;", "-- a comment", "/* ; */"])
def test_what_holds_no_token_is_no_query(text):
    assert cut(text) == []


def test_statements_are_cut_at_semicolons_without_what_stands_before_them():
    assert texts("-- c\nSELECT 1; SELECT ';' -- ;\n, $$;$$; /* c */ SELECT 2") == [
        "SELECT 1;",
        "SELECT ';' -- ;\n, $$;$$;",
        "SELECT 2",
    ]


def test_only_the_last_query_may_lack_its_semicolon_and_says_so():
    assert [query.ended for query in cut("SELECT 1; SELECT 2")] == [True, False]


def test_a_semicolon_in_parentheses_does_not_end_a_statement():
    rule = "CREATE RULE r AS ON INSERT TO t DO ALSO (INSERT INTO a VALUES (1); INSERT INTO b VALUES (2));"
    assert texts(f"{rule} SELECT 1;") == [rule, "SELECT 1;"]


def test_a_parenthesis_too_many_does_not_swallow_the_next_statement():
    assert texts("SELECT 1); SELECT 2;") == ["SELECT 1);", "SELECT 2;"]


@pytest.mark.parametrize(
    "start",
    [
        "CREATE FUNCTION f(int)",
        "create or replace function f(int)",
        "CREATE PROCEDURE p()",
        "CREATE OR REPLACE PROCEDURE p()",
    ],
)
def test_the_body_of_a_function_ends_with_its_end(start):
    body = f"{start} BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END;"
    assert texts(f"{body} SELECT 3;") == [body, "SELECT 3;"]


@pytest.mark.parametrize(
    "start", ["BEGIN", "CREATE OR REPLACE VIEW function AS SELECT 1; BEGIN", "CREATE TABLE function (a int); BEGIN"]
)
def test_begin_is_a_statement_where_no_function_is_created(start):
    assert texts(f"{start}; SELECT 1; END;")[-3:] == ["BEGIN;", "SELECT 1;", "END;"]


def test_a_body_begins_only_in_the_statement_that_creates_the_function():
    function = "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $$SELECT 1$$"
    assert texts(f"{function}\\; BEGIN; SELECT 1;") == [f"{function}; BEGIN;", "SELECT 1;"]


def test_case_opens_nothing_outside_of_a_body():
    assert texts("CREATE FUNCTION case; SELECT 1;") == ["CREATE FUNCTION case;", "SELECT 1;"]


def test_a_quoted_begin_opens_no_body():
    assert texts('CREATE FUNCTION "begin"() RETURNS int LANGUAGE sql AS $$SELECT 1$$; SELECT 2;')[-1] == "SELECT 2;"


def test_a_semicolon_behind_a_backslash_joins_statements_to_one_query():
    (query,) = cut(r"SELECT ';' AS a\; SELECT 2 ORDER BY 1\; SELECT 3;")
    assert query.text == "SELECT ';' AS a; SELECT 2 ORDER BY 1; SELECT 3;"
    assert query.ordered == (False, True, False)


def test_gexec_ends_a_query_whose_result_is_run():
    first, second = cut("SELECT 'ANALYZE'\n -- all\n\\gexec\nSELECT 2;")
    assert (first.text, first.ended, first.executes) == ("SELECT 'ANALYZE'", True, True)
    assert (second.text, second.executes) == ("SELECT 2;", False)


def test_the_order_of_what_gexec_runs_is_not_that_of_its_query():
    (query,) = cut("SELECT 'TABLE t' ORDER BY 1 \\gexec")
    assert query.ordered == (False,)


@pytest.mark.parametrize("text", [r"SELECT 1; \gexec", r"SELECT 1 \gexec SELECT 2;", r"SELECT 1 \ gexec"])
def test_gexec_has_one_query_before_it_and_nothing_behind_it(text):
    with pytest.raises(NotSupportedError, match="after a statement"):
        cut(text)


@pytest.mark.parametrize(
    "text", [r"SELECT 1 \gx", r"SELECT 1 \g", r"SELECT 1; \d t", r"SELECT 1 \ ; SELECT 2;", "SELECT 1; \\"]
)
def test_a_backslash_command_behind_a_statement_is_refused(text):
    with pytest.raises(NotSupportedError, match="after a statement"):
        cut(text)


def test_a_text_that_does_not_end_is_refused():
    with pytest.raises(SQLSyntaxError, match="unterminated quoted string"):
        cut("SELECT 1; SELECT 'x;")


@pytest.mark.parametrize(
    ("statement", "ordered"),
    [
        ("SELECT * FROM t ORDER BY a", True),
        ("SELECT * FROM t order\nby a", True),
        ("SELECT * FROM t UNION SELECT 1 ORDER BY 1 LIMIT 1", True),
        ("SELECT * FROM t", False),
        ("SELECT * FROM (SELECT * FROM t ORDER BY a) u", False),
        ("SELECT array_agg(a ORDER BY b), rank() OVER (ORDER BY c) FROM t", False),
        ("SELECT 'ORDER BY a' FROM t -- ORDER BY a", False),
        ('SELECT "order" BY', False),
        ("SELECT a AS order FROM t GROUP BY a", False),
        ("COPY (SELECT * FROM t ORDER BY a) TO STDOUT", True),
        ("COPY (SELECT * FROM (SELECT * FROM t ORDER BY a) u) TO STDOUT", False),
        ("COPY t TO STDOUT", False),
    ],
)
def test_a_statement_is_ordered_by_an_order_by_at_its_outermost_level(statement, ordered):
    (query,) = cut(f"{statement};")
    assert query.ordered == (ordered,)


@pytest.mark.parametrize(
    ("statement", "copies"),
    [
        ("COPY t TO STDOUT", True),
        ("copy t to stdout", True),
        ("COPY t FROM STDIN", False),
        ("SELECT stdout FROM t", False),
    ],
)
def test_copy_to_stdout_is_told_from_the_rest(statement, copies):
    assert cut(statement)[0].copies_out == copies


def test_a_query_keeps_its_text_out_of_its_representation():
    """Invariant names_are_data: it may hold a connection string."""
    assert "secret" not in repr(cut("CREATE SUBSCRIPTION s CONNECTION 'password=secret' PUBLICATION p;"))


@pytest.mark.parametrize(
    "command", [r"\d", r"\d t1", r"\dRp+", r" \dt *.*", r"\l", r"\l+", r"\z t", r"\sf f", r"\sv+ v"]
)
def test_backslash_commands_that_describe_are_allowed(command):
    assert is_backslash_command(command)
    check_backslash_command(command)


@pytest.mark.parametrize(
    "command", [r"\c other", r"\! ls", r"\x", r"\set a b", r"\i file", r"\copy t to 'f'", r"\s f", r"\lo_list", "\\"]
)
def test_backslash_commands_that_do_more_are_refused_by_name(command):
    with pytest.raises(NotSupportedError) as refusal:
        check_backslash_command(command)
    assert refusal.value.message.startswith(command.split()[0] + " is not supported")


@pytest.mark.parametrize("command", ["\\d `rm -rf x`", "\\d t\nSELECT 1;"])
def test_a_backslash_command_runs_no_shell_and_has_one_line(command):
    with pytest.raises(NotSupportedError, match="line break or a shell command"):
        check_backslash_command(command)

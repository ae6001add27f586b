"""Expressions with grammar rules of their own: what ``gram.y`` makes of them."""

from __future__ import annotations

import pytest

from subscriber.base.errors import SQLSyntaxError
from subscriber.postgres.expressions.parse import syntax
from subscriber.postgres.expressions.parse.parser import parse


def column(name: str, position: int) -> syntax.ColumnRef:
    return syntax.ColumnRef(position, (name,))


def called(text: str, major: int = 18) -> tuple[str, list[str]]:
    """The function that a form calls, and the text of its arguments, which are plain."""
    node = parse(text, major)
    assert isinstance(node, syntax.FunctionCall)
    return ".".join(node.names), [plain(one) for one in node.arguments]


def plain(node: syntax.Node) -> str:
    if isinstance(node, syntax.AConst):
        return f"'{node.value}'" if node.kind == "string" else node.value
    assert isinstance(node, syntax.ColumnRef)
    return ".".join(part or "*" for part in node.parts)


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("EXTRACT(year FROM a)", "extract", ["'year'", "a"]),
        ("EXTRACT('Year' FROM a)", "extract", ["'Year'", "a"]),
        ("TRIM(a)", "btrim", ["a"]),
        ("TRIM(BOTH 'x' FROM a)", "btrim", ["a", "'x'"]),
        ("TRIM(LEADING FROM a)", "ltrim", ["a"]),
        ("TRIM(TRAILING 'x' FROM a)", "rtrim", ["a", "'x'"]),
        ("TRIM(a, 'x')", "btrim", ["a", "'x'"]),
        ("POSITION('x' IN a)", "position", ["a", "'x'"]),
        ("OVERLAY(a PLACING b FROM 1)", "overlay", ["a", "b", "1"]),
        ("OVERLAY(a PLACING b FROM 1 FOR 2)", "overlay", ["a", "b", "1", "2"]),
        ("SUBSTRING(a FROM 1)", "substring", ["a", "1"]),
        ("SUBSTRING(a FROM 1 FOR 2)", "substring", ["a", "1", "2"]),
        ("SUBSTRING(a FOR 2 FROM 1)", "substring", ["a", "1", "2"]),
        ("SUBSTRING(a SIMILAR b ESCAPE c)", "substring", ["a", "b", "c"]),
        ("NORMALIZE(a)", "normalize", ["a"]),
        ("NORMALIZE(a, NFKD)", "normalize", ["a", "'NFKD'"]),
        ("COLLATION FOR (a)", "pg_collation_for", ["a"]),
    ],
)
def test_sql_syntax_calls_a_function_and_is_printed_as_it_was(text, name, arguments):
    assert called(text) == (f"pg_catalog.{name}", arguments)
    node = parse(text)
    assert isinstance(node, syntax.FunctionCall)
    assert node.special


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("SUBSTRING(a, 1, 2)", "substring", ["a", "1", "2"]),
        ("OVERLAY(a, b, 1)", "overlay", ["a", "b", "1"]),
        ("s.f(a)", "s.f", ["a"]),
        ("f()", "f", []),
        ("current_schema()", "current_schema", []),
        ("JSON_OBJECT(a, b)", "json_object", ["a", "b"]),
    ],
)
def test_plain_notation_calls_the_function_that_is_named(text, name, arguments):
    assert called(text) == (name, arguments)


def test_a_length_without_a_start_begins_at_the_first_character():
    """The length is cast to integer, because no function takes only a length."""
    node = parse("SUBSTRING(a FOR 2)")
    assert isinstance(node, syntax.FunctionCall)
    cast = syntax.TypeCast(16, syntax.AConst(16, "integer", "2"), syntax.TypeName(0, ("pg_catalog", "int4")))
    assert node.arguments == (column("a", 10), syntax.AConst(0, "integer", "1"), cast)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "CASE a WHEN 1 THEN b ELSE c END",
            syntax.Case(0, column("a", 5), ((syntax.AConst(12, "integer", "1"), column("b", 19)),), column("c", 26)),
        ),
        ("CASE WHEN a THEN b END", syntax.Case(0, None, ((column("a", 10), column("b", 17)),), None)),
        ("COALESCE(a, b)", syntax.Coalesce(0, (column("a", 9), column("b", 12)))),
        ("NULLIF(a, b)", syntax.NullIf(0, column("a", 7), column("b", 10))),
        ("GREATEST(a)", syntax.MinMax(0, True, (column("a", 9),))),
        ("LEAST(a)", syntax.MinMax(0, False, (column("a", 6),))),
        ("ARRAY[a]", syntax.ArrayLiteral(0, (column("a", 6),))),
        ("ARRAY[]", syntax.ArrayLiteral(0, ())),
        (
            "ARRAY[[a], []]",
            syntax.ArrayLiteral(0, (syntax.ArrayLiteral(6, (column("a", 7),)), syntax.ArrayLiteral(11, ()))),
        ),
        ("ROW()", syntax.RowLiteral(0, ())),
        ("CAST(a AS date)", syntax.TypeCast(0, column("a", 5), syntax.TypeName(10, ("date",)))),
        ("TREAT(a AS date)", syntax.FunctionCall(0, ("pg_catalog", "date"), (column("a", 6),))),
        ("current_date", syntax.SessionValue(0, "current_date")),
        ("CURRENT_TIMESTAMP(3)", syntax.SessionValue(0, "current_timestamp")),
        ("user", syntax.SessionValue(0, "user")),
        ("ARRAY(SELECT 1)", syntax.NotSimple(0, "SubLink")),
        ("EXISTS (SELECT 1)", syntax.NotSimple(0, "SubLink")),
        ("XMLELEMENT(NAME x)", syntax.NotSimple(0, "XMLELEMENT")),
        ("JSON_OBJECT('a': 1)", syntax.NotSimple(0, "JsonConstructorExpr")),
        ("JSON_VALUE(a, '$')", syntax.NotSimple(0, "JsonExpr")),
        ("GROUPING(a)", syntax.NotSimple(0, "GroupingFunc", (column("a", 9),))),
    ],
)
def test_a_form_becomes_its_node(text, expected):
    assert parse(text) == expected


def test_words_of_sql_json_are_plain_names_before_their_version():
    assert called("json_value(a, b)", 16) == ("json_value", ["a", "b"])
    assert isinstance(parse("json_array(1)", 16), syntax.NotSimple)
    assert called("json_array(a)", 15) == ("json_array", ["a"])


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("f(a, x => b)", {"argument_names": (None, "x")}),
        ("f(x := a)", {"argument_names": ("x",)}),
        ("f(*)", {"star": True}),
        ("f(a, VARIADIC b)", {"variadic": True}),
        ("f(DISTINCT a)", {"decorated": "DISTINCT"}),
        ("f(ALL a)", {"decorated": None}),
        ("f(a ORDER BY b DESC NULLS LAST)", {"decorated": "ORDER BY"}),
        ("f(a) FILTER (WHERE b)", {"decorated": "FILTER"}),
        ("f(a) WITHIN GROUP (ORDER BY b)", {"decorated": "WITHIN GROUP", "argument_names": (None, None)}),
        ("f(a) OVER (PARTITION BY b)", {"over": True}),
        ("f(a) OVER w", {"over": True}),
    ],
)
def test_a_call_says_what_is_written_around_its_arguments(text, facts):
    node = parse(text)
    assert {name: getattr(node, name) for name in facts} == facts


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("CASE WHEN a END", 'syntax error at or near "END"', 13),
        ("CASE END", 'syntax error at or near "END"', 6),
        ("EXTRACT(year a)", 'syntax error at or near "a"', 14),
        ("NULLIF(a)", 'syntax error at or near ")"', 9),
        ("POSITION(a, b)", 'syntax error at or near ","', 11),
        ("NORMALIZE(a, b)", 'syntax error at or near "b"', 14),
        ("COALESCE()", 'syntax error at or near ")"', 10),
        ("f(VARIADIC a, b)", 'syntax error at or near "b"', 15),
        ("f(a ORDER BY b NULLS)", 'syntax error at or near ")"', 21),
        ("(a, b, c) OVERLAPS (d, e)", "wrong number of parameters on left side of OVERLAPS expression", 1),
        ("(a, b) OVERLAPS (c, d, e)", "wrong number of parameters on right side of OVERLAPS expression", 17),
    ],
)
def test_an_error_names_the_place(text, message, position):
    with pytest.raises(SQLSyntaxError) as caught:
        parse(text)
    assert (caught.value.sqlstate, caught.value.message, caught.value.position) == ("42601", message, position)

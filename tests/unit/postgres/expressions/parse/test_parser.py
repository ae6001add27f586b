"""Expressions become syntax trees by the precedences of ``gram.y`` (the manual's 4.1.6)."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.errors import SQLSyntaxError
from subscriber.postgres.expressions.parse import syntax
from subscriber.postgres.expressions.parse.parser import parse, read_expression
from subscriber.postgres.sql.cursor import Cursor


def shape(node: Any) -> str:
    """A tree as text: operators between parentheses, other nodes by the name of their class."""
    match node:
        case syntax.ColumnRef():
            return ".".join(part or "*" for part in node.parts)
        case syntax.AConst(kind="string"):
            return f"'{node.value}'"
        case syntax.AConst(kind="null"):
            return "null"
        case syntax.AConst():
            return node.value
        case syntax.AExpr(left=None):
            return f"({'.'.join(node.names)} {shape(node.right)})"
        case syntax.AExpr():
            return f"({shape(node.left)} {'.'.join(node.names)} {shape(node.right)})"
        case syntax.BooleanExpression(kind="not"):
            return f"(not {shape(node.arguments[0])})"
        case syntax.BooleanExpression():
            return "(" + f" {node.kind} ".join(map(shape, node.arguments)) + ")"
        case syntax.FunctionCall():
            return f"{'.'.join(node.names)}({', '.join(map(shape, node.arguments))})"
        case syntax.TypeCast():
            return f"({shape(node.argument)})::{node.type.names[-1]}{'[]' * node.type.array}"
        case syntax.Node():
            inner = ", ".join(shape(getattr(node, one.name)) for one in fields(node) if one.name != "position")
            return f"{type(node).__name__}({inner})"
        case tuple():
            return "[" + ", ".join(map(shape, node)) + "]"
    return str(node)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # From the tightest to the loosest.
        ("a.b", "a.b"),
        ("-a::int8", "(- (a)::int8)"),
        ("- a ^ b", "((- a) ^ b)"),
        ("a ^ b ^ c", "((a ^ b) ^ c)"),
        ("a * b ^ c", "(a * (b ^ c))"),
        ("a + b * c % d", "(a + ((b * c) % d))"),
        ("a - b - c", "((a - b) - c)"),
        ("a || b + c", "(a || (b + c))"),
        ("a || b = c", "((a || b) = c)"),
        ("a < b || c", "(a < (b || c))"),
        ("a BETWEEN b AND c = d", "(Between(a, b, c, False, False) = d)"),
        ("a LIKE b || c", "(a ~~ (b || c))"),
        ("a = b IS NULL", "IsNull((a = b), True)"),
        ("NOT a = b", "(not (a = b))"),
        ("NOT a AND b", "((not a) and b)"),
        ("a OR b AND c", "(a or (b and c))"),
        ("a AND b OR c", "((a and b) or c)"),
        ("NOT NOT a", "(not (not a))"),
        # Other operators, and operators with schemas.
        ("@ a + b", "(@ (a + b))"),
        ("a OPERATOR(pg_catalog.*) b + c", "(a pg_catalog.* (b + c))"),
        ("OPERATOR(pg_catalog.-) a", "(pg_catalog.- a)"),
        ("a -> 'b' ->> 'c'", "((a -> 'b') ->> 'c')"),
        ("a != b", "(a <> b)"),
        # AND and OR of the same kind are one node.
        ("a AND b AND c", "(a and b and c)"),
        ("(a AND b) AND c", "(a and b and c)"),
        ("a AND (b AND c)", "(a and (b and c))"),
        ("a OR (b OR c)", "(a or (b or c))"),
        # The sign of a number is a part of it.
        ("-1", "-1"),
        ("- -1", "1"),
        ("-1.5", "-1.5"),
        ("+1", "(+ 1)"),
        ("-a", "(- a)"),
        # IS.
        ("a IS NOT NULL", "IsNull(a, False)"),
        ("a ISNULL", "IsNull(a, True)"),
        ("a IS NULL IS NULL", "IsNull(IsNull(a, True), True)"),
        ("a NOTNULL", "IsNull(a, False)"),
        ("a IS TRUE", "IsTruth(a, True, False)"),
        ("a IS NOT FALSE", "IsTruth(a, False, True)"),
        ("a IS UNKNOWN", "IsTruth(a, None, False)"),
        ("a IS DISTINCT FROM b", "DistinctFrom(a, b, False)"),
        ("a IS NOT DISTINCT FROM b + 1", "DistinctFrom(a, (b + 1), True)"),
        ("a IS DOCUMENT", "NotSimple(IS DOCUMENT, [a])"),
        ("a IS JSON OBJECT WITH UNIQUE KEYS", "NotSimple(JsonIsPredicate, [a])"),
        ("a IS NORMALIZED", "pg_catalog.is_normalized(a)"),
        ("a IS NOT NFKC NORMALIZED", "(not pg_catalog.is_normalized(a, 'NFKC'))"),
        # Lists, ranges and patterns.
        ("a IN (1, b)", "InList(a, [1, b], False)"),
        ("a NOT IN (1)", "InList(a, [1], True)"),
        ("a NOT BETWEEN SYMMETRIC 1 AND 2", "Between(a, 1, 2, True, True)"),
        ("a BETWEEN ASYMMETRIC 1 AND 2 AND b", "(Between(a, 1, 2, False, False) and b)"),
        ("a NOT LIKE b", "(a !~~ b)"),
        ("a ILIKE b ESCAPE c", "(a ~~* pg_catalog.like_escape(b, c))"),
        ("a NOT ILIKE b", "(a !~~* b)"),
        ("a SIMILAR TO b", "(a ~ pg_catalog.similar_to_escape(b))"),
        ("a NOT SIMILAR TO b ESCAPE c", "(a !~ pg_catalog.similar_to_escape(b, c))"),
        ("a = ANY (b)", "AnyAll([=], a, b, True)"),
        ("a <> ALL (b)", "AnyAll([<>], a, b, False)"),
        ("a = SOME (b)", "AnyAll([=], a, b, True)"),
        ("a LIKE ANY (b)", "AnyAll([~~], a, b, True)"),
        # Sub-selects are skipped.
        ("a IN (SELECT f(')') FROM t)", "NotSimple(SubLink, [a])"),
        ("a = ANY (VALUES (1))", "NotSimple(SubLink, [a])"),
        ("(SELECT 1) = a", "(NotSimple(SubLink, []) = a)"),
        ("((SELECT 1) UNION SELECT 2)", "NotSimple(SubLink, [])"),
        # Conversions, collations and time zones.
        ("a::int[] = b", "((a)::int4[] = b)"),
        ('CAST(a AS text) COLLATE "C" < b', "(CollateClause((a)::text, [C]) < b)"),
        ("a COLLATE x.y", "CollateClause(a, [x, y])"),
        ("a AT TIME ZONE 'UTC' + b", "(pg_catalog.timezone('UTC', a) + b)"),
        ("a AT LOCAL", "pg_catalog.timezone(a)"),
        # Literals.
        ("'a' = b", "('a' = b)"),
        ("date '2024-01-01'", "('2024-01-01')::date"),
        ("numeric(3,1) '1.2'", "('1.2')::numeric"),
        ("interval '1' YEAR TO MONTH", "('1')::interval"),
        ("double 'x'", "('x')::double"),
        ("s.mood 'good'", "('good')::mood"),
        ("B'101'", "b101"),
        ("1.5e3", "1.5e3"),
        ("TRUE", "true"),
        ("NULL", "null"),
        ("$1", "ParamRef($1)"),
        # Columns, fields and subscripts.
        ("t.*", "t.*"),
        ("s.t.a", "s.t.a"),
        ("(a).b", "Indirection(a, [b])"),
        ("a[1]", "Indirection(a, [[1]])"),
        ("a[1:2][:]", "Indirection(a, [[1, 2], [None, None]])"),
        ("(a).b[3].*", "Indirection(a, [b, [3], None])"),
        ('"A b"', "A b"),
        # Rows.
        ("(a, b) = (1, 2)", "(RowLiteral([a, b]) = RowLiteral([1, 2]))"),
        ("(a, b) OVERLAPS (c, d)", "pg_catalog.overlaps(a, b, c, d)"),
        ("ROW(a)", "RowLiteral([a])"),
    ],
)
def test_an_expression_becomes_the_tree_of_the_grammar(text, expected):
    assert shape(parse(text)) == expected


def test_every_node_knows_its_place():
    """An operator's place is that of its symbol, as in PostgreSQL's errors."""
    assert parse("a = 12") == syntax.AExpr(2, ("=",), syntax.ColumnRef(0, ("a",)), syntax.AConst(4, "integer", "12"))
    assert parse(" - 5") == syntax.AConst(1, "integer", "-5")
    assert parse("a AND b OR c").position == 8


@pytest.mark.parametrize(
    ("text", "near", "position"),
    [
        ("", '")"', 1),
        ("a < b < c", '"<"', 7),
        ("a = b = c", '"="', 7),
        ("a BETWEEN 1 AND 2 BETWEEN 3 AND 4", '"BETWEEN"', 19),
        ("a LIKE b LIKE c", '"LIKE"', 10),
        ("a b", '"b"', 3),
        ("a +", '")"', 4),
        ("(a", '")"', 3),
        ("a)", '")"', 2),
        ("a IN ()", '")"', 7),
        ("select", '"select"', 1),
        ("a OPERATOR(,) b", '","', 12),
        ("a[1", '")"', 4),
        ("a IS b", '"b"', 6),
        ("a NOT 1", '"NOT"', 3),
    ],
)
def test_an_error_names_the_token_and_its_place(text, near, position):
    """The first character has position 1."""
    with pytest.raises(SQLSyntaxError) as caught:
        parse(text)
    assert caught.value.message == f"syntax error at or near {near}"
    assert (caught.value.sqlstate, caught.value.position) == ("42601", position)


def test_a_server_before_16_does_not_know_is_json():
    with pytest.raises(SQLSyntaxError, match="JSON"):
        parse("a IS JSON", 15)


def test_the_longest_expression_is_read_and_the_rest_left():
    cursor = Cursor("a + 1 FROM b")
    assert shape(read_expression(cursor)) == "(a + 1)"
    assert cursor.at("from", "b")


OPERATORS = st.sampled_from(["AND", "OR", "+", "-", "*", "/", "^", "||", "->", "@>"])
CHAINS = st.lists(st.tuples(OPERATORS, st.sampled_from(["a", "b", "c"]), st.sampled_from(["", "@ ", "- "])), max_size=8)


@given(CHAINS)
def test_parentheses_that_spell_the_tree_out_do_not_change_it(chain):
    text = "a" + "".join(f" {operator} {sign}{name}" for operator, name, sign in chain)
    spelled = shape(parse(text))
    assert shape(parse(spelled)) == spelled

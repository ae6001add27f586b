"""Conversions: which exist, and the nodes that they become (``parse_coerce.c``)."""

from __future__ import annotations

import pytest

from subscriber.base.errors import NotSupportedError, RowFilterError, UsageError
from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.analyze.coerce import Path, length_of, modifier_of
from subscriber.postgres.expressions.analyze.typeinfo import ANY, ANYELEMENT, UNKNOWN

BOOL, INT2, INT4, INT8, OID, FLOAT8, NUMERIC, TEXT, VARCHAR, DATE, INTERVAL = (
    16, 21, 23, 20, 26, 701, 1700, 25, 1043, 1082, 1186,
)  # fmt: skip
INT4S, INT8S, RECORD, DOMAIN, POINT = 1007, 1016, 2249, 16502, 600
A = tree.Var(INT4, 0, "a")
B = tree.Var(TEXT, 100, "b")


@pytest.mark.parametrize(
    ("source", "target", "implicit", "assignment", "explicit"),
    [
        (INT4, INT4, "relabel", "relabel", "relabel"),
        (INT4, INT8, "function", "function", "function"),
        (INT8, INT4, None, "function", "function"),
        (INT4, BOOL, None, None, "function"),
        (VARCHAR, TEXT, "relabel", "relabel", "relabel"),
        (INT4, TEXT, None, "io", "io"),
        (TEXT, INT4, None, None, "io"),
        (INT4S, INT8S, "array", "array", "array"),
        (INT8S, INT4S, None, "array", "array"),
        (INT4, DATE, None, None, None),
        (DOMAIN, INT8, "function", "function", "function"),
    ],
)
def test_a_conversion_depends_on_the_context(coercions, source, target, implicit, assignment, explicit):
    def kind(context) -> str | None:
        found = coercions.path(target, source, context)
        return None if found is None else found.kind

    assert (kind("implicit"), kind("assignment"), kind("explicit")) == (implicit, assignment, explicit)


def test_the_path_of_a_cast_names_its_function(coercions):
    assert coercions.path(INT8, INT4, "implicit") == Path("function", 481)


def test_unknown_becomes_any_type_and_any_takes_all(coercions):
    assert coercions.possible([UNKNOWN, INT4], [DATE, ANY])
    assert coercions.possible([INT4, INT4], [ANYELEMENT, ANYELEMENT])
    assert not coercions.possible([INT4, TEXT], [ANYELEMENT, ANYELEMENT])
    assert not coercions.possible([TEXT], [INT4])
    assert coercions.possible([TEXT], [INT4], "explicit")


@pytest.mark.parametrize(
    ("oids", "common"),
    [
        ([INT4, INT4], INT4),
        ([INT4, NUMERIC], NUMERIC),
        ([NUMERIC, INT4], NUMERIC),
        ([INT4, FLOAT8, NUMERIC], FLOAT8),
        ([UNKNOWN, INT4], INT4),
        ([UNKNOWN, UNKNOWN], TEXT),
        ([VARCHAR, UNKNOWN], VARCHAR),
        ([VARCHAR, TEXT], VARCHAR),  # text is converted implicitly, too
        ([TEXT, VARCHAR], TEXT),
        ([DOMAIN, UNKNOWN], INT4),
    ],
)
def test_the_common_type_of_some_types(coercions, oids, common):
    """The manual's 10.5."""
    assert coercions.common_type_of(oids, "CASE") == common


def test_types_of_different_categories_have_no_common_type(coercions):
    assert coercions.common_type_of([INT4, TEXT], None) == 0
    with pytest.raises(UsageError) as caught:
        coercions.common_type([A, B], "CASE")
    assert (caught.value.sqlstate, caught.value.message) == ("42804", "CASE types integer and text cannot be matched")
    with pytest.raises(UsageError) as caught:
        coercions.to_common(B, INT4, "CASE")
    assert (caught.value.sqlstate, caught.value.message) == ("42846", "CASE could not convert type text to integer")


@pytest.mark.parametrize(
    ("node", "target", "made"),
    [
        (A, INT4, A),
        (A, ANYELEMENT, A),
        (A, INT8, tree.Call(INT8, 0, "int8(int4)", (A,), form="implicit")),
        (A, OID, tree.RelabelType(OID, 0, A)),
        (tree.Var(VARCHAR, 100, "v", 9), TEXT, tree.RelabelType(TEXT, 100, tree.Var(VARCHAR, 100, "v", 9))),
        (tree.Const(UNKNOWN, 0, "7"), INT4, tree.Const(INT4, 0, "7")),
        (tree.Const(UNKNOWN, 0, None), DATE, tree.Const(DATE, 0, None)),
        (
            tree.Var(INT2, 0, "s"),
            OID,
            tree.RelabelType(OID, 0, tree.Call(INT4, 0, "int4(int2)", (tree.Var(INT2, 0, "s"),), form="implicit")),
        ),
        (A, TEXT, tree.Refused(TEXT, 100, "CoerceViaIO", (A,))),
        (
            tree.CollateExpr(TEXT, 950, tree.Const(UNKNOWN, 0, "x")),
            TEXT,
            tree.CollateExpr(TEXT, 950, tree.Const(UNKNOWN, 0, "x")),
        ),
        (
            tree.Const(UNKNOWN, 0, "7"),
            DOMAIN,
            tree.Refused(DOMAIN, 0, "CoerceToDomain", (tree.Const(INT4, 0, "7"),)),
        ),
    ],
)
def test_a_conversion_is_a_node(coercions, node, target, made):
    assert coercions.coerce(node, target, context="assignment") == made


def test_a_length_conversion_follows_the_conversion_of_the_type(coercions):
    found = coercions.coerce_to_target(B, VARCHAR, 9, "explicit", "cast")
    assert found == tree.Call(
        VARCHAR,
        100,
        "varchar(varchar,int4,bool)",
        (
            tree.RelabelType(VARCHAR, 100, B, form="implicit"),
            tree.Const(INT4, 0, "9"),
            tree.Const(BOOL, 0, "t"),
        ),
        form="cast",
    )
    assert modifier_of(found) == 9


def test_the_fields_of_an_interval_restrict_its_constant(coercions):
    years = 1 << 18 | 0xFFFF
    found = coercions.coerce_to_target(tree.Const(UNKNOWN, 0, "13 months"), INTERVAL, years, "explicit", "cast")
    assert found == tree.Const(INTERVAL, 0, "1 year", years)


def test_there_is_no_node_where_there_is_no_conversion(coercions):
    assert coercions.coerce_to_target(A, DATE, -1, "explicit", "cast") is None
    assert coercions.to_boolean(tree.Var(BOOL, 0, "p"), "AND") == tree.Var(BOOL, 0, "p")
    with pytest.raises(UsageError, match="argument of AND must be type boolean, not type integer"):
        coercions.to_boolean(A, "AND")


def test_a_constant_must_be_a_value_of_its_type(coercions):
    with pytest.raises(RowFilterError, match='invalid input syntax for type integer: "x"'):
        coercions.coerce(tree.Const(UNKNOWN, 0, "x"), INT4)
    with pytest.raises(NotSupportedError, match="input of anonymous composite types is not implemented"):
        coercions.coerce(tree.Const(UNKNOWN, 0, "(1)"), RECORD)
    with pytest.raises(NotSupportedError, match="cannot accept a value of type anyelement"):
        coercions._constant(tree.Const(UNKNOWN, 0, "1"), ANYELEMENT, -1)


def test_the_modifier_of_a_value_is_that_of_all_its_sources():
    five, six = tree.Var(VARCHAR, 100, "v", 9), tree.Var(VARCHAR, 100, "w", 10)
    assert modifier_of(five) == 9
    assert modifier_of(tree.CollateExpr(VARCHAR, 950, five)) == 9
    assert modifier_of(tree.CoalesceExpr(VARCHAR, 100, (five, five))) == 9
    assert modifier_of(tree.CoalesceExpr(VARCHAR, 100, (five, six))) == -1
    assert modifier_of(tree.CaseExpr(VARCHAR, 100, None, ((A, five),), five)) == 9
    assert modifier_of(tree.NullIfExpr(VARCHAR, 100, "texteq(text,text)", (five, six))) == 9
    assert modifier_of(tree.ArrayExpr(1015, 100, (five, five))) == 9
    assert modifier_of(tree.BoolExpr(BOOL, 0, "not", (A,))) == -1


def test_a_length_conversion_says_its_modifier():
    made = tree.Call(NUMERIC, 0, "numeric(numeric,int4)", (A, tree.Const(INT4, 0, "327686")), form="cast")
    assert length_of(made) == 327686
    assert length_of(tree.Call(NUMERIC, 0, "round(numeric,int4)", (A, tree.Const(INT4, 0, "2")))) == -1
    assert length_of(tree.Call(NUMERIC, 0, "numeric(int4)", (A,), form="cast")) == -1

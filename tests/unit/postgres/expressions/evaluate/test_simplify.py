"""What is constant is computed before any row is seen, as ``eval_const_expressions`` does it (rule
B11).
"""

from __future__ import annotations

import pytest

from subscriber.base.errors import RowFilterError
from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.analyze.tree import ComputedConst
from subscriber.postgres.expressions.evaluate.simplify import simplify

BOOL, INT4, RECORD = tree.BOOL, 23, 2249
A = tree.Var(INT4, 0, "a")
P = tree.Var(BOOL, 0, "p")
TRUE, FALSE, UNKNOWN = (tree.Const(BOOL, 0, text) for text in ("t", "f", None))
ONE, ZERO, NULL = (tree.Const(INT4, 0, text) for text in ("1", "0", None))


def known(type_oid: int, value: object) -> ComputedConst:
    return ComputedConst(type_oid, 0, value)


def divided(left: tree.Expression, right: tree.Expression) -> tree.Call:
    return tree.Call(INT4, 0, "int4div(int4,int4)", (left, right))


def equal(left: tree.Expression, right: tree.Expression) -> tree.Call:
    return tree.Call(BOOL, 0, "int4eq(int4,int4)", (left, right))


def boolean(kind, *arguments: tree.Expression) -> tree.BoolExpr:
    return tree.BoolExpr(BOOL, 0, kind, arguments)


def coalesce(*arguments: tree.Expression) -> tree.CoalesceExpr:
    return tree.CoalesceExpr(INT4, 0, arguments)


def null_if(left: tree.Expression, right: tree.Expression) -> tree.NullIfExpr:
    return tree.NullIfExpr(INT4, 0, "int4eq(int4,int4)", (left, right))


def case(*whens: tuple[tree.Expression, tree.Expression], default: tree.Expression) -> tree.CaseExpr:
    return tree.CaseExpr(INT4, 0, None, whens, default)


NEVER = divided(ONE, ZERO)


@pytest.mark.parametrize(
    ("node", "simple"),
    [
        # A strict function of NULL, whatever else it is of.
        (equal(divided(ONE, A), NULL), known(BOOL, None)),
        (divided(tree.Const(INT4, 0, "7"), tree.Const(INT4, 0, "2")), known(INT4, 3)),
        # AND and OR: what decides, decides; what cannot is left out.
        (boolean("and", P, FALSE, equal(NEVER, ONE)), known(BOOL, False)),
        (boolean("or", P, TRUE, equal(NEVER, ONE)), known(BOOL, True)),
        (boolean("and", TRUE, P), P),
        (boolean("or", FALSE, FALSE), known(BOOL, False)),
        (boolean("and", UNKNOWN, P), boolean("and", P, known(BOOL, None))),
        (boolean("not", UNKNOWN), known(BOOL, None)),
        # CASE: what is not reached is not computed.
        (case((FALSE, NEVER), (UNKNOWN, NEVER), default=A), A),
        (case((P, A), (TRUE, ONE), (P, NEVER), default=NEVER), case((P, A), default=known(INT4, 1))),
        (tree.CaseExpr(INT4, 0, ONE, ((equal(tree.CaseTestExpr(INT4, 0), ONE), A),), NEVER), A),
        # COALESCE ends with the first constant; NULLIF of NULL is its first argument.
        (coalesce(NULL, A, NULL, ONE, NEVER), coalesce(A, known(INT4, 1))),
        (coalesce(NULL, A), A),
        (coalesce(NULL, NULL), known(INT4, None)),
        (null_if(NULL, divided(ONE, A)), known(INT4, None)),
        (null_if(A, NULL), A),
        # A row is tested field by field.
        (tree.NullTest(BOOL, 0, tree.RowExpr(RECORD, 0, (divided(ONE, A), ONE)), is_null=True), known(BOOL, False)),
        (tree.NullTest(BOOL, 0, ONE, is_null=False), known(BOOL, True)),
    ],
)  # fmt: skip
def test_constants_leave_what_the_server_leaves(node, simple):
    """B11: no more, since what is dropped cannot raise, and no less."""
    assert simplify(node, 180000) == simple


@pytest.mark.parametrize(
    "node",
    [
        boolean("or", P, equal(NEVER, ONE)),
        boolean("or", equal(NEVER, ONE), TRUE),
        case((P, NEVER), default=A),
        coalesce(A, NEVER),
        equal(NULL, NEVER),
    ],
)
def test_a_constant_that_cannot_be_computed_raises_even_where_no_row_needs_it(node):
    """B11: in their order, so ``true OR 1 / 0 = 1`` does not, and ``1 / 0 = 1 OR true`` does."""
    with pytest.raises(RowFilterError, match="division by zero"):
        simplify(node, 180000)

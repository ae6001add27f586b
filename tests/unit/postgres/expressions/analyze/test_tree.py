"""The typed tree: a value that travels, and children in the order of their evaluation."""

from __future__ import annotations

import pickle

import pytest

from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.check_filter import check_filter
from tests.films import BOOL, INT4, TABLE, TABLES

A, B, C, D = (tree.Var(INT4, 0, name) for name in "abcd")


def test_a_tree_can_be_sent_to_executors_and_be_a_key():
    found = check_filter("a IN (1, 2) AND (a, n) < (3, 4) OR CASE a WHEN 1 THEN b = 'x' END", TABLE, TABLES)
    assert pickle.loads(pickle.dumps(found)) == found
    assert (
        len({found, check_filter("a IN (1, 2) AND (a, n) < (3, 4) OR CASE a WHEN 1 THEN b = 'x' END", TABLE, TABLES)})
        == 1
    )


@pytest.mark.parametrize(
    ("node", "children"),
    [
        (A, ()),
        (tree.Const(INT4, 0, "1"), ()),
        (tree.CaseTestExpr(INT4, 0), ()),
        (tree.Call(BOOL, 0, "int4eq(int4,int4)", (A, B)), (A, B)),
        (tree.RowCompareExpr(BOOL, 0, "<", (), (), (A, B), (C, D), (0, 0)), (A, C, B, D)),
        (tree.CaseExpr(INT4, 0, A, ((B, C),), D), (A, B, C, D)),
        (tree.CaseExpr(INT4, 0, None, ((B, C),), D), (B, C, D)),
        (tree.BoolExpr(BOOL, 0, "and", (A, B)), (A, B)),
        (tree.ArrayExpr(1007, 0, (A, B)), (A, B)),
        (tree.RowExpr(2249, 0, (A, B)), (A, B)),
        (tree.CoalesceExpr(INT4, 0, (A, B)), (A, B)),
        (tree.MinMaxExpr(INT4, 0, True, (A, B), ""), (A, B)),
        (tree.NullTest(BOOL, 0, A, True), (A,)),
        (tree.BooleanTest(BOOL, 0, A, None, True), (A,)),
        (tree.RelabelType(INT4, 0, A), (A,)),
        (tree.CollateExpr(25, 950, A), (A,)),
        (tree.Refused(BOOL, 0, "SubLink", (A,)), (A,)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_the_children_are_in_the_order_of_evaluation(node, children):
    assert node.children == children

"""CHECK constraints that the target lacks or has with another expression."""

from __future__ import annotations

import pytest

from subscriber.targets.table_changes import FoundObjects, NewCheck


@pytest.mark.parametrize("found", [("named", "(a > 0)"), ("", "a>0"), ("x", "( a > 0 )"), ("x", '"a" > 0')])
def test_a_check_is_there_by_its_expression(missing, found):
    shape = {"checks": ("(a > 0)",), "definitions": {"(a > 0)": ("named", "CHECK ((a > 0))")}}
    (one,) = missing(**shape)
    assert one.change == NewCheck("named", "(a > 0)")
    assert missing(FoundObjects(checks=(found,)), **shape) == []
    assert missing(FoundObjects(checks=(("x", "(a > 0) AND (b = '')"),)), **shape) == [one]


@pytest.mark.parametrize("state", ["NOT VALID", "NOT ENFORCED"])
def test_a_check_that_rows_may_violate_is_left_out(missing, state):
    shape = {"unmet": ("(a > 0)",), "definitions": {"(a > 0)": ("named", f"CHECK ((a > 0)) {state}")}}
    (one,) = missing(**shape)
    assert (one.kind, one.change) == ("unmet check", None)
    assert one.reason == f"it is {state} at the publisher, so rows may violate it"
    assert missing(FoundObjects(checks=(("named", "a > 1"),)), **shape) == []


def test_a_check_of_the_same_name_with_another_expression_is_different(missing):
    shape = {"checks": ("(b <> 'a b')",), "definitions": {"(b <> 'a b')": ("named", "CHECK ((b <> 'a b'))")}}
    (one,) = missing(FoundObjects(checks=(("named", "b <> 'ab'"),)), **shape)
    assert (one.kind, one.change, one.by_hand) == ("different check", None, ())
    assert one.reason == (
        "the target has CHECK (b <> 'ab'); SQLite cannot remove a constraint: the table must be made again without it"
    )


def test_a_check_that_cannot_be_translated_is_there_if_the_user_has_declared_one_of_its_name(missing):
    shape = {"checks": ("(b ~ 'x')",), "definitions": {"(b ~ 'x')": ("named", "CHECK ((b ~ 'x'))")}}
    assert [one.reason for one in missing(**shape)] == ["operator ~ is not known to mean the same in SQLite"]
    assert missing(FoundObjects(checks=(("named", "b GLOB '*x*'"),)), **shape) == []

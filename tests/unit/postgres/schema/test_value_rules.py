"""The option ``unrepresentable_values``: its text, and which columns it means."""

from __future__ import annotations

import pytest

from subscriber.base.errors import SQLSyntaxError, UsageError
from subscriber.postgres.schema.value_rules import STOP, ValueRules, parse_value_rules

T, U = ("public", "t"), ("public", "u")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("stop", "stop"),
        ("NULL", "null"),
        ("stop, public.t.c = null", "public.t.c = null"),
        ("public.t.c=null,public.u.*=null", "public.t.c = null, public.u.* = null"),
        ('null, "S"."t.u"."null" = stop', 'null, "S"."t.u"."null" = stop'),
    ],
)
def test_the_rules_are_written_as_they_are_read(text, written):
    rules = parse_value_rules(text)
    assert str(rules) == written
    assert parse_value_rules(str(rules)) == rules


def test_nothing_is_replaced_by_default():
    assert parse_value_rules("stop") == STOP == ValueRules()
    assert not STOP.replace_any
    assert not STOP.concern(T)
    assert not STOP.replaces(T, "c")


def test_a_column_has_precedence_over_its_table_and_a_table_over_all():
    rules = parse_value_rules("null, public.t.c = null, public.t.* = stop, public.u.d = stop")
    assert [rules.replaces(T, name) for name in ("c", "d")] == [True, False]
    assert [rules.replaces(U, name) for name in ("c", "d")] == [True, False]
    assert rules.replaces(("other", "t"), "d")
    assert list(rules.named()) == [(T, "c")]


def test_a_table_is_concerned_if_a_value_of_it_may_be_replaced():
    rules = parse_value_rules("public.t.c = null, public.u.* = stop")
    assert rules.replace_any
    assert [rules.concern(table) for table in (T, U)] == [True, False]


@pytest.mark.parametrize(
    "text", ["", "x", "null null", "null,", "public.t = null", "public.t.c", "t.*.c = null", "a.b.c = 1"]
)
def test_a_malformed_list_is_refused_with_its_place(text):
    with pytest.raises(SQLSyntaxError, match='invalid syntax in parameter "unrepresentable_values"') as raised:
        parse_value_rules(text)
    assert "syntax error at" in (raised.value.detail or "")
    assert "public.t.c = null" in (raised.value.hint or "")


@pytest.mark.parametrize("text", ["a.b.c = null, a.b.c = stop", "a.b.* = null, a.b.* = null"])
def test_a_column_that_is_named_twice_is_refused(text):
    with pytest.raises(UsageError, match="is named more than once") as raised:
        parse_value_rules(text)
    assert raised.value.sqlstate == "42710"

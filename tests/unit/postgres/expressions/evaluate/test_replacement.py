"""Calls that the server's planner replaces before any row (``simplify_function``)."""

from __future__ import annotations

import pytest

from subscriber.base.errors import RowFilterError
from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.evaluate.simplify import replacement
from subscriber.postgres.types.ranges import Bound, Range, make

BOOL, INT4, TEXT, DATE, TIME, INTERVAL, TIMESTAMP = 16, 23, 25, 1082, 1083, 1186, 1114
VARCHAR, NUMERIC, VARBIT = 1043, 1700, 1562
DAY = tree.Var(DATE, 0, "d")
LENGTH = tree.Var(INTERVAL, 0, "i")


def call(signature: str, result: int, *arguments: tree.Expression) -> tree.Call:
    return tree.Call(result, 0, signature, arguments, form="cast")


def number(value: int) -> tree.ComputedConst:
    return tree.ComputedConst(INT4, 0, value)


def replaced(one: tree.Call, server_version: int = 180000) -> tree.Expression | None:
    return replacement(one, server_version)


@pytest.mark.parametrize(
    ("signature", "other"),
    [
        ("interval_pl_date(interval,date)", "date_pl_interval(date,interval)"),
        ("integer_pl_date(int4,date)", "date_pli(date,int4)"),
        ("timedate_pl(time,date)", "datetime_pl(date,time)"),
        ("int8pl_inet(int8,inet)", "inetpl(inet,int8)"),
        ("numeric_pl_pg_lsn(numeric,pg_lsn)", "pg_lsn_pli(pg_lsn,numeric)"),
    ],
)
def test_a_sum_with_a_date_behind_computes_the_date_first(signature, other):
    found = replaced(call(signature, TIMESTAMP, LENGTH, DAY))
    assert found == tree.Call(TIMESTAMP, 0, other, (DAY, LENGTH))


def test_date_part_of_a_date_is_that_of_its_timestamp():
    field = tree.ComputedConst(TEXT, 100, "year")
    moment = tree.Call(TIMESTAMP, 0, "timestamp(date)", (DAY,))
    found = replaced(call("date_part(text,date)", 701, field, DAY))
    assert found == tree.Call(701, 0, "date_part(text,timestamp)", (field, moment))


def test_overlaps_with_lengths_adds_them_to_the_starts():
    start, end = tree.Var(TIME, 0, "a"), tree.Var(TIME, 0, "b")
    added = tree.Call(TIME, 0, "time_pl_interval(time,interval)", (start, LENGTH))
    both = replaced(call("overlaps(time,interval,time,interval)", BOOL, start, LENGTH, start, LENGTH))
    assert both == tree.Call(BOOL, 0, "overlaps(time,time,time,time)", (start, added, start, added))
    one = replaced(call("overlaps(time,time,time,interval)", BOOL, start, end, start, LENGTH))
    assert one == tree.Call(BOOL, 0, "overlaps(time,time,time,time)", (start, end, start, added))


def test_overlaps_stays_if_a_start_is_too_expensive_to_compute_twice():
    start: tree.Expression = tree.Var(TIME, 0, "a")
    for _ in range(11):
        start = call("time_pl_interval(time,interval)", TIME, start, LENGTH)
    assert replaced(call("overlaps(time,interval,time,interval)", BOOL, start, LENGTH, start, LENGTH)) is None


def test_a_wrong_pattern_of_substring_is_an_error_before_any_row():
    text = tree.Var(TEXT, 100, "s")
    pattern, escape = tree.ComputedConst(TEXT, 100, "a"), tree.ComputedConst(TEXT, 100, "##")
    with pytest.raises(RowFilterError, match="invalid escape string"):
        replaced(call("substring(text,text,text)", TEXT, text, pattern, escape))
    assert replaced(call("substring(text,text,text)", TEXT, text, text, escape)) is None


def numeric(precision: int, scale: int) -> int:
    return (precision << 16 | scale & 0x7FF) + 4


FULL, SECONDS, MINUTES = 0x7FFF, 1 << 12, 1 << 11


@pytest.mark.parametrize(
    ("signature", "old", "new", "is_dropped"),
    [
        ("varchar(varchar,int4,bool)", 9, 9, True),
        ("varchar(varchar,int4,bool)", 9, 10, True),
        ("varchar(varchar,int4,bool)", 10, 9, False),
        ("varchar(varchar,int4,bool)", -1, 9, False),
        ("varbit(varbit,int4,bool)", 3, 4, True),
        ("varbit(varbit,int4,bool)", 4, 3, False),
        ("numeric(numeric,int4)", numeric(5, 2), numeric(6, 2), True),
        ("numeric(numeric,int4)", numeric(5, 2), numeric(6, 3), False),
        ("numeric(numeric,int4)", numeric(5, 2), numeric(4, 2), False),
        ("numeric(numeric,int4)", numeric(5, -2), numeric(5, -2), True),
        ("timestamp(timestamp,int4)", -1, 6, True),
        ("timestamp(timestamp,int4)", 2, 3, True),
        ("timestamp(timestamp,int4)", 3, 2, False),
        ("time(time,int4)", -1, 3, False),
        ("interval(interval,int4)", -1, FULL << 16 | 6, True),
        ("interval(interval,int4)", FULL << 16 | 2, FULL << 16 | 3, True),
        ("interval(interval,int4)", -1, FULL << 16 | 3, False),
        ("interval(interval,int4)", MINUTES << 16 | 0xFFFF, SECONDS << 16 | 2, True),
        ("interval(interval,int4)", -1, MINUTES << 16 | 0xFFFF, False),
    ],
)
def test_a_length_conversion_without_an_effect_is_dropped(signature, old, new, is_dropped):
    """Its argument is at least as strict."""
    argument = tree.Var(VARCHAR, 0, "v", old)
    explicit = (tree.ComputedConst(BOOL, 0, True),) if signature.endswith("bool)") else ()
    found = replaced(call(signature, VARCHAR, argument, number(new), *explicit))
    assert found == (argument if is_dropped else None)


def test_a_length_conversion_stays_if_its_modifier_is_no_constant():
    argument = tree.Var(NUMERIC, 0, "n", numeric(5, 2))
    assert replaced(call("numeric(numeric,int4)", NUMERIC, argument, tree.Var(INT4, 0, "a"))) is None


def test_fields_that_no_interval_has_are_an_error():
    argument = tree.Var(INTERVAL, 0, "i", -1)
    with pytest.raises(RowFilterError, match="invalid INTERVAL typmod") as caught:
        replaced(call("interval(interval,int4)", INTERVAL, argument, number(3 << 16)))
    assert caught.value.sqlstate == "XX000"


def test_other_calls_stay_as_they_are():
    assert replaced(call("int4pl(int4,int4)", INT4, tree.Var(INT4, 0, "a"), number(1))) is None
    assert replaced(call("overlaps(time,time,time,time)", BOOL, *[tree.Var(TIME, 0, "a")] * 4)) is None


def test_an_element_in_a_constant_range_of_nothing_or_everything_is_not_evaluated_since_17():
    element = tree.Var(INT4, 0, "a")
    everything = tree.ComputedConst(3904, 0, make(3904, Bound(None, False, True), Bound(None, False, False)))
    contained = call("elem_contained_by_range(anyelement,anyrange)", BOOL, element, everything)
    assert replaced(contained) == tree.ComputedConst(BOOL, 0, True)
    assert replaced(contained, 160000) is None
    nothing = call("range_contains_elem(anyrange,anyelement)", BOOL, tree.ComputedConst(3904, 0, Range(3904)), element)
    assert replaced(nothing) == tree.ComputedConst(BOOL, 0, False)

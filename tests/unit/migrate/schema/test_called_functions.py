"""Objects that call functions wait for them, where the target could have the functions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.migrate.schema.missed_objects import Functions, calls_of, calls_of_type
from subscriber.migrate.schema.schema_object import Missing, SchemaObject
from subscriber.postgres.schema.shape import UserFunction, UserType
from tests.table_shapes import table_shape

F = UserFunction("public.f(integer)", "CREATE FUNCTION f")
G = UserFunction("public.g()", "CREATE FUNCTION g")
INDEX = SchemaObject(kind="index", name="t.i", phase="after", ddl="CREATE INDEX i", relation="t")


def functions(present=None, *, are_called=True, published=(F, G)) -> Functions:
    return Functions(published=published, present=present or {}, are_called=are_called)


def test_an_object_waits_for_the_functions_that_the_target_lacks():
    waiting = functions({G.name: G.ddl}).waiting(INDEX, [F.name, G.name])
    assert (waiting.phase, waiting.waits_for) == ("after", (F.name,))
    assert waiting.reason == "it calls function public.f(integer), which the target lacks: create it first"
    both = functions().waiting(INDEX, [F.name, G.name])
    assert both.reason.startswith("it calls functions public.f(integer), public.g(), ")


@pytest.mark.parametrize(
    ("known", "calls"),
    [(functions({F.name: ""}), [F.name]), (functions(are_called=False), [F.name]), (functions(), [])],
)
def test_an_object_whose_functions_are_there_or_play_no_part_does_not_wait(known, calls):
    assert known.waiting(INDEX, calls) == INDEX


def test_a_function_is_listed_with_what_waits_for_it():
    known = functions({G.name: "CREATE FUNCTION other"})
    needed, different = known.left_out([known.waiting(INDEX, [F.name])])
    assert (needed.name, needed.publisher_ddl, needed.needed_by) == (F.name, F.ddl, ("index t.i",))
    assert needed.reason == "create it by hand; index t.i needs it"
    assert different.reason == "the target has another definition of it"
    assert list(functions({one.name: one.ddl for one in (F, G)}).left_out([])) == []


def test_in_another_database_a_function_is_shown_for_the_reader():
    reasons = [one.reason for one in functions(are_called=False).left_out([])]
    assert reasons == ["its language is the publisher's"] * 2


@pytest.mark.parametrize("are_called", [True, False])
def test_a_trigger_is_listed_with_its_function_and_the_function_with_it(are_called):
    trigger = SchemaObject(kind="trigger", name="t.tr", phase="manual", reason="it is replicated")
    known = functions(are_called=are_called, published=(F,))
    waiting = known.waiting(trigger, [F.name])
    assert waiting.waits_for == (F.name,)
    assert waiting.reason == "it is replicated; it calls function public.f(integer), which the target lacks"
    (found,) = known.left_out([waiting])
    assert "trigger t.tr needs it" in found.reason
    assert bool(found.needed_by) is are_called  # in another database the trigger is what is missing


def test_a_function_of_an_extension_is_listed_only_if_something_waits_for_it():
    known = functions(published=(UserFunction("public.x()", "CREATE EXTENSION IF NOT EXISTS x", extension=True),))
    assert list(known.left_out([])) == []
    (found,) = known.left_out([known.waiting(INDEX, ["public.x()"])])
    assert found.publisher_ddl == "CREATE EXTENSION IF NOT EXISTS x"


def test_the_calls_of_an_object_are_those_of_its_own_name_and_of_its_type():
    low = UserType(oid=1, schema="public", name="low", kind="domain", calls=("public.low(integer)",))
    high = UserType(oid=2, schema="public", name="high", kind="domain", needs=(low,), calls=("public.high()",))
    calls = {("default", "a"): (F.name,), ("index", "i"): (G.name,)}
    objects = table_shape("public", "t", (), types={"a": (high, False)}, calls=calls)
    assert calls_of_type(high) == ("public.low(integer)", "public.high()")
    assert calls_of(objects, Missing("generated column", "a", None)) == (F.name,)
    assert calls_of(objects, Missing("column type", "a", None)) == (F.name, "public.low(integer)", "public.high()")
    assert calls_of(objects, Missing("unique index", "i", None)) == (G.name,)
    assert calls_of(objects, Missing("comment", "a", None)) == ()


LOW = UserType(
    oid=7, schema="public", name="low", kind="domain", ddl="CREATE DOMAIN", calls=("public.check_low(integer)",)
)
CHAIN = (
    UserFunction("public.a(low)", "CREATE FUNCTION a", needs=("collation public.de",), types=(7,)),
    UserFunction("public.check_low(integer)", "CREATE FUNCTION check_low", needs=("public.b()",)),
    UserFunction("public.b()", "CREATE FUNCTION b", needs=("public.check_low(integer)",)),
    UserFunction("collation public.de", "CREATE COLLATION", schema="public"),
    UserFunction("collation public.unused", "CREATE COLLATION", schema="public"),
)


def test_everything_that_a_called_function_needs_is_listed_in_an_order_in_which_it_can_be_created():
    known = functions(published=CHAIN)
    known = replace(known, types={7: LOW})
    waiting = known.waiting(INDEX, ["public.a(low)"])
    found = sorted(known.left_out([waiting]), key=lambda one: one.order)
    assert [(one.kind, one.name) for one in found if one.needed_by] == [
        ("function", "public.b()"),
        ("function", "public.check_low(integer)"),
        ("type", "public.low"),
        ("collation", "public.de"),
        ("function", "public.a(low)"),
    ]
    assert {one.name: one.needed_by for one in found}["public.low"] == ("function public.a(low)",)
    before = SchemaObject(kind="type", name="public.low", phase="before")
    assert "type" not in {one.kind for one in known.left_out([waiting, before])}  # schema apply creates it
    there = replace(known, present_types={"public.low"}, present={"collation public.de": ""})
    assert [one.name for one in there.left_out([waiting]) if one.needed_by] == ["public.a(low)"]


def test_an_object_that_needs_a_collation_says_so():
    waiting = functions().waiting(INDEX, [F.name, "collation public.de"])
    assert waiting.reason == (
        "it needs function public.f(integer), collation public.de, which the target lacks: create them first"
    )

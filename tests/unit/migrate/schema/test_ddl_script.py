"""The script: two parts, and comments that no name or reason can leave."""

from __future__ import annotations

from subscriber.migrate.schema.apply_schema import ddl_script
from subscriber.migrate.schema.schema_object import SchemaComparison, SchemaObject


def test_a_script_has_two_parts_and_what_is_left_out_as_comments():
    objects = (
        SchemaObject(kind="default", name="t.a", phase="before", ddl="ALTER 1"),
        SchemaObject(kind="index", name="t.i", phase="after", ddl="CREATE 1;\nCREATE 2", reason="not the same"),
        SchemaObject(kind="view", name="v\nDROP TABLE t", phase="manual", reason="why", publisher_ddl="SELECT\n1"),
        SchemaObject(kind="trigger", name="tr", phase="manual", reason="why", publisher_ddl="CREATE TRIGGER\n\n1"),
        SchemaObject(kind="different index", name="i", phase="manual", reason="why", ddl="DROP\nX;\nCREATE Y"),
    )
    assert ddl_script(SchemaComparison("s\nx", "SQLite", objects)).splitlines() == [
        "-- What SQLite lacks of the publisher's schema, for s x.",
        "-- Statements are to be run; stop at the first error. Comments show what is left out:",
        "-- the reason, and the publisher's definition or the statements with which you can build it.",
        "",
        "-- Before the copy",
        "",
        "ALTER 1;",
        "",
        "-- After the copy",
        "",
        "-- index t.i: not the same",
        "CREATE 1;",
        "CREATE 2;",
        "",
        "-- Left out",
        "",
        "-- view v DROP TABLE t: why",
        "--     SELECT",
        "--     1",
        "-- trigger tr: why",
        "--     CREATE TRIGGER",
        "--",
        "--     1;",
        "-- different index i: why",
        "--     DROP",
        "--     X;",
        "--     CREATE Y;",
    ]


def test_what_others_call_is_created_first_with_the_types_between_and_what_waits_for_more_is_a_comment():
    objects = (
        SchemaObject(kind="type", name="s.t", phase="before", ddl="CREATE TYPE s.t", order=1),
        SchemaObject(kind="type", name="s.late", phase="before", ddl="CREATE TYPE s.late", order=9),
        SchemaObject(kind="index", name="t.i", phase="after", ddl="CREATE 1", reason="it calls f()", waits_for=("f()",)),
        SchemaObject(kind="index", name="t.j", phase="after", ddl="CREATE 2", reason="it calls sum()", waits_for=("sum()",)),
        SchemaObject(
            kind="function", name="f()", phase="manual", reason="create it", publisher_ddl="CREATE FUNCTION f()\n",
            needed_by=("index t.i",), schema="My s", order=2,
        ),
        SchemaObject(
            kind="collation", name="s.c", phase="manual", reason="create it", publisher_ddl="CREATE COLLATION s.c",
            needed_by=("function f()",), order=0,
        ),
        SchemaObject(kind="function", name="sum()", phase="manual", reason="it is an aggregate", needed_by=("index t.j",)),
        SchemaObject(kind="function", name="g()", phase="manual", reason="why"),
    )  # fmt: skip
    assert ddl_script(SchemaComparison("s", "PostgreSQL", objects)).splitlines()[4:] == [
        "-- First, by hand",
        "",
        "-- `subscriber schema apply` does not create what follows, and leaves out what needs it. Read it: a function can do",
        "-- anything. Then run this part, or the whole script.",
        "SET check_function_bodies = off;",
        "-- collation s.c: create it",
        "CREATE COLLATION s.c;",
        "CREATE TYPE s.t;",
        "-- function f(): create it",
        'CREATE SCHEMA IF NOT EXISTS "My s";',
        "CREATE FUNCTION f();",
        "RESET check_function_bodies;",
        "",
        "-- Before the copy",
        "",
        "CREATE TYPE s.late;",
        "",
        "-- After the copy",
        "",
        "CREATE 1;",
        "-- index t.j: it calls sum()",
        "--     CREATE 2;",
        "",
        "-- Left out",
        "",
        "-- function sum(): it is an aggregate",
        "-- function g(): why",
    ]


def test_statements_that_begin_with_a_check_are_one_transaction():
    guarded = SchemaObject(kind="partitions", name="t", phase="before", ddl="CHECK;\nDROP", atomic=True)
    script = ddl_script(SchemaComparison("s", "PostgreSQL", (guarded,)))
    assert "\nBEGIN TRANSACTION;\nCHECK;\nDROP;\nCOMMIT;\n" in script

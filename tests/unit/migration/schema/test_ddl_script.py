"""The script: two parts, and comments that no name or reason can leave."""

from __future__ import annotations

from subscriber.migration.schema.ddl_script import ddl_script
from subscriber.migration.schema.schema_object import SchemaDifference, SchemaObject


def test_a_script_has_two_parts_and_what_is_left_out_as_comments():
    objects = (
        SchemaObject(kind="default", name="t.a", phase="before", ddl="ALTER 1"),
        SchemaObject(kind="index", name="t.i", phase="after", ddl="CREATE 1;\nCREATE 2", reason="not the same"),
        SchemaObject(kind="view", name="v\nDROP TABLE t", phase="manual", reason="why", publisher_ddl="SELECT\n1"),
        SchemaObject(kind="trigger", name="tr", phase="manual", reason="why", publisher_ddl="CREATE TRIGGER\n\n1"),
        SchemaObject(kind="different index", name="i", phase="manual", reason="why", ddl="DROP\nX;\nCREATE Y"),
    )
    assert ddl_script(SchemaDifference("s\nx", "SQLite", objects)).splitlines() == [
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


def test_a_function_comes_first_and_what_waits_for_it_is_a_comment():
    objects = (
        SchemaObject(kind="index", name="t.i", phase="after", ddl="CREATE 1", reason="it calls f()", waits_for=("f()",)),
        SchemaObject(
            kind="function", name="f()", phase="manual", reason="create it", publisher_ddl="CREATE FUNCTION f()",
            needed_by=("index t.i",),
        ),
        SchemaObject(kind="function", name="g()", phase="manual", reason="why"),
    )  # fmt: skip
    assert ddl_script(SchemaDifference("s", "PostgreSQL", objects)).splitlines()[4:] == [
        "-- First, by hand",
        "",
        "-- function f(): create it",
        "--     CREATE FUNCTION f();",
        "",
        "-- Before the copy",
        "",
        "",
        "-- After the copy",
        "",
        "-- index t.i: it calls f()",
        "--     CREATE 1;",
        "",
        "-- Left out",
        "",
        "-- function g(): why",
    ]


def test_statements_that_begin_with_a_check_are_one_transaction():
    guarded = SchemaObject(kind="partitions", name="t", phase="before", ddl="CHECK;\nDROP", atomic=True)
    script = ddl_script(SchemaDifference("s", "PostgreSQL", (guarded,)))
    assert "\nBEGIN TRANSACTION;\nCHECK;\nDROP;\nCOMMIT;\n" in script

"""The script: two parts, and comments that no name or reason can leave."""

from __future__ import annotations

from subscriber.migration.schema.ddl_script import ddl_script
from subscriber.migration.schema.schema_object import SchemaDifference, SchemaObject


def test_a_script_has_two_parts_and_what_is_left_out_as_comments():
    objects = (
        SchemaObject(kind="default", name="t.a", phase="before", ddl="ALTER 1"),
        SchemaObject(kind="index", name="t.i", phase="after", ddl="CREATE 1;\nCREATE 2", reason="not the same"),
        SchemaObject(kind="view", name="v\nDROP TABLE t", phase="manual", reason="why", publisher_ddl="SELECT\n1"),
    )
    assert ddl_script(SchemaDifference("s\nx", "SQLite", objects)).splitlines() == [
        "-- What SQLite lacks of the publisher's schema, for s x.",
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
    ]

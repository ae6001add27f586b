"""The order of missing objects, and what is shown of them."""

from __future__ import annotations

from subscriber.migrate.schema.schema_object import AFTER, KINDS, SchemaComparison, SchemaObject, sort_objects


def one(kind, name="n", phase="before", **more) -> SchemaObject:
    return SchemaObject(kind=kind, name=name, phase=phase, **more)


def test_objects_are_built_after_those_that_they_need():
    objects = [
        one("foreign key", phase="after"),
        one("check constraint"),
        one("type", "b"),
        one("index", phase="after"),
        one("type", "a", order=2),
    ]
    ordered = [(found.kind, found.name) for found in sort_objects(objects)]
    assert ordered == [("type", "b"), ("type", "a"), ("check constraint", "n"), ("index", "n"), ("foreign key", "n")]


def test_objects_of_a_table_stand_together_and_views_after_those_that_they_read():
    objects = [
        one("check constraint", "t.b", relation="t", order=5),
        one("check constraint", "u.a", relation="u", order=0),
        one("check constraint", "t.c", relation="t", order=4),
        one("view", "a", "manual", relation="t", order=3),
        one("materialized view", "b", "manual", relation="u", order=2),
        one("view", "c", "manual", relation="z", order=1),
        one("function", "f()", "manual"),
        one("trigger", "tr", "manual"),
    ]
    names = [found.name for found in sort_objects(objects)]
    assert names == ["t.c", "t.b", "u.a", "f()", "c", "b", "a", "tr"]


def test_every_kind_that_is_built_after_the_copy_is_a_kind():
    assert set(KINDS) > AFTER


def test_the_objects_of_a_phase_and_their_json():
    difference = SchemaComparison("s", "SQLite", (one("default", ddl="X"), one("view", phase="manual", reason="r")))
    assert [found.kind for found in difference.missing("manual")] == ["view"]
    assert difference.objects[0].as_json() == {
        "phase": "before", "kind": "default", "name": "n", "ddl": "X", "reason": "", "publisher_ddl": "", "waits_for": []
    }  # fmt: skip


def test_the_target_lacks_tables_columns_and_what_the_schema_step_builds_now_or_without_a_run():
    """Not what it cannot have with the same meaning."""
    objects = (
        one("table", "t", "manual"),
        one("missing column", "u.c", "manual"),
        one("default", "u.d"),
        one("index", "i", "after"),
        one("default", "u.e", "manual", needs_stop=True),
        one("check constraint", "u.k", "manual"),
    )
    lacking = SchemaComparison("s", "SQLite", objects).lacking()
    assert [found.name for found in lacking] == ["t", "u.c", "u.d", "i", "u.e"]


def test_the_target_lacks_what_an_application_would_miss_although_it_is_built_by_hand():
    objects = (
        one("view", "v", "manual"),
        one("trigger", "u.tr", "manual"),
        one("inheritance", "parent", "manual"),
        one("partitioned table", "root", "manual"),
        one("function", "called()", "manual", needed_by=("trigger u.tr",)),
        one("function", "other()", "manual"),
        one("default", "u.d", "manual", waits_for=("called()",)),
        one("default", "u.e", "manual"),
        one("policy", "u.p", "manual"),
    )
    lacking = SchemaComparison("s", "SQLite", objects).lacking()
    assert [found.name for found in lacking] == ["v", "u.tr", "parent", "root", "called()", "u.d"]


def test_partitioned_tables_come_above_the_tables_those_of_partitions_first_and_foreign_keys_last():
    objects = [
        one("foreign key", "root.f", "after", relation="root", above=2),
        one("foreign key", "z.f", "after", relation="z"),
        one("partitioned table", "root", "after", relation="root", above=2),
        one("index", "root.i", "after", relation="root", above=2),
        one("partition", "inner", "after", relation="inner", above=2),
        one("index", "inner.i", "after", relation="inner", above=1),
        one("partitioned table", "inner", "after", relation="inner", above=1),
        one("index", "z.i", "after", relation="z"),
    ]
    names = [f"{found.kind} {found.name}" for found in sort_objects(objects)]
    assert names == [
        "index z.i", "partitioned table inner", "index inner.i", "partitioned table root", "partition inner",
        "index root.i", "foreign key z.f", "foreign key root.f",
    ]  # fmt: skip

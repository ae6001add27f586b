"""Columns that the target lacks or has otherwise: types, defaults, generated values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.postgres.schema.shape import UserType
from subscriber.targets.table_changes import FoundObjects, NewCheck, NewDefault
from subscriber.targets.target_table import TargetColumn, TargetTable
from tests.table_shapes import column_shape
from tests.unit.migrate.compared_tables import COLUMNS, TABLE, indexed


def test_a_published_column_that_the_publisher_has_got_since_is_missing(missing):
    (one,) = missing(columns=(*COLUMNS, column_shape("late", 23, "integer", default="7")))
    assert (one.kind, one.name, one.change) == ("missing column", "late", None)
    assert one.by_hand == ("ALTER TABLE main.t ADD COLUMN late INT",)
    assert f"Run in the target: {one.by_hand[0]};" in one.reason
    assert 'ALTER SUBSCRIPTION "My sub" REFRESH TABLE public.t,' in one.reason


def test_a_default_is_missing_if_the_column_has_none(missing):
    columns = (replace(COLUMNS[0], default="(- 5)", constant="-5"), replace(COLUMNS[1], default="NULL::text"))
    (one,) = missing(columns=columns)
    assert (one.kind, one.name, one.change) == ("default", "a", NewDefault("a", "-5"))
    assert missing(FoundObjects(defaults={"a": "-5"}), columns=columns) == []


@pytest.mark.parametrize(
    ("found", "is_same"),
    [
        ("-5", True),
        ("(- 5)", True),
        ("'-5'", True),  # the column has the affinity of integers
        ("5", False),
        ("'x'", False),
        ("(- 5) + 0", False),  # an expression is compared as it is written
    ],
)
def test_a_default_is_the_same_by_its_value_or_as_it_is_written(missing, found, is_same):
    columns = (replace(COLUMNS[0], default="(- 5)", constant="-5"), COLUMNS[1])
    listed = missing(FoundObjects(defaults={"a": found}), columns=columns)
    assert [(one.kind, one.change, one.reason) for one in listed] == (
        [] if is_same else [("different default", NewDefault("a", "-5"), f"the target has DEFAULT {found}")]
    )


def test_a_default_that_cannot_be_translated_is_there_if_the_user_has_declared_one(missing):
    columns = (COLUMNS[0], replace(COLUMNS[1], default="md5(random()::text)"))
    assert missing(FoundObjects(defaults={"b": "hex(randomblob(16))"}), columns=columns) == []


def test_a_default_that_is_not_known_to_mean_the_same_is_left_out_by_name(missing):
    (one,) = missing(columns=(replace(COLUMNS[1], default="md5(random()::text)"),))
    assert (one.change, one.reason) == (None, "function md5 is not known to mean the same in SQLite")


def test_labels_of_enums_and_checks_of_domains_become_checks(missing):
    mood = UserType(oid=20000, schema="public", name="mood", kind="enum", labels=("ok", "it's"))
    low = UserType(
        oid=20001, schema="public", name="low", kind="domain", base=23, checks=(("c", "(VALUE < 9)"),), nullable=False
    )
    objects = replace(indexed(), types={"a": (low, False), "b": (mood, False)})
    columns = (column_shape("a", 20001, "public.low"), column_shape("b", 20000, "public.mood"))
    text = TargetTable("main", "t", (TargetColumn("a", "TEXT", "TEXT"), TargetColumn("b", "TEXT", "TEXT")), None)
    found = {one.name: one.change for one in missing(columns=columns, objects=objects, table=text)}
    assert found == {
        "a_not_null": NewCheck("a_not_null", "(CAST(a AS INTEGER) IS NOT NULL)"),
        "a_c": NewCheck("a_c", "(CAST(a AS INTEGER) < 9)"),
        "b_mood": NewCheck("b_mood", "(b IN ('ok', 'it''s'))"),
    }
    arrays = replace(objects, types={"b": (mood, True)})
    assert [one.reason for one in missing(columns=columns, objects=arrays, table=text)] == [
        "its values are texts, which are not checked"
    ]


def test_a_generated_column_whose_values_are_published_stays_an_ordinary_column(missing):
    (one,) = missing(columns=(replace(COLUMNS[0], generated="stored", expression="(b + 1)"),))
    assert (one.change, one.reason) == (None, "the publisher sends its values, so it is an ordinary column")


def test_a_stored_column_is_different_where_the_publishers_is_virtual_and_not_the_other_way_round_in_sqlite(missing):
    table = replace(TABLE, columns=(TABLE.columns[0], replace(TABLE.columns[1], generated=True)))
    column = column_shape("b", 23, "integer", generated="virtual", expression="(a * 2)")
    stored, virtual = (
        FoundObjects(generated={"b": "a * 2"}),
        FoundObjects(generated={"b": "a * 2"}, virtual=frozenset("b")),
    )
    (one,) = missing(stored, columns=(COLUMNS[0], column), table=table)
    assert (one.reason, one.publisher_ddl) == ("the target has (a * 2) STORED", "GENERATED ALWAYS AS ((a * 2)) VIRTUAL")
    assert missing(virtual, columns=(COLUMNS[0], column), table=table) == []
    assert missing(virtual, columns=(COLUMNS[0], replace(column, generated="stored")), table=table) == []


@pytest.mark.parametrize(("present", "is_same"), [("a*2", True), ("( a * 2 )", True), ("a * 3", False)])
def test_a_generated_column_is_the_same_by_its_expression(missing, present, is_same):
    table = replace(TABLE, columns=(TABLE.columns[0], replace(TABLE.columns[1], generated=True)))
    columns = (COLUMNS[0], column_shape("b", 23, "integer", generated="stored", expression="(a * 2)"))
    listed = missing(FoundObjects(generated={"b": present}), columns=columns, table=table)
    assert [(one.kind, one.reason, len(one.by_hand)) for one in listed] == (
        [] if is_same else [("different generated column", "the target has (a * 3) STORED", 2)]
    )

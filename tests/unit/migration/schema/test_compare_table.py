"""What is missing or different, from two descriptions of a table, with SQLite as the target."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.migration.schema.compare_table import compare_table
from subscriber.migration.schema.compared import Compared
from subscriber.schema.relation_names import SAME_NAMES, parse_names
from subscriber.schema.shape import ColumnShape, ForeignKey, TableShape
from subscriber.schema.table_objects import IndexKey, IndexShape, TableObjects, UserType
from subscriber.targets import open_target
from subscriber.targets.table_changes import FoundForeignKey, FoundIndex, FoundObjects, NewCheck, NewDefault, NewIndex
from subscriber.targets.target_table import TargetColumn, TargetTable

TABLE = TargetTable("main", "t", (TargetColumn("a", "INT", "INTEGER"), TargetColumn("b", "TEXT", "TEXT")), ("a",))
NOTHING = FoundObjects()
COLUMNS = (ColumnShape("a", 23, "integer"), ColumnShape("b", 25, "text"))


@pytest.fixture
def target(tmp_path):
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as opened:
        yield opened


@pytest.fixture
def connection(target):
    with target.engine.connect() as opened:
        yield opened


@pytest.fixture
def missing(target, connection):
    def compare(found=NOTHING, *, names=SAME_NAMES, table=TABLE, references=None, objects=None, **shape):
        made = TableShape("public", "t", **{"columns": COLUMNS, **shape})
        both = Compared(
            target=target,
            connection=connection,
            objects=replace(objects or TableObjects(shape=made), shape=made),
            table=table,
            found=found,
            names=names,
            subscription="My sub",
            published=[column.name for column in made.columns],
            references=references or {},
        )
        return list(compare_table(both))

    return compare


def indexed(*indexes: IndexShape) -> TableObjects:
    return TableObjects(shape=TableShape("public", "t", COLUMNS), indexes=indexes)


def test_a_published_column_that_the_publisher_has_got_since_is_missing(missing):
    (one,) = missing(columns=(*COLUMNS, ColumnShape("late", 23, "integer", default="7")))
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


@pytest.mark.parametrize("found", [("named", "(a > 0)"), ("", "a>0"), ("x", "( a > 0 )"), ("x", '"a" > 0')])
def test_a_check_is_there_by_its_expression(missing, found):
    shape = {"checks": ("(a > 0)",), "definitions": {"(a > 0)": ("named", "CHECK ((a > 0))")}}
    (one,) = missing(**shape)
    assert one.change == NewCheck("named", "(a > 0)")
    assert missing(FoundObjects(checks=(found,)), **shape) == []
    assert missing(FoundObjects(checks=(("x", "(a > 0) AND (b = '')"),)), **shape) == [one]


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


INDEX = IndexShape(name="i", keys=(IndexKey("a"), IndexKey("b")))


@pytest.mark.parametrize(
    ("found", "is_there"),
    [
        (FoundIndex("i", ("a", "b")), True),
        (FoundIndex("other", ("a", "b")), True),
        (FoundIndex("other", ("a", "b"), unique=True), True),
        (FoundIndex("other", ("b", "a")), False),
        (FoundIndex("other", ("a", "b"), partial=True), False),
        (FoundIndex("other", ("a", "b"), method="hash"), False),
    ],
)
def test_an_index_is_there_by_its_name_or_its_keys(missing, found, is_there):
    assert bool(missing(FoundObjects(indexes=(found,)), objects=indexed(INDEX))) is not is_there


REPLACED = ("DROP INDEX i", "CREATE INDEX i ON t (a, b)")


@pytest.mark.parametrize(
    ("found", "present"),
    [
        (FoundIndex("i", ("b",)), "(b)"),
        (FoundIndex("i", ("a", "b"), definition="(a DESC, b)"), "(a DESC, b)"),
        (FoundIndex("i", ("a", "b"), partial=True, definition="(a, b) WHERE a > 0"), "(a, b) WHERE a > 0"),
    ],
)
def test_an_index_of_the_same_name_with_another_definition_is_left_to_the_user(missing, found, present):
    (one,) = missing(FoundObjects(indexes=(found,)), objects=indexed(INDEX))
    assert (one.kind, one.change, one.reason) == ("different index", None, f"the target has {present}")
    assert one.by_hand == REPLACED
    same = FoundIndex("else", ("a", "b"))
    assert missing(FoundObjects(indexes=(found, same)), objects=indexed(INDEX)) == []


@pytest.mark.parametrize("definition", ['("a",b)', "( a , b )"])
def test_an_index_is_the_same_in_any_way_to_write_it(missing, definition):
    found = FoundIndex("i", ("a", "b"), definition=definition)
    assert missing(FoundObjects(indexes=(found,)), objects=indexed(INDEX)) == []


def test_an_index_with_a_condition_is_there_by_its_definition(missing):
    partial = replace(INDEX, predicate="(a > 0)")
    found = FoundIndex("other", ("a", "b"), partial=True, definition="(a, b) WHERE (a > 0)")
    assert missing(FoundObjects(indexes=(found,)), objects=indexed(partial)) == []
    (one,) = missing(FoundObjects(indexes=(replace(found, definition="(a, b) WHERE a > 1"),)), objects=indexed(partial))
    assert one.kind == "index"


def test_an_index_that_cannot_be_translated_is_there_if_the_user_has_built_one_of_its_name(missing):
    other = replace(INDEX, keys=(IndexKey(None, "md5(b)"),))
    assert [one.change for one in missing(objects=indexed(other))] == [None]
    assert missing(FoundObjects(indexes=(FoundIndex("i", (None,)),)), objects=indexed(other)) == []


def test_a_unique_index_needs_a_unique_one_in_any_order_of_its_columns(missing):
    unique = replace(INDEX, unique=True)
    assert missing(FoundObjects(indexes=(FoundIndex("x", ("b", "a"), unique=True),)), objects=indexed(unique)) == []
    (one,) = missing(FoundObjects(indexes=(FoundIndex("x", ("a", "b")),)), objects=indexed(unique))
    assert one.kind == "unique index"


def test_an_index_of_a_schema_has_it_in_its_name_where_the_target_has_no_schemas(missing):
    (one,) = missing(names=parse_names("public.* => sales.*"), objects=indexed(INDEX))
    assert isinstance(one.change, NewIndex)
    assert one.change.name == "sales.i"


def test_an_index_of_a_column_that_is_not_replicated_is_left_out(missing):
    columns = (*COLUMNS, ColumnShape("c", 23, "integer"))
    found = missing(columns=columns, objects=indexed(replace(INDEX, keys=(IndexKey("c"),))))
    (one,) = (one for one in found if one.kind == "index")
    assert (one.change, one.reason) == (None, 'column "c" is not replicated')


def test_a_loose_expression_is_enough_for_an_index_that_is_not_unique(missing):
    lower = replace(INDEX, keys=(IndexKey(None, "lower(b)"),))
    (one,) = missing(objects=indexed(lower))
    assert isinstance(one.change, NewIndex)
    (strict,) = missing(objects=indexed(replace(lower, unique=True)))
    assert strict.reason == "function lower is not known to mean the same in SQLite"


KEY = ForeignKey(("a",), "public", "u", ("id",), on_delete="CASCADE", name="f")
OTHER = TargetTable("main", "u", (TargetColumn("id", "INT", "INTEGER"),), ("id",))


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (FoundForeignKey(("a",), "u", ("id",), "CASCADE"), None),
        (FoundForeignKey(("a",), "u", (), "CASCADE", "RESTRICT"), None),
        (FoundForeignKey(("a",), "u", ("id",)), "the target's foreign key has ON DELETE NO ACTION ON UPDATE NO ACTION"),
        (FoundForeignKey(("b",), "u", ("id",), "CASCADE"), ""),
        (FoundForeignKey(("a",), "w", ("id",), "CASCADE"), ""),
    ],
)
def test_a_foreign_key_is_there_by_its_columns_and_actions(missing, found, reason):
    listed = missing(FoundObjects(foreign_keys=(found,)), foreign_keys=(KEY,), references={("public", "u"): OTHER})
    assert [one.reason for one in listed] == ([] if reason is None else [reason])
    assert all((one.change is None) == bool(reason) for one in listed)


def test_a_foreign_key_to_a_table_that_the_target_lacks_is_left_out(missing):
    (one,) = missing(foreign_keys=(KEY,))
    assert (one.change, one.reason) == (None, 'the target has no table "public.u"')


def test_labels_of_enums_and_checks_of_domains_become_checks(missing):
    mood = UserType(oid=20000, schema="public", name="mood", kind="enum", labels=("ok", "it's"))
    low = UserType(
        oid=20001, schema="public", name="low", kind="domain", base=23, checks=(("c", "(VALUE < 9)"),), nullable=False
    )
    objects = replace(indexed(), types={"a": (low, False), "b": (mood, False)})
    columns = (ColumnShape("a", 20001, "public.low"), ColumnShape("b", 20000, "public.mood"))
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
    (one,) = missing(columns=(replace(COLUMNS[0], generated="(b + 1)"),))
    assert (one.change, one.reason) == (None, "the publisher sends its values, so it is an ordinary column")


@pytest.mark.parametrize(("present", "is_same"), [("a*2", True), ("( a * 2 )", True), ("a * 3", False)])
def test_a_generated_column_is_the_same_by_its_expression(missing, present, is_same):
    table = replace(TABLE, columns=(TABLE.columns[0], replace(TABLE.columns[1], generated=True)))
    columns = (COLUMNS[0], ColumnShape("b", 23, "integer", generated="(a * 2)"))
    listed = missing(FoundObjects(generated={"b": present}), columns=columns, table=table)
    assert [(one.kind, one.reason, len(one.by_hand)) for one in listed] == (
        [] if is_same else [("different generated column", "the target has (a * 3)", 2)]
    )


def test_another_comment_is_replaced(missing):
    objects = replace(indexed(), comment="new", column_comments={"a": "same", "missing": "x"})
    found = FoundObjects(comment="old", column_comments={"a": "same"})
    assert [(one.kind, one.name) for one in missing(found, objects=objects)] == [("comment", "")]

"""The option ``transform``: its words, and the relation and the table that it describes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.errors import NotSupportedError, SQLSyntaxError, UsageError
from subscriber.postgres.schema.shape import ForeignKey, UniqueKey
from subscriber.postgres.schema.transform_rules import (
    NO_TRANSFORMS,
    ColumnTransform,
    TransformRules,
    parse_transforms,
)
from tests.changes import T
from tests.table_shapes import column_shape, table_shape

names = st.text("aZ_0 .\"'é表", min_size=1, max_size=8)
transforms = st.one_of(
    st.just(ColumnTransform("null")),
    st.builds(ColumnTransform, st.just("constant"), st.text("a'\\é表 \n", max_size=6)),
    st.builds(ColumnTransform, st.just("sha256"), st.sampled_from(["", "0123456789abcdef"])),
    st.builds(ColumnTransform, st.just("partial"), first=st.integers(0, 2**31 - 1), last=st.integers(0, 2**31 - 1)),
    st.builds(ColumnTransform, st.just("function"), st.sampled_from(["m:f", "Pack.age.Mod:Class.f", "null:f"])),
)
rules = st.dictionaries(st.tuples(st.tuples(names, names), names), transforms).map(
    lambda found: TransformRules(tuple((table, column, one) for (table, column), one in found.items()))
)


@given(rules)
def test_what_is_stored_is_read_as_the_same_rules(given_rules):
    assert parse_transforms(str(given_rules)) == given_rules


def test_the_words_of_a_transform_are_read_without_regard_to_case_and_a_function_with_its_case():
    found = parse_transforms("Public.T.A = NULL, public.t.b = Partial(1,2), public.t.c = Masks:Of.B").of("public", "t")
    assert found == {
        "a": ColumnTransform("null"),
        "b": ColumnTransform("partial", first=1, last=2),
        "c": ColumnTransform("function", "Masks:Of.B"),
    }


@pytest.mark.parametrize(
    "text",
    [
        "public.t = null",
        "public.t.a",
        "public.t.a = md5",
        "public.t.a = partial(1)",
        "public.t.a = partial(-1, 2)",
        "public.t.a = constant(x)",
        "public.t.a = a:b:c",
        "public.t.a = a.b",
        "public.t.a = a : b",
        "public.t.a = null,",
        "public.t.a = null public.t.b = null",
    ],
)
def test_anything_else_is_a_syntax_error(text):
    with pytest.raises(SQLSyntaxError, match='invalid syntax in parameter "transform"') as caught:
        parse_transforms(text)
    assert "sha256" in (caught.value.hint or "")


def test_a_column_that_is_named_twice_is_refused():
    with pytest.raises(UsageError, match=r'column "public\.t\.a" is named more than once') as caught:
        parse_transforms("public.t.a = null, public.t.a = sha256")
    assert caught.value.sqlstate == "42710"


def test_a_hash_is_announced_as_text_of_its_length_and_other_columns_as_they_are():
    relation = parse_transforms("public.t.a = sha256, public.t.b = partial(1, 1)").relation(T)
    assert [(one.name, one.type_oid, one.type_modifier) for one in relation.columns] == [
        ("a", 1043, 68),
        ("b", 25, -1),
        ("c", 25, -1),
    ]
    assert relation.columns[0].is_identity
    assert parse_transforms("public.other.a = sha256").relation(T) is T


def test_a_column_that_the_publisher_does_not_send_is_refused():
    """A renamed column would arrive with the publisher's values."""
    with pytest.raises(NotSupportedError, match='does not send column "d"') as caught:
        parse_transforms("public.t.b = null, public.t.d = null").relation(T)
    assert (caught.value.sqlstate, caught.value.column, caught.value.relation) == ("42703", "d", "public.t")


def test_only_texts_are_shown_in_part():
    with pytest.raises(NotSupportedError, match="it is of type integer") as caught:
        parse_transforms("public.t.a = partial(1, 1)").relation(T)
    assert caught.value.sqlstate == "42804"


def shape():
    return table_shape(
        "public",
        "users",
        [
            replace(column_shape("id", 23, "integer"), identity="a", nullable=False),
            replace(column_shape("email", 25, "text"), default="'x'::text", constant="x", nullable=False),
            column_shape("phone", 25, "text"),
            column_shape("org", 23, "integer"),
        ],
        key=("id",),
        unique=(UniqueKey(("email",)), UniqueKey(("phone",))),
        checks=("email ~~ '%@%'::text", "org > 0"),
        foreign_keys=(ForeignKey(("org",), "public", "orgs", ("id",)),),
    )


def test_a_created_table_has_columns_and_constraints_that_the_values_fit():
    changed = parse_transforms(
        "public.users.id = sha256, public.users.email = sha256, public.users.phone = partial(0, 2)"
    ).shape(shape())
    key, email, phone, _ = changed.columns
    assert (key.type_name, key.identity, key.nullable) == ("character varying(64)", "", False)
    assert (email.type_name, email.default, email.constant) == ("character varying(64)", None, None)
    assert phone.type_name == "text"
    assert changed.key_columns == ("id",)
    assert changed.unique == (UniqueKey(("email",)),)
    assert changed.checks == ("org > 0",)
    assert changed.foreign_keys == shape().foreign_keys
    assert NO_TRANSFORMS.shape(shape()) == shape()


def test_a_foreign_key_is_kept_where_both_sides_have_one_hash():
    (key,) = shape().foreign_keys
    for text, kept in [
        ("public.users.org = sha256, public.orgs.id = sha256", True),
        ("public.users.org = sha256", False),
        ("public.orgs.id = sha256", False),
        ("public.users.org = null, public.orgs.id = null", False),
        ("public.users.org = m:f, public.orgs.id = m:f", True),
        ("public.users.org = m:f, public.orgs.id = m:g", False),
    ]:
        assert parse_transforms(text).keeps(("public", "users"), key) is kept, text


@pytest.mark.parametrize("transform", ["null", "constant('1')"])
def test_a_key_whose_values_would_become_equal_is_refused(transform):
    with pytest.raises(NotSupportedError, match="because rows are found by it") as caught:
        parse_transforms(f"public.users.id = {transform}").shape(shape())
    assert (caught.value.sqlstate, caught.value.column) == ("42P16", "id")


def test_a_column_that_becomes_null_may_be_null_in_the_created_table():
    changed = parse_transforms("public.users.email = null").shape(shape())
    assert changed.columns[1].nullable

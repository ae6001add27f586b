"""The option ``map``, and the names of the target's tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.errors import SQLSyntaxError, UsageError
from subscriber.postgres.schema.relation_names import SAME_NAMES, RelationNames, parse_names
from subscriber.targets import open_target

NAME = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=8).filter(
    lambda name: len(name.encode()) < 64
)


def refused(text: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        parse_names(text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "relation", "local"),
    [
        ("public.t => archive.u", ("public", "t"), ("archive", "u")),
        ("public.t => archive.u", ("public", "u"), ("public", "u")),
        ("old.*=>new.*", ("old", "t"), ("new", "t")),
        ("old.* => new.*", ("older", "t"), ("older", "t")),
        ("old.* => new.*, old.t => old.t", ("old", "t"), ("old", "t")),
        ("a.* => b.*, b.* => a.*", ("b", "t"), ("a", "t")),
        ("PUBLIC.T => Archive.U", ("public", "t"), ("archive", "u")),
        ('"S x"."T.1" => "a""b"."U,*"', ("S x", "T.1"), ('a"b', "U,*")),
        ('public."*" => archive.t', ("public", "*"), ("archive", "t")),
        ("public.order => archive.table -- a comment", ("public", "order"), ("archive", "table")),
        ("", ("public", "t"), ("public", "t")),
    ],
)
def test_a_relation_has_the_name_that_the_map_gives_it(text, relation, local):
    """Identifiers are folded and quoted as in SQL; a table counts before its schema; each name is
    looked up once.
    """
    assert parse_names(text).in_target(*relation) == local


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("t => u", 'syntax error at or near "=>". At character 3 (line 1).'),
        ("public.t", "syntax error at end of input. At character 9 (line 1)."),
        ("public.t = archive.t", 'syntax error at or near "archive". At character 12 (line 1).'),
        ("public.t => archive.*", 'syntax error at or near "*". At character 21 (line 1).'),
        ("public.* => archive.t", 'syntax error at or near "t". At character 21 (line 1).'),
        ("public.t => archive.t,", "syntax error at end of input. At character 23 (line 1)."),
        (", public.t => archive.t", 'syntax error at or near ",". At character 1 (line 1).'),
        ("public.t => archive.t public.u => archive.u", 'syntax error at or near "public". At character 23 (line 1).'),
        ('"".t => a.t', 'zero-length delimited identifier at or near """". At character 1 (line 1).'),
        ('"public.t => a.t', 'unterminated quoted identifier at or near ""…". At character 1 (line 1).'),
        ("a.b.t => a.t", 'syntax error at or near ".". At character 4 (line 1).'),
    ],
)
def test_an_invalid_map_is_refused_with_the_place_of_the_error(text, found):
    error = refused(text)
    assert isinstance(error, SQLSyntaxError)
    assert (error.message, error.sqlstate) == ('invalid syntax in parameter "map"', "42601")
    assert (error.detail or "").replace("\n", " ") == found
    assert "schema.table => schema.table" in str(error.hint)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.t => b.t, a.t => c.t", 'relation "a.t" is mapped more than once'),
        ('a.* => b.*, "a".* => c.*', 'schema "a" is mapped more than once'),
        ("a.t => c.t, b.t => c.t", 'relations "a.t" and "b.t" cannot both be replicated into "c.t"'),
    ],
)
def test_a_map_that_contradicts_itself_is_refused(text, message):
    error = refused(text)
    assert (error.message, error.sqlstate) == (message, "42710")


@pytest.mark.parametrize(
    ("text", "relations", "into"),
    [
        ("a.t => b.t", [("a", "t"), ("b", "t")], '"a.t" and "b.t" cannot both be replicated into "b.t"'),
        ("a.* => c.*, b.* => c.*", [("b", "u"), ("b", "t"), ("a", "t")], '"a.t" and "b.t" cannot both'),
    ],
)
def test_two_relations_of_a_subscription_cannot_have_one_table(text, relations, into):
    with pytest.raises(UsageError, match=into) as caught:
        parse_names(text).check_distinct(relations)
    assert caught.value.sqlstate == "42710"


def test_two_relations_cannot_have_names_that_are_equal_in_the_target(tmp_path):
    """SQLite's tables have the schema as a part of the name, and a name may have a point."""
    with (
        open_target(f"sqlite:///{tmp_path / 'target.db'}") as target,
        pytest.raises(UsageError, match=r'"public\.s\.t" and "s\.t" cannot both be replicated'),
    ):
        SAME_NAMES.check_distinct([("s", "t"), ("public", "s.t")], target.ddl.qualified)


def test_a_name_that_no_other_relation_has_may_be_used():
    """The tables a and b exchange their names, and no other relation has the name c."""
    parse_names("a.* => b.*, b.* => a.*, c.t => c.u").check_distinct([("a", "t"), ("b", "t"), ("c", "t"), ("c", "t")])


@given(
    st.dictionaries(st.tuples(NAME, NAME), st.tuples(NAME, NAME), max_size=4),
    st.dictionaries(NAME, NAME, max_size=3),
)
def test_a_map_is_read_back_as_it_was_written(tables, schemas):
    """What the catalog keeps is the text."""
    distinct = {local: remote for remote, local in tables.items()}
    names = RelationNames(tuple((remote, local) for local, remote in distinct.items()), tuple(schemas.items()))
    assert parse_names(str(names)) == names


def test_the_text_of_a_map_quotes_only_where_it_must():
    text = 'public.t => archive."T", "select".* => new_1.*'
    assert str(parse_names(f"  {text} ")) == text
    assert str(SAME_NAMES) == ""

"""The clause CONFLICT RESOLVER: names, what is valid, and how it is stored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.apply.conflicts.conflict import POSTGRESQL_POLICY, Conflict, Resolution
from subscriber.base.errors import SQLSyntaxError, UsageError
from subscriber.catalog.own_tables import ConflictKind
from subscriber.postgres.schema.conflict_resolvers import (
    FUNCTION,
    NO_RESOLVERS,
    OF_ORIGINS,
    RESOLVERS,
    ConflictResolvers,
    check_resolvers,
    read_conflict_type,
    read_resolvers,
    stored_resolvers,
)
from subscriber.postgres.sql.cursor import Cursor, read_options
from tests.conflicts import AT


def read(text: str) -> dict[str, str]:
    return read_resolvers(read_options(Cursor(f"({text})")))


some_resolvers = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from([one for one in valid if one != FUNCTION]) for name, valid in RESOLVERS.items()}
)


def test_every_conflict_type_has_its_resolvers_and_no_other():
    assert {*RESOLVERS} == {*ConflictKind}
    assert set(OF_ORIGINS) <= RESOLVERS.keys()


@pytest.mark.parametrize("kind", ConflictKind)
def test_the_default_is_what_postgresql_does(kind):
    expected = POSTGRESQL_POLICY.resolve(Conflict(kind, "public.t", AT))
    assert Resolution(NO_RESOLVERS.of(kind)) is expected
    assert not NO_RESOLVERS.decides(kind)


@given(some_resolvers)
def test_resolvers_are_read_as_they_were_written_and_stored(given_resolvers):
    text = ", ".join(f"{name} = '{resolver}'" for name, resolver in given_resolvers.items())
    resolvers = NO_RESOLVERS.altered(read(text) if text else {})
    assert {name: resolvers.of(name) for name in given_resolvers} == given_resolvers
    assert stored_resolvers(str(resolvers) or None) == resolvers
    assert NO_RESOLVERS.altered({name: RESOLVERS[name][0] for name in RESOLVERS}) == NO_RESOLVERS


def test_a_resolver_may_be_a_word_and_its_letters_in_upper_case():
    assert read("INSERT_EXISTS = Apply_Remote") == {"insert_exists": "apply_remote"}


def test_a_function_is_stored_with_its_letters():
    resolvers = NO_RESOLVERS.altered(read("insert_exists = 'Shop.rules:Newer'"))
    assert stored_resolvers(str(resolvers)).of("insert_exists") == "Shop.rules:Newer"
    assert list(resolvers.functions) == ["Shop.rules:Newer"]


def test_an_unknown_conflict_type_is_refused_with_the_most_like_one():
    with pytest.raises(UsageError, match=r"^update_differs is not a valid conflict type$") as caught:
        read("update_differs = 'skip'")
    assert caught.value.sqlstate == "22023"
    with pytest.raises(UsageError) as caught:
        read_conflict_type("colour")
    assert caught.value.hint == f"Conflict types: {', '.join(RESOLVERS)}."


@pytest.mark.parametrize(
    "text", ["insert_exists = 'apply'", "insert_exists = 'a b:c'", "insert_exists = 'a:'", "insert_exists = 'a:b.c'"]
)
def test_an_unknown_resolver_is_refused_with_the_list(text):
    with pytest.raises(UsageError, match=r"is not a valid conflict resolver$") as caught:
        read(text)
    assert caught.value.hint == (
        "Resolvers of insert_exists: error, apply_remote, keep_local, last_update_wins, MODULE:FUNCTION."
    )


@pytest.mark.parametrize(
    ("text", "resolver"),
    [
        ("delete_missing = 'apply_remote'", "apply_remote"),
        ("delete_missing = 'a:b'", "a:b"),
        ("update_missing = last_update_wins", "last_update_wins"),
        ("insert_exists = skip", "skip"),
        ("multiple_unique_conflicts = 'a:b'", "a:b"),
    ],
)
def test_a_resolver_of_another_conflict_type_is_refused_with_the_list(text, resolver):
    name = text.partition(" ")[0]
    with pytest.raises(UsageError) as caught:
        read(text)
    assert caught.value.message == f"{resolver} is not a valid conflict resolver for conflict type {name}"
    assert caught.value.hint == f"Resolvers of {name}: {', '.join(RESOLVERS[name])}."


def test_a_conflict_type_is_given_once():
    with pytest.raises(SQLSyntaxError, match="conflicting or redundant options"):
        read("insert_exists = error, Insert_Exists = keep_local")


def test_a_resolver_needs_a_name():
    with pytest.raises(SQLSyntaxError, match="insert_exists requires a parameter"):
        read("insert_exists")


def test_a_default_that_is_set_is_not_stored():
    resolvers = NO_RESOLVERS.altered({"insert_exists": "keep_local", "update_missing": "error"})
    assert resolvers.altered({"insert_exists": "error"}) == ConflictResolvers((("update_missing", "error"),))
    assert resolvers.reset("update_missing") == ConflictResolvers((("insert_exists", "keep_local"),))


def test_commit_times_are_not_known_in_prepared_transactions():
    resolvers = NO_RESOLVERS.altered({"insert_exists": "last_update_wins"})
    check_resolvers(resolvers, two_phase=False, history=False)
    check_resolvers(NO_RESOLVERS, two_phase=True, history=True)
    with pytest.raises(SQLSyntaxError, match="last_update_wins and two_phase = true are mutually exclusive"):
        check_resolvers(resolvers, two_phase=True, history=False)
    with pytest.raises(SQLSyntaxError, match="CONFLICT RESOLVER and history are mutually exclusive"):
        check_resolvers(resolvers, two_phase=False, history=True)

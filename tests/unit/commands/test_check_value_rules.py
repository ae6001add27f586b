"""The option ``unrepresentable_values`` in commands: refused columns, and names that match
nothing.
"""

from __future__ import annotations

import pytest

from subscriber.catalog.table_states import RelationState
from subscriber.postgres.schema.value_rules import parse_value_rules

ALTER = "ALTER SUBSCRIPTION s SET (unrepresentable_values = '{}')"


@pytest.fixture
def subscribed(session):
    session.execute("CREATE TABLE t (k INT PRIMARY KEY, v TEXT, r TEXT NOT NULL)")
    session.subscribe(tables={"t": RelationState.READY})
    return session


def test_the_option_is_stored_and_taken_back(subscribed):
    for text in ("public.t.v = null", "null", "null, public.t.v = stop"):
        subscribed.run(ALTER.format(text))
        assert subscribed.subscription().options.unrepresentable_values == parse_value_rules(text)
    subscribed.run(ALTER.format("stop"))
    assert subscribed.rows("SELECT subunrepresentable FROM subscriber_subscription") == [{"subunrepresentable": None}]
    assert subscribed.said == []


def test_the_words_need_no_quotes(session):
    session.run(
        "CREATE SUBSCRIPTION s CONNECTION 'host=a' PUBLICATION p WITH (connect = false, unrepresentable_values = null)"
    )
    assert session.subscription().options.unrepresentable_values.everywhere
    session.run("ALTER SUBSCRIPTION s SET (unrepresentable_values = stop)")
    assert not session.subscription().options.unrepresentable_values.replace_any


@pytest.mark.parametrize(
    ("column", "reason"), [("k", "rows are found by it"), ("r", "it does not allow NULL in the target")]
)
def test_a_named_column_that_is_a_key_or_not_null_is_refused_at_the_command(subscribed, column, reason):
    error = subscribed.refused(ALTER.format(f"public.t.{column} = null"))
    assert error.sqlstate == "42P16"
    assert (
        error.message == f'values of column "{column}" of table "public.t" cannot be replaced by NULL, because {reason}'
    )
    subscribed.run(ALTER.format(f"null, public.t.{column} = stop"))
    subscribed.run(ALTER.format("public.t.* = null"))


def test_a_column_that_does_not_exist_is_refused(subscribed):
    error = subscribed.refused(ALTER.format("public.t.nope = null"))
    assert (error.sqlstate, error.message) == ("42703", 'column "nope" of relation "public.t" does not exist')


def test_a_new_subscription_is_refused_before_anything_is_created(session):
    session.execute("CREATE TABLE t (k INT PRIMARY KEY, v TEXT)")
    error = session.refused(
        "CREATE SUBSCRIPTION s CONNECTION 'host=a' PUBLICATION p WITH (connect = false,"
        " map = 'public.u => public.t', unrepresentable_values = 'public.u.k = null')"
    )
    assert error.sqlstate == "42P16"


def test_a_table_that_does_not_exist_yet_is_accepted_and_one_that_is_not_published_is_a_warning(subscribed):
    subscribed.run(ALTER.format("public.later.k = null, public.t.v = null"))
    assert subscribed.said == [
        'WARNING:  relation "public.later" of option "unrepresentable_values" matches no table of the subscription'
    ]

"""The options ``history`` and ``history_tables`` in commands."""

from __future__ import annotations

import pytest

from subscriber.base.errors import SQLSyntaxError, UsageError
from subscriber.catalog.table_states import RelationState
from subscriber.postgres.schema.history_rules import HistoryRules, parse_history_tables

CREATE = "CREATE SUBSCRIPTION s CONNECTION 'host=a' PUBLICATION p WITH (connect = false, {})"


def test_the_options_are_stored(session):
    session.run(CREATE.format("history = append, history_tables = 'public.t = off'"))
    assert session.subscription().options.history_rules == HistoryRules(
        "append", parse_history_tables("public.t = off")
    )


def test_a_subscription_has_no_history_by_default(session):
    session.subscribe(tables={"t": RelationState.READY})
    assert not session.subscription().options.history_rules.any


def test_an_unknown_word_is_refused(session):
    with pytest.raises(UsageError, match='unrecognized history value: "always"'):
        session.run(CREATE.format("history = always"))


@pytest.mark.parametrize("history", ["history = append", "history_tables = 'public.t = append'"])
@pytest.mark.parametrize("other", ["two_phase", "retain_dead_tuples"])
def test_a_history_excludes_what_it_cannot_obey(session, history, other):
    with pytest.raises(SQLSyntaxError, match=f"history.* and {other} = true are mutually exclusive options"):
        session.run(CREATE.format(f"{history}, {other} = true"))


def test_two_phase_cannot_be_turned_on_later(session):
    session.run(CREATE.format("history = append"))
    with pytest.raises(SQLSyntaxError, match="mutually exclusive"):
        session.run("ALTER SUBSCRIPTION s SET (two_phase = true)")


def test_the_history_of_a_subscription_cannot_be_altered(session):
    session.run(CREATE.format("history = append"))
    with pytest.raises(SQLSyntaxError, match='unrecognized subscription parameter: "history"'):
        session.run("ALTER SUBSCRIPTION s SET (history = off)")

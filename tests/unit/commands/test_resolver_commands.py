"""CONFLICT RESOLVER in CREATE and ALTER SUBSCRIPTION."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.base.errors import NotSupportedError, SQLSyntaxError, UsageError
from subscriber.commands.subscription_grammar import ResetResolvers, SetResolvers, parse
from subscriber.postgres.schema.conflict_resolvers import NO_RESOLVERS

CREATE = "CREATE SUBSCRIPTION s CONNECTION 'host=a' PUBLICATION p{} WITH (connect = false{})"


def test_resolvers_are_stored_changed_and_reset(session):
    session.run(CREATE.format(" CONFLICT RESOLVER (insert_exists = 'apply_remote', update_missing = 'error')", ""))
    assert str(session.subscription().options.conflict_resolvers) == (
        "insert_exists = apply_remote, update_missing = error"
    )
    session.run("ALTER SUBSCRIPTION s SET CONFLICT RESOLVER (insert_exists = keep_local)")
    session.run("ALTER SUBSCRIPTION s CONFLICT RESOLVER (delete_missing = error)")
    assert str(session.subscription().options.conflict_resolvers) == (
        "insert_exists = keep_local, update_missing = error, delete_missing = error"
    )
    session.run("ALTER SUBSCRIPTION s RESET CONFLICT RESOLVER FOR 'update_missing'")
    assert str(session.subscription().options.conflict_resolvers) == (
        "insert_exists = keep_local, delete_missing = error"
    )
    session.run("ALTER SUBSCRIPTION s RESET CONFLICT RESOLVER ALL")
    assert session.subscription().options.conflict_resolvers == NO_RESOLVERS


def test_a_subscription_has_no_resolvers_by_default(session):
    session.run(CREATE.format("", ""))
    assert session.subscription().options.conflict_resolvers == NO_RESOLVERS


def test_the_forms_of_the_command_are_understood():
    assert isinstance(parse("ALTER SUBSCRIPTION s SET CONFLICT RESOLVER (insert_exists = skip)"), SetResolvers)
    assert parse("ALTER SUBSCRIPTION s RESET CONFLICT RESOLVER ALL;") == ResetResolvers("s", None)


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("ALTER SUBSCRIPTION s SET CONFLICT (insert_exists = skip)", "("),
        ("ALTER SUBSCRIPTION s RESET CONFLICT RESOLVER", "end of input"),
        ("ALTER SUBSCRIPTION s RESET CONFLICT RESOLVER FOR insert_exists", "insert_exists"),
        ("ALTER SUBSCRIPTION s RESET (slot_name)", "("),
    ],
)
def test_what_is_not_the_command_is_a_syntax_error(command, word):
    with pytest.raises(SQLSyntaxError, match="syntax error at ") as caught:
        parse(command)
    assert word in caught.value.message


def test_a_resolver_is_no_option_of_the_with_list(session):
    with pytest.raises(SQLSyntaxError, match='unrecognized subscription parameter: "conflict_resolvers"'):
        session.run(CREATE.format("", ", conflict_resolvers = 'insert_exists = skip'"))


def test_the_subscription_is_looked_for_before_the_resolvers_are_read(session):
    assert session.refused("ALTER SUBSCRIPTION none SET CONFLICT RESOLVER (colour = red)").sqlstate == "42704"
    session.subscribe()
    assert session.refused("ALTER SUBSCRIPTION s SET CONFLICT RESOLVER (colour = red)").sqlstate == "22023"
    assert session.refused("ALTER SUBSCRIPTION s RESET CONFLICT RESOLVER FOR 'colour'").sqlstate == "22023"


@pytest.mark.parametrize(
    "resolver",
    ["insert_exists = last_update_wins", "update_origin_differs = keep_local", "delete_origin_differs = error"],
)
def test_a_target_that_keeps_no_commit_times_refuses_what_needs_them(session, resolver):
    session.subscribe()
    error = session.refused(f"ALTER SUBSCRIPTION s SET CONFLICT RESOLVER ({resolver})")
    assert isinstance(error, NotSupportedError)
    assert "does not record when and by which origin a row was written last" in str(error.detail)
    with pytest.raises(NotSupportedError):
        session.run(CREATE.format(f" CONFLICT RESOLVER ({resolver})", "").replace(" s ", " other "))


def test_a_function_must_be_there_and_its_module_allowed(session):
    session.subscribe()
    command = "ALTER SUBSCRIPTION s SET CONFLICT RESOLVER (insert_exists = '{}')"
    error = session.refused(command.format("os.path:basename"))
    assert (error.sqlstate, error.message) == ("42501", 'conflict resolver "os.path:basename" is not allowed')
    session.settings = replace(session.settings, function_modules=("os.path", "no_such_module"))
    error = session.refused(command.format("no_such_module:f"))
    assert error.message.startswith('conflict resolver "no_such_module:f" cannot be imported')
    assert session.refused(command.format("os.path:sep")).message.endswith("is not a function")
    session.run(command.format("os.path:basename"))
    assert list(session.subscription().options.conflict_resolvers.functions) == ["os.path:basename"]


def test_resolvers_exclude_a_history(session):
    with pytest.raises(SQLSyntaxError, match="CONFLICT RESOLVER and history are mutually exclusive options"):
        session.run(CREATE.format(" CONFLICT RESOLVER (insert_exists = keep_local)", ", history = append"))


def test_two_phase_cannot_be_turned_on_where_commit_times_decide(session):
    resolvers = NO_RESOLVERS.altered({"insert_exists": "last_update_wins"})
    session.subscribe(conflict_resolvers=resolvers, enabled=False)
    error = session.refused("ALTER SUBSCRIPTION s SET (two_phase = true)")
    assert isinstance(error, UsageError)
    assert "mutually exclusive" in error.message

"""What the publisher or the target cannot do is refused when it is asked for (refuse_not_guess)."""

from __future__ import annotations

import re

import pytest

from subscriber.base.errors import NotSupportedError, UsageError
from subscriber.commands.requirements import (
    check_other_database,
    check_publisher,
    check_slot_is_free,
    check_target,
)
from subscriber.targets import open_target

SQLITE, POSTGRESQL = "sqlite:///target.db", "postgresql://nobody@nowhere/none"


# The target ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "options", "refused"),
    [
        (SQLITE, {"synchronous_commit": "remote_apply"}, "synchronous_commit = remote_apply is not supported"),
        (SQLITE, {"synchronous_commit": "remote_write"}, "synchronous_commit = remote_write is not supported"),
        (SQLITE, {"synchronous_commit": "local", "two_phase": True}, None),
        (SQLITE, {"parallel_apply": 2}, "parallel_apply = 2 is not supported"),
        (SQLITE, {"parallel_apply": 1}, None),
        (SQLITE, {}, None),
        (POSTGRESQL, {"parallel_apply": 8}, None),
        (POSTGRESQL, {"synchronous_commit": "remote_apply", "two_phase": True}, None),
    ],
)
def test_a_target_is_asked_for_what_it_can_do_only(url, options, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_target(url) as target:
        if refused is None:
            check_target(target, options)
            return
        with pytest.raises(NotSupportedError, match=re.escape(refused)) as raised:
            check_target(target, options)
    assert raised.value.hint


def test_a_target_that_is_no_postgresql_is_never_the_publisher_itself(session):
    with session.target.engine.connect() as connection:
        check_other_database(session.target, connection, "7300", "shop")


# The publisher ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value", "written", "since"),
    [
        ("binary", True, "binary = true", 14),
        ("two_phase", True, "two_phase = true", 15),
        ("origin", "none", "origin = none", 16),
        ("failover", True, "failover = true", 17),
    ],
)
def test_an_option_needs_the_first_version_that_has_it(option, value, written, since):
    """The release notes of PostgreSQL 14 to 17."""
    check_publisher(since * 10000, {option: value})
    with pytest.raises(NotSupportedError) as caught:
        check_publisher(since * 10000 - 1, {option: value})
    assert caught.value.message == f"{written} needs PostgreSQL {since} or newer at the publisher"
    assert caught.value.detail == f"The publisher is PostgreSQL {since - 1}."
    assert caught.value.hint == f"Leave {option} out."


def test_an_option_that_is_off_needs_nothing():
    check_publisher(100000, {"binary": False, "two_phase": False, "origin": "any", "failover": False})
    check_publisher(100000, {})


# The slot -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slot", "conninfo", "system_identifier", "free"),
    [
        ("s", "host=b", "7300", False),
        ("s", "host=a", "7400", True),
        ("t", "host=a", "7300", True),
        ("s", "host=a", None, False),
        ("s", "host=b", None, True),
    ],
    ids=["same server", "another server", "another slot", "same connection", "another connection"],
)
def test_a_slot_is_that_of_a_server_as_far_as_the_server_is_known(session, slot, conninfo, system_identifier, free):
    others = [session.subscribe("other", "host=a", slot_name="s", system_identifier="7300")]
    if free:
        check_slot_is_free(others, slot, conninfo, system_identifier)
        return
    with pytest.raises(UsageError) as caught:
        check_slot_is_free(others, slot, conninfo, system_identifier)
    assert (caught.value.message, caught.value.sqlstate) == (
        'replication slot "s" is used by subscription "other"',
        "55006",
    )


def test_a_subscription_without_a_slot_is_in_nobodys_way(session):
    others = [session.subscribe("other", slot_name=None, enabled=False)]
    check_slot_is_free(others, "s", "host=a", None)

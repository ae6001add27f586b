"""The function that carries out a command is found; what it does is tested with the function."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("sql", "tag"),
    [
        ("ALTER SUBSCRIPTION s DISABLE", "ALTER SUBSCRIPTION"),
        ("ALTER SUBSCRIPTION s RENAME TO t", "ALTER SUBSCRIPTION"),
        ("ALTER SUBSCRIPTION s SKIP (lsn = '0/500')", "ALTER SUBSCRIPTION"),
        ("ALTER SUBSCRIPTION s SET (synchronous_commit = 'on')", "ALTER SUBSCRIPTION"),
        ("DROP SUBSCRIPTION s", "DROP SUBSCRIPTION"),
        ("DROP PUBLICATION IF EXISTS q", "DROP PUBLICATION"),
    ],
)
def test_a_command_is_answered_with_its_tag(session, sql, tag):
    session.subscribe(slot_name=None, enabled=False)
    assert session.run(sql) == tag


def test_a_subscription_is_created(session, publisher):
    assert (
        session.run("CREATE SUBSCRIPTION s CONNECTION 'host=a' PUBLICATION p WITH (connect = false)")
        == "CREATE SUBSCRIPTION"
    )
    assert session.subscription().publications == ("p",)


def test_a_missing_subscription_is_named_before_anything_else(session):
    assert session.refused("ALTER SUBSCRIPTION s ENABLE").message == 'subscription "s" does not exist'

"""Subscription commands inside of a transaction block (rule C54)."""

from __future__ import annotations

import pytest

from subscriber.base.errors import NotSupportedError, UsageError
from subscriber.base.settings import Settings
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.subscriptions import delete_subscription, find_subscription, set_enabled
from subscriber.commands.subscription_grammar import Query, parse
from subscriber.targets import Target, open_target
from subscriber.testing.nodes.session_database import Block
from tests.subscriptions import create_subscription, stored_subscription


@pytest.fixture
def target(tmp_path):
    """A target with an enabled subscription s."""
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as opened:
        ensure_catalog(opened.engine)
        create_subscription(opened)
        yield opened


@pytest.fixture
def block(target, tmp_path):
    opened = Block(target, Settings(str(tmp_path / "journal")))
    yield opened
    opened.close()


def run(block: Block, sql: str) -> str:
    command = parse(sql)
    assert not isinstance(command, Query)
    return block.run(command, lambda _: None)  # type: ignore[arg-type]


def disable(target: Target, name: str = "s") -> None:
    with target.begin() as connection:
        set_enabled(connection, name, enabled=False)


def test_a_command_changes_the_target_when_the_block_is_committed(block, target):
    assert not block.changed
    assert run(block, "ALTER SUBSCRIPTION s DISABLE") == "ALTER SUBSCRIPTION"
    assert block.changed
    assert stored_subscription(target).enabled
    block.commit()
    assert not stored_subscription(target).enabled


def test_later_statements_of_the_block_see_its_commands(block, target):
    run(block, "ALTER SUBSCRIPTION s RENAME TO t")
    run(block, "ALTER SUBSCRIPTION t DISABLE")
    assert stored_subscription(block.catalog, "t").enabled is False
    block.commit()
    assert stored_subscription(target, "t").enabled is False


def test_a_block_that_is_rolled_back_changes_nothing(block, target):
    run(block, "ALTER SUBSCRIPTION s DISABLE")
    block.close()
    assert stored_subscription(target).enabled


def test_a_command_that_fails_is_not_committed(block, target):
    with pytest.raises(UsageError, match='subscription "absent" does not exist'):
        run(block, "ALTER SUBSCRIPTION absent DISABLE")
    assert not block.changed


def test_a_catalog_that_somebody_else_has_changed_fails_the_commit(block, target):
    run(block, "ALTER SUBSCRIPTION s DISABLE")
    with target.begin() as connection:
        delete_subscription(connection, "s")
    with pytest.raises(UsageError, match='subscription "s" does not exist'):
        block.commit()


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        (
            "CREATE SUBSCRIPTION t CONNECTION 'dbname=d' PUBLICATION p",
            "CREATE SUBSCRIPTION ... WITH (create_slot = true)",
        ),
        ("DROP SUBSCRIPTION s", "DROP SUBSCRIPTION"),
        ("ALTER SUBSCRIPTION s REFRESH PUBLICATION", "ALTER SUBSCRIPTION ... REFRESH"),
        ("ALTER SUBSCRIPTION s REFRESH SEQUENCES", "ALTER SUBSCRIPTION ... REFRESH SEQUENCES"),
        ("ALTER SUBSCRIPTION s RECREATE SLOT", "ALTER SUBSCRIPTION ... RECREATE SLOT"),
        ("ALTER SUBSCRIPTION s SET PUBLICATION q", "ALTER SUBSCRIPTION with refresh"),
        ("ALTER SUBSCRIPTION s ADD PUBLICATION q", "ALTER SUBSCRIPTION with refresh"),
    ],
)
def test_a_command_that_connects_to_the_publisher_is_not_allowed(block, sql, name):
    """The words are those of PreventInTransactionBlock's callers in subscriptioncmds.c."""
    with pytest.raises(UsageError) as raised:
        run(block, sql)
    assert (raised.value.message, raised.value.sqlstate) == (f"{name} cannot run inside a transaction block", "25001")
    assert not block.changed


@pytest.mark.parametrize("option", ["two_phase = false", "failover = true", "failover = false"])
def test_an_option_that_the_slot_has_too_is_not_allowed_while_there_is_a_slot(block, target, option):
    run(block, "ALTER SUBSCRIPTION s DISABLE")
    name = option.partition(" ")[0]
    with pytest.raises(UsageError, match="cannot run inside a transaction block") as raised:
        run(block, f"ALTER SUBSCRIPTION s SET ({option})")
    assert f"ALTER SUBSCRIPTION ... SET ({name})" in raised.value.message


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER SUBSCRIPTION s SET PUBLICATION q WITH (refresh = false)",
        "ALTER SUBSCRIPTION s SET (disable_on_error = true)",
        "ALTER SUBSCRIPTION s SKIP (lsn = '0/100')",
        "ALTER SUBSCRIPTION s CONNECTION 'dbname=elsewhere'",
    ],
)
def test_a_command_that_only_changes_the_catalog_is_allowed(block, sql):
    assert run(block, sql) == "ALTER SUBSCRIPTION"


def test_a_subscription_without_a_slot_can_be_dropped(block, target):
    run(block, "ALTER SUBSCRIPTION s DISABLE")
    run(block, "ALTER SUBSCRIPTION s SET (slot_name = NONE)")
    assert run(block, "DROP SUBSCRIPTION s") == "DROP SUBSCRIPTION"
    block.commit()
    with target.engine.connect() as connection:
        assert find_subscription(connection, "s") is None


def test_a_subscription_is_created_without_a_connection_only(block, target):
    with pytest.raises(NotSupportedError, match="that connects inside a transaction block"):
        run(block, "CREATE SUBSCRIPTION t CONNECTION 'dbname=d' PUBLICATION p WITH (create_slot = false)")
    run(block, "CREATE SUBSCRIPTION t CONNECTION 'dbname=d' PUBLICATION p WITH (connect = false)")
    block.commit()
    assert stored_subscription(target, "t").publications == ("p",)

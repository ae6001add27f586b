"""Subscription commands inside a transaction block.

A command that only changes the catalog is allowed in a block, and is undone with it. A command that
connects to the publisher is not allowed (C54)::

    BEGIN; ALTER SUBSCRIPTION s DISABLE;   ──▶ a copy of the catalog, which the later statements of the block read
    COMMIT;                                ──▶ the target's catalog, command after command
    ROLLBACK;                              ──▶ the copy is discarded

*Rejected:* a transaction of the target that is open as long as the block. The engine writes to the
target too. In a database with only one writer, the engine would wait for the session, and the
session would wait for the engine.
"""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from subscriber import catalog
from subscriber.catalog import Subscription
from subscriber.commands import Notify, run_command
from subscriber.commands.subscription_options import ALTERABLE, REFRESHING, read_options
from subscriber.commands.subscription_statements import (
    AlterOptions,
    AlterPublications,
    CreateSubscription,
    DropSubscription,
    RecreateSlot,
    RefreshPublication,
    RefreshSequences,
    SubscriptionCommand,
)
from subscriber.errors import NotSupportedError, UsageError
from subscriber.settings import Settings
from subscriber.sql.option_list import Option, OptionList
from subscriber.targets import Target, open_target
from subscriber.targets.sqlite.target import new_database


class Block:
    """The subscription commands of an open transaction block.

    Args:
        target: the target whose catalog the commands change at the end of the block.
        settings: settings for the commands.
    """

    def __init__(self, target: Target, settings: Settings) -> None:
        self._target = target
        self._settings = settings
        self._commands: list[SubscriptionCommand] = []
        self._folder = tempfile.TemporaryDirectory(prefix="subscriber-block-")
        file = Path(self._folder.name) / "catalog.db"
        new_database(file)
        self._copy = open_target(f"sqlite:///{file}")
        """The copy of the catalog. It has none of the target's tables, because no command that is
        allowed in a block reads them.
        """
        self._copy_settings = dataclasses.replace(settings, journal=f"{self._folder.name}/journal")
        catalog.ensure_catalog(self._copy.engine)
        with target.begin() as source, self._copy.begin() as connection:
            for table in catalog.CATALOG.sorted_tables:
                if rows := [dict(row) for row in source.execute(sa.select(table)).mappings()]:
                    connection.execute(sa.delete(table))  # the copy has another target identifier
                    connection.execute(sa.insert(table), rows)

    @property
    def catalog(self) -> Target:
        """The catalog as the statements of the block see it."""
        return self._copy

    @property
    def changed(self) -> bool:
        """Whether the block contains a command that must be committed."""
        return bool(self._commands)

    def run(self, command: SubscriptionCommand, notify: Notify) -> str:
        """Run a command on the copy of the catalog, and return its command tag.

        Raises:
            UsageError: the command cannot run inside a transaction block (SQLSTATE 25001).
            NotSupportedError: the command creates a subscription and connects to the publisher, so
                it would need the target's tables.
            SubscriberError: the command failed for another reason.
        """
        forbidden = self._forbidden(command)
        if forbidden is not None:
            raise UsageError(f"{forbidden} cannot run inside a transaction block", sqlstate="25001")
        if isinstance(command, CreateSubscription) and command.options.connect:
            raise NotSupportedError(
                "CREATE SUBSCRIPTION that connects inside a transaction block is not supported on this subscriber",
                hint="Give connect = false, or COMMIT first.",
            )
        tag = run_command(self._copy, command, self._copy_settings, notify)
        self._commands.append(command)
        return tag

    def commit(self) -> None:
        """Run the commands on the target.

        Raises:
            SubscriberError: a command failed because somebody else has changed the catalog since
                the block began.
        """
        for command in self._commands:
            run_command(self._target, command, self._settings, lambda _: None)

    def close(self) -> None:
        """Discard the copy."""
        self._copy.close()
        self._folder.cleanup()

    # What talks to the publisher ------------------------------------------------------------------

    def _forbidden(self, command: SubscriptionCommand) -> str | None:
        """PostgreSQL's name for a command that is not allowed in a block.

        None if the command is allowed, or if it fails with another error.
        """
        if isinstance(command, CreateSubscription):
            return "CREATE SUBSCRIPTION ... WITH (create_slot = true)" if command.options.create_slot else None
        with self._copy.begin() as connection:
            subscription = catalog.find_subscription(connection, command.name)
        if subscription is None:
            return None
        match command:
            case DropSubscription() if subscription.slot_name is not None:
                return "DROP SUBSCRIPTION"
            case RefreshPublication() if _may_refresh(subscription, command.options, _COPYING):
                return "ALTER SUBSCRIPTION ... REFRESH"
            case RecreateSlot():
                return "ALTER SUBSCRIPTION ... RECREATE SLOT"
            case RefreshSequences():
                return "ALTER SUBSCRIPTION ... REFRESH SEQUENCES"
            case AlterPublications() if _may_refresh(subscription, command.options, REFRESHING):
                # An error in the list of publications is reported first.
                run_command(self._copy, _without_refresh(command), self._copy_settings, lambda _: None)
                return "ALTER SUBSCRIPTION with refresh"
            case AlterOptions() if not subscription.enabled and subscription.slot_name is not None:
                return _needs_slot(command)
            case _:
                return None


_COPYING: Final = frozenset({"copy_data"})


def _may_refresh(subscription: Subscription, options: OptionList, known: frozenset[str]) -> bool:
    """Whether the command asks for a refresh, and only the block prevents it (C52, C54)."""
    values = read_options(options.sql, options.given, known)
    copies = values.get("copy_data", True) and subscription.two_phase_state == "e"
    return values.get("refresh", True) and subscription.enabled and not copies


def _without_refresh(command: AlterPublications) -> AlterPublications:
    return dataclasses.replace(command, options=OptionList((Option("refresh", "false", 0),)))


def _needs_slot(command: AlterOptions) -> str | None:
    """The command's name if it changes an option that the slot has too, else None.

    The worker turns two_phase on in the slot. The command turns it off.
    """
    values = read_options(command.options.sql, command.options.given, ALTERABLE)
    if values.get("two_phase") is False:
        return "ALTER SUBSCRIPTION ... SET (two_phase)"
    return "ALTER SUBSCRIPTION ... SET (failover)" if "failover" in values else None

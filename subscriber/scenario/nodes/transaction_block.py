"""Subscription commands inside a transaction block.

What only changes the catalog may stand in a block, and is undone with it; what talks to the
publisher may not (C54)::

    BEGIN; ALTER SUBSCRIPTION s DISABLE;   ──▶ a copy of the catalog, in which the block's later statements see it
    COMMIT;                                ──▶ the target's catalog, command after command
    ROLLBACK;                              ──▶ the copy is thrown away

*Rejected:* a transaction of the target's that stays open as long as the block. The engine writes
there too, and where a database has one writer it would wait for the session, which waits for it.
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
        target: whose catalog they change at its end.
        settings: for commands.
    """

    def __init__(self, target: Target, settings: Settings) -> None:
        self._target = target
        self._settings = settings
        self._commands: list[SubscriptionCommand] = []
        self._folder = tempfile.TemporaryDirectory(prefix="subscriber-block-")
        file = Path(self._folder.name) / "catalog.db"
        new_database(file)
        self._copy = open_target(f"sqlite:///{file}")
        """Its tables of the target are missing: no command that may be here looks at them."""
        self._copy_settings = dataclasses.replace(settings, journal=f"{self._folder.name}/journal")
        catalog.ensure_catalog(self._copy.engine)
        with target.begin() as source, self._copy.begin() as connection:
            for table in catalog.CATALOG.sorted_tables:
                if rows := [dict(row) for row in source.execute(sa.select(table)).mappings()]:
                    connection.execute(sa.delete(table))  # the copy has an identifier of its own
                    connection.execute(sa.insert(table), rows)

    @property
    def catalog(self) -> Target:
        """The catalog as the block sees it."""
        return self._copy

    @property
    def changed(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self._commands)

    def run(self, command: SubscriptionCommand, notify: Notify) -> str:
        """Carry out a command for the rest of the block; gives its tag.

        Raises:
            UsageError: 25001, it cannot run inside a transaction block; or the command's own error.
            NotSupportedError: it asks the publisher, and only for that the target's tables would be
                looked at.
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
        """Carry the commands out in the target.

        Raises:
            SubscriberError: one of them found another catalog than in the block: somebody else has
                changed it.
        """
        for command in self._commands:
            run_command(self._target, command, self._settings, lambda _: None)

    def close(self) -> None:
        """Throw the copy away."""
        self._copy.close()
        self._folder.cleanup()

    # What talks to the publisher ------------------------------------------------------------------

    def _forbidden(self, command: SubscriptionCommand) -> str | None:
        """What PostgreSQL calls the command where it may not stand in a block; None where it may,
        or has an error of its own.
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
            case RefreshSequences():
                return "ALTER SUBSCRIPTION ... REFRESH SEQUENCES"
            case AlterPublications() if _may_refresh(subscription, command.options, REFRESHING):
                # A list that is wrong is found first.
                run_command(self._copy, _without_refresh(command), self._copy_settings, lambda _: None)
                return "ALTER SUBSCRIPTION with refresh"
            case AlterOptions() if not subscription.enabled and subscription.slot_name is not None:
                return _needs_slot(command)
            case _:
                return None


_COPYING: Final = frozenset({"copy_data"})


def _may_refresh(subscription: Subscription, options: OptionList, known: frozenset[str]) -> bool:
    """Whether a refresh is asked for, and nothing speaks against it but the block (C52, C54)."""
    values = read_options(options.sql, options.given, known)
    copies = values.get("copy_data", True) and subscription.two_phase_state == "e"
    return values.get("refresh", True) and subscription.enabled and not copies


def _without_refresh(command: AlterPublications) -> AlterPublications:
    return dataclasses.replace(command, options=OptionList((Option("refresh", "false", 0),)))


def _needs_slot(command: AlterOptions) -> str | None:
    """Options that are the slot's too: two_phase is turned on by the worker, and off here."""
    values = read_options(command.options.sql, command.options.given, ALTERABLE)
    if values.get("two_phase") is False:
        return "ALTER SUBSCRIPTION ... SET (two_phase)"
    return "ALTER SUBSCRIPTION ... SET (failover)" if "failover" in values else None

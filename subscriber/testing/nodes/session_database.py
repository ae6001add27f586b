"""The PostgreSQL database in which the statements of a session on a target run, and subscription
commands inside a transaction block.

There are two kinds::

    Mirror        beside any target    refill ──▶ the statement runs ──▶ write back     (subscriber.testing.nodes.mirror)
    OwnDatabase   the target itself    the statement runs

``OwnDatabase`` is a disposable PostgreSQL target::

    session ──▶ target ◀── apply
                  ├─ public, …    what the session creates: its triggers, partitions, types and locks affect replicated changes
                  └─ subscriber   the catalog's tables, which an unqualified name in the session does not find

A session there does not have to wait for replication. A replicated change that needs a lock of an
open transaction waits for it, as it does in PostgreSQL's worker. *Rejected:* the catalog's tables
in ``public``, as in other targets. A list of tables would show them between those of the session.

A command that only changes the catalog is allowed in a block, and is undone with it. A command that
connects to the publisher is not allowed (C54)::

    BEGIN; ALTER SUBSCRIPTION s DISABLE;   ──▶ a copy of the catalog, which the later statements of the block read
    COMMIT;                                ──▶ the target's catalog, command after command
    ROLLBACK;                              ──▶ the copy is discarded

*Rejected:* a transaction of the target that is open as long as the block. In a database with only
one writer, the engine would wait for the session, and the session would wait for the engine.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

import psycopg
import sqlalchemy as sa
from psycopg.conninfo import make_conninfo

from subscriber.base.errors import NotSupportedError, SubscriberError, UsageError
from subscriber.base.settings import Settings
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.subscription_options import Form, read_options
from subscriber.catalog.subscriptions import Subscription, find_subscription
from subscriber.commands import subscription_grammar
from subscriber.commands.dispatch import run_command
from subscriber.commands.notices import Notify
from subscriber.commands.server_grammar import ServerCommand
from subscriber.postgres.sql.option_list import Option, OptionList
from subscriber.targets import Target, open_target
from subscriber.targets.sqlite.target import new_database


class SessionDatabase(Protocol):
    """:class:`Mirror` or :class:`OwnDatabase`. If it ``is_target``, triggers, locks and prepared
    transactions are the target's, and sessions and replication run at the same time.
    """

    is_target: ClassVar[bool]

    @property
    def conninfo(self) -> str: ...

    def identity(self) -> tuple[int, int]:
        """The oid of the database, and the oid of the role that owns the objects created in it."""

    def is_stale(self) -> bool:
        """Whether replication has changed rows that a session's open transaction cannot see."""

    def refill(self, read: Container[str] = ()) -> None:
        """Make replicated changes visible to the statement or transaction that begins next."""

    def write_back(self, *, reshaping: bool) -> SubscriberError | None:
        """Bring a committed statement into the target; the reason why it was undone, if it was."""

    def close(self) -> None:
        """Remove what sessions have created. The sessions must have ended."""


def read_identity(connection: psycopg.Connection[Any]) -> tuple[int, int]:
    query = "SELECT d.oid::int8, r.oid::int8 FROM pg_database d, pg_roles r WHERE datname = current_database() AND rolname = current_user"
    ((database, role),) = connection.execute(query).fetchall()
    return int(database), int(role)


SCHEMA: Final = "subscriber"
"""The schema of the catalog's tables."""


class OwnDatabase:
    """A :class:`SessionDatabase` that is the target itself."""

    is_target: ClassVar[bool] = True

    def __init__(self, url: sa.URL, on_change: Callable[[], None]) -> None:
        self._url = url
        self._on_change = on_change
        self._connection = psycopg.connect(self.conninfo, autocommit=True)
        self._snapshot = self._read_snapshot()

    @property
    def conninfo(self) -> str:
        """It leaves ``search_path`` as the server has it."""
        given = self._url.translate_connect_args(username="user", database="dbname")
        return make_conninfo("", **given, **{name: str(value) for name, value in self._url.query.items()})

    def identity(self) -> tuple[int, int]:
        return read_identity(self._connection)

    def is_stale(self) -> bool:
        return False

    def refill(self, read: Container[str] = ()) -> None:
        del read

    def write_back(self, *, reshaping: bool) -> SubscriberError | None:
        """Call ``on_change`` after a change: what failed to be applied may be applicable now."""
        del reshaping
        snapshot = self._read_snapshot()
        if snapshot != self._snapshot:
            self._snapshot = snapshot
            self._on_change()
        return None

    def close(self) -> None:
        """Close the connection. The code that created the database drops it."""
        self._connection.close()

    def _read_snapshot(self) -> str:
        """The current snapshot of transactions: another one after every transaction that wrote."""
        ((snapshot,),) = self._connection.execute("SELECT txid_current_snapshot()::text").fetchall()
        return str(snapshot)


def open_apart(target: Target) -> Target:
    """Open the same target with its catalog in schema :data:`SCHEMA`, and close the given one."""
    with target.begin() as connection:
        connection.execute(sa.schema.CreateSchema(SCHEMA, if_not_exists=True))
    target.close()
    # The path has no other schema: PostgreSQL's worker has an empty search path, and triggers see
    # it too (C23).
    return open_target(target.url.update_query_dict({"options": f"-csearch_path={SCHEMA}"}))


SessionCommand = subscription_grammar.SubscriptionCommand | ServerCommand
"""The commands that sessions may give inside a transaction block."""


class Block:
    """The subscription commands of an open transaction block."""

    def __init__(self, target: Target, settings: Settings) -> None:
        self._target = target
        self._settings = settings
        self._commands: list[SessionCommand] = []
        self._folder = tempfile.TemporaryDirectory(prefix="subscriber-block-")
        file = Path(self._folder.name) / "catalog.db"
        new_database(file)
        self._copy = open_target(f"sqlite:///{file}")
        """A copy of the catalog, but not of the target's tables: no command in a block
        reads them.
        """
        self._copy_settings = dataclasses.replace(settings, journal=f"{self._folder.name}/journal")
        ensure_catalog(self._copy.engine)
        with target.begin() as source, self._copy.begin() as connection:
            for table in CATALOG.sorted_tables:
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

    def run(self, command: SessionCommand, notify: Notify) -> str:
        """Run a command on the copy of the catalog, and return its command tag.

        UsageError (25001): it cannot run in a block. NotSupportedError: it creates a subscription
        that connects to the publisher, and would need the target's tables.
        """
        forbidden = self._forbidden(command)
        if forbidden is not None:
            raise UsageError(f"{forbidden} cannot run inside a transaction block", sqlstate="25001")
        if isinstance(command, subscription_grammar.CreateSubscription) and command.options.connect:
            raise NotSupportedError(
                "CREATE SUBSCRIPTION that connects inside a transaction block is not supported on this subscriber",
                hint="Give connect = false, or COMMIT first.",
            )
        tag = run_command(self._copy, command, self._copy_settings, notify)
        self._commands.append(command)
        return tag

    def commit(self) -> None:
        """Run the commands on the target; an error if somebody has changed the catalog since."""
        for command in self._commands:
            run_command(self._target, command, self._settings, lambda _: None)

    def close(self) -> None:
        self._copy.close()
        self._folder.cleanup()

    # What talks to the publisher ------------------------------------------------------------------

    def _forbidden(self, command: SessionCommand) -> str | None:
        """PostgreSQL's name for a command that a block forbids; None if another error precedes."""
        if isinstance(command, subscription_grammar.CreateSubscription):
            return "CREATE SUBSCRIPTION ... WITH (create_slot = true)" if command.options.create_slot else None
        if isinstance(command, ServerCommand):
            return None
        with self._copy.begin() as connection:
            subscription = find_subscription(connection, command.name)
        if subscription is None:
            return None
        match command:
            case subscription_grammar.DropSubscription() if subscription.slot_name is not None:
                return "DROP SUBSCRIPTION"
            case subscription_grammar.RefreshPublication() if _may_refresh(subscription, command.options, "REFRESH"):
                return "ALTER SUBSCRIPTION ... REFRESH"
            case subscription_grammar.RecreateSlot():
                return "ALTER SUBSCRIPTION ... RECREATE SLOT"
            case subscription_grammar.RefreshSequences():
                return "ALTER SUBSCRIPTION ... REFRESH SEQUENCES"
            case subscription_grammar.AlterPublications() if _may_refresh(subscription, command.options, "PUBLICATION"):
                # An error in the list of publications is reported first.
                run_command(self._copy, _without_refresh(command), self._copy_settings, lambda _: None)
                return "ALTER SUBSCRIPTION with refresh"
            case subscription_grammar.AlterOptions() if not subscription.enabled and subscription.slot_name is not None:
                return _needs_slot(command)
            case _:
                return None


def _may_refresh(subscription: Subscription, options: OptionList, form: Form) -> bool:
    """Whether the command asks for a refresh, and only the block prevents it (C52, C54)."""
    values = read_options(options, form)
    copies = values.get("copy_data", True) and subscription.two_phase_state == "e"
    return values.get("refresh", True) and subscription.enabled and not copies


def _without_refresh(command: subscription_grammar.AlterPublications) -> subscription_grammar.AlterPublications:
    return dataclasses.replace(command, options=OptionList((Option("refresh", "false", 0),)))


def _needs_slot(command: subscription_grammar.AlterOptions) -> str | None:
    """The command's name if it alters the slot too. The worker itself turns two_phase on."""
    values = read_options(command.options, "SET")
    if values.get("two_phase") is False:
        return "ALTER SUBSCRIPTION ... SET (two_phase)"
    return "ALTER SUBSCRIPTION ... SET (failover)" if "failover" in values else None

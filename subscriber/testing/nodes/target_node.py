r"""A subscriber node whose engine is ``subscriber``: PostgreSQL's psql in front, any target behind.

::

    CREATE/ALTER/DROP SUBSCRIPTION or PUBLICATION ──▶ subscriber.commands ──▶ catalog in the target ◀── engine (a thread)
    every other statement, and \d ──▶ a PostgreSQL database: the target itself, or a mirror of it that is refilled before and
                                      written back afterwards while nothing is applied (subscriber.testing.nodes.session_database);
                                      the catalogs of subscriptions are the target's (subscriber.testing.nodes.session_catalogs)
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from collections.abc import Callable, Collection, Mapping
from typing import Final

import sqlalchemy as sa

from subscriber.base.errors import PublisherError, SubscriberError, UsageError
from subscriber.base.settings import POSTGRESQL_VERSIONS, Settings
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.own_tables import CATALOG, SUBSCRIPTION
from subscriber.catalog.publications import (
    delete_publication,
    find_publication,
    insert_publication,
    list_publications,
    replace_publication,
)
from subscriber.catalog.subscriptions import delete_subscription, list_subscriptions
from subscriber.commands import subscription_grammar
from subscriber.commands.dispatch import run_command
from subscriber.commands.drop_subscription import remove_journal
from subscriber.commands.notices import Notify
from subscriber.commands.subscription_grammar import Query as Select
from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.publication.publication_statements import PublicationCommand
from subscriber.spark.spark_functions import SparkFunctions
from subscriber.targets import Target, open_target
from subscriber.testing.nodes import session_catalogs
from subscriber.testing.nodes.engine import Engine
from subscriber.testing.nodes.mirror import Mirror
from subscriber.testing.nodes.node import ResolveConninfo, SessionNode
from subscriber.testing.nodes.session_catalogs import Situation, check_statement, is_subscription_command, refusal
from subscriber.testing.nodes.session_database import (
    Block,
    OwnDatabase,
    SessionCommand,
    SessionDatabase,
    open_apart,
)
from subscriber.testing.servers.open_servers import FreshTarget
from subscriber.testing.servers.postgresql_server import PostgreSQL
from subscriber.testing.session.psql import Generated, PsqlSession
from subscriber.testing.session.psql_input import READING, PsqlQuery, cut, is_backslash_command, names_in, query_of

_SHOWS_REPLICATION: Final = re.compile(r"\\dR")
_SHOWS_SUBSCRIPTIONS: Final = re.compile(r"\\dRs(\+?)\s*")

_GID_PREFIX: Final = "pg_gid_"
"""The start of the GIDs of the transactions that subscriptions have prepared (C49)."""
_WRITES: Final = frozenset({"insert", "update", "delete", "merge", "copy", "do", "call", "execute", "with"})
_RESHAPES: Final = frozenset({"create", "alter", "drop", "truncate"})
_BELOW_A_TABLE: Final = (" row)", " rows)")


class TargetNode(SessionNode):
    """See the module; UsageError if the target has subscriptions already, which would run too."""

    def __init__(
        self,
        name: str,
        target: FreshTarget,
        server: PostgreSQL,
        resolve: ResolveConninfo,
        spark: SparkFunctions,
        settings: Settings,
        patience: float,
        carrier: str | None = None,
    ) -> None:
        self.name = name
        self._carrier = carrier
        self._resolve = resolve
        self._settings = settings
        self._patience = patience
        self._server = server
        newest = settings.postgresql_version
        self._version = max(newest, server.major) if newest > POSTGRESQL_VERSIONS[0] else server.major
        self._sessions: dict[str, PsqlSession] = {}
        self._blocks: dict[str, Block] = {}
        """The subscription commands in the open transaction of each session."""
        self._typed_conninfo: dict[str, str] = {}
        """Real connection string → connection string as it was typed."""
        self._written: set[str] = set()
        """The first words of the statements in the open transaction, or of the last statement."""
        self._target = open_target(target.url)
        try:
            own = target.disposable and self._target.cluster is not None
            given = self._target.url
            if own:
                self._target = open_apart(self._target)
            self._target.is_throwaway = True
            made = _make_catalog(self._target)
            self._drops_catalog = made and not target.disposable  # else the whole database is dropped
            self._engine = Engine(name, self._target, spark, settings)
            noted = self._engine.change_version
            self._database: SessionDatabase = (
                OwnDatabase(given, noted) if own else Mirror(name, server, self._target, noted)
            )
        except BaseException:
            self._target.close()
            raise

    def run(self, text: str, session: str = "") -> str:
        """After an error in writing back what the mirror has, the node is of no more use."""
        if is_backslash_command(text):
            return self._describe(text.strip(), session)
        printed = [one for query in cut(text) for one in self._run(query, session)]
        # psql prints an empty line below a table.
        return "".join(f"{one}\n\n" if one.endswith(_BELOW_A_TABLE) else f"{one}\n" for one in printed if one).rstrip(
            "\n"
        )

    def in_transaction(self, session: str) -> bool:
        return session in self._sessions and self._sessions[session].in_transaction

    def settle(self, patience: float) -> None:
        self._engine.settle(patience)

    def state(self) -> str:
        return self._engine.state()

    def close(self) -> None:
        """Drop slots, journals, tables and mirror, and catalog tables that the node made."""
        with contextlib.ExitStack() as steps:
            # The steps run in reverse order, and each runs even if another fails.
            steps.callback(self._target.close)
            steps.callback(self._drop_catalog)
            steps.callback(self._database.close)
            steps.callback(self._drop_subscriptions)
            steps.callback(self._end_prepared)
            steps.callback(self._engine.close)
            for session in self._sessions.values():
                steps.callback(session.close)
            for block in self._blocks.values():
                steps.callback(block.close)

    # Emulated publications ------------------------------------------------------------------------

    def at_rest(self, patience: float) -> contextlib.AbstractContextManager[None]:
        return self._engine.at_rest(patience)

    def run_publication_command(self, text: str, publisher: str) -> SubscriberError | None:
        """Run CREATE, ALTER or DROP PUBLICATION, and return the error if it was refused."""
        try:
            command = subscription_grammar.parse(text)
            if not isinstance(command, PublicationCommand):
                raise refusal("this command")
            run_command(self._target, command, self._settings, lambda _: None, publisher)
        except SubscriberError as error:
            return error
        self._engine.change_version()
        return None

    def publications(self) -> dict[str, Publication]:
        with self._target.reporting(), self._target.engine.connect() as connection:
            return {publication.name: publication for publication in list_publications(connection)}

    def store_publications(self, publications: Mapping[str, Publication | None], owner: str) -> None:
        """Store emulated publications in the target's catalog, without a check."""
        with self._target.begin() as connection:
            for name, publication in publications.items():
                known = find_publication(connection, name) is not None
                if publication is None:
                    if known:
                        delete_publication(connection, name)
                elif known:
                    replace_publication(connection, publication)
                else:
                    insert_publication(connection, publication, owner)
        self._engine.change_version()

    # Statements -----------------------------------------------------------------------------------

    def _run(self, query: PsqlQuery, session: str) -> list[str]:
        """What is printed for a query, and for each statement that it generates."""
        text = query.text
        words = query.words
        try:
            if is_subscription_command(words):
                return [self._command(query, session)]
            asked = check_statement(text, words, self._situation(session))
        except SubscriberError as error:
            self._fail_transaction(session)
            return [error.report()]
        first_word = words[0] if words else ""
        if not query.executes:
            return [self._run_statement(text, session, first_word, asked)]
        generated = Generated()

        def generate(psql: PsqlSession, text: str) -> str:
            nonlocal generated
            printed, generated = psql.generate(text)
            return printed

        printed = [self._run_statement(text, session, first_word, asked, generate)]
        for statement in generated.statements:
            printed += self._run(query_of(statement), session)
        return [*printed, generated.tag.rstrip("\n")]

    def _situation(self, session: str) -> Situation:
        return Situation(
            in_target=self._database.is_target,
            in_transaction=self.in_transaction(session),
            beside_another=any(other.in_transaction for name, other in self._sessions.items() if name != session),
            after_subscription_command=session in self._blocks and self._blocks[session].changed,
            is_stale=self._database.is_stale,
            version=self._version,
        )

    def _run_statement(
        self,
        text: str,
        session: str,
        first_word: str = "",
        asked: Collection[str] = (),
        run: Callable[[PsqlSession, str], str] = PsqlSession.send,
    ) -> str:
        if session not in self._sessions:
            self._sessions[session] = PsqlSession(self._database.conninfo, lambda: self._server.psql, self._patience)
        psql = self._sessions[session]
        undone: SubscriberError | None = None
        # In the target itself, replication may wait for the session's locks, so the session must
        # not wait for replication.
        alone = contextlib.nullcontext() if self._database.is_target else self._engine.at_rest(self._patience)
        with alone:
            if not psql.in_transaction:
                self._database.refill(names_in(text) if first_word in READING else ())
                self._written = set()
            self._written.add(first_word)
            try:
                printed = self._run_with_catalogs(psql, text, session, asked, run)
            finally:
                # This is also needed after a statement that was cancelled, and after a transaction
                # that ended with its connection.
                if not psql.in_transaction:
                    reshaping = bool(self._written & _RESHAPES) and not self._written & _WRITES
                    undone = self._database.write_back(reshaping=reshaping)
        if undone is not None:
            printed = undone.report()
        return printed if psql.in_transaction else self._end_block(session, printed)

    def _run_with_catalogs(
        self, psql: PsqlSession, text: str, session: str, asked: Collection[str], run: Callable[[PsqlSession, str], str]
    ) -> str:
        """Run a statement with temporary views in place of the catalogs that it names."""
        if not asked or psql.transaction_failed:
            return run(psql, text)
        source = self._blocks[session].catalog if session in self._blocks else self._target
        database, owner = self._database.identity()
        facts = session_catalogs.Facts(
            database=database,
            owner=owner,
            major=self._server.major,
            version=self._version,
            shown_conninfo=lambda conninfo: self._typed_conninfo.get(conninfo, conninfo),
            received=self._engine.received(),
            process=os.getpid(),
            journals=self._settings.journal,
        )
        try:
            with source.begin() as connection:
                session_catalogs.make_views(psql, connection, asked, facts)
        except UsageError as error:
            return error.report()
        try:
            return run(psql, session_catalogs.with_temporary_names(text))
        finally:
            if session_catalogs.RESET in asked and not psql.transaction_failed:
                with self._target.begin() as connection:
                    session_catalogs.reset_statistics(psql, connection)
            session_catalogs.drop_views(psql, asked)

    def _describe(self, command: str, session: str) -> str:
        found = _SHOWS_SUBSCRIPTIONS.fullmatch(command)
        if found is None and _SHOWS_REPLICATION.match(command):
            return refusal(command.split(maxsplit=1)[0]).report()
        if found is None or self.in_transaction(session):
            return self._run_statement(command, session, run=PsqlSession.run)
        query = session_catalogs.describing_query(verbose=bool(found[1]), major=self._version)
        return session_catalogs.with_title(
            "List of subscriptions",
            self._run_statement(query, session, "select", ["pg_subscription", "pg_foreign_server"]),
        )

    def _fail_transaction(self, session: str) -> None:
        """Make the open transaction fail, as an error in it does in PostgreSQL."""
        if self.in_transaction(session):
            self._sessions[session].run("SELECT 1 / 0")

    # Subscription commands ------------------------------------------------------------------------

    def _command(self, query: PsqlQuery, session: str) -> str:
        """What psql prints for a subscription's command; an open transaction fails with it."""
        command = self._with_real_conninfo(subscription_grammar.parse(query))
        if any(other in self._blocks for other in self._sessions if other != session):
            raise refusal("a subscription command beside another session's open transaction with one")
        printed: list[str] = []
        if self.in_transaction(session):
            if self._sessions[session].transaction_failed:
                return self._run_statement(query.text, session)  # prints PostgreSQL's error for it
            printed.append(self._run_in_block(command, session, printed.append))
            return "\n".join(printed)
        try:
            printed.append(run_command(self._target, command, self._settings, printed.append))
        except SubscriberError as error:
            printed.append(error.report())
        self._engine.change_version()
        self._engine.start()
        return "\n".join(printed)

    def _run_in_block(self, command: SessionCommand, session: str, notify: Notify) -> str:
        if session not in self._blocks:
            self._blocks[session] = Block(self._target, self._settings)
        block = self._blocks[session]
        try:
            return block.run(command, notify)
        finally:
            if not block.changed:  # the transaction has failed, and may continue from a savepoint
                del self._blocks[session]
                block.close()

    def _with_real_conninfo(self, command: subscription_grammar.Command) -> SessionCommand:
        if isinstance(command, Select | PublicationCommand | subscription_grammar.TruncateTables):
            raise refusal("this command")
        if not isinstance(command, subscription_grammar.CreateSubscription | subscription_grammar.AlterConnection):
            return command
        if command.server is not None:
            real = ""
        else:
            real = self._resolve(command.conninfo)
            self._typed_conninfo[real] = command.conninfo
        if isinstance(command, subscription_grammar.CreateSubscription) and self._carrier is not None:
            options = dataclasses.replace(command.options, carrier=self._carrier)
            return dataclasses.replace(command, conninfo=real, options=options)
        return dataclasses.replace(command, conninfo=real)

    def _end_block(self, session: str, printed: str) -> str:
        """Run or discard the subscription commands of a transaction that has ended."""
        block = self._blocks.pop(session, None)
        if block is None:
            return printed
        try:
            if printed.splitlines()[-1:] == ["COMMIT"]:
                block.commit()
        except SubscriberError as error:
            return error.report()
        finally:
            block.close()
            self._engine.change_version()
            self._engine.start()
        return printed

    # Leaving --------------------------------------------------------------------------------------

    def _end_prepared(self) -> None:
        """Roll back the target's prepared transactions: their locks would prevent DROP TABLE."""
        if self._target.prepared is None:
            return
        with self._target.reporting(), self._target.engine.connect() as connection:
            names = self._target.prepared.names(connection)
        for gid in names:
            if self._database.is_target or gid.startswith(_GID_PREFIX):
                self._target.prepared.finish(gid, commit=False)

    def _drop_subscriptions(self) -> None:
        with self._target.reporting(), self._target.engine.connect() as connection:
            subscriptions = list_subscriptions(connection)
        for subscription in subscriptions:
            command = subscription_grammar.DropSubscription(subscription.name, if_exists=True, cascade=False)
            try:
                run_command(self._target, command, self._settings, lambda _: None)
            except PublisherError:
                # The publisher was dropped first, with the slot. Another publisher with its name
                # starts with a new journal.
                remove_journal(subscription, self._settings)
                with self._target.begin() as connection:
                    delete_subscription(connection, subscription.name)

    def _drop_catalog(self) -> None:
        if self._drops_catalog:
            with self._target.reporting():
                CATALOG.drop_all(self._target.engine)


def _make_catalog(target: Target) -> bool:
    """Create the catalog's tables, and return whether they did not exist before."""
    with target.reporting():
        there = sa.inspect(target.engine).has_table(SUBSCRIPTION.name)
        ensure_catalog(target.engine)
        with target.engine.connect() as connection:
            if list_subscriptions(connection):
                raise UsageError(
                    "the target has subscriptions already", hint="A session would run them too; use another database."
                )
    return not there

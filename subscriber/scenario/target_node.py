r"""A subscriber node on our own engine: PostgreSQL's psql in front, any database behind.

::

    CREATE/ALTER/DROP SUBSCRIPTION or PUBLICATION ──▶ our commands ──▶ catalog in the target ◀── engine (a thread)
    every other statement, and \d ──▶ the mirror: refill, run, write back (subscriber.scenario.mirror)
                                      while nothing is applied

What would tell about the mirror instead of the subscriber is refused, so that no answer is wrong: the catalogs and functions of
replication, statistics and WAL, triggers that fire for replicated rows, prepared transactions, and two transactions at once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from typing import Any, Final

import sqlalchemy as sa

from subscriber.apply.progress import STATE
from subscriber.errors import NotSupportedError, PublisherError, SQLSyntaxError, SubscriberError, UsageError
from subscriber.pipeline.query import StartQuery
from subscriber.scenario.engine import Engine
from subscriber.scenario.mirror import Mirror
from subscriber.scenario.nodes import Node, ResolveConninfo
from subscriber.scenario.postgresql import PostgreSQL
from subscriber.scenario.psql import PsqlSession
from subscriber.scenario.typed import cut, is_backslash_command
from subscriber.settings import Settings
from subscriber.subscription import catalog
from subscriber.subscription.commands import create_subscription, drop_subscription, remove_journal
from subscriber.subscription.grammar import Command, CreateSubscription, DropSubscription, parse
from subscriber.subscription.lexer import Kind, lex
from subscriber.target import Target, open_target

_OURS: Final = frozenset({"subscription", "publication"})
_VERBS: Final = frozenset({"create", "alter", "drop"})
_ABOUT: Final = frozenset({"comment", "security"})

_ENGINES: Final = re.compile(
    r"\bpg_(?:subscription|publication|replication_|stat_|logical_|prepared_xact|current_wal|current_xact_id"
    r"|get_publication|show_replication_|xact_commit_timestamp|last_committed_xact)\w*",
    re.IGNORECASE,
)
"""Catalogs and functions that would tell what the mirror does."""
_SHOWS_REPLICATION: Final = re.compile(r"\\dR")

_PREPARED: Final = (("prepare", "transaction"), ("commit", "prepared"), ("rollback", "prepared"))
_WRITES: Final = frozenset({"insert", "update", "delete", "merge", "copy", "do", "call", "execute", "with"})
_RESHAPES: Final = frozenset({"create", "alter", "drop", "truncate"})
_BELOW_A_TABLE: Final = (" row)", " rows)")
_ENDS: Final = frozenset({"commit", "end", "rollback", "abort"})


class TargetNode(Node):
    """See the module.

    Args:
        name: of the node and of its mirror's database.
        url: SQLAlchemy's URL of the target, in which there is no subscription and none of the session's tables.
        server: where the mirror is made.
        resolve: finds the real connection string.
        start_query: starts a subscription's query (``functools.partial(ApplyQuery, spark)``).
        settings: of the engine; the walreceivers read theirs from the environment.
        patience: seconds that a statement may take.

    Raises:
        UsageError: the target has subscriptions already, which would run too.
    """

    def __init__(
        self,
        name: str,
        url: str | sa.URL,
        server: PostgreSQL,
        resolve: ResolveConninfo,
        start_query: StartQuery,
        settings: Settings,
        patience: float,
    ) -> None:
        self.name = name
        self._resolve = resolve
        self._settings = settings
        self._patience = patience
        self._server = server
        self._sessions: dict[str, PsqlSession] = {}
        self._written: set[str] = set()
        """The first words of the statements of the open transaction, or of the last statement."""
        self._target = open_target(url)
        try:
            self._made_catalog = _make_catalog(self._target)
            self._engine = Engine(name, self._target, start_query, settings)
            self._mirror = Mirror(name, server, self._target, self._engine.note_change)
        except BaseException:
            self._target.close()
            raise

    def run(self, text: str, session: str = "") -> str:
        """See :meth:`Node.run`.

        Raises:
            SubscriberError: the target could not follow what was done in the mirror; the node is of no use any more.
        """
        if is_backslash_command(text):
            if _SHOWS_REPLICATION.match(text.lstrip()):
                return _refusal(text.split(maxsplit=1)[0]).report()
            return self._run_on_mirror(text, session)
        printed = [self._run(query.text, session) for query in cut(text)]
        # psql prints an empty line below a table.
        return "".join(f"{one}\n\n" if one.endswith(_BELOW_A_TABLE) else f"{one}\n" for one in printed if one).rstrip(
            "\n"
        )

    def in_transaction(self, session: str) -> bool:
        """See :meth:`Node.in_transaction`."""
        return session in self._sessions and self._sessions[session].in_transaction

    def settle(self, patience: float) -> None:
        """See :meth:`Node.settle`."""
        self._engine.settle(patience)

    def state(self) -> str:
        """See :meth:`Node.state`."""
        return self._engine.state()

    def close(self) -> None:
        """See :meth:`Node.close`: slots, journals, tables, the catalog's if it was not there, and the mirror."""
        with contextlib.ExitStack() as steps:
            # In reverse order, each whatever the others do.
            steps.callback(self._target.close)
            steps.callback(self._drop_catalog)
            steps.callback(self._mirror.close)
            steps.callback(self._drop_subscriptions)
            steps.callback(self._engine.close)
            for session in self._sessions.values():
                steps.callback(session.close)

    # Statements -----------------------------------------------------------------------------------

    def _run(self, text: str, session: str) -> str:
        words = _words(text)
        try:
            if words[:1] and words[0] in _VERBS and words[1:2] and words[1] in _OURS:
                return self._command(text, words, session)
            self._check(text, words, session)
        except SubscriberError as error:
            self._fail_transaction(session)
            return error.report()
        return self._run_on_mirror(text, session, words[0] if words else "")

    def _check(self, text: str, words: list[str], session: str) -> None:
        """Refuse what would have a wrong answer, or effect."""
        if found := _ENGINES.search(text):
            raise _refusal(found[0])
        if words[:1] and words[0] in _ABOUT and _OURS & set(words):
            raise _refusal(f"{words[0].upper()} ON a subscription or publication")
        if tuple(words[:2]) in _PREPARED:
            raise _refusal(" ".join(words[:2]).upper())
        if _enables_for_replica(words):
            raise _refusal("a trigger or rule that fires for replicated rows")
        if any(other.in_transaction for name, other in self._sessions.items() if name != session):
            raise _refusal("a statement beside another session's open transaction")
        if self.in_transaction(session) and words[:1] and words[0] not in _ENDS and self._mirror.is_stale():
            raise _refusal("a statement in a transaction during which rows have been replicated")

    def _run_on_mirror(self, text: str, session: str, first_word: str = "") -> str:
        if session not in self._sessions:
            self._sessions[session] = PsqlSession(self._mirror.conninfo, lambda: self._server.psql, self._patience)
        psql = self._sessions[session]
        undone: SubscriberError | None = None
        with self._engine.at_rest(self._patience):
            if not psql.in_transaction:
                self._mirror.refill()
                self._written = set()
            self._written.add(first_word)
            try:
                printed = psql.run(text)
            finally:
                # Also of a statement that was cancelled, and of a transaction that was lost with its connection.
                if not psql.in_transaction:
                    reshaping = bool(self._written & _RESHAPES) and not self._written & _WRITES
                    undone = self._mirror.write_back(reshaping=reshaping)
        return printed if undone is None else undone.report()

    def _fail_transaction(self, session: str) -> None:
        """An error ends the transaction that it happens in."""
        if self.in_transaction(session):
            self._sessions[session].run("SELECT 1 / 0")

    # Subscription commands ----------------------------------------------------------------------------

    def _command(self, text: str, words: list[str], session: str) -> str:
        """What psql prints for CREATE, ALTER and DROP of a subscription or publication."""
        if self.in_transaction(session):
            name = " ".join(words[:2]).upper()
            options = " ... WITH (create_slot = true)" if words[0] == "create" else ""
            raise UsageError(f"{name}{options} cannot run inside a transaction block", sqlstate="25001")
        printed: list[str] = []
        try:
            printed.append(self._carry_out(parse(text), printed.append))
        except SubscriberError as error:
            printed.append(error.report())
        self._engine.note_change()
        self._engine.start()
        return "\n".join(printed)

    def _carry_out(self, command: Command, notify: Any) -> str:
        match command:
            case CreateSubscription():
                resolved = dataclasses.replace(command, conninfo=self._resolve(command.conninfo))
                create_subscription(self._target, resolved, notify)
                return "CREATE SUBSCRIPTION"
            case DropSubscription():
                drop_subscription(self._target, command, self._settings, notify)
                return "DROP SUBSCRIPTION"
            case _:
                raise _refusal("this command")

    # Leaving ----------------------------------------------------------------------------------------

    def _drop_subscriptions(self) -> None:
        with self._target.reporting(), self._target.engine.connect() as connection:
            subscriptions = catalog.list_subscriptions(connection)
        for subscription in subscriptions:
            command = DropSubscription(subscription.name, if_exists=True, cascade=False)
            try:
                drop_subscription(self._target, command, self._settings, lambda _: None)
            except PublisherError:
                # The publisher is gone already, and has taken the slot with it. The next one of that name begins anew.
                remove_journal(subscription, self._settings)
                with self._target.begin() as connection:
                    catalog.delete_subscription(connection, subscription.name)

    def _drop_catalog(self) -> None:
        if self._made_catalog:
            with self._target.reporting():
                for metadata in (catalog.CATALOG, STATE):
                    metadata.drop_all(self._target.engine)


def _make_catalog(target: Target) -> bool:
    """The catalog's tables, which must be empty; tells whether they were not there."""
    with target.reporting():
        there = sa.inspect(target.engine).has_table(catalog.SUBSCRIPTION.name)
        catalog.ensure_catalog(target.engine)
        with target.engine.connect() as connection:
            if catalog.list_subscriptions(connection):
                raise UsageError(
                    "the target has subscriptions already", hint="A session would run them too; use another database."
                )
    return not there


def _words(text: str) -> list[str]:
    """The bare words of a statement, folded; none where it cannot be read, which the server will say."""
    try:
        return [lexeme.value for lexeme in lex(text) if lexeme.kind is Kind.WORD]
    except SQLSyntaxError:
        return []


def _enables_for_replica(words: list[str]) -> bool:
    """ENABLE REPLICA TRIGGER, ENABLE ALWAYS RULE."""
    return any(
        first == "enable" and second in ("replica", "always") and third in ("trigger", "rule")
        for first, second, third in zip(words, words[1:], words[2:], strict=False)
    )


def _refusal(what: str) -> NotSupportedError:
    return NotSupportedError(
        f"{what} is not supported on this subscriber",
        detail="A session's statements run in a PostgreSQL database beside the target, which does not replicate.",
    )

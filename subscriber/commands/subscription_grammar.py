"""The commands of ``subscriber sql``, in PostgreSQL's grammar.

::

    CREATE SUBSCRIPTION name { CONNECTION 'conninfo' | SERVER name } PUBLICATION name [, ...]
        [CONFLICT RESOLVER (conflict_type = resolver [, ...])] [WITH (option [= value] [, ...])]
    ALTER SUBSCRIPTION name { CONNECTION 'conninfo' | SERVER name }
    ALTER SUBSCRIPTION name { SET | ADD | DROP } PUBLICATION name [, ...]
        [WITH (option [= value] [, ...])]
    ALTER SUBSCRIPTION name REFRESH PUBLICATION [WITH (option [= value] [, ...])]
    ALTER SUBSCRIPTION name REFRESH SEQUENCES
    ALTER SUBSCRIPTION name REFRESH TABLE name [, ...]
    ALTER SUBSCRIPTION name RECREATE SLOT [WITH (option [= value] [, ...])]
    ALTER SUBSCRIPTION name { ENABLE | DISABLE }
    ALTER SUBSCRIPTION name SET (option [= value] [, ...])
    ALTER SUBSCRIPTION name [SET] CONFLICT RESOLVER (conflict_type = resolver [, ...])
    ALTER SUBSCRIPTION name RESET CONFLICT RESOLVER { ALL | FOR 'conflict_type' }
    ALTER SUBSCRIPTION name SKIP (lsn = { 'X/Y' | NONE })
    ALTER SUBSCRIPTION name OWNER TO role
    ALTER SUBSCRIPTION name RENAME TO name
    DROP SUBSCRIPTION [IF EXISTS] name [CASCADE | RESTRICT]
    TRUNCATE [TABLE] name [, ...] [{ RESTART | CONTINUE } IDENTITY] [RESTRICT]
    SELECT ...

and the commands of :mod:`subscriber.postgres.publication.publication_grammar` and
:mod:`subscriber.commands.server_grammar`.

A command is understood completely, or refused with PostgreSQL's text and SQLSTATE; a valid one that
this version cannot execute with "not supported yet". The options of ALTER SUBSCRIPTION are stored
as written: PostgreSQL looks for the subscription before it reads them, so its error comes first.

*Rejected:* sqlglot's parser, which keeps commands that it does not know as text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from subscriber.base.errors import NotSupportedError
from subscriber.catalog.subscription_options import NOTHING_GIVEN, SubscriptionOptions, parse_options
from subscriber.commands import server_grammar
from subscriber.postgres.publication import publication_grammar as publications
from subscriber.postgres.publication.publication_statements import PublicationCommand, RelationName
from subscriber.postgres.sql.cursor import (
    Cursor,
    read_name,
    read_names,
    read_options,
    read_role,
    read_with,
    second_command,
)
from subscriber.postgres.sql.lexer import Kind, Lexed, error_of, scan
from subscriber.postgres.sql.option_list import OptionList

# Commands as data ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateSubscription:
    name: str
    conninfo: str = field(repr=False)  # may hold a password
    publications: tuple[str, ...]
    options: SubscriptionOptions
    server: str | None = None
    """The foreign server that has the connection string; ``conninfo`` is empty then."""


@dataclass(frozen=True, slots=True)
class DropSubscription:
    """``cascade`` has no effect, as in PostgreSQL: nothing depends on a subscription."""

    name: str
    if_exists: bool
    cascade: bool


@dataclass(frozen=True, slots=True)
class AlterConnection:
    name: str
    conninfo: str = field(repr=False)  # may hold a password
    server: str | None = None


@dataclass(frozen=True, slots=True)
class AlterPublications:
    name: str
    action: Literal["set", "add", "drop"]
    publications: tuple[str, ...]
    options: OptionList


@dataclass(frozen=True, slots=True)
class RefreshPublication:
    name: str
    options: OptionList


@dataclass(frozen=True, slots=True)
class RefreshSequences:
    name: str


@dataclass(frozen=True, slots=True)
class RefreshTables:
    """The tables by the publisher's names."""

    name: str
    tables: tuple[RelationName, ...]


@dataclass(frozen=True, slots=True)
class RecreateSlot:
    name: str
    options: OptionList


@dataclass(frozen=True, slots=True)
class AlterEnabled:
    name: str
    enabled: bool


@dataclass(frozen=True, slots=True)
class AlterOptions:
    name: str
    options: OptionList


@dataclass(frozen=True, slots=True)
class SetResolvers:
    name: str
    resolvers: OptionList


@dataclass(frozen=True, slots=True)
class ResetResolvers:
    """``conflict_type`` is None for all."""

    name: str
    conflict_type: str | None


@dataclass(frozen=True, slots=True)
class AlterSkip:
    name: str
    options: OptionList


@dataclass(frozen=True, slots=True)
class AlterOwner:
    """``owner`` is None for the current role (CURRENT_USER and its synonyms)."""

    name: str
    owner: str | None


@dataclass(frozen=True, slots=True)
class RenameSubscription:
    name: str
    new_name: str


@dataclass(frozen=True, slots=True)
class TruncateTables:
    """The tables by the publisher's names."""

    tables: tuple[RelationName, ...]
    restart_identity: bool


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT for the target, in the target's SQL dialect, without its semicolon."""

    sql: str


AlterSubscription = (
    AlterConnection
    | AlterPublications
    | RefreshPublication
    | RefreshSequences
    | RefreshTables
    | RecreateSlot
    | AlterEnabled
    | AlterOptions
    | SetResolvers
    | ResetResolvers
    | AlterSkip
    | AlterOwner
    | RenameSubscription
)
SubscriptionCommand = CreateSubscription | AlterSubscription | DropSubscription
Command = SubscriptionCommand | PublicationCommand | server_grammar.ServerCommand | TruncateTables | Query


# Parsing ------------------------------------------------------------------------------------------


UNDERSTOOD: Final = (
    "The supported commands are CREATE, ALTER and DROP of SUBSCRIPTION, PUBLICATION, SERVER and USER MAPPING,"
    " TRUNCATE, and SELECT."
)


def parse(text: str | Lexed) -> Command:
    """Parse one command; a semicolon may end it. SQLSyntaxError has PostgreSQL's text and SQLSTATE,
    and the position in its detail; NotSupportedError: the command is not one of this version.
    """
    lexed = scan(text) if isinstance(text, str) else text
    cursor = Cursor(lexed)
    if cursor.accept("select"):
        return _select(lexed)
    first = cursor.peek()
    if cursor.at_end() or cursor.at(";"):
        raise cursor.error()
    for words, read in _COMMANDS.items():
        if cursor.accept(*words):
            return read(cursor)
    if first.value in _FIRST_WORDS:
        cursor.place += 1
    if cursor.suggestion() is not None:
        raise cursor.error()
    word = f' "{first.value}"' if first.kind is Kind.WORD else ""
    raise NotSupportedError(f"unsupported command{word}", hint=UNDERSTOOD)


def _create_subscription(cursor: Cursor) -> CreateSubscription:
    name = read_name(cursor)
    conninfo, server = "", None
    if cursor.accept("server"):
        server = read_name(cursor)
    else:
        cursor.expect("connection")
        conninfo = cursor.take(Kind.STRING).value
    cursor.expect("publication")
    publications = read_names(cursor)
    resolvers = read_options(cursor) if cursor.accept("conflict", "resolver") else NOTHING_GIVEN
    given = read_with(cursor)
    cursor.end()
    return CreateSubscription(name, conninfo, publications, parse_options(given, name, resolvers), server)


def _drop_subscription(cursor: Cursor) -> DropSubscription:
    if_exists = cursor.accept("if", "exists")
    name = read_name(cursor)
    cascade = cursor.accept("cascade")
    if not cascade:
        cursor.accept("restrict")
    cursor.end()
    return DropSubscription(name, if_exists, cascade)


# ALTER SUBSCRIPTION -------------------------------------------------------------------------------


def _alter_subscription(cursor: Cursor) -> AlterSubscription:
    name = read_name(cursor)
    for word, read in _ALTER_FORMS.items():
        if cursor.accept(word):
            command = read(cursor, name)
            cursor.end()
            return command
    raise cursor.error()


def _connection(cursor: Cursor, name: str) -> AlterConnection:
    return AlterConnection(name, cursor.take(Kind.STRING).value)


def _set(cursor: Cursor, name: str) -> AlterPublications | AlterOptions | SetResolvers:
    if cursor.accept("conflict"):
        return _resolvers(cursor, name)
    return _publications(cursor, name, "set") if cursor.at("publication") else AlterOptions(name, read_options(cursor))


def _resolvers(cursor: Cursor, name: str) -> SetResolvers:
    cursor.expect("resolver")
    return SetResolvers(name, read_options(cursor))


def _reset(cursor: Cursor, name: str) -> ResetResolvers:
    cursor.expect("conflict", "resolver")
    if cursor.accept("all"):
        return ResetResolvers(name, None)
    cursor.expect("for")
    return ResetResolvers(name, cursor.take(Kind.STRING).value)


def _publications(cursor: Cursor, name: str, action: Literal["set", "add", "drop"]) -> AlterPublications:
    cursor.expect("publication")
    return AlterPublications(name, action, read_names(cursor), read_with(cursor))


def _refresh(cursor: Cursor, name: str) -> RefreshPublication | RefreshSequences | RefreshTables:
    if cursor.accept("sequences"):
        return RefreshSequences(name)
    if cursor.accept("table"):
        return RefreshTables(name, _tables(cursor))
    cursor.expect("publication")
    return RefreshPublication(name, read_with(cursor))


def _tables(cursor: Cursor) -> tuple[RelationName, ...]:
    tables = [publications.read_relation_name(cursor)]
    while cursor.accept(","):
        tables.append(publications.read_relation_name(cursor))
    return tuple(tables)


def _recreate(cursor: Cursor, name: str) -> RecreateSlot:
    cursor.expect("slot")
    return RecreateSlot(name, read_with(cursor))


def _owner(cursor: Cursor, name: str) -> AlterOwner:
    cursor.expect("to")
    return AlterOwner(name, read_role(cursor))


def _rename(cursor: Cursor, name: str) -> RenameSubscription:
    cursor.expect("to")
    return RenameSubscription(name, read_name(cursor))


_ALTER_FORMS: Final[Mapping[str, Callable[[Cursor, str], AlterSubscription]]] = {
    "connection": _connection,
    "server": lambda cursor, name: AlterConnection(name, "", read_name(cursor)),
    "set": _set,
    "add": lambda cursor, name: _publications(cursor, name, "add"),
    "drop": lambda cursor, name: _publications(cursor, name, "drop"),
    "refresh": _refresh,
    "recreate": _recreate,
    "enable": lambda _, name: AlterEnabled(name, enabled=True),
    "disable": lambda _, name: AlterEnabled(name, enabled=False),
    "conflict": _resolvers,
    "reset": _reset,
    "skip": lambda cursor, name: AlterSkip(name, read_options(cursor)),
    "owner": _owner,
    "rename": _rename,
}
"""The parsers of what follows the name, by its first word."""

# TRUNCATE -----------------------------------------------------------------------------------------


def _truncate(cursor: Cursor) -> TruncateTables:
    cursor.accept("table")
    if cursor.at("only"):
        raise NotSupportedError(
            "TRUNCATE ONLY is not supported", hint="Tables that inherit are never truncated; leave ONLY out."
        )
    tables = _tables(cursor)
    restart = cursor.accept("restart", "identity")
    if not restart:
        cursor.accept("continue", "identity")
    if cursor.accept("cascade"):
        raise NotSupportedError(
            "TRUNCATE ... CASCADE is not supported",
            detail="It would empty tables that no subscription fills.",
            hint="Name the tables that refer to these tables, too.",
        )
    cursor.accept("restrict")
    cursor.end()
    return TruncateTables(tables, restart)


_COMMANDS: Final[Mapping[tuple[str, ...], Callable[[Cursor], Command]]] = {
    ("create", "subscription"): _create_subscription,
    ("alter", "subscription"): _alter_subscription,
    ("drop", "subscription"): _drop_subscription,
    ("truncate",): _truncate,
    **publications.COMMANDS,
    **server_grammar.COMMANDS,
}
_FIRST_WORDS: Final = frozenset(words[0] for words in _COMMANDS)


# SELECT -------------------------------------------------------------------------------------------


def _select(lexed: Lexed) -> Query:
    """The query without the semicolon that ends it; the target interprets the rest."""
    sql, lexemes = lexed.sql, lexed.lexemes
    if not lexemes[-1].terminated and (fault := lexemes[-1].fault):
        raise error_of(sql, fault)
    ends = [lexeme.kind is Kind.SYMBOL and lexeme.value == ";" for lexeme in lexemes]
    end = ends.index(True) if True in ends else len(ends)
    if not all(ends[end:]):
        raise second_command()
    return Query(sql[lexemes[0].start : lexemes[end - 1].end])

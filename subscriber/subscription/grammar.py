"""The commands of ``subscriber sql``, in PostgreSQL's grammar.

::

    CREATE SUBSCRIPTION name CONNECTION 'conninfo' PUBLICATION name [, ...] [WITH (option [= value] [, ...])]
    DROP SUBSCRIPTION [IF EXISTS] name [CASCADE | RESTRICT]
    SELECT ...

A command is understood completely or refused: with PostgreSQL's text and SQLSTATE where it is wrong,
with "not supported yet" where it is right and this version cannot do it. sqlglot's own parser is of no
use here: it keeps commands that it does not know as text, and that is what must not happen.

Two forms that PostgreSQL parses are syntax errors here, since no option accepts what they mean: an
option's value that is a type with more to it than a name (``numeric(10,2)``, ``a.b``, ``int``, ``x[]``),
and one that is an operator. The connection string is kept as it is; libpq reads it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlglot import Token

from subscriber.errors import NotSupportedError, SQLSyntaxError, UsageError
from subscriber.subscription.keywords import COLUMN_NAMES, RESERVED, TYPE_OR_FUNCTION_NAMES
from subscriber.subscription.lexer import Kind, Lexeme, lex, syntax_error, tokenize, unexpected
from subscriber.subscription.options import (
    Option,
    OptionValue,
    SubscriptionOptions,
    check_supported,
    parse_options,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CreateSubscription:
    """CREATE SUBSCRIPTION, checked: all of it can be done."""

    name: str
    conninfo: str = field(repr=False)  # may hold a password
    publications: tuple[str, ...]
    options: SubscriptionOptions


@dataclass(frozen=True, slots=True)
class DropSubscription:
    """DROP SUBSCRIPTION; ``cascade`` changes nothing, as in PostgreSQL, since nothing depends on a subscription."""

    name: str
    if_exists: bool
    cascade: bool


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT for the target, in the target's own SQL, without its semicolon."""

    sql: str


Command = CreateSubscription | DropSubscription | Query

UNDERSTOOD: Final = "Understood are CREATE SUBSCRIPTION, DROP SUBSCRIPTION and SELECT."


def parse(sql: str) -> Command:
    """Read one command; a semicolon may end it.

    Raises:
        SQLSyntaxError: it does not parse, with PostgreSQL's text (``syntax error at or near "…"``) and
            SQLSTATE; the detail says where.
        UsageError: options or publications that exclude each other (C54).
        NotSupportedError: it is no command of ours, or asks for what this version does not do.
    """
    tokens = tokenize(sql)
    if tokens and _text(sql, tokens[0]).lower() == "select":
        return _select(sql, tokens)
    cursor = _Cursor(sql, lex(sql))
    first = cursor.peek()
    if first is None or cursor.at(";"):
        raise cursor.error()
    for verb, kind in _COMMANDS:
        if cursor.accept(verb, kind):
            return _COMMANDS[verb, kind](cursor)
    word = f' "{first.value}"' if first.kind is Kind.WORD else ""
    raise NotSupportedError(f"unsupported command{word}", hint=UNDERSTOOD)


class _Cursor:
    """The lexemes of a command and how far it has been read."""

    def __init__(self, sql: str, lexemes: tuple[Lexeme, ...]) -> None:
        self.sql = sql
        self._lexemes = lexemes
        self._next = 0

    def peek(self, ahead: int = 0) -> Lexeme | None:
        place = self._next + ahead
        return self._lexemes[place] if place < len(self._lexemes) else None

    def error(self) -> SQLSyntaxError:
        return unexpected(self.sql, self.peek())

    def take(self, *kinds: Kind) -> Lexeme:
        lexeme = self.peek()
        if lexeme is None or lexeme.kind not in kinds:
            raise self.error()
        self._next += 1
        return lexeme

    def at(self, *words: str) -> bool:
        """Whether these words and symbols come next."""
        for ahead, word in enumerate(words):
            lexeme = self.peek(ahead)
            if lexeme is None or lexeme.kind not in (Kind.WORD, Kind.SYMBOL) or lexeme.value != word:
                return False
        return True

    def accept(self, *words: str) -> bool:
        """Read these words and symbols if they come next."""
        found = self.at(*words)
        self._next += len(words) if found else 0
        return found

    def expect(self, word: str) -> None:
        if not self.accept(word):
            raise self.error()

    def end(self) -> None:
        """Nothing but semicolons may follow.

        Raises:
            SQLSyntaxError: more of this command, or a second one.
        """
        if self.peek() is not None and not self.at(";"):
            raise self.error()
        while self.accept(";"):
            pass
        if self.peek() is not None:
            raise _second_command()


# Commands -----------------------------------------------------------------------------------------


def _create_subscription(cursor: _Cursor) -> CreateSubscription:
    name = _name(cursor)
    cursor.expect("connection")
    conninfo = cursor.take(Kind.STRING).value
    cursor.expect("publication")
    publications = [_name(cursor)]
    while cursor.accept(","):
        publications.append(_name(cursor))
    given = _option_list(cursor) if cursor.accept("with") else []
    cursor.end()
    options = parse_options(cursor.sql, given, default_slot_name=name)
    _check_publications(publications)
    check_supported(options)
    return CreateSubscription(name, conninfo, tuple(publications), options)


def _check_publications(publications: list[str]) -> None:
    for place, publication in enumerate(publications):
        if publication in publications[:place]:
            raise UsageError(f'publication name "{publication}" used more than once', sqlstate="42710")


def _drop_subscription(cursor: _Cursor) -> DropSubscription:
    if_exists = cursor.accept("if", "exists")
    name = _name(cursor)
    cascade = cursor.accept("cascade")
    if not cascade:
        cursor.accept("restrict")
    cursor.end()
    return DropSubscription(name, if_exists, cascade)


def _alter_subscription(cursor: _Cursor) -> Command:
    _name(cursor)
    for words in _ALTER_FORMS:
        if cursor.accept(*words):
            form = " ".join(words).upper().replace("(", "(…)")
            raise NotSupportedError(f"ALTER SUBSCRIPTION … {form} is not supported yet", hint=UNDERSTOOD)
    if any(cursor.at(words[0]) for words in _ALTER_FORMS):
        cursor.take(Kind.WORD)
    raise cursor.error()


_ALTER_FORMS: Final = (
    ("connection",),
    ("set", "publication"),
    ("set", "("),
    ("add", "publication"),
    ("drop", "publication"),
    ("refresh", "publication"),
    ("refresh", "sequences"),
    ("enable",),
    ("disable",),
    ("skip", "("),
    ("owner", "to"),
    ("rename", "to"),
)


def _create_publication(_: _Cursor) -> Command:
    raise NotSupportedError("CREATE PUBLICATION is not supported yet", hint=UNDERSTOOD)


def _alter_publication(_: _Cursor) -> Command:
    raise NotSupportedError("ALTER PUBLICATION is not supported yet", hint=UNDERSTOOD)


def _drop_publication(_: _Cursor) -> Command:
    raise NotSupportedError("DROP PUBLICATION is not supported yet", hint=UNDERSTOOD)


_COMMANDS: Final = {
    ("create", "subscription"): _create_subscription,
    ("alter", "subscription"): _alter_subscription,
    ("drop", "subscription"): _drop_subscription,
    ("create", "publication"): _create_publication,
    ("alter", "publication"): _alter_publication,
    ("drop", "publication"): _drop_publication,
}


def _select(sql: str, tokens: Sequence[Token]) -> Query:
    """The query without what ends it. Only where tokens begin and end counts: their meaning is the target's."""
    texts = [_text(sql, token) for token in tokens]
    end = texts.index(";") if ";" in texts else len(texts)
    if any(text != ";" for text in texts[end:]):
        raise _second_command()
    return Query(sql[tokens[0].start : tokens[end - 1].end + 1])


def _text(sql: str, token: Token) -> str:
    return sql[token.start : token.end + 1]


def _second_command() -> SQLSyntaxError:
    message = "cannot insert multiple commands into a prepared statement"
    return SQLSyntaxError(message, hint="Give one command at a time.")


# Pieces ---------------------------------------------------------------------------------------------


def _name(cursor: _Cursor) -> str:
    """ColId: a quoted identifier, or a word that is neither reserved nor a type or function name."""
    lexeme = cursor.peek()
    if lexeme and lexeme.kind is Kind.WORD and lexeme.value in RESERVED | TYPE_OR_FUNCTION_NAMES:
        raise cursor.error()
    return _identifier(cursor)


def _identifier(cursor: _Cursor) -> str:
    """ColLabel: any word or quoted identifier, cut to 63 bytes as PostgreSQL does (it says so in a NOTICE)."""
    lexeme = cursor.take(Kind.WORD, Kind.IDENTIFIER)
    if not lexeme.value:
        raise syntax_error(cursor.sql, lexeme.start, 'zero-length delimited identifier at or near """"')
    identifier = lexeme.value.encode()[:63].decode(errors="ignore")
    if identifier != lexeme.value:
        logger.warning('identifier "%s" will be truncated to "%s"', lexeme.value, identifier)
    return identifier


def _option_list(cursor: _Cursor) -> list[Option]:
    cursor.expect("(")
    options = [_option(cursor)]
    while cursor.accept(","):
        options.append(_option(cursor))
    cursor.expect(")")
    return options


def _option(cursor: _Cursor) -> Option:
    place = cursor.peek()
    name = _identifier(cursor)
    value = _option_value(cursor) if cursor.accept("=") else None
    return Option(name, value, place.start if place else 0)


def _option_value(cursor: _Cursor) -> OptionValue:
    """def_arg: a word, a quoted identifier, a string, a signed number."""
    lexeme = cursor.peek()
    if lexeme and lexeme.kind is Kind.STRING:
        return cursor.take(Kind.STRING).value
    if lexeme and lexeme.kind in (Kind.WORD, Kind.IDENTIFIER):
        if lexeme.kind is Kind.WORD and lexeme.value in COLUMN_NAMES - {"none"}:
            raise cursor.error()
        return _identifier(cursor)
    sign = "-" if cursor.accept("-") else ""
    if not sign:
        cursor.accept("+")
    return _number(sign + cursor.take(Kind.NUMBER).value)


def _number(text: str) -> OptionValue:
    """An integer of 32 bits as one, any other number as it was written (Float)."""
    digits = text.removeprefix("-")
    if not (digits.isdigit() or digits[:2].lower() in ("0x", "0b")):
        return text
    number = int(text, 10 if digits.isdigit() else 0)
    return number if abs(number) < 2**31 else text

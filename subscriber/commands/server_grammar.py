"""The commands for foreign servers and user mappings, in PostgreSQL's grammar.

::

    CREATE EXTENSION [IF NOT EXISTS] postgres_fdw
    CREATE FOREIGN DATA WRAPPER name [NO HANDLER] [NO VALIDATOR]
    CREATE SERVER [IF NOT EXISTS] name [TYPE 'type'] [VERSION 'version']
        FOREIGN DATA WRAPPER name [OPTIONS (name 'value' [, ...])]
    ALTER SERVER name [VERSION 'version'] [OPTIONS ([ADD | SET | DROP] name ['value'] [, ...])]
    ALTER SERVER name RENAME TO name
    CREATE USER MAPPING [IF NOT EXISTS] FOR user SERVER name [OPTIONS (...)]
    ALTER USER MAPPING FOR user SERVER name OPTIONS (...)
    DROP USER MAPPING [IF EXISTS] FOR user SERVER name
    DROP { EXTENSION | FOREIGN DATA WRAPPER | SERVER } [IF EXISTS] name [, ...] [CASCADE | RESTRICT]

    user   role | USER | CURRENT_ROLE | CURRENT_USER | SESSION_USER | PUBLIC
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from subscriber.base.errors import NotSupportedError, UsageError
from subscriber.postgres.sql.cursor import Cursor, read_label, read_name, read_names, read_role
from subscriber.postgres.sql.lexer import Kind

Given = tuple[tuple[str, str], ...]
"""Options as they were written: names and values."""
Change = tuple[Literal["add", "set", "drop"], str, str]
ObjectKind = Literal["extension", "foreign-data wrapper", "server"]


@dataclass(frozen=True, slots=True)
class CreateExtension:
    name: str
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class CreateWrapper:
    name: str


@dataclass(frozen=True, slots=True)
class CreateServer:
    name: str
    wrapper: str
    options: Given = field(repr=False)
    type: str | None
    version: str | None
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class AlterServer:
    name: str
    changes: tuple[Change, ...] = field(repr=False)
    version: str | None


@dataclass(frozen=True, slots=True)
class RenameServer:
    name: str
    new_name: str


@dataclass(frozen=True, slots=True)
class CreateUserMapping:
    """``user`` is None for the current role, and the empty text for PUBLIC."""

    user: str | None
    server: str
    options: Given = field(repr=False)
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class AlterUserMapping:
    user: str | None
    server: str
    changes: tuple[Change, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class DropUserMapping:
    user: str | None
    server: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class DropForeignObjects:
    kind: ObjectKind
    names: tuple[str, ...]
    if_exists: bool
    cascade: bool


ServerCommand = (
    CreateExtension
    | CreateWrapper
    | CreateServer
    | AlterServer
    | RenameServer
    | CreateUserMapping
    | AlterUserMapping
    | DropUserMapping
    | DropForeignObjects
)


def is_server_command(words: Sequence[str]) -> bool:
    """Whether a statement that begins with these words is one of these commands."""
    is_one = any(tuple(words[: len(first)]) == first for first in COMMANDS)
    return is_one and (words[1] != "extension" or "postgres_fdw" in words)


def _create_extension(cursor: Cursor) -> CreateExtension:
    if_not_exists = cursor.accept("if", "not", "exists")
    return CreateExtension(read_name(cursor), if_not_exists)


def _create_wrapper(cursor: Cursor) -> CreateWrapper:
    name = read_name(cursor)
    while cursor.accept("no"):
        if not cursor.accept_any("handler", "validator", "connection"):
            raise cursor.error()
    if cursor.at_any("handler", "validator", "connection", "options"):
        raise NotSupportedError(
            "CREATE FOREIGN DATA WRAPPER with functions or options is not supported",
            hint="CREATE EXTENSION postgres_fdw; its servers can be used by subscriptions.",
        )
    return CreateWrapper(name)


def _create_server(cursor: Cursor) -> CreateServer:
    if_not_exists = cursor.accept("if", "not", "exists")
    name = read_name(cursor)
    kind = cursor.take(Kind.STRING).value if cursor.accept("type") else None
    version = _version(cursor)
    cursor.expect("foreign", "data", "wrapper")
    return CreateServer(name, read_name(cursor), _options(cursor), kind, version, if_not_exists)


def _alter_server(cursor: Cursor) -> AlterServer | RenameServer:
    name = read_name(cursor)
    if cursor.accept("rename"):
        cursor.expect("to")
        return RenameServer(name, read_name(cursor))
    if cursor.accept("owner"):
        cursor.expect("to")
        read_role(cursor)
        raise NotSupportedError("ALTER SERVER … OWNER TO is not supported", detail="subscriber has no roles.")
    version = _version(cursor)
    if version is None or cursor.at("options"):
        return AlterServer(name, _changes(cursor), version)
    return AlterServer(name, (), version)


def _version(cursor: Cursor) -> str | None:
    return cursor.take(Kind.STRING).value if cursor.accept("version") else None


def _create_mapping(cursor: Cursor) -> CreateUserMapping:
    if_not_exists = cursor.accept("if", "not", "exists")
    return CreateUserMapping(*_of(cursor), _options(cursor), if_not_exists)


def _alter_mapping(cursor: Cursor) -> AlterUserMapping:
    return AlterUserMapping(*_of(cursor), _changes(cursor))


def _drop_mapping(cursor: Cursor) -> DropUserMapping:
    if_exists = cursor.accept("if", "exists")
    return DropUserMapping(*_of(cursor), if_exists)


def _of(cursor: Cursor) -> tuple[str | None, str]:
    """``FOR user SERVER name``."""
    cursor.expect("for")
    user = None if cursor.accept("user") else read_role(cursor)
    cursor.expect("server")
    return "" if user == "public" else user, read_name(cursor)


def _drop(kind: ObjectKind) -> Callable[[Cursor], DropForeignObjects]:
    def read(cursor: Cursor) -> DropForeignObjects:
        if_exists = cursor.accept("if", "exists")
        names = read_names(cursor)
        cascade = cursor.accept("cascade")
        if not cascade:
            cursor.accept("restrict")
        return DropForeignObjects(kind, names, if_exists, cascade)

    return read


# Options ------------------------------------------------------------------------------------------


def _options(cursor: Cursor) -> Given:
    if not cursor.accept("options"):
        return ()
    given = [(read_label(cursor), cursor.take(Kind.STRING).value) for _ in _elements(cursor)]
    for place, (name, _) in enumerate(given):
        if any(name == other for other, _ in given[:place]):
            raise UsageError(f'option "{name}" provided more than once', sqlstate="42710")
    return tuple(given)


def _changes(cursor: Cursor) -> tuple[Change, ...]:
    cursor.expect("options")
    return tuple(_change(cursor) for _ in _elements(cursor))


def _change(cursor: Cursor) -> Change:
    if cursor.accept("drop"):
        return "drop", read_label(cursor), ""
    action: Literal["add", "set"] = "set" if cursor.accept("set") else "add"
    if action == "add":
        cursor.accept("add")
    return action, read_label(cursor), cursor.take(Kind.STRING).value


def _elements(cursor: Cursor) -> Iterator[None]:
    """Read the parentheses and commas of a list; the loop's body reads each element."""
    cursor.expect("(")
    yield
    while cursor.accept(","):
        yield
    cursor.expect(")")


_COMMANDS: Final[Mapping[tuple[str, ...], Callable[[Cursor], ServerCommand]]] = {
    ("create", "extension"): _create_extension,
    ("create", "foreign", "data", "wrapper"): _create_wrapper,
    ("create", "server"): _create_server,
    ("alter", "server"): _alter_server,
    ("create", "user", "mapping"): _create_mapping,
    ("alter", "user", "mapping"): _alter_mapping,
    ("drop", "user", "mapping"): _drop_mapping,
    ("drop", "extension"): _drop("extension"),
    ("drop", "foreign", "data", "wrapper"): _drop("foreign-data wrapper"),
    ("drop", "server"): _drop("server"),
}


def _ended(read: Callable[[Cursor], ServerCommand]) -> Callable[[Cursor], ServerCommand]:
    def command(cursor: Cursor) -> ServerCommand:
        found = read(cursor)
        cursor.end()
        return found

    return command


COMMANDS: Final = {words: _ended(read) for words, read in _COMMANDS.items()}

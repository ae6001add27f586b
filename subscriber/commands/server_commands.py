"""CREATE, ALTER and DROP of foreign servers, their wrappers and user mappings, and the server of a
subscription (PostgreSQL 19's CREATE SUBSCRIPTION … SERVER).

The only wrapper that connects is postgres_fdw, which CREATE EXTENSION makes known. Its servers and
mappings take libpq's parameters, as PostgreSQL's validator lets them. A subscriber has no roles:
the only one is the target's user (:func:`subscriber.catalog.foreign_servers.current_user`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import sqlalchemy as sa

from subscriber.base.errors import NotSupportedError, UsageError
from subscriber.base.suggestions import perhaps
from subscriber.catalog import foreign_servers
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.foreign_servers import MAPPINGS, POSTGRES_FDW, SERVERS, ForeignServer, UserMapping
from subscriber.catalog.own_tables import FOREIGN_DATA_WRAPPER, FOREIGN_SERVER
from subscriber.catalog.rows import change_rows, delete_rows, matching
from subscriber.commands import server_grammar as grammar
from subscriber.commands.notices import Notify, notice, warning
from subscriber.targets import Target

_EXISTS: Final = "42710"
_MISSING: Final = "42704"


def find_server(target: Target, connection: sa.Connection, name: str) -> ForeignServer:
    """The server that a subscription names: of the catalog, or of a PostgreSQL target."""
    server = foreign_servers.find_server(connection, name, in_target=target.cluster is not None)
    return server or _get_server(connection, name)


def warn_without_mapping(connection: sa.Connection, server: ForeignServer, notify: Notify) -> bool:
    """Whether the server of a subscription has a user mapping; a WARNING says that it has none.
    NotSupportedError: the server's wrapper does not connect subscriptions.
    """
    mapped = foreign_servers.has_mapping(connection, server)
    if not mapped:
        warning(notify, foreign_servers.missing_mapping(foreign_servers.current_user(connection), server.name))
    foreign_servers.check_connects(connection, server)
    return mapped


def run_server_command(target: Target, command: grammar.ServerCommand, notify: Notify) -> str:
    """Execute a command, and return its tag."""
    with target.reporting():
        ensure_catalog(target.engine)
    with target.begin() as connection:
        match command:
            case grammar.CreateExtension():
                _create_extension(connection, command, notify)
                return "CREATE EXTENSION"
            case grammar.CreateWrapper():
                if _has_wrapper(connection, command.name):
                    raise UsageError(f'foreign-data wrapper "{command.name}" already exists', sqlstate=_EXISTS)
                _insert_wrapper(connection, command.name)
                return "CREATE FOREIGN DATA WRAPPER"
            case grammar.CreateServer():
                _create_server(connection, command, notify)
                return "CREATE SERVER"
            case grammar.AlterServer():
                _alter_server(connection, command)
                return "ALTER SERVER"
            case grammar.RenameServer():
                _rename_server(connection, command)
                return "ALTER SERVER"
            case grammar.CreateUserMapping():
                _create_mapping(connection, command, notify)
                return "CREATE USER MAPPING"
            case grammar.AlterUserMapping():
                _alter_mapping(connection, command)
                return "ALTER USER MAPPING"
            case grammar.DropUserMapping():
                _drop_mapping(connection, command, notify)
                return "DROP USER MAPPING"
            case grammar.DropForeignObjects():
                _drop(connection, command, notify)
                return f"DROP {command.kind.replace('-', ' ').upper()}"


# Wrappers -----------------------------------------------------------------------------------------


def _create_extension(connection: sa.Connection, command: grammar.CreateExtension, notify: Notify) -> None:
    if command.name != POSTGRES_FDW:
        raise NotSupportedError(
            f'extension "{command.name}" is not available', hint=f"The only extension here is {POSTGRES_FDW}."
        )
    if _has_wrapper(connection, POSTGRES_FDW):
        message = f'extension "{POSTGRES_FDW}" already exists'
        if not command.if_not_exists:
            raise UsageError(message, sqlstate=_EXISTS)
        notice(notify, f"{message}, skipping")
        return
    _insert_wrapper(connection, POSTGRES_FDW)


def _insert_wrapper(connection: sa.Connection, name: str) -> None:
    row = {"fdwname": name, "fdwconnects": name == POSTGRES_FDW}
    connection.execute(sa.insert(FOREIGN_DATA_WRAPPER).values(row))


def _has_wrapper(connection: sa.Connection, name: str) -> bool:
    query = sa.select(FOREIGN_DATA_WRAPPER).where(matching(FOREIGN_DATA_WRAPPER, fdwname=name))
    return connection.execute(query).one_or_none() is not None


# Servers ------------------------------------------------------------------------------------------


def _get_server(connection: sa.Connection, name: str) -> ForeignServer:
    server = foreign_servers.find_server(connection, name)
    if server is None:
        raise UsageError(f'server "{name}" does not exist', sqlstate=_MISSING)
    return server


def _create_server(connection: sa.Connection, command: grammar.CreateServer, notify: Notify) -> None:
    if foreign_servers.find_server(connection, command.name) is not None:
        if not command.if_not_exists:
            raise UsageError(f'server "{command.name}" already exists', sqlstate=_EXISTS)
        notice(notify, f'server "{command.name}" already exists, skipping')
        return
    if not _has_wrapper(connection, command.wrapper):
        raise UsageError(f'foreign-data wrapper "{command.wrapper}" does not exist', sqlstate=_MISSING)
    _check_options(command.wrapper, [name for name, _ in command.options], foreign_servers.SERVER_OPTIONS)
    oid = 1 + (connection.execute(sa.select(sa.func.max(FOREIGN_SERVER.c.oid))).scalar_one() or 0)
    server = ForeignServer(oid, command.name, command.wrapper, dict(command.options), command.type, command.version)
    SERVERS.insert(connection, [server])


def _alter_server(connection: sa.Connection, command: grammar.AlterServer) -> None:
    server = _get_server(connection, command.name)
    options = _changed(server.options, command.changes)
    _check_options(server.wrapper, options, foreign_servers.SERVER_OPTIONS)
    SERVERS.write(connection, replace(server, options=options, version=command.version or server.version))
    foreign_servers.change_subscriptions(connection, server.oid)


def _rename_server(connection: sa.Connection, command: grammar.RenameServer) -> None:
    server = _get_server(connection, command.name)
    if foreign_servers.find_server(connection, command.new_name) is not None:
        raise UsageError(f'server "{command.new_name}" already exists', sqlstate=_EXISTS)
    change_rows(connection, matching(FOREIGN_SERVER, oid=server.oid), FOREIGN_SERVER, srvname=command.new_name)
    foreign_servers.change_subscriptions(connection, server.oid)


# User mappings ------------------------------------------------------------------------------------


def _user(connection: sa.Connection, user: str | None) -> str:
    current = foreign_servers.current_user(connection)
    if user not in (None, current, foreign_servers.PUBLIC):
        raise UsageError(
            f'role "{user}" does not exist',
            sqlstate=_MISSING,
            detail=f'subscriber has no roles: changes are applied as "{current}".',
            hint="Create the mapping for CURRENT_USER.",
        )
    return current if user is None else user


def _create_mapping(connection: sa.Connection, command: grammar.CreateUserMapping, notify: Notify) -> None:
    user = _user(connection, command.user)
    server = _get_server(connection, command.server)
    if MAPPINGS.find(connection, umserver=server.oid, umuser=user) is not None:
        message = f'user mapping for "{user or "public"}" already exists for server "{server.name}"'
        if not command.if_not_exists:
            raise UsageError(message, sqlstate=_EXISTS)
        notice(notify, f"{message}, skipping")
        return
    _check_options(server.wrapper, [name for name, _ in command.options], foreign_servers.MAPPING_OPTIONS)
    MAPPINGS.insert(connection, [UserMapping(server.oid, user, dict(command.options))])
    foreign_servers.change_subscriptions(connection, server.oid)


def _alter_mapping(connection: sa.Connection, command: grammar.AlterUserMapping) -> None:
    user = _user(connection, command.user)
    server = _get_server(connection, command.server)
    mapping = MAPPINGS.find(connection, umserver=server.oid, umuser=user)
    if mapping is None:
        raise UsageError(_no_mapping(user, server.name), sqlstate=_MISSING)
    options = _changed(mapping.options, command.changes)
    _check_options(server.wrapper, options, foreign_servers.MAPPING_OPTIONS)
    MAPPINGS.write(connection, replace(mapping, options=options))
    foreign_servers.change_subscriptions(connection, server.oid)


def _drop_mapping(connection: sa.Connection, command: grammar.DropUserMapping, notify: Notify) -> None:
    user = _user(connection, command.user)
    server = foreign_servers.find_server(connection, command.server)
    if server is None:
        if not command.if_exists:
            _get_server(connection, command.server)
        notice(notify, f'server "{command.server}" does not exist, skipping')
        return
    if not delete_rows(connection, MAPPINGS.table, umserver=server.oid, umuser=user):
        if not command.if_exists:
            raise UsageError(_no_mapping(user, server.name), sqlstate=_MISSING)
        notice(notify, f"{_no_mapping(user, server.name)}, skipping")
        return
    foreign_servers.change_subscriptions(connection, server.oid)


def _no_mapping(user: str, server: str) -> str:
    return f'user mapping for "{user or "public"}" does not exist for server "{server}"'


# DROP ---------------------------------------------------------------------------------------------


def _drop(connection: sa.Connection, command: grammar.DropForeignObjects, notify: Notify) -> None:
    """Drop wrappers or servers. 2BP01: other objects depend on them; a subscription always."""
    dropped = [name for name in command.names if _is_there(connection, command, name, notify)]
    is_server = command.kind == "server"
    wrappers = [] if is_server else dropped
    servers = [
        one
        for one in SERVERS.select(connection, FOREIGN_SERVER.c.oid)
        if one.name in dropped or one.wrapper in wrappers
    ]
    above = servers if not is_server else []
    dependents = [f"server {one.name} depends on foreign-data wrapper {one.wrapper}" for one in above]
    cascaded = [f"server {one.name}" for one in above]
    for server in servers:
        for name in foreign_servers.dependent_subscriptions(connection, server.oid):
            raise UsageError(
                f"cannot drop server {server.name} because subscription {name} depends on it", sqlstate="2BP01"
            )
        for mapping in sorted(MAPPINGS.select(connection, umserver=server.oid), key=_is_public):
            what = f"user mapping for {mapping.user or 'public'} on server {server.name}"
            dependents.append(f"{what} depends on server {server.name}")
            cascaded.append(what)
    if dependents and not command.cascade:
        raise UsageError(
            f"cannot drop {_objects(command.kind, dropped)} because other objects depend on {'it' if len(dropped) == 1 else 'them'}",
            sqlstate="2BP01",
            detail="\n".join(dependents),
            hint="Use DROP ... CASCADE to drop the dependent objects too.",
        )
    _tell_cascaded(notify, cascaded)
    for server in servers:
        delete_rows(connection, MAPPINGS.table, umserver=server.oid)
        delete_rows(connection, FOREIGN_SERVER, oid=server.oid)
    for name in wrappers:
        delete_rows(connection, FOREIGN_DATA_WRAPPER, fdwname=name)


def _is_public(mapping: UserMapping) -> bool:
    return mapping.user == foreign_servers.PUBLIC


def _is_there(connection: sa.Connection, command: grammar.DropForeignObjects, name: str, notify: Notify) -> bool:
    if command.kind == "server":
        found = foreign_servers.find_server(connection, name) is not None
    else:
        found = _has_wrapper(connection, name) and (command.kind != "extension" or name == POSTGRES_FDW)
    if found:
        return True
    message = f'{command.kind} "{name}" does not exist'
    if not command.if_exists:
        raise UsageError(message, sqlstate=_MISSING)
    notice(notify, f"{message}, skipping")
    return False


def _objects(kind: str, names: Sequence[str]) -> str:
    return f"{kind} {names[0]}" if len(names) == 1 else "desired object(s)"


def _tell_cascaded(notify: Notify, cascaded: Sequence[str]) -> None:
    if len(cascaded) == 1:
        notice(notify, f"drop cascades to {cascaded[0]}")
    elif cascaded:
        lines = "\n".join(f"drop cascades to {one}" for one in cascaded)
        notify(f"NOTICE:  drop cascades to {len(cascaded)} other objects\nDETAIL:  {lines}")


# Options ------------------------------------------------------------------------------------------


def _changed(options: foreign_servers.Options, changes: Iterable[grammar.Change]) -> dict[str, str]:
    changed = dict(options)
    for action, name, value in changes:
        if (action == "add") == (name in changed):
            message = f'option "{name}" provided more than once' if action == "add" else f'option "{name}" not found'
            raise UsageError(message, sqlstate=_EXISTS if action == "add" else _MISSING)
        if action == "drop":
            del changed[name]
        else:
            changed[name] = value
    return changed


def _check_options(wrapper: str, names: Iterable[str], known: Iterable[str]) -> None:
    """As postgres_fdw_validator; another wrapper has none."""
    if wrapper != POSTGRES_FDW:
        return
    valid = frozenset(known)
    for name in names:
        if name not in valid:
            raise UsageError(f'invalid option "{name}"', sqlstate="HV00D", hint=perhaps("option", name, sorted(valid)))

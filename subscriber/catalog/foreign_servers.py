"""Foreign servers and user mappings, from which a subscription with SERVER takes its connection
string (PostgreSQL 19).

::

    subscriber_subscription.subserver ──▶ subscriber_foreign_server  host, port, dbname, …  ┐
                                    └───▶ subscriber_user_mapping    user, password, …      ┴─▶ connection string

A PostgreSQL target has foreign servers of its own, and a subscription may name one of them. Its
number is the server's oid, which is at least
:data:`FIRST_NORMAL_OID`; the catalog's numbers are smaller.
It is read each time, so what is altered there takes effect as it does here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import sqlalchemy as sa

from subscriber.base.errors import NotSupportedError, UsageError
from subscriber.catalog.catalog_version import change_version
from subscriber.catalog.own_tables import FOREIGN_DATA_WRAPPER, FOREIGN_SERVER, SUBSCRIPTION, USER_MAPPING
from subscriber.catalog.rows import RowMapper
from subscriber.postgres.types.oids import FIRST_NORMAL_OID

POSTGRES_FDW: Final = "postgres_fdw"
PUBLIC: Final = ""
"""The user of the mapping for PUBLIC."""

Options = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ForeignServer:
    oid: int
    name: str
    wrapper: str
    options: Options = field(default_factory=dict)
    type: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class UserMapping:
    """``user`` is :data:`PUBLIC`, or the name of a role."""

    server: int
    user: str
    options: Options = field(repr=False)  # may have a password


SERVERS: Final = RowMapper(
    FOREIGN_SERVER,
    ForeignServer,
    name="srvname",
    wrapper="srvfdw",
    options="srvoptions",
    type="srvtype",
    version="srvversion",
)
MAPPINGS: Final = RowMapper(USER_MAPPING, UserMapping, server="umserver", user="umuser", options="umoptions")


def current_user(connection: sa.Connection) -> str:
    """The role for which a mapping is looked up: the target's user. A target without users has the
    name of PostgreSQL's first superuser.
    """
    return connection.engine.url.username or "postgres"


def find_server(connection: sa.Connection, name: str, *, in_target: bool = False) -> ForeignServer | None:
    """A server of the catalog; with ``in_target`` else of the target, which is PostgreSQL then."""
    found = SERVERS.find(connection, srvname=name)
    return found or (_servers_of_target(connection, "srvname = :sought", name) if in_target else None)


def server_name(connection: sa.Connection, oid: int) -> str | None:
    found = _server(connection, oid)
    return None if found is None else found.name


def connects(connection: sa.Connection, server: ForeignServer) -> bool:
    """Whether the server's wrapper supports the connections of subscriptions."""
    if server.oid >= FIRST_NORMAL_OID:
        return server.wrapper == POSTGRES_FDW
    wrapper = FOREIGN_DATA_WRAPPER.c
    query = sa.select(wrapper.fdwconnects).where(wrapper.fdwname == server.wrapper)
    return bool(connection.execute(query).scalar_one_or_none())


def server_conninfo(connection: sa.Connection, server: ForeignServer) -> str:
    """The connection string of a subscription with this server.

    Raises:
        UsageError: 42704, there is no user mapping.
        NotSupportedError: the server's wrapper does not connect subscriptions.
    """
    check_connects(connection, server)
    mapping = _mapping(connection, server.oid)
    if mapping is None:
        raise UsageError(missing_mapping(current_user(connection), server.name), sqlstate="42704")
    return _conninfo({**server.options, **mapping})


def has_mapping(connection: sa.Connection, server: ForeignServer) -> bool:
    return _mapping(connection, server.oid) is not None


def check_connects(connection: sa.Connection, server: ForeignServer) -> None:
    """NotSupportedError: the server's wrapper does not connect subscriptions."""
    if not connects(connection, server):
        raise NotSupportedError(
            f'foreign-data wrapper "{server.wrapper}" does not support subscription connections',
            detail="Foreign-data wrapper must be defined with CONNECTION specified.",
        )


def stored_conninfo(connection: sa.Connection, oid: int) -> str | None:
    """The connection string of the server with this number; None without a user mapping."""
    server = _server(connection, oid)
    mapping = _mapping(connection, oid)
    return None if server is None or mapping is None else _conninfo({**server.options, **mapping})


def missing_mapping(user: str, server: str) -> str:
    return f'user mapping not found for user "{user}", server "{server}"'


def change_subscriptions(connection: sa.Connection, oid: int) -> None:
    """Let the workers of the subscriptions with this server read its connection again."""
    table = SUBSCRIPTION.c
    for subid in connection.execute(sa.select(table.subid).where(table.subserver == oid)).scalars().all():
        change_version(connection, subid)


def dependent_subscriptions(connection: sa.Connection, oid: int) -> list[str]:
    table = SUBSCRIPTION.c
    query = sa.select(table.subname).where(table.subserver == oid).order_by(table.subname)
    return list(connection.execute(query).scalars())


def _server(connection: sa.Connection, oid: int) -> ForeignServer | None:
    if oid < FIRST_NORMAL_OID:
        return SERVERS.find(connection, oid=oid)
    return _servers_of_target(connection, "s.oid = :sought", oid)


def _mapping(connection: sa.Connection, oid: int) -> Options | None:
    """The options of the current user's mapping, else of that of PUBLIC; None if there is none."""
    if oid >= FIRST_NORMAL_OID:
        query = sa.text(
            "SELECT umoptions FROM pg_catalog.pg_user_mappings"
            " WHERE srvid = :oid AND (usename = current_user OR umuser = 0) ORDER BY umuser = 0 LIMIT 1"
        )
        row = connection.execute(query, {"oid": oid}).one_or_none()
        return None if row is None else _from_array(row.umoptions)
    users = (current_user(connection), PUBLIC)
    found = {one.user: one.options for one in MAPPINGS.select(connection, umserver=oid) if one.user in users}
    return next((found[user] for user in users if user in found), None)


def _servers_of_target(connection: sa.Connection, condition: str, sought: object) -> ForeignServer | None:
    query = sa.text(
        "SELECT s.oid::int8 AS oid, srvname, fdwname, srvoptions FROM pg_catalog.pg_foreign_server s"
        f" JOIN pg_catalog.pg_foreign_data_wrapper w ON w.oid = srvfdw WHERE {condition}"
    )
    row = connection.execute(query, {"sought": sought}).one_or_none()
    return None if row is None else ForeignServer(row.oid, row.srvname, row.fdwname, _from_array(row.srvoptions))


def _from_array(options: list[str] | None) -> Options:
    """The options that PostgreSQL stores as ``name=value``."""
    return dict(one.split("=", 1) for one in options or ())


# Options of postgres_fdw --------------------------------------------------------------------------

_OF_USERS: Final = frozenset(
    {"user", "password", "passfile", "sslcert", "sslkey", "sslpassword", "sslcertmode", "gssdelegation"}
)
_OF_SERVERS: Final = frozenset(
    (
        *("host", "hostaddr", "port", "dbname", "service", "servicefile", "connect_timeout", "application_name"),
        *("options", "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout"),
        *("sslmode", "sslnegotiation", "sslrootcert", "sslcrl", "sslcrldir", "sslsni", "sslcompression"),
        *("ssl_min_protocol_version", "ssl_max_protocol_version", "requirepeer", "require_auth", "channel_binding"),
        *("krbsrvname", "gsslib", "gssencmode", "target_session_attrs", "load_balance_hosts"),
        *("min_protocol_version", "max_protocol_version"),
    )
)
_OF_TABLES: Final = frozenset(
    (
        *("use_remote_estimate", "fdw_startup_cost", "fdw_tuple_cost", "extensions", "updatable", "truncatable"),
        *("fetch_size", "batch_size", "async_capable", "parallel_commit", "parallel_abort", "analyze_sampling"),
        *("keep_connections", "use_scram_passthrough"),
    )
)
"""Options of servers for foreign tables; a subscription has no use for them."""
SERVER_OPTIONS: Final = _OF_SERVERS | _OF_TABLES | (_OF_USERS - {"user", "password", "passfile"})
MAPPING_OPTIONS: Final = _OF_USERS | {"password_required", "use_scram_passthrough"}


def _conninfo(options: Options) -> str:
    return " ".join(f"{name}={_quoted(value)}" for name, value in options.items() if name in _OF_SERVERS | _OF_USERS)


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"

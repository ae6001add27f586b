"""Connection strings of the publisher. Every connection takes its own from :func:`session_conninfo`
or :func:`replication_conninfo`, and calls :func:`check_session`. No error reveals a password.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, Final

from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import ProgrammingError

from subscriber.base.errors import PublisherNotReady, PublisherUnavailable, UsageError
from subscriber.base.password_command import command_password
from subscriber.base.settings import UNREADABLE_CONNINFO, redact_conninfo

SESSION_SETTINGS: Final = {
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "extra_float_digits": "3",
    "timezone": "UTC",
    "bytea_output": "hex",
}
"""The settings that the text form of values depends on. The first three are those of PostgreSQL's
own subscriber.
"""

_CLIENT_ENCODING: Final = "UTF8"
_REPORTED: Final = ("DateStyle", "IntervalStyle", "TimeZone", "client_encoding")
"""Those of the settings that a server reports to its client (ParameterStatus)."""

_CONNECT_TIMEOUT_SECONDS: Final = "10"
_DEFAULT_PORT: Final = "5432"


def session_conninfo(conninfo: str, application_name: str) -> str:
    """With our settings and the password command's password (PublisherUnavailable: it fails)."""
    given = check_conninfo(conninfo)
    given.pop("replication", None)  # as in PostgreSQL's subscriber, which sets this parameter itself
    password = command_password(given, PublisherUnavailable)
    if password is not None:
        given["password"] = password
    options = " ".join(f"-c {name}={value}" for name, value in SESSION_SETTINGS.items())
    defaults = {"connect_timeout": _CONNECT_TIMEOUT_SECONDS, "fallback_application_name": application_name}
    return make_conninfo(
        "",
        **{
            **defaults,
            **given,
            "client_encoding": _CLIENT_ENCODING,
            "options": f"{given.get('options') or ''} {options}".strip(),
        },
    )


def replication_conninfo(conninfo: str, application_name: str) -> str:
    """As :func:`session_conninfo`, for replication. The empty search_path gives names in values,
    such as those of regclass, their schema, as in PostgreSQL's walreceiver.
    """
    session = session_conninfo(conninfo, application_name)
    options = f"{conninfo_to_dict(session)['options']} -c search_path="
    return make_conninfo(session, replication="database", options=options)


def check_session(reported: Callable[[str], str | None]) -> None:
    """Refuse a session that would send values in another form, because a setting is not ours."""
    asked = {**SESSION_SETTINGS, "client_encoding": _CLIENT_ENCODING}
    for name in _REPORTED:
        value, wanted = reported(name), asked[name.lower()]
        # DateStyle is "ISO, MDY"; the second word is about input only.
        if value is None or value.split(",")[0] != wanted:
            variable = _OVERRIDING.get(name, "")
            overridden = bool(os.environ.get(variable))
            raise PublisherNotReady(
                f'the session has {name} "{value or ""}", although "{wanted}" was asked for',
                detail=f"The environment variable {variable} is stronger than what this program asks for."
                if overridden
                else 'The startup parameter "options" did not reach the server.',
                hint=f"Unset {variable} in the environment of this program." if overridden else _POOLER_HINT,
            )


_OVERRIDING: Final = {"DateStyle": "PGDATESTYLE", "TimeZone": "PGTZ"}
"""libpq's environment variables that the server takes after ``options``."""
_POOLER_HINT: Final = (
    "The likely cause is a pooler in front of the server: PgBouncer drops what its ignore_startup_parameters names."
    " Let the subscription's CONNECTION name host and port of the server itself: a replication connection needs it."
)


def check_conninfo(conninfo: str) -> dict[str, Any]:
    """The parameters of a connection string. 42601: it is none; libpq's reason hides passwords."""
    try:
        given = conninfo_to_dict(conninfo)
    except ProgrammingError as error:
        reason = _harmless(conninfo, str(error).strip())
        raise UsageError(
            f"invalid connection string syntax{reason and f': {reason}'}",
            sqlstate="42601",
            hint="Use libpq's form: 'host=… port=… dbname=… user=…', or a postgresql:// URI.",
        ) from None
    if conninfo.startswith(("postgresql://", "postgres://")) and redact_conninfo(conninfo) == UNREADABLE_CONNINFO:
        # libpq would use the rest of a password as a host, a port or a database, and show it in its
        # error messages.
        raise UsageError(
            "invalid connection string syntax: it is ambiguous where its password ends",
            sqlstate="42601",
            hint='Write "@" as %40, "/" as %2F, ":" as %3A and "?" as %3F inside the parts of a postgresql:// URI.',
        )
    return given


def at_host(conninfo: str, host: str, address: str, port: str) -> str:
    """The connection string with one host in place of all that it names."""
    return make_conninfo(conninfo, host=host, hostaddr="" if host.startswith("/") else address, port=port)


def hosts_of(conninfo: str) -> dict[str, str]:
    """A connection string for each host that the user's names, by ``host:port``. They say nothing
    of the state that a server must have (``target_session_attrs``).

    >>> list(hosts_of("host=a,b port=5432 user=u target_session_attrs=primary"))
    ['a:5432', 'b:5432']
    """
    given = check_conninfo(conninfo)
    hosts, addresses, ports = (str(given.pop(name, None) or "").split(",") for name in ("host", "hostaddr", "port"))
    for name in ("target_session_attrs", "load_balance_hosts"):
        given.pop(name, None)
    rest, found = make_conninfo("", **given), {}
    for number in range(max(len(hosts), len(addresses))):
        host, address, port = (words[number if len(words) > 1 else 0] for words in (hosts, addresses, ports))
        found[f"{host or address or 'localhost'}:{port or _DEFAULT_PORT}"] = at_host(rest, host, address, port)
    return found


def names_any_server(conninfo: str) -> bool:
    """Whether it names several hosts, and not which is wanted (``target_session_attrs``)."""
    given = conninfo_to_dict(conninfo)
    hosts = max(str(given.get(name) or "").count(",") for name in ("host", "hostaddr"))
    return hosts > 0 and (given.get("target_session_attrs") or "any") == "any"


def wants_standby(conninfo: str) -> bool:
    return conninfo_to_dict(conninfo).get("target_session_attrs") in ("standby", "prefer-standby", "read-only")


ANY_SERVER: Final = "CONNECTION names several hosts without target_session_attrs"
"""The warning for a string that :func:`names_any_server`."""
ANY_SERVER_HINT: Final = (
    "A connection may then lead to a standby, or to a server that was the primary before a failover."
    " Add target_session_attrs=primary: ALTER SUBSCRIPTION … CONNECTION '…'."
)


def _harmless(conninfo: str, reason: str) -> str:
    """libpq's reason, without words that may be part of a password.

    The word that libpq quotes may be the rest of a password with a space, or the whole URI. It is
    shown only if it looks like a name and no password was given.
    """
    for before, after in _QUOTING_REASONS:
        if reason.startswith(before) and reason.endswith(after):
            word = reason[len(before) : len(reason) - len(after)]
            harmless = _NAME.fullmatch(word) is not None and _SECRET.search(conninfo) is None
            return f"{before}{word if harmless else '…'}{after}"
    return "" if '"' in reason else reason


_QUOTING_REASONS: Final = (
    ('missing "=" after "', '" in connection info string'),
    ('invalid connection option "', '"'),
)
"""libpq's reasons that quote one word. The reasons about URIs quote more than a word."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET: Final = re.compile("pass|secret|:", re.IGNORECASE)

"""What the publisher's server says, as an error of this project: its class depends on whether a
retry may succeed, and its hint says what to change where the server's does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import psycopg

from subscriber.errors import PublisherError, PublisherNotReady, PublisherUnavailable, SlotInUse

UNREADABLE_TEXT: Final = "a text of the publisher cannot be read as UTF8"
_UNREADABLE: Final = frozenset({"22021", "22P05"})


def is_unreadable_text(sqlstate: str) -> bool:
    """Whether the server found bytes in a value that are invalid in its encoding. Such a message
    shows the bytes.
    """
    return sqlstate in _UNREADABLE


def server_error(message: str, sqlstate: str, *, detail: str | None = None, hint: str | None = None) -> PublisherError:
    """A server's error as a PublisherError; its class depends on whether a retry may succeed."""
    if is_unreadable_text(sqlstate):
        message = message if UNREADABLE_TEXT in message else UNREADABLE_TEXT
        detail, hint = (
            None,
            "Correct the value at the publisher; a database of encoding SQL_ASCII accepts any bytes as text.",
        )
    if sqlstate == "55006":
        kind: type[PublisherError] = SlotInUse
        hint = (
            hint
            or "Another receiver streams from this slot. Stop it, or wait until the server has noticed that it has ended."
        )
    elif sqlstate[:2] in ("08", "57", "53", "XX", "58"):
        # A retry may succeed after errors of these classes: connection, operator intervention
        # (shutdown), resources, internal and system errors.
        kind = PublisherUnavailable
    else:
        kind = PublisherNotReady
        if sqlstate == _INSUFFICIENT_PRIVILEGE:
            hint = hint or _hint_for(message, _PRIVILEGES)
    return kind(message, sqlstate=sqlstate, detail=detail, hint=hint)


_INSUFFICIENT_PRIVILEGE: Final = "42501"
_SLOTS_HINT: Final = (
    "Run at the publisher, as a superuser: ALTER ROLE … REPLICATION, with the user of the subscription's CONNECTION."
)
_PRIVILEGES: Final = {
    "permission denied to use replication slots": _SLOTS_HINT,
    "must be superuser or replication role to use replication slots": _SLOTS_HINT,  # before 16
    "permission denied for table": "Run at the publisher: GRANT SELECT ON TABLE … TO the user of the subscription's CONNECTION.",
    "permission denied for relation": "Run at the publisher: GRANT SELECT ON TABLE … TO the user of the subscription's CONNECTION.",  # in 10
    "permission denied for schema": "Run at the publisher: GRANT USAGE ON SCHEMA … TO the user of the subscription's CONNECTION.",
}
"""The server's messages about missing privileges, and the hint for each."""


def error_of(error: psycopg.Error) -> PublisherError:
    """An error of an ordinary connection as a PublisherError."""
    diag = error.diag
    return server_error(
        diag.message_primary or str(error), error.sqlstate or "", detail=diag.message_detail, hint=diag.message_hint
    )


def connection_refused(reason: str, role: str = "") -> PublisherError:
    """The error for a failed connection: transient if the server may become available again,
    otherwise definite.

    libpq gives no SQLSTATE for a connection that failed, so its text decides. A text in another
    language, or one that is not known, counts as transient: the connection is tried again.

    Args:
        reason: libpq's error message.
        role: the role that tried to connect, where it is known.
    """
    lasting = _hint_for(reason, _LASTING_REASONS)
    hint = lasting or _hint_for(reason, _PASSING_REASONS) or _CONNECTING_HINT
    named = f'"{role}"' if role else "… (the user of the subscription's CONNECTION)"
    kind = PublisherUnavailable if lasting is None else PublisherNotReady
    error = kind(f"could not connect to the publisher: {reason}", sqlstate="08006", hint=hint.format(role=named))
    error.refused = reason
    return error


def _hint_for(message: str, hints: Mapping[str, str]) -> str | None:
    """The hint of the first text in ``hints`` that the server's message contains."""
    return next((hint for text, hint in hints.items() if text in message), None)


_CONNECTING_HINT: Final = "Check host, port, dbname, user and password of the subscription's CONNECTION, and that the server accepts replication connections."
_REPLICATION_HINT: Final = "Run at the publisher, as a superuser: ALTER ROLE {role} REPLICATION;"
_LASTING_REASONS: Final = {
    "permission denied to start WAL sender": _REPLICATION_HINT,
    "must be superuser or replication role to start walsender": _REPLICATION_HINT,  # before 16
    "is not permitted to log in": "Run at the publisher: ALTER ROLE {role} LOGIN;",
    "permission denied for database": "Run at the publisher: GRANT CONNECT ON DATABASE … TO {role}, with the dbname of the subscription's CONNECTION.",
    "no pg_hba.conf entry": "Add a line to pg_hba.conf of the publisher for this host, user and database, then: SELECT pg_reload_conf();",
    "password authentication failed": _CONNECTING_HINT,
    "does not exist": _CONNECTING_HINT,
    "no password supplied": _CONNECTING_HINT,
    "definition of service": _CONNECTING_HINT,
}
"""Reasons that last until somebody changes something, and what to change."""
_PASSING_REASONS: Final = {
    "exceeds max_wal_senders": "All walsenders of the publisher are in use: end one, or raise max_wal_senders and restart the publisher.",
    'exceeds "max_wal_senders"': "All walsenders of the publisher are in use: end one, or raise max_wal_senders and restart the publisher.",
    "too many connections": "All connections that the publisher allows are in use: end some, or raise the limit.",
    "connection slots are reserved": "All connections that the publisher allows are in use: end some, or raise max_connections.",
}
"""Reasons that may disappear without action."""

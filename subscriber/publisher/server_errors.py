"""What servers, poolers and libpq say, as errors of this project.

One table (:data:`RULES`) has, for an SQLSTATE and a part of the message, the class of the error and
the hint that says what to do where the server's own hint does not::

    message, SQLSTATE ──first rule that fits──▶ SlotLost               changes are lost: the subscription stops
                                                PublisherUnavailable   passes by itself
                                                SlotInUse              passes by itself, or another receiver must be stopped
                                                PublisherNotReady      somebody must act first

Everything but SlotLost is retried: a failover, a rotation of passwords and a restart of a pooler
make servers say things that nobody has to act upon.

libpq gives no SQLSTATE for a connection that failed, so its text decides. A text that no rule
knows, for instance one in another language, counts as passing.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import psycopg

from subscriber.base import errors
from subscriber.postgres.sql.quoting import quote_identifier

UNREADABLE_TEXT: Final = "a text of the publisher cannot be read as UTF8"
_UNREADABLE: Final = frozenset({"22021", "22P05"})


class Rule(NamedTuple):
    """``sqlstate`` is its beginning, or :data:`CONNECTING`; ``text`` a regular expression ("" fits
    all). ``hint`` (None: the server's) may name the connecting ``{role}``; it ``replaces`` the
    server's hint if that names no statement.
    """

    sqlstate: str
    text: str
    kind: type[errors.PublisherError]
    hint: str | None = None
    replaces: bool = False


CONNECTING: Final = "connecting"
"""Takes the place of the SQLSTATE, which libpq does not give for a connection that failed."""

PRIMARY_HINT: Final = (
    "A failover may be in progress; the next attempt follows. If CONNECTION names a standby or a read-only server,"
    " name all hosts and add target_session_attrs=primary: ALTER SUBSCRIPTION … CONNECTION 'host=…,… target_session_attrs=primary …'."
)
_STANDBY_SLOTS_HINT: Final = (
    "The publisher sends changes only after the standbys in synchronized_standby_slots have them. Start that standby,"
    " or at the publisher: ALTER SYSTEM SET synchronized_standby_slots = …; SELECT pg_reload_conf();"
)
_POOLER_HINT: Final = (
    "A connection pooler answers. Name the PostgreSQL server itself in CONNECTION (host and port): poolers pass logical"
    " replication on only in part."
)
_UPGRADE_HINT: Final = "Minor releases of 2025 (such as 16.9 and 17.5) have this fault in logical decoding. Update the publisher to the newest minor release."
_REPLICATION_HINT: Final = "Run at the publisher, as a superuser: ALTER ROLE {role} REPLICATION;"
_SELECT_HINT: Final = "Run at the publisher: GRANT SELECT ON TABLE {name} TO {role};"
_LIBRARIES_HINT: Final = (
    "Run at the publisher, with the other names that SHOW output_plugin_libraries prints, each in quotes of its own:"
    " ALTER SYSTEM SET output_plugin_libraries = …, 'pgoutput'; SELECT pg_reload_conf();"
)
_WAL_LEVEL_HINT: Final = "Run at the publisher: ALTER SYSTEM SET wal_level = 'logical'; then restart it."
_PUBLICATION_HINT: Final = (
    "Create publication {name} at the publisher, or name another one with ALTER SUBSCRIPTION … SET PUBLICATION."
    " If it was created again: before version 18, a publisher decodes what was written meanwhile without it, and repeats this"
    " error. ALTER SUBSCRIPTION … RECREATE SLOT then copies all tables again."
)
_SLOTS_HINT: Final = "Drop a slot that is not used (SELECT pg_drop_replication_slot(…)), or raise max_replication_slots and restart the publisher."
_SENDERS_HINT: Final = (
    "All walsenders of the publisher are in use: end one, or raise max_wal_senders and restart the publisher."
)
_CONNECTIONS_HINT: Final = "All connections that the publisher allows are in use: end some, or raise max_connections."
_STARTING_HINT: Final = "The publisher starts, stops or recovers. The next attempt follows."
_UNREACHABLE_HINT: Final = (
    "Check that the publisher runs and can be reached, and host and port of the subscription's CONNECTION."
)
_CREDENTIALS_HINT: Final = (
    "Check user and password of the subscription's CONNECTION, or the password file or SUBSCRIBER_PASSWORD_COMMAND: both are"
    " asked again at every attempt."
)
_EXPIRED_HINT: Final = "Check the password. A token of a cloud provider expires after minutes: let SUBSCRIBER_PASSWORD_COMMAND print a new one."
_HBA_HINT: Final = (
    "Add a line to pg_hba.conf of the publisher for this host, user and database, then: SELECT pg_reload_conf();"
)
_SERVER_CERTIFICATE_HINT: Final = (
    "The server's certificate is not signed by a certificate of sslrootcert, is expired, or names another host."
    " Correct sslrootcert or host of the subscription's CONNECTION, or the certificate of the server."
)
_CLIENT_CERTIFICATE_HINT: Final = (
    "Check sslcert, sslkey and sslrootcert of the subscription's CONNECTION: they are files on the machine of `subscriber run`,"
    " and the key must be readable by its user only (chmod 600)."
)
_CONNECTING_HINT: Final = "Check the subscription's CONNECTION, and the log of the publisher."

RULES: Final = (
    # What the server says in a session or in the stream. Lost:
    Rule("42704", r'^replication slot ".*" does not exist', errors.SlotLost, errors.RECREATE_SLOT),
    Rule("55000", r"can no longer access replication slot", errors.SlotLost, errors.RECREATE_SLOT),  # 18
    Rule("55000", r"can no longer get changes from replication slot", errors.SlotLost, errors.RECREATE_SLOT),  # to 17
    Rule("55000", r"cannot read from logical replication slot", errors.SlotLost, errors.RECREATE_SLOT),  # 13
    Rule("58P01", r"requested WAL segment .* has already been removed", errors.SlotLost, errors.RECREATE_SLOT),
    # A failover, a switchover, a standby:
    Rule("", r'in parameter "synchronized_standby_slots"', errors.PublisherUnavailable, _STANDBY_SLOTS_HINT),
    Rule("55000", r"cannot use replication slot .* for logical decoding", errors.PublisherUnavailable, PRIMARY_HINT),
    Rule("55000", r"replication slots cannot be used on RO", errors.PublisherUnavailable, PRIMARY_HINT),  # Amazon Aurora
    Rule("0A000", r"recovery|standby", errors.PublisherUnavailable, PRIMARY_HINT),
    Rule("55000", r"recovery|standby|read-only", errors.PublisherUnavailable, PRIMARY_HINT),
    Rule("25006", "", errors.PublisherUnavailable, PRIMARY_HINT),
    # The slot and its settings:
    Rule("55006", "", errors.SlotInUse, "Another receiver streams from this slot. Stop it, or wait until the server has noticed that it has ended."),
    Rule("53400", r"all replication slots are in use", errors.PublisherUnavailable, _SLOTS_HINT),
    Rule("55000", r'logical decoding requires "?wal_level', errors.PublisherNotReady, _WAL_LEVEL_HINT),
    Rule("42704", r'publication "(?P<name>.*)" does not exist', errors.PublisherNotReady, _PUBLICATION_HINT),
    # Privileges:
    Rule("42501", r"(permission denied|must be superuser or replication role) to use replication slots", errors.PublisherNotReady, _REPLICATION_HINT),
    Rule("42501", r"permission denied for (?:table|relation) (?P<name>.+)", errors.PublisherNotReady, _SELECT_HINT),
    Rule("42501", r"permission denied for schema (?P<name>.+)", errors.PublisherNotReady, "Run at the publisher: GRANT USAGE ON SCHEMA {name} TO {role};"),
    Rule("42501", r"may not be used as an output plugin", errors.PublisherNotReady, _LIBRARIES_HINT, replaces=True),
    # Poolers and faults of servers:
    Rule("08P01", r"extended query protocol not supported", errors.PublisherUnavailable, _POOLER_HINT),
    # PgBouncer that ignores the startup parameter "replication" opens an ordinary session.
    Rule("42601", r"syntax error at or near \"(IDENTIFY_SYSTEM|CREATE_REPLICATION_SLOT|START_REPLICATION)\"", errors.PublisherNotReady, _POOLER_HINT),
    Rule("XX000", r"invalid memory alloc request size", errors.PublisherUnavailable, _UPGRADE_HINT),
    Rule("53100", "", errors.PublisherUnavailable, "The disk of the publisher is full: free space there."),
    # The rest, by class: connection, transaction state and rollback, resources, lock not
    # available, operator intervention, system and internal errors pass.
    *(Rule(state, "", errors.PublisherUnavailable) for state in ("08", "25P", "40", "53", "55P03", "57", "58", "XX")),
    # Why a connection failed. Several hosts give a line each: what needs an action comes first.
    Rule(CONNECTING, r"permission denied to start WAL sender|must be superuser or replication role to start walsender", errors.PublisherNotReady, _REPLICATION_HINT),
    Rule(CONNECTING, r"is not permitted to log in", errors.PublisherNotReady, "Run at the publisher: ALTER ROLE {role} LOGIN;"),
    Rule(CONNECTING, r"permission denied for database \"(?P<name>[^\"]+)\"", errors.PublisherNotReady, "Run at the publisher: GRANT CONNECT ON DATABASE {name} TO {role};"),
    Rule(CONNECTING, r"no pg_hba\.conf entry|pg_hba\.conf rejects", errors.PublisherNotReady, _HBA_HINT),
    Rule(CONNECTING, r"PAM authentication failed|LDAP authentication failed|RADIUS authentication failed", errors.PublisherNotReady, _EXPIRED_HINT),
    Rule(CONNECTING, r"authentication failed|no password supplied|empty password", errors.PublisherNotReady, _CREDENTIALS_HINT),
    Rule(CONNECTING, r"Tenant or user not found", errors.PublisherNotReady, _POOLER_HINT),  # Supabase's Supavisor
    Rule(CONNECTING, r"unsupported startup parameter", errors.PublisherNotReady, _POOLER_HINT),  # PgBouncer
    Rule(CONNECTING, r'database ".*" does not exist', errors.PublisherNotReady, "Check dbname of the subscription's CONNECTION."),
    Rule(CONNECTING, r'role ".*" does not exist', errors.PublisherNotReady, "Check user of the subscription's CONNECTION, or create the role at the publisher."),
    Rule(CONNECTING, r"definition of service|service file", errors.PublisherNotReady, "Check service of the subscription's CONNECTION, and the service file (PGSERVICEFILE) on the machine of `subscriber run`."),
    Rule(CONNECTING, r"certificate verify failed|does not match host name|unable to get local issuer", errors.PublisherNotReady, _SERVER_CERTIFICATE_HINT),
    Rule(CONNECTING, r"certificate|private key|root\.crt|alert unknown ca", errors.PublisherNotReady, _CLIENT_CERTIFICATE_HINT),
    Rule(CONNECTING, r"server does not support SSL|SSL (was )?required", errors.PublisherNotReady, "Check sslmode of the subscription's CONNECTION, or set ssl = on at the publisher."),
    Rule(CONNECTING, r"hot standby mode|session is (not )?read-only", errors.PublisherUnavailable, "No host of CONNECTION is what target_session_attrs asks for: a failover may be in progress. The next attempt follows."),
    Rule(CONNECTING, r"exceeds \"?max_wal_senders", errors.PublisherUnavailable, _SENDERS_HINT),
    Rule(CONNECTING, r"too many (clients|connections)|connection slots are reserved", errors.PublisherUnavailable, _CONNECTIONS_HINT),
    Rule(CONNECTING, r"the database system is", errors.PublisherUnavailable, _STARTING_HINT),
    Rule(CONNECTING, r"refused|timeout|timed out|No route|could not translate|unreachable|reset by peer|No such file|closed the connection", errors.PublisherUnavailable, _UNREACHABLE_HINT),
    Rule(CONNECTING, "", errors.PublisherUnavailable, _CONNECTING_HINT),
    # Everything else needs somebody who acts.
    Rule("", "", errors.PublisherNotReady),
)  # fmt: skip
"""The first rule counts that fits the SQLSTATE and the message."""


def is_unreadable_text(sqlstate: str) -> bool:
    """Whether bytes of a value are invalid in the server's encoding; the message shows them."""
    return sqlstate in _UNREADABLE


def server_error(
    message: str, sqlstate: str, *, detail: str | None = None, hint: str | None = None
) -> errors.PublisherError:
    """An error by :data:`RULES`, with the server's hint unless the rule has a better one."""
    if is_unreadable_text(sqlstate):
        message = message if UNREADABLE_TEXT in message else UNREADABLE_TEXT
        detail, hint = (
            None,
            "Correct the value at the publisher; a database of encoding SQL_ASCII accepts any bytes as text.",
        )
    rule = _rule(sqlstate, message)
    return rule.kind(
        message,
        sqlstate=sqlstate,
        detail=detail,
        hint=_hint(rule, message) if rule.replaces else hint or _hint(rule, message),
    )


def error_of(error: psycopg.Error) -> errors.PublisherError:
    diag = error.diag
    return server_error(
        diag.message_primary or str(error), error.sqlstate or "", detail=diag.message_detail, hint=diag.message_hint
    )


def connection_refused(reason: str, role: str = "") -> errors.PublisherError:
    rule = _rule(CONNECTING, reason)
    error = rule.kind(f"could not connect to the publisher: {reason}", sqlstate="08006", hint=_hint(rule, reason, role))
    error.refused = reason
    return error


def _rule(sqlstate: str, message: str) -> Rule:
    return next(rule for rule in RULES if _fits(rule, sqlstate) and re.search(rule.text, message))


def _fits(rule: Rule, sqlstate: str) -> bool:
    return rule.sqlstate == CONNECTING if sqlstate == CONNECTING else sqlstate.startswith(rule.sqlstate)


def _hint(rule: Rule, message: str, role: str = "") -> str | None:
    if rule.hint is None:
        return None
    named = f'"{role}"' if role else "… (the user of the subscription's CONNECTION)"
    found = re.search(rule.text, message)
    name = found.groupdict().get("name") if found is not None else None
    return rule.hint.replace("{role}", named).replace("{name}", quote_identifier(name or ""))

"""Judges the publisher's server, and the role of the CONNECTION (rules A, D9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from subscriber.migration.findings import Finding, Severity
from subscriber.publisher.server_facts import ServerFacts
from subscriber.schema.server_features import OLDEST_VERSION
from subscriber.sql.keywords import quote_identifier

_STANDBY_SLOTS: Final = 160000
"""The first version in which a standby can have logical slots."""


def check_server(facts: ServerFacts, *, has_slot: bool = False) -> Iterator[Finding]:
    """The findings about the server's version and settings.

    Args:
        facts: the server's properties.
        has_slot: whether the subscription exists, and has its slot already.
    """
    yield _version(facts)
    for one in facts.decoding.obstacles():
        yield _server("FAIL", one.setting, one.finding, remedy=one.remedy("publisher"))
    yield from _limit(
        "max_replication_slots",
        facts.max_replication_slots,
        facts.replication_slots,
        "slot",
        has_one=has_slot,
    )
    yield from _limit(
        "max_wal_senders",
        facts.max_wal_senders,
        facts.wal_senders,
        "walsender",
    )
    yield _kept_wal(facts)
    if facts.idle_replication_slot_timeout is not None:
        yield _server(
            "WARN",
            "idle_replication_slot_timeout",
            f"a slot is invalidated if `subscriber run` is stopped for {facts.idle_replication_slot_timeout} s",
            reason="Changes since then are lost, and every table must be copied again.",
            remedy="ALTER SYSTEM SET idle_replication_slot_timeout = 0; SELECT pg_reload_conf();",
        )
    if facts.decoding.is_standby:
        yield from _standby(facts)


def _version(facts: ServerFacts) -> Finding:
    if facts.version < OLDEST_VERSION:
        return _server(
            "FAIL",
            "server_version",
            f"PostgreSQL {facts.server_version} has no logical replication",
            remedy="Upgrade the publisher to PostgreSQL 10 or newer.",
        )
    return _server("INFO", "server_version", f"the publisher is PostgreSQL {facts.server_version}")


def _limit(name: str, limit: int, used: int, what: str, *, has_one: bool = False) -> Iterator[Finding]:
    free = limit - used
    if free >= 3:  # one for the stream, two for copies
        return
    yield _server(
        "FAIL" if free < 1 and not has_one else "WARN",
        name,
        f"{used} of {limit} are in use",
        reason=f"A copy of a table and `subscriber verify` need another {what}."
        if has_one
        else f"A subscription needs one {what}, and each table needs another one while it is copied.",
        remedy=f"ALTER SYSTEM SET {name} = {max(limit, used) + 10}; -- and restart the publisher",
    )


def _kept_wal(facts: ServerFacts) -> Finding:
    if facts.max_slot_wal_keep_size is None:
        return _server(
            "INFO",
            "max_slot_wal_keep_size",
            "the publisher keeps WAL for a slot without a limit",
            reason="While `subscriber run` is stopped, the publisher's disk fills.",
            remedy="Watch `subscriber status`; drop the subscription if it is not used any more.",
        )
    return _server(
        "WARN",
        "max_slot_wal_keep_size",
        f"the slot is lost when the subscription is {facts.max_slot_wal_keep_size} MB of WAL behind",
        reason="Changes since then are lost, and every table must be copied again. The initial copy counts, too.",
        remedy="ALTER SYSTEM SET max_slot_wal_keep_size = -1; SELECT pg_reload_conf();",
    )


def _standby(facts: ServerFacts) -> Iterator[Finding]:
    if facts.version < _STANDBY_SLOTS:
        yield _server(
            "FAIL",
            "pg_is_in_recovery",
            "the publisher is a standby, which cannot have logical slots before PostgreSQL 16",
            remedy="Name the primary in CONNECTION.",
        )
        return
    if not facts.hot_standby_feedback:
        yield _server(
            "WARN",
            "hot_standby_feedback",
            "the publisher is a standby whose slot is lost when the primary removes rows of catalogs",
            remedy="ALTER SYSTEM SET hot_standby_feedback = on; SELECT pg_reload_conf(); -- at the standby",
        )
    if facts.recovery_conflicts:
        yield _server(
            "WARN",
            "pg_stat_database_conflicts",
            f"the standby has canceled {facts.recovery_conflicts} queries because of conflicts with recovery",
            reason="A copy of a large table may be canceled, too, and begins again.",
            remedy="ALTER SYSTEM SET max_standby_streaming_delay = -1; SELECT pg_reload_conf(); -- at the standby",
        )


def check_role(facts: ServerFacts) -> Iterator[Finding]:
    """The findings about the role of the CONNECTION.

    Args:
        facts: the server's properties.
    """
    if not facts.may_replicate:
        yield _server(
            "FAIL",
            f"role {facts.role}",
            f'role "{facts.role}" may not replicate',
            remedy=f"ALTER ROLE {quote_identifier(facts.role)} REPLICATION;",
        )


def check_open_transactions(transactions: Sequence[str]) -> Iterator[Finding]:
    """The findings about transactions that hold up the creation of the slot.

    Args:
        transactions: the transactions, each as a text
            (:func:`subscriber.publisher.blockers.transactions_in_progress`).
    """
    for transaction in transactions:
        yield _server(
            "WARN",
            "open transaction",
            f"CREATE SUBSCRIPTION would wait for {transaction}",
            reason="A slot is created when all transactions have ended that are open now.",
            remedy="End it, or wait until it has ended.",
        )


def _server(
    severity: Severity, name: str, message: str, *, reason: str | None = None, remedy: str | None = None
) -> Finding:
    return Finding(severity=severity, area="publisher", object=name, message=message, reason=reason, remedy=remedy)

"""Findings about the publisher: server, role, transactions, published tables, and failover."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from subscriber.base.errors import SubscriberError
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.migrate.findings import Finding, Severity
from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.schema.server_features import OLDEST_VERSION, ServerFeatures
from subscriber.postgres.sql.quoting import quote_identifier
from subscriber.publisher.conninfo import hosts_of
from subscriber.publisher.failover import Readiness, judge_readiness, read_failover_servers
from subscriber.publisher.omitted_objects import UnreplicatedObjects
from subscriber.publisher.server_facts import UNCHECKED_ENCODING, ServerFacts
from subscriber.publisher.table_checks import Parent, TableFacts, TableWithoutIdentity

_STANDBY_SLOTS: Final = 160000
"""The first version in which a standby can have logical slots."""


def check_server(facts: ServerFacts, *, has_slot: bool = False) -> Iterator[Finding]:
    """The findings about the server's version and settings. ``has_slot``: the slot exists."""
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
    if facts.encoding == UNCHECKED_ENCODING:
        yield _server(
            "WARN",
            "server_encoding",
            f'database "{facts.database}" has the encoding SQL_ASCII, so its texts may be no UTF-8',
            reason="Such a text stops the copy of its table, or the subscription.",
            remedy="Run `subscriber check --scan`, which reads all texts and names the tables.",
        )


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
    if not facts.may_replicate:
        yield _server(
            "FAIL",
            f"role {facts.role}",
            f'role "{facts.role}" may not replicate',
            remedy=f"ALTER ROLE {quote_identifier(facts.role)} REPLICATION;",
        )


def check_open_transactions(transactions: Sequence[str]) -> Iterator[Finding]:
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


def no_table(names: Sequence[str], publications: Sequence[Publication]) -> Finding:
    first = next(iter(publications), None)
    remedy = None
    if first is not None and first.all_tables:
        remedy = "Create a table at the publisher: the publication has every table."
    elif first is not None:
        name = quote_identifier(first.name)
        remedy = f"Add tables to publication {name} at the publisher, with ALTER PUBLICATION."
        if first.all_sequences:
            remedy = f"ALTER PUBLICATION {name} SET ALL TABLES, ALL SEQUENCES;"
    return Finding(
        severity="WARN",
        area="tables",
        object=", ".join(names),
        message="no table is published",
        reason="A publication FOR ALL SEQUENCES has no tables."
        if any(one.all_sequences for one in publications)
        else None,
        remedy=remedy,
    )


def check_identities(tables: Sequence[TableWithoutIdentity]) -> Iterator[Finding]:
    """Tables whose UPDATE or DELETE the publisher refuses once they are published (B32, B33)."""
    for table in tables:
        verbs = [verb for verb, published in (("UPDATE", table.updates), ("DELETE", table.deletes)) if published]
        yield Finding(
            severity="FAIL",
            area="tables",
            object=table.qualified_name,
            message="the table has no replica identity",
            reason=f"The publisher refuses every {' and '.join(verbs)} on it, from any application.",
            remedy=f"{table.statement};",
        )


def uncovered_identity(error: SubscriberError, table: tuple[str, str]) -> Finding:
    schema, name = table
    return Finding(
        severity="FAIL",
        area="tables",
        object=error.relation or "replica identity",
        message=f"the publisher refuses the statement: {error.message}",
        reason=error.detail,
        remedy=f"ALTER TABLE {quote_identifier(schema)}.{quote_identifier(name)} REPLICA IDENTITY FULL;",
    )


def check_row_security(tables: Sequence[TableFacts], role: str) -> Iterator[Finding]:
    """Tables of which the role sees only some rows: a copy would silently leave out the others."""
    for table in tables:
        if table.is_hidden:
            yield Finding(
                severity="FAIL",
                area="tables",
                object=table.qualified_name,
                message=f'row security hides rows of the table from role "{role}"',
                reason="The initial copy would leave them out, without an error.",
                remedy=f"ALTER ROLE {quote_identifier(role)} BYPASSRLS;",
            )


def check_parents(
    parents: Sequence[Parent], publications: Sequence[str], database: str, *, has_inheritance: bool, command: str
) -> Iterator[Finding]:
    """Tables whose rows, as an application reads them, are published as those of other tables."""
    for one in parents:
        if one.partitioned:
            several = len(one.children) > 1
            become = "its partitions become separate tables" if several else "its partition becomes a separate table"
            way = "builds it around its partitions" if has_inheritance else "creates a view of this name, for reading"
            statements = " ".join(
                f"ALTER PUBLICATION {quote_identifier(name)} SET (publish_via_partition_root = true);"
                for name in publications
            )
            yield Finding(
                severity="WARN",
                area="tables",
                object=one.qualified_name,
                message=f"the partitioned table is not published: {become} ({one.children_shown})",
                reason="An application that reads or writes the partitioned table does not find it in the target.",
                remedy=f"{statements} -- {command}, before the subscription is created. Or keep separate tables:"
                f" `subscriber schema apply --after` {way}.",
            )
        elif one.rows:
            verb = "is" if one.rows == 1 and one.counted else "are"
            way = (
                "Run `subscriber schema apply --after`: it declares the inheritance in the target, too."
                if has_inheritance
                else f"{database} has no inheritance. Let the application read each of the tables, or a view of them."
            )
            yield Finding(
                severity="WARN",
                area="tables",
                object=one.qualified_name,
                message=f"{one.rows_shown} that a query of the table returns {verb} in tables that inherit from it:"
                f" {one.children_shown}",
                reason="Each table is replicated with its own rows only, and compared like that by `subscriber verify`."
                " A query of this table does not return the others in the target.",
                remedy=way,
            )


def list_unreplicated(objects: Sequence[UnreplicatedObjects], subscription: str | None = None) -> Iterator[Finding]:
    for one in objects:
        more = one.number - len(one.names)
        yield Finding(
            severity="WARN" if one.kind == "unlogged tables" else "INFO",
            area="not replicated",
            object=one.kind,
            message=f"{one.number:,} {'is' if one.number == 1 else 'are'} not replicated: {', '.join(one.names)}{f' and {more:,} more' if more else ''}",
            remedy=_remedy(one, subscription),
        )


def _remedy(objects: UnreplicatedObjects, subscription: str | None) -> str | None:
    if objects.kind == "unlogged tables":
        return " ".join(f"ALTER TABLE {name} SET LOGGED;" for name in objects.names)
    if objects.kind != "sequences":
        return None
    if subscription is None:
        return "REFRESH SEQUENCES of the subscription sets them; run it when the application is switched over."
    command = f"ALTER SUBSCRIPTION {quote_identifier(subscription)} REFRESH SEQUENCES"
    return f"Run {command} when the application is switched over."


def check_failover(
    conninfo: str,
    options: SubscriptionOptions,
    facts: ServerFacts,
    *,
    subscription: str | None,
    application_name: str,
    has_slot: bool,
) -> Iterator[Finding]:
    """A failover of the publisher. With ``failover = true``, each host of CONNECTION is asked."""
    if not options.failover:
        yield from without_failover(facts, len(hosts_of(conninfo)), options.slot_name, subscription)
        return
    if facts.is_managed_by_patroni:
        yield Finding(
            severity="INFO",
            area="publisher",
            object="Patroni",
            message="Patroni manages the publisher; from 4.1 on it leaves slots with failover = true alone",
            reason="An older Patroni drops slots that it does not know while they are inactive.",
            remedy="Upgrade Patroni, or name the slot under ignore_slots: (patronictl edit-config).",
        )
    slot = options.slot_name if has_slot else None
    servers = read_failover_servers(conninfo, application_name, slot)
    name = quote_identifier(
        subscription or ""
    )  # without a subscription there is no slot, nor a statement with the name
    yield from of_readiness(judge_readiness(name, slot, servers))


def without_failover(facts: ServerFacts, hosts: int, slot: str | None, subscription: str | None) -> Iterator[Finding]:
    remedy = "Create the subscription with failover = true."
    if subscription is not None:
        name = quote_identifier(subscription)
        remedy = " ".join(f"ALTER SUBSCRIPTION {name} {do};" for do in ("DISABLE", "SET (failover = true)", "ENABLE"))
    can = ServerFeatures(facts.version).failover_slots
    if hosts > 1:
        yield _finding(
            "failover",
            f"CONNECTION names {hosts} hosts, but the subscription does not have failover = true",
            "A standby does not have the slot. When it is promoted, every table must be copied again.",
            remedy if can else "Upgrade the publisher to PostgreSQL 17 or newer, which synchronizes slots to standbys.",
        )
    if facts.is_managed_by_patroni and slot is not None:
        permanent = "Name the subscription's slot under slots: (patronictl edit-config)."
        if subscription is not None:
            entry = f"slots.{slot}={{type: logical, database: {facts.database}, plugin: pgoutput}}"
            permanent = f"patronictl edit-config --set '{entry}'"
        yield _finding(
            "Patroni",
            "Patroni manages the publisher, and drops slots that it does not know while they are inactive",
            "Changes since then are lost, and every table must be copied again.",
            f"{remedy} Patroni leaves such slots alone from 4.1 on. Or: {permanent}" if can else permanent,
        )


def of_readiness(readiness: Readiness) -> Iterator[Finding]:
    for problem in readiness.problems:
        yield _finding(f"failover to {problem.place}", problem.message, problem.reason, problem.remedy)
    if readiness.ready is None:
        yield Finding(
            severity="INFO",
            area="publisher",
            object="failover",
            message="CONNECTION names no standby, so it is not known whether one could take the slot over",
            remedy="Name the standbys, too: host=…,… target_session_attrs=primary. Or ask each standby:"
            " SELECT slot_name, synced AND NOT temporary AND invalidation_reason IS NULL AS ready FROM pg_replication_slots;",
        )
    elif readiness.ready:
        yield Finding(
            severity="INFO",
            area="publisher",
            object="failover",
            message=f"ready at {', '.join(readiness.standbys)}",
        )


def _finding(name: str, message: str, reason: str, remedy: str) -> Finding:
    return Finding(severity="WARN", area="publisher", object=name, message=message, reason=reason, remedy=remedy)

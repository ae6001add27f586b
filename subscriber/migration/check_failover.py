"""Checks whether a subscription survives a failover of the publisher: its hosts, its option
``failover``, Patroni, and the standbys that CONNECTION names.
"""

from __future__ import annotations

from collections.abc import Iterator

from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.migration.findings import Finding
from subscriber.publisher.conninfo import hosts_of
from subscriber.publisher.failover_readiness import Readiness, judge_readiness
from subscriber.publisher.failover_servers import read_failover_servers
from subscriber.publisher.server_facts import ServerFacts
from subscriber.schema.server_features import ServerFeatures
from subscriber.sql.keywords import quote_identifier


def check_failover(
    conninfo: str,
    options: SubscriptionOptions,
    facts: ServerFacts,
    *,
    subscription: str | None,
    application_name: str,
    has_slot: bool,
) -> Iterator[Finding]:
    """The findings about a failover of the publisher. Each host of CONNECTION is asked if the
    subscription has ``failover = true``.

    Args:
        conninfo: the subscription's connection string.
        options: its options.
        facts: the properties of the server that CONNECTION reaches.
        subscription: its name; None if it does not exist yet.
        application_name: the name of the connections.
        has_slot: whether its slot is to be on each standby by now.
    """
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
    name = "…" if subscription is None else quote_identifier(subscription)
    yield from of_readiness(judge_readiness(name, slot, servers))


def without_failover(facts: ServerFacts, hosts: int, slot: str | None, subscription: str | None) -> Iterator[Finding]:
    """The findings about a subscription that does not have ``failover = true``.

    Args:
        facts: the publisher's properties.
        hosts: how many hosts CONNECTION names.
        slot: the name of the subscription's slot; None if it has none.
        subscription: the subscription's name; None if it does not exist yet.
    """
    name = "…" if subscription is None else quote_identifier(subscription)
    remedy = "CREATE SUBSCRIPTION … WITH (failover = true)"
    if subscription is not None:
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
        permanent = f"patronictl edit-config --set 'slots.{slot if subscription else '…'}={{type: logical, database: {facts.database}, plugin: pgoutput}}'"
        yield _finding(
            "Patroni",
            "Patroni manages the publisher, and drops slots that it does not know while they are inactive",
            "Changes since then are lost, and every table must be copied again.",
            f"{remedy} Patroni leaves such slots alone from 4.1 on. Or: {permanent}" if can else permanent,
        )


def of_readiness(readiness: Readiness) -> Iterator[Finding]:
    """The findings about a subscription that has ``failover = true``."""
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

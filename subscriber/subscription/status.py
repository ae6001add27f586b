"""What ``subscriber status`` tells: the catalog, the journal and the publisher, each as far as it can be reached."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from subscriber.apply import progress
from subscriber.errors import PublisherError, SubscriberError
from subscriber.journal.reader import journal_positions
from subscriber.journal.storage import journal_url, open_storage
from subscriber.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.receive.publisher import Publisher, connect_publisher
from subscriber.settings import Settings, redact_conninfo
from subscriber.subscription import catalog
from subscriber.subscription.catalog import Subscription
from subscriber.subscription.copies import CopyStatus, read_copies
from subscriber.target import Target


@dataclass(frozen=True, slots=True)
class CopyFigures:
    """How far a table's copy is; see :class:`subscriber.subscription.copies.CopyStatus`."""

    rows: int
    bytes: int
    estimated_rows: int
    estimated_bytes: int
    rows_per_second: float
    started_at: str


@dataclass(frozen=True, slots=True)
class RelationStatus:
    """One table of a subscription.

    Attributes:
        schema: at the publisher.
        name: its name.
        state: its letter (rule D1).
        lsn: the position that belongs to the state.
        error: why it could not be copied, or could not catch up.
        error_at: when.
        copy: how far its copy is, while it is being copied and the journal can be seen from here.
    """

    schema: str
    name: str
    state: str
    lsn: str | None
    error: str | None
    error_at: str | None
    copy: CopyFigures | None


@dataclass(frozen=True, slots=True)
class SubscriptionStatus:
    """One subscription at a glance; LSNs are text, None is "not known from here".

    Attributes:
        name: the subscription.
        enabled: whether `subscriber run` works for it.
        connection: where it replicates from, without secrets.
        publications: what it subscribes to.
        slot_name: the replication slot.
        slot_active: whether a receiver streams from it now.
        publisher_lsn: end of the publisher's WAL.
        confirmed_lsn: what the slot has confirmed.
        received_lsn: what the journal holds.
        applied_lsn: what the target has.
        lag_bytes: publisher's end of WAL less what was received, plus what is received and not applied; None also where more was
            received than the publisher has, which was restored to an older state then, and until a run has begun with a slot that was there before.
        lag_seconds: since the target last moved while something waits; 0 when nothing does.
        tables: state letter → number of tables (rule D1).
        relations: each table, by schema and name.
        conflicts: kind → number.
        apply_errors: number.
        last_error: its report.
        last_error_at: when.
        schema_changes: what was altered in the target, oldest first.
        history_diverged: whether more was received than the publisher has: it was restored to an older state.
        as_of: when all this was so, where it is not now: a run that holds the target has left it (ISO 8601).
    """

    name: str
    enabled: bool
    connection: str
    publications: tuple[str, ...]
    slot_name: str | None
    slot_active: bool | None
    publisher_lsn: str | None
    confirmed_lsn: str | None
    received_lsn: str | None
    applied_lsn: str
    lag_bytes: int | None
    lag_seconds: float | None
    tables: dict[str, int]
    relations: tuple[RelationStatus, ...]
    conflicts: dict[str, int]
    apply_errors: int
    last_error: str | None
    last_error_at: str | None
    schema_changes: tuple[catalog.SchemaChange, ...] = ()
    history_diverged: bool = False
    as_of: str | None = None


def subscription_statuses(target: Target, settings: Settings) -> list[SubscriptionStatus]:
    """The status of every subscription of a target, by name.

    Raises:
        TargetUnavailable: the target cannot be asked. A publisher or journal that cannot be is just not known.
    """
    with target.reporting():
        catalog.ensure_catalog(target.engine)
    with target.reporting(), target.engine.connect() as connection:
        identifier = catalog.target_identifier(connection)
        return [
            _status(
                subscription,
                settings,
                identifier,
                applied=progress.read_progress(connection, subscription.origin),
                moved_at=progress.read_progress_time(connection, subscription.origin),
                tables=catalog.relations_of(connection, subscription.subid),
                statistics=catalog.statistics_of(connection, subscription.subid),
                schema_changes=tuple(catalog.schema_changes_of(connection, subscription.subid)),
            )
            for subscription in catalog.list_subscriptions(connection)
        ]


def _status(
    subscription: Subscription,
    settings: Settings,
    target_identifier: str,
    *,
    applied: LSN,
    moved_at: str,
    tables: list[catalog.SubscriptionRelation],
    statistics: dict[str, Any],
    schema_changes: tuple[catalog.SchemaChange, ...],
) -> SubscriptionStatus:
    received, last_entry = _journal_positions(subscription, settings)
    publisher_lsn, slot = _publisher_positions(subscription)
    waiting = last_entry is not None and last_entry > applied
    states = [relation.state.value for relation in tables]
    copies = {(copy.schema, copy.name): copy for copy in _copies(subscription, settings, target_identifier)}
    known = max(received or INVALID_LSN, applied)
    return SubscriptionStatus(
        name=subscription.name,
        enabled=subscription.enabled,
        connection=redact_conninfo(subscription.conninfo),
        publications=subscription.publications,
        slot_name=subscription.slot_name,
        slot_active=None if slot is None else slot.active_pid is not None,
        publisher_lsn=_text(publisher_lsn),
        confirmed_lsn=None if slot is None else format_lsn(slot.confirmed_flush_lsn),
        received_lsn=_text(received),
        applied_lsn=format_lsn(applied),
        lag_bytes=_lag(publisher_lsn, known, applied, waiting=waiting),
        lag_seconds=None if last_entry is None else (_seconds_since(moved_at) if waiting else 0.0),
        tables={state: states.count(state) for state in sorted(set(states))},
        relations=tuple(_relation(relation, copies) for relation in tables),
        conflicts={
            name.removeprefix("confl_"): number
            for name, number in statistics.items()
            if name.startswith("confl_") and number
        },
        apply_errors=statistics.get("apply_error_count", 0),
        last_error=statistics.get("last_error"),
        last_error_at=statistics.get("last_error_at"),
        schema_changes=schema_changes,
        history_diverged=publisher_lsn is not None and known > publisher_lsn,
    )


def _lag(publisher: LSN | None, known: LSN, applied: LSN, *, waiting: bool) -> int | None:
    """Bytes behind the publisher.

    None where it cannot be asked, where more is known than it has (that was another history), and as long as nothing is: then the first
    run finds out where the changes of the slot begin.
    """
    if publisher is None or known > publisher or known == INVALID_LSN:
        return None
    return publisher - known + (max(0, known - applied) if waiting else 0)


def _journal_positions(subscription: Subscription, settings: Settings) -> tuple[LSN | None, LSN | None]:
    """How far the journal has received, and where its last entry ends."""
    if subscription.system_identifier is None or subscription.slot_name is None:
        return None, None
    try:
        received, last = journal_positions(
            journal_url(settings.journal, subscription.system_identifier, subscription.slot_name)
        )
    except SubscriberError:
        return None, None
    return (received, last) if last else (None, None)


def _copies(subscription: Subscription, settings: Settings, target_identifier: str) -> list[CopyStatus]:
    if subscription.system_identifier is None or subscription.slot_name is None:
        return []
    url = journal_url(settings.journal, subscription.system_identifier, subscription.slot_name)
    try:
        return read_copies(open_storage(url), target_identifier, subscription.subid)
    except SubscriberError:
        return []


def _relation(relation: catalog.SubscriptionRelation, copies: Mapping[tuple[str, str], CopyStatus]) -> RelationStatus:
    copy = copies.get((relation.schema, relation.name)) if relation.state is catalog.RelationState.DATASYNC else None
    return RelationStatus(
        relation.schema,
        relation.name,
        relation.state.value,
        _text(relation.lsn),
        relation.error,
        relation.error_at,
        None
        if copy is None
        else CopyFigures(
            copy.rows, copy.bytes, copy.estimated_rows, copy.estimated_bytes, copy.rows_per_second, copy.started_at
        ),
    )


def _publisher_positions(subscription: Subscription) -> tuple[LSN | None, Any]:
    try:
        with connect_publisher(subscription.conninfo, subscription.name) as server:
            publisher = Publisher(server)
            slot = publisher.slot(subscription.slot_name) if subscription.slot_name else None
            return publisher.flushed_lsn(), slot
    except PublisherError:
        return None, None


def _seconds_since(moment: str) -> float:
    return max(0.0, time.time() - datetime.fromisoformat(moment).timestamp())


def _text(lsn: LSN | None) -> str | None:
    return None if lsn is None else format_lsn(lsn)

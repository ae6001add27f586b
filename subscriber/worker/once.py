"""``run --once``: decides whether the run has done everything, and reports what it has not done.

::

    begins ──▶ target: a position that the publisher wrote then ──▶ done: every table is ready, and everything up to the target is applied
                                                             └──▶ not done: each table and subscription with its reason, exit code 1

A command like ``subscriber run --once && switch-over`` must be safe, so every doubt counts as not
done: an interrupt, a subscription that was disabled or dropped during the run, a catalog that
cannot be read at the end, and a target in which no subscription is enabled.

Tables that are published, but that a subscription does not have, only cause a warning. PostgreSQL's
subscriber also ignores such tables until REFRESH PUBLICATION.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from subscriber.base.background import Background
from subscriber.base.errors import SubscriberError
from subscriber.base.lsn import LSN, format_lsn
from subscriber.base.retry import RetryState
from subscriber.catalog.subscriptions import Subscription
from subscriber.catalog.table_states import RelationState, SubscriptionRelation, relations_of, sequences_of
from subscriber.commands.check_publications import read_unknown, refresh_command
from subscriber.postgres.schema.relation_names import TableName
from subscriber.postgres.sql.quoting import quote_identifier
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.connection import connect_publisher
from subscriber.targets import Target
from subscriber.worker.worker_snapshot import WorkerSnapshot

logger = logging.getLogger(__name__)

_SHOWN: Final = 10
"""The number of names that a message lists; of the others only the number is shown."""

_STATES: Final = {
    RelationState.INIT: ("to be copied", "its copy has not begun"),
    RelationState.DATASYNC: ("being copied", "its copy has not finished"),
    RelationState.FINISHEDCOPY: ("copied", "the changes since its copy are not applied yet"),
    RelationState.SYNCDONE: ("synchronized", "the stream of changes has not reached its position yet"),
}
_AGAIN: Final = "Start `subscriber run --once` again."


@dataclass(frozen=True, slots=True)
class Remaining:
    """A subscription or a table that ``run --once`` has not finished, and what the user can do."""

    message: str
    hint: str

    def __str__(self) -> str:
        return f"{self.message}\nHINT:  {self.hint}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run: ``finished`` if every subscription had caught up or given up,
    ``worked_for`` are those that had a worker in the run, ``workers`` are those at its end.
    """

    finished: bool
    has_polled: bool
    catalog_is_known: bool
    subscriptions: Sequence[Subscription]
    worked_for: Mapping[int, str]
    workers: Mapping[int, WorkerSnapshot]
    disabled_by: Mapping[int, SubscriberError | None]


def has_done_everything(target: Target, outcome: Outcome) -> bool:
    """Whether a run has done everything up to its target. The rest is logged."""
    if not outcome.finished:
        logger.error("the run was stopped before every subscription had caught up")
    if not outcome.catalog_is_known:
        logger.error(
            "the catalog cannot be read, so a subscription or a table may have been added without being noticed"
        )
    remaining = list(_remaining(target, outcome))
    for one in remaining:
        logger.error("%s", one)
    warn_of_disabled([one.name for one in outcome.subscriptions if not one.enabled])
    for worker in outcome.workers.values():
        if outcome.finished and not worker.stopped:
            known = {(relation.schema, relation.name) for relation in worker.relations}
            warn_of_unknown_tables(target, worker.subscription, known)
    return outcome.finished and outcome.catalog_is_known and not remaining


def _remaining(target: Target, outcome: Outcome) -> Iterator[Remaining]:
    if outcome.has_polled and not outcome.worked_for:
        yield nothing_enabled([one.name for one in outcome.subscriptions])
    stored = {one.subid: one for one in outcome.subscriptions}
    for subid, name in outcome.worked_for.items():
        worker = outcome.workers.get(subid)
        if worker is None:
            yield went_away(name, stored.get(subid), outcome.disabled_by.get(subid))
        elif worker.disabled:
            yield went_away(name, replace(worker.subscription, enabled=False), worker.failure)
        else:
            if not worker.stream_caught_up:
                yield stream_not_caught_up(worker)
            if worker.relations.pending:
                yield from (table_not_ready(name, one) for one in _unfinished_with_errors(target, worker))


def _unfinished_with_errors(target: Target, worker: WorkerSnapshot) -> Sequence[SubscriptionRelation]:
    """The tables and sequences of a worker that are not ready, with their errors if the catalog can
    be read.
    """
    try:
        with target.reporting(), target.engine.connect() as connection:
            subid = worker.subscription.subid
            relations = [*relations_of(connection, subid), *sequences_of(connection, subid)]
    except SubscriberError:
        return worker.relations.pending
    return [relation for relation in relations if relation.state is not RelationState.READY]


def table_not_ready(subscription: str, relation: SubscriptionRelation) -> Remaining:
    state, reason = _STATES[relation.state]
    kind = "table"
    if relation.is_sequence:
        kind, state, reason = "sequence", "to be synchronized", "its value has not been set"
    hint = _AGAIN
    if relation.error is not None:
        reason, hint = (
            _first_line(relation.error),
            _hint_of(relation.error) or (f"Remove the cause; `subscriber status` has the time of the error. {_AGAIN}"),
        )
    return Remaining(
        f'{kind} "{relation.qualified_name}" of subscription "{subscription}" is not ready'
        f' (state "{relation.state.value}", {state}): {reason}',
        hint,
    )


def stream_not_caught_up(worker: WorkerSnapshot) -> Remaining:
    """A subscription that has not applied everything up to its target, with the reason."""
    name, failure, target = worker.subscription.name, worker.failure, worker.once_target
    where = f"it has applied changes up to {format_lsn(worker.applied)}" + (
        ", and the publisher's WAL position has not been read" if target is None else f" of {format_lsn(target)}"
    )
    if failure is None:
        return Remaining(f'subscription "{name}" has not caught up: {where}', _AGAIN)
    return Remaining(
        f'subscription "{name}" has not caught up: {failure.message} ({where})',
        failure.hint or f"Remove the cause; the whole error is above. {_AGAIN}",
    )


def went_away(name: str, now: Subscription | None, failure: SubscriberError | None) -> Remaining:
    """A subscription that was enabled during the run, but has no worker at its end."""
    quoted = quote_identifier(name)
    if now is None:
        return Remaining(
            f'subscription "{name}" was dropped before it had caught up', "If you still need it, create it again."
        )
    if now.enabled:
        return Remaining(f'subscription "{name}" was changed before it had caught up', _AGAIN)
    enable = f"ALTER SUBSCRIPTION {quoted} ENABLE; and start `subscriber run --once` again."
    if failure is None:
        return Remaining(f'subscription "{name}" was disabled before it had caught up', enable)
    return Remaining(
        f'subscription "{name}" was disabled because of an error: {failure.message}',
        f"{failure.hint} Then {enable}" if failure.hint else f"Remove the cause. Then {enable}",
    )


def nothing_enabled(disabled: Collection[str]) -> Remaining:
    """No subscription is enabled: a user who waits for a run to catch up has expected otherwise."""
    if not disabled:
        return Remaining(
            "no subscription is enabled in this target: it has none",
            "Check --target and SUBSCRIBER_TARGET, or CREATE SUBSCRIPTION first.",
        )
    enable = " ".join(f"ALTER SUBSCRIPTION {quote_identifier(name)} ENABLE;" for name in sorted(disabled)[:_SHOWN])
    return Remaining(f"no subscription is enabled in this target; disabled: {_names(disabled)}", enable)


def warn_of_disabled(disabled: Collection[str]) -> None:
    if disabled:
        logger.warning(
            "disabled subscriptions are not run, and whether they have caught up is not known: %s", _names(disabled)
        )


def warn_of_unknown_tables(target: Target, subscription: Subscription, known: Collection[TableName]) -> None:
    """Log which tables of the publications the subscription does not have, and which publications
    do not exist. Nothing else reports that their changes are not replicated.
    """
    try:
        unknown = read_unknown(target, subscription, known)
    except SubscriberError as error:
        logger.warning(
            'subscription "%s": cannot check whether its publications have further tables: %s',
            subscription.name,
            error.message,
        )
        return
    if unknown.publications:
        logger.warning(
            'subscription "%s": publications that do not exist at the publisher, so their tables are not replicated: %s',
            subscription.name,
            _names(unknown.publications),
        )
    if unknown.tables:
        logger.warning(
            'subscription "%s" does not have %d of the tables of its publications, and they are not replicated: %s'
            "\nHINT:  %s and start `subscriber run --once` again.",
            subscription.name,
            len(unknown.tables),
            _names(unknown.tables),
            refresh_command(subscription.name),
        )


def _names(names: Collection[str]) -> str:
    shown = ", ".join(f'"{name}"' for name in sorted(names)[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _lines(report: str) -> Iterator[tuple[str, str]]:
    for line in report.splitlines():
        label, _, text = line.partition(":  ")
        yield label, text


def _first_line(report: str) -> str:
    return next((text for _, text in _lines(report) if text), report.partition("\n")[0])


def _hint_of(report: str) -> str | None:
    return next((text for label, text in _lines(report) if label == "HINT"), None)


def write_once_target(subscription: Subscription) -> LSN:
    """Write a barrier at the publisher, and return its position, which the stream will pass."""
    with connect_publisher(subscription.conninfo, subscription.name) as server:
        return PublisherClient(server).write_barrier()


class OnceTarget:
    """The position that ``run --once`` waits for, written outside of the supervisor's thread."""

    def __init__(self, subscription: Callable[[], Subscription], retry_seconds: float) -> None:
        self.position: LSN | None = None
        self.attempts = RetryState()
        self._subscription = subscription
        self._retry_seconds = retry_seconds
        self.writing = Background(lambda: write_once_target(subscription()), f"once target of {subscription().name}")

    def write(self) -> None:
        """Write it without waiting for the publisher; a later call finds it, or tries again."""
        if not self.attempts.is_due():
            return
        try:
            self.position = self.writing.take()
        except SubscriberError as error:
            logger.warning(
                'subscription "%s": the current WAL position of the publisher cannot be read: %s',
                self._subscription().name,
                error.message,
            )
            self.attempts.record_failure(error, self._retry_seconds)
        else:
            self.attempts.record_success()

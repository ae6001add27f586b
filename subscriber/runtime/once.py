"""``run --once``: decides whether the run has done everything, and reports what it has not done.

::

    begins ──▶ mark: a position that the publisher wrote then ──▶ done: every table is ready, and everything up to the mark is applied
                                                             └──▶ not done: each table and subscription with its reason, exit code 1

A command like ``subscriber run --once && switch-over`` must be safe, so every doubt counts as not
done: an interrupt, a subscription that was disabled or dropped during the run, a catalog that
cannot be read at the end, and a target in which no subscription is enabled.

Tables that are published, but that a subscription does not have, only cause a warning. PostgreSQL's
subscriber also ignores such tables until REFRESH PUBLICATION.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from subscriber import catalog
from subscriber.catalog import RelationState, Subscription, SubscriptionRelation
from subscriber.commands.unknown_tables import read_unknown, refresh_command
from subscriber.errors import SubscriberError
from subscriber.lsn import format_lsn
from subscriber.runtime.worker_snapshot import WorkerSnapshot
from subscriber.schema.relation_names import TableName
from subscriber.sql.keywords import quote_identifier
from subscriber.targets import Target

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
    """A subscription or a table that ``run --once`` has not finished.

    Attributes:
        message: the subscription or the table, and the reason.
        hint: what the user can do.
    """

    message: str
    hint: str

    def __str__(self) -> str:
        return f"{self.message}\nHINT:  {self.hint}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run.

    Attributes:
        finished: whether the run ended because every subscription had caught up or given up.
        has_looked: whether the catalog was ever read.
        catalog_is_known: whether the last attempt to read the catalog succeeded.
        subscriptions: all subscriptions of the target, as last read.
        worked_for: the names of the subscriptions that had a worker in the run, by the number of
            the subscription.
        workers: the workers at the end, by the number of the subscription.
        disabled_by: the error that has disabled a subscription, by the number of the subscription.
    """

    finished: bool
    has_looked: bool
    catalog_is_known: bool
    subscriptions: Sequence[Subscription]
    worked_for: Mapping[int, str]
    workers: Mapping[int, WorkerSnapshot]
    disabled_by: Mapping[int, SubscriberError | None]


def has_done_everything(target: Target, outcome: Outcome) -> bool:
    """Return whether a run has done everything up to its mark. What it has not done is logged as an
    error; what it does not replicate is logged as a warning.
    """
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
    if outcome.has_looked and not outcome.worked_for:
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
            if worker.relations.unfinished:
                yield from (table_not_ready(name, one) for one in _unfinished_with_errors(target, worker))


def _unfinished_with_errors(target: Target, worker: WorkerSnapshot) -> Sequence[SubscriptionRelation]:
    """Return the tables of a worker that are not ready, with their errors from the catalog if it
    can be read.
    """
    try:
        with target.reporting(), target.engine.connect() as connection:
            relations = catalog.relations_of(connection, worker.subscription.subid)
    except SubscriberError:
        return worker.relations.unfinished
    return [relation for relation in relations if relation.state is not RelationState.READY]


def table_not_ready(subscription: str, relation: SubscriptionRelation) -> Remaining:
    """Report a table whose state is not r, with the error of the last attempt to copy it."""
    state, reason = _STATES[relation.state]
    hint = _AGAIN
    if relation.error is not None:
        reason, hint = (
            _first_line(relation.error),
            _hint_of(relation.error) or (f"Remove the cause; `subscriber status` has the time of the error. {_AGAIN}"),
        )
    return Remaining(
        f'table "{relation.qualified_name}" of subscription "{subscription}" is not ready'
        f' (state "{relation.state.value}", {state}): {reason}',
        hint,
    )


def stream_not_caught_up(worker: WorkerSnapshot) -> Remaining:
    """Report a subscription that has not applied everything up to its mark, with the failure that
    is the reason.
    """
    name, failure, mark = worker.subscription.name, worker.failure, worker.mark
    where = f"it has applied changes up to {format_lsn(worker.applied)}" + (
        ", and the publisher's WAL position has not been read" if mark is None else f" of {format_lsn(mark)}"
    )
    if failure is None:
        return Remaining(f'subscription "{name}" has not caught up: {where}', _AGAIN)
    return Remaining(
        f'subscription "{name}" has not caught up: {failure.message} ({where})',
        failure.hint or f"Remove the cause; the whole error is above. {_AGAIN}",
    )


def went_away(name: str, now: Subscription | None, failure: SubscriberError | None) -> Remaining:
    """Report a subscription that was enabled during the run, but has no worker at its end."""
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
    """Report a target in which no subscription is enabled. A user who waits for a run to catch up
    has expected otherwise.
    """
    if not disabled:
        return Remaining(
            "no subscription is enabled in this target: it has none",
            "Check --target and SUBSCRIBER_TARGET, or CREATE SUBSCRIPTION first.",
        )
    enable = " ".join(f"ALTER SUBSCRIPTION {quote_identifier(name)} ENABLE;" for name in sorted(disabled)[:_SHOWN])
    return Remaining(f"no subscription is enabled in this target; disabled: {_names(disabled)}", enable)


def warn_of_disabled(disabled: Collection[str]) -> None:
    """Log a warning with the subscriptions that are disabled; the run does not wait for them."""
    if disabled:
        logger.warning(
            "disabled subscriptions are not run, and whether they have caught up is not known: %s", _names(disabled)
        )


def warn_of_unknown_tables(target: Target, subscription: Subscription, known: Collection[TableName]) -> None:
    """Log which tables of the publications the subscription does not have, and which publications
    do not exist.

    The changes of these tables are not replicated, and nothing else reports that.
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

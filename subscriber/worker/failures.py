"""Handles the failures of a subscription's worker: logging, recording, retrying and disabling.

Only an error stops a worker that proves a loss of changes, or a contradiction between positions
(:attr:`~subscriber.base.errors.SubscriberError.stops`). Everything else is retried without limit,
as PostgreSQL's worker does (rule C35). A worker that has stopped starts again when a command
changes its subscription.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
from functools import partial
from typing import Final, Literal

from subscriber.apply.conflicts.conflict import ApplyFailure
from subscriber.apply.conflicts.conflict_tally import records_of
from subscriber.base.background import Background
from subscriber.base.errors import ApplyError, PublisherError, SubscriberError
from subscriber.base.lsn import format_lsn
from subscriber.base.retry import LONGEST_RETRIES, FailedAttempts, RetryState, repeat_if_busy
from subscriber.base.run_log import OVER
from subscriber.base.settings import Settings
from subscriber.catalog.statistics import ConflictLog, count_conflicts, record_error, resolve_error
from subscriber.catalog.subscriptions import Subscription, set_enabled
from subscriber.catalog.table_states import SubscriptionRelation, record_relation_error
from subscriber.postgres.sql.quoting import quote_identifier
from subscriber.targets import Target
from subscriber.worker.worker_state import WorkerState

logger = logging.getLogger(__name__)

_RESOLVE_SECONDS: Final = 1.0
"""The interval between two checks whether the last error is resolved."""
_RECORD_SECONDS: Final = 0.05
"""The first pause between two attempts to record a failure."""
_UNNAMED: Final = re.compile(r"ALTER SUBSCRIPTION (?:\.\.\.|…) ")
COPY: Final = "copy"
"""The stage of a failed copy in the log; the others are those of their attempts."""
NOT_FAILED: Final = FailedAttempts()


class FailureLog:
    """Logs, records and counts the failures of one worker, and records that they are resolved."""

    def __init__(self, state: WorkerState, settings: Settings) -> None:
        self._state = state
        self._apply_interval = settings.wal_retrieve_retry_interval
        self._recorded, self._resolved = 1, 0  # an earlier run may have left an error
        self._resolve_again = 0.0
        self.resolving = Background(self._resolve, f"errors of {state.subscription.name}")

    def record_failure(self, attempts: RetryState, error: SubscriberError, began: float = 0.0) -> float:
        """Record the failure of an attempt that began at ``began`` (monotonic seconds), and return
        the seconds to wait. ``attempts`` is updated last: a thread that waits for it reads the
        catalog then.
        """
        error = with_name(error, self._state.subscription)
        longest = self._apply_interval if isinstance(error, ApplyError) else LONGEST_RETRIES * self._apply_interval
        again = "" if error.stops or self.disables(error) else f", trying again in {attempts.next_wait(longest):.1f} s"
        self._log(error, attempts.stage, attempts.failed.in_a_row + 1, again)
        record(self._state.target, self._state.subscription, error)
        self._recorded += 1
        self._count(error, "apply" if isinstance(error, ApplyError) else "worker")
        return attempts.record_failure(error, longest, began=began)

    def record_copy_failure(
        self,
        error: SubscriberError,
        relation: SubscriptionRelation | None,
        worker: Literal["sync", "sync_seq"] = "sync",
        failed: FailedAttempts = NOT_FAILED,
    ) -> None:
        """Record a failed copy; without ``relation``, a failed round of copies or of sequences.
        ``failed`` are the attempts before.
        """
        error = with_name(error, self._state.subscription)
        self._log(error, COPY, failed.in_a_row + 1, "", None if relation is None else relation.qualified_name)
        record(self._state.target, self._state.subscription, error, relation, worker=worker)
        self._recorded += 1
        self._count(error, "copy")

    def _count(self, error: SubscriberError, part: str) -> None:
        self._state.count("errors", 1, part, type(error).__name__)
        conflict = ApplyFailure.of(error).conflict
        if conflict is not None:
            self._state.count("conflicts", 1, conflict.kind.value)

    def over(self, stage: str, failed: FailedAttempts) -> None:
        """Log that a stage works again, after these failed attempts."""
        logger.info(
            'subscription "%(subscription)s" works again (%(stage)s): attempts had failed for %(seconds).0f s, %(attempt)d in all',
            {
                "subscription": self._state.subscription.name,
                "stage": stage,
                "attempt": failed.in_a_row,
                "seconds": time.time() - failed.since,
            },
            extra=OVER,
        )

    def _log(self, error: SubscriberError, stage: str, attempt: int, again: str, table: str | None = None) -> None:
        logger.error(
            'subscription "%(subscription)s"%(table)s: %(error)s (attempt %(attempt)d%(again)s)%(further)s',
            {
                "subscription": self._state.subscription.name,
                "table": "" if table is None else f', table "{table}"',
                "relation": table or error.relation,
                "error": error.message,
                "attempt": attempt,
                "again": again,
                "further": error.further,
                "stage": stage,
                "sqlstate": error.sqlstate,
                "lsn": None if error.lsn is None else format_lsn(error.lsn),
                "xid": error.xid,
            },
        )

    def disables(self, error: SubscriberError) -> bool:
        """Not for a transient error or a refused connection, as in PostgreSQL."""
        refused = isinstance(error, PublisherError) and bool(error.refused)
        return self._state.subscription.options.disable_on_error and not error.transient and not refused

    def disable(self) -> None:
        """Disable the subscription (rule C35)."""
        disable(self._state.target, self._state.subscription)
        self._state.stopped = self._state.disabled = True

    def resolve(self) -> None:
        """Record since when the last error is resolved. This is called while nothing fails."""
        if self._recorded == self._resolved or time.monotonic() < self._resolve_again:
            return
        self._resolve_again = time.monotonic() + _RESOLVE_SECONDS
        with contextlib.suppress(SubscriberError):
            self._resolved = self.resolving.take() or self._resolved

    def _resolve(self) -> int:
        state, recorded, reach = self._state, self._recorded, self._state.reach()
        with state.target.begin() as connection:
            over = resolve_error(connection, state.subscription.subid, applied=reach.applied, waiting=reach.waits)
        return recorded if over else self._resolved


def with_name(error: SubscriberError, subscription: Subscription) -> SubscriberError:
    """The error with the subscription's name, which code below does not know, in its hint."""
    if error.hint is None or not _UNNAMED.search(error.hint):
        return error
    command = f"ALTER SUBSCRIPTION {quote_identifier(subscription.name)} "
    return error.replace(hint=_UNNAMED.sub(lambda _: command, error.hint))


def record(
    target: Target,
    subscription: Subscription,
    error: SubscriberError,
    relation: SubscriptionRelation | None = None,
    *,
    worker: Literal["apply", "sync", "sync_seq"] = "apply",
) -> None:
    """Record a failure in a transaction of its own."""
    try:
        repeat_if_busy(
            partial(_write, target, subscription, error, relation, worker=worker), _RECORD_SECONDS, even_if_away=False
        )
    except SubscriberError as failure:
        # The failure may be that the target cannot be reached. The log has the error.
        logger.debug("could not record an error in the target: %s", failure.message)


def _write(
    target: Target,
    subscription: Subscription,
    error: SubscriberError,
    relation: SubscriptionRelation | None,
    *,
    worker: Literal["apply", "sync", "sync_seq"],
) -> None:
    subid, name = subscription.subid, subscription.name
    with target.begin() as connection:
        record_error(connection, name, error.report(), worker=worker, lsn=error.lsn)
        if relation is not None:
            record_relation_error(connection, subid, relation.schema, relation.name, error.report())
        conflict = ApplyFailure.of(error).conflict
        if conflict is not None:
            # A conflict is counted at every attempt, as PostgreSQL does.
            count_conflicts(connection, subid, name, {conflict.kind: 1})
            if subscription.options.conflict_log_destination != "log":
                ConflictLog(connection, subid, name).write_stop(records_of(conflict))


def disable(target: Target, subscription: Subscription) -> None:
    """Disable a subscription (rule C35); this is PostgreSQL's DisableSubscriptionAndExit."""
    with target.begin() as connection:
        set_enabled(connection, subscription.name, enabled=False)
    logger.warning(
        'subscription "%(subscription)s" has been disabled because of an error', {"subscription": subscription.name}
    )

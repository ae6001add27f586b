"""Handles the failures of a subscription's worker: logging, recording, retrying and disabling.

::

    failure ──▶ log ──▶ catalog: statistics, the table's error, the conflict ──▶ count ──┬─ the part is tried again later
                                                                                         ├─ the subscription is disabled
                                                                                         └─ the worker stops

Only an error stops a worker that proves a loss of changes, or a contradiction between positions
(:attr:`~subscriber.errors.SubscriberError.stops`): a message that does not decode, a gap in the
journal, or a slot that no longer exists. Everything else is retried without limit, as PostgreSQL's
worker does (rule C35): a server may become available again, and somebody may remove the conflicting
row. A worker that has stopped starts again when a command changes its subscription, for instance
ALTER SUBSCRIPTION … ENABLE.
"""

from __future__ import annotations

import contextlib
import logging
import time
from typing import Final

from subscriber import catalog
from subscriber.apply.conflicts.conflict_tally import records_of
from subscriber.apply.conflicts.failure import ApplyFailure
from subscriber.catalog import Subscription, SubscriptionRelation
from subscriber.errors import ApplyError, PublisherError, SubscriberError
from subscriber.runtime.attempts import Attempts
from subscriber.runtime.background import Background
from subscriber.runtime.worker_state import WorkerState
from subscriber.settings import Settings
from subscriber.targets import Target

logger = logging.getLogger(__name__)

_RESOLVE_SECONDS: Final = 1.0
"""The interval between two checks whether the last error is resolved."""
_RECORD_ATTEMPTS: Final = 4
_RECORD_SECONDS: Final = 0.05
"""How often it is tried to record a failure, and the first pause between two attempts. Each further
pause is longer by the same time.
"""
_COULD_NOT_SERIALIZE: Final = "40001"
_LONGEST_RETRIES: Final = 12
"""The waits between the attempts to reach a server double up to so many times
``wal_retrieve_retry_interval`` (a minute). A change that cannot be applied is tried again after
that interval itself, as in PostgreSQL.
"""


class FailureLog:
    """Logs, records and counts the failures of one worker, and records in the catalog when the last
    error is resolved.
    """

    def __init__(self, state: WorkerState, settings: Settings) -> None:
        self._state = state
        self._apply_interval = settings.wal_retrieve_retry_interval
        self._noted, self._resolved = 1, 0  # an earlier run may have left an error
        self._resolve_again = 0.0
        self.resolving = Background(self._resolve, f"errors of {state.subscription.name}")

    def note(self, attempts: Attempts, error: SubscriberError, began: float = 0.0) -> float:
        """Record the failure of an attempt that began at ``began`` (monotonic seconds), and return
        the seconds to wait.

        ``attempts`` is updated last: a thread that waits for the failure reads the catalog as soon
        as ``attempts`` shows it.
        """
        logger.error('subscription "%s": %s', self._state.subscription.name, error.report())
        record(self._state.target, self._state.subscription, error)
        self._noted += 1
        longest = self._apply_interval if isinstance(error, ApplyError) else _LONGEST_RETRIES * self._apply_interval
        return attempts.note_failure(error, longest, began=began)

    def note_copy(self, error: SubscriberError, relation: SubscriptionRelation | None) -> None:
        """Record that the copy of a table has failed, or, if ``relation`` is None, a round of
        copies.
        """
        table = "" if relation is None else f', table "{relation.qualified_name}"'
        logger.error('subscription "%s"%s: %s', self._state.subscription.name, table, error.report())
        record(self._state.target, self._state.subscription, error, relation, sync=True)
        self._noted += 1

    def say_when(self, delay: float) -> None:
        """Log how many seconds later the next attempt begins."""
        logger.info('subscription "%s": trying again in %.1f s', self._state.subscription.name, delay)

    def disables(self, error: SubscriberError) -> bool:
        """Return whether an error disables the subscription. A transient error, for instance a lost
        connection, does not, and neither does a connection that was refused, as in PostgreSQL.
        """
        refused = isinstance(error, PublisherError) and bool(error.refused)
        return self._state.subscription.options.disable_on_error and not error.transient and not refused

    def disable(self) -> None:
        """Disable the subscription (rule C35).

        Raises:
            TargetUnavailable: the target cannot be written.
        """
        disable(self._state.target, self._state.subscription)
        self._state.stopped = self._state.disabled = True

    def resolve(self) -> None:
        """Record in the catalog since when the last error is resolved. This is called while nothing
        fails.
        """
        if self._noted == self._resolved or time.monotonic() < self._resolve_again:
            return
        self._resolve_again = time.monotonic() + _RESOLVE_SECONDS
        with contextlib.suppress(SubscriberError):
            self._resolved = self.resolving.take() or self._resolved

    def _resolve(self) -> int:
        """Return how many of the errors are resolved."""
        state, noted, (_, last) = self._state, self._noted, self._state.current_positions()
        with state.target.begin() as connection:
            over = catalog.resolve_error(
                connection, state.subscription.subid, applied=state.applied, waiting=state.applied < last
            )
        return noted if over else self._resolved


def record(
    target: Target,
    subscription: Subscription,
    error: SubscriberError,
    relation: SubscriptionRelation | None = None,
    *,
    sync: bool = False,
) -> None:
    """Record a failure in the catalog. This is a separate transaction, because the transaction that
    failed was rolled back.

    Args:
        target: the target that contains the catalog.
        subscription: the subscription whose worker failed.
        error: the error that was raised.
        relation: the table that was being copied.
        sync: True if the copy of a table failed, False if the apply worker failed.
    """
    for attempt in range(1, _RECORD_ATTEMPTS + 1):
        try:
            _write(target, subscription, error, relation, sync=sync)
        except SubscriberError as failure:
            # Some targets have optimistic transactions: another thread may have written the row.
            if failure.sqlstate == _COULD_NOT_SERIALIZE and attempt < _RECORD_ATTEMPTS:
                time.sleep(_RECORD_SECONDS * attempt)
                continue
            # The failure may be that the target cannot be reached. The log has the error.
            logger.debug("could not record an error in the target: %s", failure.message)
        return


def _write(
    target: Target,
    subscription: Subscription,
    error: SubscriberError,
    relation: SubscriptionRelation | None,
    *,
    sync: bool,
) -> None:
    subid, name = subscription.subid, subscription.name
    with target.begin() as connection:
        catalog.record_error(connection, name, error.report(), worker="sync" if sync else "apply", lsn=error.lsn)
        if relation is not None:
            catalog.record_relation_error(connection, subid, relation.schema, relation.name, error.report())
        conflict = ApplyFailure.of(error).conflict
        if conflict is not None:
            # A conflict is counted at every attempt, as PostgreSQL does.
            catalog.count_conflicts(connection, subid, name, {conflict.kind: 1})
            catalog.ConflictLog(connection, subid, name).write_stop(records_of(conflict))


def disable(target: Target, subscription: Subscription) -> None:
    """Disable a subscription after an error, as the option ``disable_on_error`` demands (rule C35).
    This is PostgreSQL's DisableSubscriptionAndExit.

    Raises:
        TargetUnavailable: the target cannot be written.
    """
    with target.begin() as connection:
        catalog.set_enabled(connection, subscription.name, enabled=False)
    logger.warning('subscription "%s" has been disabled because of an error', subscription.name)

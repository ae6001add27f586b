"""What is done about the failures of a subscription's worker.

::

    failure ──▶ log ──▶ catalog: statistics, the table's error, the conflict ──▶ count ──┬─ tried again, after a while
                                                                                         ├─ the subscription is disabled
                                                                                         └─ the worker stops for good

Lasting are failures that the next attempt would only repeat without anybody noticing: a message
that does not decode, a gap in the journal, a slot that is gone. A change that cannot be applied is
tried again for ever, as PostgreSQL's worker
does (rule C35): somebody may remove the conflicting row.
"""

from __future__ import annotations

import contextlib
import logging
import time
from typing import Final

from subscriber import catalog
from subscriber.apply.conflict_tally import records_of
from subscriber.apply.failure import ApplyFailure
from subscriber.catalog import Subscription, SubscriptionRelation
from subscriber.errors import ApplyError, ProgressConflict, SubscriberError
from subscriber.runtime.attempts import Attempts
from subscriber.runtime.background import Background
from subscriber.runtime.worker_state import WorkerState
from subscriber.settings import Settings
from subscriber.targets import Target

logger = logging.getLogger(__name__)

_RESOLVE_SECONDS: Final = 1.0
"""Between two looks whether the last error is over."""


def is_tried_again(error: SubscriberError) -> bool:
    """Whether another attempt may help (rule C35). A progress that somebody else has moved does not
    give way to ours.
    """
    return error.transient or (isinstance(error, ApplyError) and not isinstance(error, ProgressConflict))


class FailureLog:
    """Logs, records and counts the failures of one worker, and has the catalog say when the last
    one is over.
    """

    def __init__(self, state: WorkerState, settings: Settings) -> None:
        self._state = state
        self._longest = settings.wal_retrieve_retry_interval
        self._noted, self._resolved = 1, 0  # an earlier run may have left an error
        self._resolve_again = 0.0
        self.resolving = Background(self._resolve, f"errors of {state.subscription.name}")

    def note(self, attempts: Attempts, error: SubscriberError, began: float = 0.0) -> float:
        """Note the failure of an attempt that began at ``began`` (monotonic seconds); gives the
        seconds to wait.

        ``attempts`` has it last: whoever waits for that looks at the catalog next.
        """
        logger.error('subscription "%s": %s', self._state.subscription.name, error.report())
        record(self._state.target, self._state.subscription, error)
        self._noted += 1
        return attempts.note_failure(error, self._longest, began=began)

    def note_copy(self, error: SubscriberError, relation: SubscriptionRelation | None) -> None:
        """Note that a table's copy has failed, or a round of copies."""
        table = "" if relation is None else f', table "{relation.qualified_name}"'
        logger.error('subscription "%s"%s: %s', self._state.subscription.name, table, error.report())
        record(self._state.target, self._state.subscription, error, relation, sync=True)
        self._noted += 1

    def say_when(self, delay: float) -> None:
        """Log when it is tried again."""
        logger.info('subscription "%s": trying again in %.1f s', self._state.subscription.name, delay)

    def disables(self, error: SubscriberError) -> bool:
        """Whether an error disables the subscription; a connection that is lost comes back, and
        does not.
        """
        return self._state.subscription.options.disable_on_error and not error.transient

    def disable(self) -> None:
        """Disable the subscription (rule C35).

        Raises:
            TargetUnavailable: the target cannot be written.
        """
        disable(self._state.target, self._state.subscription)
        self._state.stopped = self._state.disabled = True

    def resolve(self) -> None:
        """Have the catalog say since when the last error is over; called while nothing fails."""
        if self._noted == self._resolved or time.monotonic() < self._resolve_again:
            return
        self._resolve_again = time.monotonic() + _RESOLVE_SECONDS
        with contextlib.suppress(SubscriberError):
            self._resolved = self.resolving.take() or self._resolved

    def _resolve(self) -> int:
        """How many of the errors are over."""
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
    """Write a failure down in the target, in a transaction of its own: the one that met it was
    rolled back.

    Args:
        target: where the catalog is.
        subscription: whose worker failed.
        error: what it raised.
        relation: the table that was copied.
        sync: whether a table's copy failed, and not the apply worker.
    """
    subid, name = subscription.subid, subscription.name
    try:
        with target.begin() as connection:
            catalog.record_error(connection, name, error.report(), worker="sync" if sync else "apply", lsn=error.lsn)
            if relation is not None:
                catalog.record_relation_error(connection, subid, relation.schema, relation.name, error.report())
            conflict = ApplyFailure.of(error).conflict
            if conflict is not None:
                # At every attempt, as PostgreSQL does.
                catalog.count_conflicts(connection, subid, name, {conflict.kind: 1})
                catalog.ConflictLog(connection, subid, name).write_stop(records_of(conflict))
    except SubscriberError:
        # The target itself may be what failed; the log has the error.
        logger.debug("could not record an error in the target")


def disable(target: Target, subscription: Subscription) -> None:
    """As ``disable_on_error`` asks (rule C35): PostgreSQL's DisableSubscriptionAndExit.

    Raises:
        TargetUnavailable: the target cannot be written.
    """
    with target.begin() as connection:
        catalog.set_enabled(connection, subscription.name, enabled=False)
    logger.warning('subscription "%s" has been disabled because of an error', subscription.name)

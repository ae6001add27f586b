"""The sequence synchronization of one subscription: sets sequences in state i, and tries those
again that cannot be set (rule D14).

It runs beside the copies of tables, because these may take long. A failed attempt is repeated after
``wal_retrieve_retry_interval``.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping
from typing import Final

from subscriber.base.background import Background
from subscriber.base.errors import SubscriberError, TargetRelationError
from subscriber.base.retry import FailedAttempts, RetryState
from subscriber.base.settings import Settings
from subscriber.commands.sequence_rows import synchronize_sequences
from subscriber.spark.apply_pause import WriterLock
from subscriber.targets import Connection
from subscriber.worker.failures import FailureLog
from subscriber.worker.worker_state import WorkerState

logger = logging.getLogger(__name__)

_LOG: Final = 'logical replication sequence synchronization worker for subscription "%s" has %s'


class SequenceSync:
    """``tick`` begins an attempt, or takes note of its end, and never waits."""

    def __init__(self, state: WorkerState, writer_lock: WriterLock, settings: Settings, failures: FailureLog) -> None:
        self.attempts = RetryState()
        self._state = state
        self._writer_lock = writer_lock
        self._interval = settings.wal_retrieve_retry_interval
        self._failures = failures
        self._attempt = Background(self._synchronize, f"sequence sync of {state.subscription.name}", state.wake)
        self._began: float | None = None

    @property
    def failed_sequences(self) -> Mapping[tuple[str, str], FailedAttempts]:
        """The sequences that are left after the last attempt, by schema and name."""
        failed = self.attempts.failed
        if failed.error is None:
            return {}
        return {(one.schema, one.name): failed for one in self._state.relations.unfinished_sequences}

    def tick(self) -> None:
        if self._began is None:
            if not self._state.relations.unfinished_sequences:
                self.attempts.record_success()  # a command has removed what failed
                return
            if not self.attempts.is_due():
                return
            self._began = time.monotonic()
            logger.info(_LOG, self._state.subscription.name, "started")
        try:
            warnings = self._attempt.take()
            if warnings is None:
                return
            for text in warnings:
                logger.warning("%s", text)
            if warnings:
                raise TargetRelationError(
                    "logical replication sequence synchronization failed for subscription"
                    f' "{self._state.subscription.name}"',
                    sqlstate="55000",
                    detail=" ".join(f"{text[0].upper()}{text[1:]}." for text in warnings),
                    hint="`subscriber status` shows each sequence with what is to be done.",
                )
        except SubscriberError as error:
            self._failed(error)
        else:
            self.attempts.record_success()
            logger.info(_LOG, self._state.subscription.name, "finished")
        self._began = None
        with contextlib.suppress(SubscriberError):  # the catalog is read again later
            self._state.read_relations()

    def _failed(self, error: SubscriberError) -> None:
        self._failures.record_copy_failure(error, None, "sync_seq")
        if self._failures.disables(error):
            with contextlib.suppress(SubscriberError):
                self._failures.disable()
        began = self._began or 0.0
        self.attempts.record_failure(error, self._interval, first=self._interval, began=began)

    def _synchronize(self) -> list[str]:
        return synchronize_sequences(self._state.target, self._state.subscription, self._write)

    @contextlib.contextmanager
    def _write(self) -> Iterator[Connection]:
        with self._writer_lock, self._state.target.begin() as connection:
            yield connection

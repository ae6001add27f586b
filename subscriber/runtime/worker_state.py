"""The state that the parts of one worker share: the subscription, its tables, and its positions."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from subscriber import catalog
from subscriber.catalog import Subscription, TableStates
from subscriber.errors import PublisherTablesOutdated, SubscriberError
from subscriber.journal.sparing import Sparing
from subscriber.lsn import INVALID_LSN, LSN
from subscriber.positions.consumers import JournalConsumers
from subscriber.runtime.refresh_publisher_tables import refresh_outdated
from subscriber.targets import Target

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class WorkerState:
    """The shared state of one worker. The supervisor's thread writes it, with two exceptions:
    batches advance ``applied``, and a failed copy may disable the subscription.

    Attributes:
        target: the target that the changes are applied to.
        subscription: the subscription of the worker.
        relations: the states of the tables, as they were when the catalog was last read.
        applied: the target's progress; 0/0 while it is not known.
        consumers: the consumers of the subscription in the journal; None until the journal is
            opened.
        watched: reads the positions of the journal; None until the journal is opened.
        positions: the LSN up to which the journal has received, and the end of its last entry, as
            last read.
        stopped: whether the worker has failed for good.
        disabled: whether this failure has disabled the subscription (option ``disable_on_error``).
        is_held: whether a command holds the apply: no table may become ready meanwhile.
        wake: lets the supervisor look after the workers at once; any thread may call it.
    """

    target: Target
    subscription: Subscription
    relations: TableStates = field(default_factory=TableStates)
    applied: LSN = INVALID_LSN
    consumers: JournalConsumers | None = None
    watched: Sparing[tuple[LSN, LSN]] | None = None
    positions: tuple[LSN, LSN] = (INVALID_LSN, INVALID_LSN)
    stopped: bool = False
    disabled: bool = False
    is_held: bool = False
    wake: Callable[[], None] = lambda: None

    def read_positions(self) -> None:
        """Update :attr:`positions` from the journal.

        Raises:
            JournalError: the journal cannot be read.
        """
        if self.watched is not None:
            self.positions = self.watched.get()

    def current_positions(self) -> tuple[LSN, LSN]:
        """Return the current :attr:`positions`, or the last known ones if the journal cannot be
        read now.
        """
        with contextlib.suppress(SubscriberError):  # the code that needs the journal reports its error
            self.read_positions()
        return self.positions

    def read_relations(self) -> None:
        """Update :attr:`relations` from the catalog.

        Raises:
            TargetUnavailable: the target cannot be queried.
        """
        with self.target.reporting(), self.target.engine.connect() as connection:
            self.relations = catalog.read_states(connection, self.subscription.subid)

    def refresh_publisher_tables(self, outdated: PublisherTablesOutdated) -> None:
        """Read the publisher's tables again, because they have changed since they were stored.

        Raises:
            PublisherError: the publisher cannot be queried.
            TargetUnavailable: the target cannot be written.
        """
        refresh_outdated(self.target, self.subscription, outdated)
        logger.info(
            'subscription "%s" has read the publisher\'s tables again: %s', self.subscription.name, outdated.message
        )


def needs_restart(subscription: Subscription, stored: Subscription) -> bool:
    """Return whether ``stored`` differs from ``subscription`` in a way that needs another worker
    (rule C39).
    """
    options = replace(
        subscription.options,
        disable_on_error=stored.options.disable_on_error,
        run_as_owner=stored.options.run_as_owner,
        synchronous_commit=stored.options.synchronous_commit,
        log_conflict_values=stored.options.log_conflict_values,
    )
    return replace(subscription, options=options, skip_lsn=stored.skip_lsn) != stored

"""What the parts of one worker share: the subscription, its tables, and how far it is."""

from __future__ import annotations

import contextlib
import logging
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
    """See the module. The supervisor's thread writes it; batches move ``applied`` on, a failed copy
    may disable.

    Attributes:
        target: where the changes go.
        subscription: what the worker works for.
        relations: its tables, as they were when the catalog was last read.
        applied: the target's progress, once known.
        consumers: its consumers in the journal, once there is one.
        watched: asks the journal for its positions, once there is one.
        positions: how far the journal has received, and where its last entry ends, as last read.
        stopped: whether the worker has failed for good.
        disabled: whether the subscription was disabled because of that (``disable_on_error``).
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

    def read_positions(self) -> None:
        """Read :attr:`positions` now.

        Raises:
            JournalError: the journal cannot be read.
        """
        if self.watched is not None:
            self.positions = self.watched.get()

    def current_positions(self) -> tuple[LSN, LSN]:
        """:attr:`positions` as of now, or as of when the journal could last be read."""
        with contextlib.suppress(SubscriberError):  # whoever needs the journal says what is wrong with it
            self.read_positions()
        return self.positions

    def read_relations(self) -> None:
        """Read :attr:`relations` now.

        Raises:
            TargetUnavailable: the target cannot be asked.
        """
        with self.target.reporting(), self.target.engine.connect() as connection:
            self.relations = catalog.read_states(connection, self.subscription.subid)

    def refresh_publisher_tables(self, outdated: PublisherTablesOutdated) -> None:
        """Read the publisher's tables again, which have changed since the subscription read them.

        Raises:
            PublisherError: the publisher cannot be asked.
            TargetUnavailable: they cannot be stored.
        """
        refresh_outdated(self.target, self.subscription, outdated)
        logger.info(
            'subscription "%s" has read the publisher\'s tables anew: %s', self.subscription.name, outdated.message
        )


def needs_restart(subscription: Subscription, stored: Subscription) -> bool:
    """Whether ``stored`` differs from ``subscription`` in what a worker takes up only when it
    starts (rule C39).
    """
    options = replace(
        subscription.options,
        disable_on_error=stored.options.disable_on_error,
        run_as_owner=stored.options.run_as_owner,
        synchronous_commit=stored.options.synchronous_commit,
        log_conflict_values=stored.options.log_conflict_values,
    )
    return replace(subscription, options=options, skip_lsn=stored.skip_lsn) != stored

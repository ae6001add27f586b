"""The state that the parts of one worker share: the subscription, its tables, and its positions."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from subscriber.base.errors import PublisherTablesOutdated, SubscriberError
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.base.reach import Reach
from subscriber.catalog.subscription_options import OPTIONS
from subscriber.catalog.subscriptions import Subscription
from subscriber.catalog.table_states import TableStates, read_states
from subscriber.commands.consumers import JournalConsumers
from subscriber.stream.journal.positions import CachedAnswer
from subscriber.targets import Target
from subscriber.worker.refresh_publisher_tables import refresh_outdated

logger = logging.getLogger(__name__)

BUCKETS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
"""The upper bounds of a histogram's buckets in seconds; the last bucket has none."""


@dataclass(slots=True)
class WorkerState:
    """What the parts of a worker share. The supervisor's thread writes it, with two exceptions:
    batches advance ``applied``, and a failed copy may disable the subscription.

    ``applied`` is 0/0 while it is not known; ``consumers`` and ``watched`` are None until the
    journal is opened. ``positions`` says how far the journal has received, and where its last entry
    ends. ``stopped``: the worker has failed for good; ``disabled``: this failure has disabled the
    subscription. Any thread may call ``wake``.
    """

    target: Target
    subscription: Subscription
    relations: TableStates = field(default_factory=TableStates)
    applied: LSN = INVALID_LSN
    consumers: JournalConsumers | None = None
    watched: CachedAnswer[tuple[LSN, LSN]] | None = None
    positions: tuple[LSN, LSN] = (INVALID_LSN, INVALID_LSN)
    stopped: bool = False
    disabled: bool = False
    wake: Callable[[], None] = lambda: None
    counts: Counter[tuple[str, ...]] = field(default_factory=Counter)
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def count(self, metric: str, number: float = 1, *labels: str) -> None:
        """Add to a count of this worker. :mod:`subscriber.operate.metrics` has a line for each;
        ``labels`` are those of its line. The counts that ``status`` shows are the fields of
        :class:`~subscriber.catalog.counters.WorkerCounters`.
        """
        with self._counting:  # who reads the counts copies them, and takes no lock
            self.counts[metric, *labels] += number  # type: ignore[assignment]  # seconds are no integers

    def count_seconds(self, metric: str, seconds: float) -> None:
        """Count an event in a histogram: its number, its sum, and the events in each bucket."""
        self.count(metric, 1, f"{next((most for most in BUCKETS if seconds <= most), math.inf)}")
        self.count(metric, seconds, "sum")

    def read_positions(self) -> None:
        if self.watched is not None:
            self.positions = self.watched.get()

    def current_positions(self) -> tuple[LSN, LSN]:
        """The current :attr:`positions`; the last known ones if the journal cannot be read now."""
        with contextlib.suppress(SubscriberError):  # the code that needs the journal reports its error
            self.read_positions()
        return self.positions

    def reach(self) -> Reach:
        """How far the subscription has come, by the last known positions."""
        received, last_entry = self.current_positions()
        return Reach(received, last_entry, self.applied)

    def read_relations(self) -> None:
        with self.target.reporting(), self.target.engine.connect() as connection:
            self.relations = read_states(connection, self.subscription.subid)

    def refresh_publisher_tables(self, outdated: PublisherTablesOutdated) -> None:
        refresh_outdated(self.target, self.subscription, outdated)
        logger.info(
            'subscription "%(subscription)s" has read the publisher\'s tables again: %(error)s',
            {"subscription": self.subscription.name, "error": outdated.message},
        )


def needs_restart(subscription: Subscription, stored: Subscription) -> bool:
    """Whether ``stored`` differs in a way that needs another worker (rule C39)."""
    read_each_time = {name: getattr(stored.options, name) for name, option in OPTIONS.items() if not option.restarts}
    options = replace(subscription.options, **read_each_time)
    before = replace(subscription, options=options, skip_lsn=stored.skip_lsn, retention_active=stored.retention_active)
    return before != stored

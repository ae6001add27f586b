"""What is known of a run at one moment, as immutable data. All that is shown comes from it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, get_args

from subscriber.base.lsn import LSN
from subscriber.base.reach import Reach
from subscriber.base.retry import FailedAttempts
from subscriber.catalog.leases import Lease
from subscriber.catalog.subscriptions import Subscription
from subscriber.operate import lag
from subscriber.operate.sampler import JournalSample, ProcessSample, PublisherSample, Samples
from subscriber.publisher.client import Slot
from subscriber.stream.receive.walreceiver import ReceiverCounts
from subscriber.worker.commit_marks import CommitMarks
from subscriber.worker.slot_receiver import ReceiverState
from subscriber.worker.worker_snapshot import WorkerSnapshot

if TYPE_CHECKING:
    from subscriber.worker.supervisor import Supervisor

State = Literal["starting", "copying", "streaming", "retrying", "stopped", "disabled", "paused"]
STATES: Final[tuple[State, ...]] = get_args(State)


@dataclass(frozen=True, slots=True)
class Observation:
    """One subscription at one moment.

    Attributes:
        worker: None while it has none, because it is disabled or just begins.
        slot: as the publisher has last described it; None if it did not answer or has none.
        now: seconds since 1970, by this machine's clock.
    """

    subscription: Subscription
    worker: WorkerSnapshot | None
    pause: Lease | None
    publisher: PublisherSample
    journal: JournalSample | None
    receiver: ProcessSample | None
    now: float

    @property
    def name(self) -> str:
        return self.subscription.name

    @property
    def state(self) -> State:
        if not self.subscription.enabled:
            return "disabled"
        if self.worker is None:
            return "starting"
        paused = self.pause is not None and self.pause.state in ("paused", "held")
        return "paused" if paused and self.worker.state == "streaming" else self.worker.state

    @property
    def slot(self) -> Slot | None:
        return self.publisher.slots.get(self.subscription.slot_name or "")

    @property
    def reach(self) -> Reach:
        return Reach() if self.worker is None else self.worker.reach

    @property
    def lag_seconds(self) -> float | None:
        if self.worker is None:
            return None
        backlog = None if self.journal is None else self.journal.backlog
        return lag.lag_seconds(self.now, self.reach, self.publisher.moments, self.worker.marks, backlog)

    @property
    def lag_bytes(self) -> int | None:
        return None if self.worker is None else lag.lag_bytes(self.now, self.reach, self.publisher.moments)

    @property
    def error(self) -> str | None:
        """The error because of which the subscription retries or has stopped."""
        failure = None if self.worker is None else self.worker.failure
        return None if failure is None else failure.report()

    @property
    def failing_since(self) -> float | None:
        if self.worker is None or self.worker.failing.error is None:
            return None
        return self.worker.failing.since

    @property
    def retained_bytes(self) -> int | None:
        return self.publisher.retained_bytes(self.slot)


@dataclass(frozen=True, slots=True)
class ReceiverObservation:
    """A receiver without a target at one moment. ``name`` is that of its slot."""

    name: str
    state: ReceiverState
    counts: ReceiverCounts
    failing: FailedAttempts
    publisher: PublisherSample
    journal: JournalSample | None
    now: float

    @property
    def slot(self) -> Slot | None:
        return self.publisher.slots.get(self.name)

    @property
    def received(self) -> LSN:
        """Everything up to here is durable in the journal."""
        return LSN(self.counts.confirmed_lsn)

    @property
    def lag_seconds(self) -> float | None:
        """0 if it is proven that everything was received; None if that is not known."""
        reach = Reach(self.received, self.received, self.received)
        return lag.lag_seconds(self.now, reach, self.publisher.moments, CommitMarks())

    @property
    def lag_bytes(self) -> int | None:
        return lag.lag_bytes(self.now, Reach(received=self.received), self.publisher.moments)

    @property
    def retained_bytes(self) -> int | None:
        return self.publisher.retained_bytes(self.slot)


@dataclass(frozen=True, slots=True)
class RunObservation:
    """A run at one moment. ``subscriptions`` are ordered by name."""

    subscriptions: Sequence[Observation] = ()
    jvm: ProcessSample | None = None
    looped_at: float | None = None
    polls: int = 0
    failed_polls: int = 0
    now: float = field(default_factory=time.time)


def observe(supervisor: Supervisor, samples: Samples) -> RunObservation:
    """The run as it is now. This reads memory only, so any thread may call it at any time."""
    now, watch = time.time(), supervisor.catalog_watch
    snapshots = supervisor.snapshots(look=False)
    pauses, jvm = watch.pauses, supervisor.jvm_pid

    def observation(subscription: Subscription) -> Observation:
        worker = snapshots.get(subscription.subid)
        receiver = None if worker is None or worker.receiver_pid is None else worker.receiver_pid
        return Observation(
            subscription,
            worker,
            pauses.get(subscription.subid),
            samples.publishers.get(subscription.connection or "", PublisherSample()),
            samples.journals.get(subscription.subid),
            None if receiver is None else samples.processes.get(receiver),
            now,
        )

    return RunObservation(
        tuple(sorted(map(observation, watch.subscriptions), key=lambda one: one.name)),
        None if jvm is None else samples.processes.get(jvm),
        supervisor.looped_at,
        watch.polls,
        watch.failed_polls,
        now,
    )

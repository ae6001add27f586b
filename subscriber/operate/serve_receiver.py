"""Serves one ``subscriber receive``: its samples, metrics and health, as long as it lasts."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from subscriber.base.background import in_background
from subscriber.base.errors import SubscriberError
from subscriber.operate.exposition import ReceiverCollector, registry
from subscriber.operate.health import Health, HealthFacts, HealthLimits, Verdict, judge
from subscriber.operate.http_server import serving
from subscriber.operate.observation import ReceiverObservation
from subscriber.operate.sampler import SAMPLE_SECONDS, AskedJournal, AskedPublisher, JournalSample
from subscriber.operate.web_app import Answers, application, problem_of
from subscriber.worker.slot_receiver import SlotReceiver

_LOOK_SECONDS: Final = 0.5
_END_SECONDS: Final = 1.0


class ReceiverSampler:
    """Asks the publisher and the journal of a receiver every :data:`SAMPLE_SECONDS`."""

    def __init__(self, receiver: SlotReceiver) -> None:
        self._receiver = receiver
        self._publisher = AskedPublisher(receiver.source.conninfo)
        self._journal: AskedJournal | None = None
        self._sample: JournalSample | None = None

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        with in_background("samples", self._work, _END_SECONDS):
            yield
        self._publisher.close()

    def observe(self) -> ReceiverObservation:
        """The receiver as it is now. This reads memory only."""
        receiver = self._receiver
        return ReceiverObservation(
            receiver.source.slot,
            receiver.state,
            replace(receiver.counts),
            receiver.attempts.failed,
            self._publisher.sample,
            self._sample,
            time.time(),
        )

    def _work(self, end: threading.Event) -> None:
        due = 0.0
        while not end.wait(_LOOK_SECONDS):
            asks = time.monotonic() >= due
            if asks:
                due = time.monotonic() + SAMPLE_SECONDS
            self.sample(asks=asks)

    def sample(self, *, asks: bool = True) -> None:
        """Take the answers that have come, and with ``asks`` ask again."""
        assignment = self._receiver.assignment
        if assignment is None:
            return  # the publisher has not answered yet
        self._publisher.take([assignment.slot], assignment.system_identifier, asks=asks)
        if self._journal is None:
            self._journal = AskedJournal(assignment.journal)
        if asks:
            with contextlib.suppress(SubscriberError):  # the receiver reports it
                self._sample = self._journal.look(None)


def judge_receiver(one: ReceiverObservation, limits: HealthLimits) -> Health:
    """A receiver that waits for another one is not healthy: it does not receive."""
    if one.state == "standby":
        return Health(Verdict.UNKNOWN, ("not ready: waiting until the other receiver ends",))
    problem = problem_of(one.slot)
    facts = HealthFacts(one.name, one.state, one.lag_seconds, one.failing.in_a_row, problem, one.publisher.error)
    return judge([facts], limits, of="slot")


@contextlib.contextmanager
def serve_receiver(receiver: SlotReceiver, address: tuple[str, int], token: str | None) -> Iterator[int]:
    """Serve while the block runs; gives the port."""
    sampler = ReceiverSampler(receiver)
    answers = Answers(
        registry(ReceiverCollector(sampler.observe)),
        lambda: receiver.looped_at,
        lambda: None if receiver.is_ready else f"the receiver is {receiver.state}",
        lambda limits: judge_receiver(sampler.observe(), limits),
        token,
    )
    with sampler.running(), serving(application(answers), *address) as port:
        yield port

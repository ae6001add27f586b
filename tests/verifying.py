"""Subscriptions to verify: the target's tables are filled by repairs, and nothing is streamed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from subscriber.base.errors import SubscriberError
from subscriber.base.lsn import LSN
from subscriber.base.settings import Settings
from subscriber.catalog.subscriptions import Subscription
from subscriber.publisher.snapshot import Snapshot, exported_snapshot
from subscriber.targets import Target
from subscriber.verify.report import TableVerification, VerifyOptions, VerifyReport
from subscriber.verify.verify_subscription import verify_subscription
from tests.subscribing import Session


@dataclass
class IdleHold:
    """A hold of a subscription that nobody applies, whose publisher nobody writes.

    Attributes:
        lost: the errors that the next checks raise.
        on_snapshot: called when the publisher's snapshot was taken.
        holds: the number of holds.
    """

    lost: list[SubscriberError] = field(default_factory=list)
    on_snapshot: Callable[[], object] = lambda: None
    holds: int = 0

    @contextmanager
    def __call__(
        self, target: Target, subscription: Subscription, settings: Settings, *, seconds: float | None = None
    ) -> Iterator[IdleHeld]:
        self.holds += 1
        with exported_snapshot(subscription.conninfo, subscription.name) as snapshot:
            self.on_snapshot()
            yield IdleHeld(snapshot.lsn, snapshot, self)


@dataclass
class IdleHeld:
    lsn: LSN
    snapshot: Snapshot
    hold: IdleHold

    def check(self) -> None:
        if self.hold.lost:
            raise self.hold.lost.pop()


def subscribe(session: Session, publications: str = "p", options: str = "", name: str = "s") -> None:
    """Create a subscription with tables and without rows, whose tables are ready."""
    session.run(
        f"CREATE SUBSCRIPTION {name} CONNECTION '$pub' PUBLICATION {publications}"
        f" WITH (create_tables = true, copy_data = false, create_slot = false, slot_name = NONE, enabled = false{options})"
    )


def verify(session: Session, name: str = "s", hold: IdleHold | None = None, **options: Any) -> VerifyReport:
    """Compare the subscription's tables, in this process."""
    return verify_subscription(
        session.target, name, session.settings, VerifyOptions(processes=1, **options), hold=hold or IdleHold()
    )


def counts(found: TableVerification) -> tuple[int, int, int]:
    return found.differing, found.only_publisher, found.only_target

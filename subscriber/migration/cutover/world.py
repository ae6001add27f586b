"""What the steps of a cutover ask of publisher and target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from subscriber.catalog import Subscription, SubscriptionRelation
from subscriber.catalog.cutovers import Cutover
from subscriber.commands.reached_position import ReachedPosition
from subscriber.commands.refresh_sequences import UnsetSequence
from subscriber.lsn import LSN
from subscriber.publisher.fence import Fence, Session
from subscriber.publisher.publisher import Slot
from subscriber.publisher.reverse_sequences import SetForward

Way = Literal["schema apply", "schema diff", "refresh"]
"""What brings a missing object: ``subscriber schema apply``, the statements that ``subscriber
schema diff`` lists with it, or REFRESH PUBLICATION.
"""


@dataclass(frozen=True, slots=True)
class MissingObject:
    """An object of the publisher that the target lacks.

    Attributes:
        text: its kind and its name.
        way: what brings it.
    """

    text: str
    way: Way = "schema apply"


@dataclass(frozen=True, slots=True)
class TargetState:
    """What the target's catalog says about a subscription.

    Attributes:
        subscription: the subscription.
        tables: its tables.
        last_error: the first line of its last error if that is not resolved, else None.
        prepared: the transactions that are prepared in the target.
        runner: `subscriber run` in words if it is running, else None.
    """

    subscription: Subscription
    tables: Sequence[SubscriptionRelation]
    last_error: str | None
    prepared: Sequence[str]
    runner: str | None


@dataclass(frozen=True, slots=True)
class PublisherState:
    """What the publisher says.

    Attributes:
        flushed: the end of its durable WAL.
        slot: the subscription's slot; None if it does not exist.
        is_standby: whether it is in recovery.
        database: the name of its database.
    """

    flushed: LSN
    slot: Slot | None
    is_standby: bool
    database: str


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """The result of a comparison, without rows.

    Attributes:
        is_equal: whether publisher and target are equal.
        lsn: the position at which they were compared.
        differing: a line for each table that is not equal.
        report: the comparison as JSON, without keys.
    """

    is_equal: bool
    lsn: LSN
    differing: Sequence[str]
    report: Mapping[str, Any] = field(default_factory=dict)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was compared in another way, or not at all, with the table."""
        return tuple(f"{table['table']}: {note}" for table in self.report.get("tables", ()) for note in table["notes"])


class World(Protocol):
    """Publisher and target of one subscription.

    Every method raises a SubscriberError where a server cannot be asked.
    """

    name: str
    publisher_place: str
    target_place: str
    target_kind: str

    # The target
    def state(self) -> TargetState:
        """What the target's catalog says."""

    def position(self) -> ReachedPosition:
        """How far the target is."""

    def count_rows(self) -> dict[str, int]:
        """The rows of each of the subscription's tables in the target."""

    def refresh_sequences(self) -> list[str]:
        """Set the target's sequences and counters; returns the notices and warnings."""

    def sequences_left_alone(self) -> list[UnsetSequence]:
        """The sequences of columns that :meth:`refresh_sequences` would not set."""

    def missing_objects(self) -> list[MissingObject]:
        """The published tables and columns that the target lacks; and the indexes, constraints,
        defaults and other objects that it lacks and the schema step can build, also if only while
        no run works.
        """

    def verify(self, seconds: float) -> VerifyResult:
        """Compare all tables at one LSN, which is to be reached within some seconds."""

    def verify_at_rest(self, seconds: float) -> VerifyResult:
        """Compare all tables while the subscription is disabled; `subscriber run` is not needed. A
        snapshot of the publisher is to be there within some seconds.
        """

    def published_after(self, lsn: LSN) -> bool:
        """Whether the publisher has published a change after a position, while the subscription is
        disabled.
        """

    def write(self, cutover: Cutover, *, enabled: bool | None = None) -> None:
        """Store a cutover and, in the same transaction, enable or disable the subscription."""

    def wake(self) -> None:
        """Let a running `subscriber run` read the catalog now."""

    def drop_subscription(self) -> list[str]:
        """Drop the subscription with its slot; returns the notices."""

    # The publisher
    def publisher_state(self) -> PublisherState:
        """What the publisher says."""

    def barrier(self) -> LSN:
        """Write a barrier."""

    def open_writes(self) -> list[str]:
        """Transactions in progress that may bring changes."""

    def slot_is_released(self) -> bool:
        """Whether the subscription's slot is released within a while."""

    def fence_obstacles(self) -> list[tuple[str, str]]:
        """Why there can be no fence, and the statements that put it right."""

    def own_setting(self) -> str | None:
        """The database's own default_transaction_read_only."""

    def raise_fence(self, former: str | None) -> Fence:
        """Fence the database."""

    def lift_fence(self, former: str | None) -> None:
        """Lift the fence."""

    def unfenced_sessions(self, since: str) -> list[Session]:
        """The sessions that the fence does not hold."""

    def end_sessions(self, sessions: Sequence[Session]) -> None:
        """Terminate sessions."""

    # The way back
    def has_way_back(self) -> bool:
        """Whether the target can publish its changes."""

    def reverse_obstacles(self, conninfo: str | None) -> list[tuple[str, str]]:
        """Why there can be no way back, and what to do.

        ``conninfo`` is how the old publisher's server reaches the target; None for the target's
        URL.
        """

    def prepare_reverse(self, name: str, conninfo: str | None) -> None:
        """Make publication, slot and subscription of the way back."""

    def reverse_drained(self, name: str) -> bool:
        """Whether the old publisher has all that the target had when this was first asked."""

    def way_back_stands(self, name: str) -> bool:
        """Whether subscription and slot of the way back are still there."""

    def came_back(self, name: str) -> bool:
        """Whether a transaction of the target has been applied at the old publisher."""

    def set_publisher_sequences(self) -> SetForward:
        """Set the old publisher's sequences forward to the target's."""

    def drop_reverse(self, name: str) -> None:
        """Drop publication, slot and subscription of the way back."""

    def leave_out_origins(self) -> bool:
        """Set ``origin = none``, so that what came back is not sent again.

        Returns whether that is a change.
        """

    def reverse_name(self) -> str:
        """The name of publication, slot and subscription of the way back."""

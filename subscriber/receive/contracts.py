"""What the receiver asks of the two things it stands between: a replication stream and a journal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

from subscriber.lsn import LSN
from subscriber.protocol.messages import Relation


class ReplicationStream(Protocol):
    """A CopyBoth stream that has been started."""

    def read(self) -> bytes | None:
        """The next CopyData payload, or None when none has arrived yet.

        Raises:
            PublisherUnavailable: the stream has ended or the connection was lost.
        """

    def wait(self, seconds: float) -> None:
        """Return when something may have arrived, at the latest after ``seconds``."""

    def send(self, data: bytes) -> None:
        """Send a CopyData payload."""


class EntryBuilder(Protocol):
    """One entry on its way into the journal.

    Attributes:
        frames: CopyData payloads not yet written; the receiver appends to it directly.
        relations: the relation map as of the first of them.
    """

    frames: list[bytes]
    relations: dict[int, Relation]

    @property
    def position(self) -> int:
        """How many messages it holds."""

    def spill(self) -> None:
        """Move the collected frames to disk."""

    def truncate(self, position: int) -> None:
        """Forget the messages from ``position`` on, but not the relation descriptions among them."""

    def prepend(self, frame: bytes) -> None:
        """Put a message before everything else."""

    def discard(self) -> None:
        """Forget every message, but keep in ``relations`` what they described."""


B = TypeVar("B", bound=EntryBuilder)


class Journal(Protocol[B]):
    """Where finished transactions become durable.

    Attributes:
        end: finish LSN of the last entry.
    """

    end: LSN

    @property
    def durable_lsn(self) -> LSN:
        """Everything published up to here is on disk (or was nothing for us)."""

    def builder(self, relations: Mapping[int, Relation], *, in_stream: bool) -> B:
        """A builder for a new entry."""

    def publish(self, builder: B, end: LSN, *, kind: str, xid: int, finish: bytes) -> None:
        """Make an entry durable and visible; ``kind`` is t, p, k or r. The builder is empty afterwards."""

    def advance(self, received: LSN) -> None:
        """Record durably that nothing was published for us up to ``received``."""

    def holds_prepared(self, xid: int) -> bool:
        """Whether the changes of prepared transaction ``xid`` are in the journal."""

    def applied(self) -> LSN:
        """How far the slowest consumer has come."""

    def trim(self) -> None:
        """Remove what every consumer has passed."""

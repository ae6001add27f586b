"""What the receiver asks of the two things it stands between: a replication stream and a
journal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, TypeVar

from subscriber.lsn import LSN
from subscriber.protocol.messages import Relation

TRANSACTIONS: Final = "t"
PREPARED: Final = "p"
COMMIT_PREPARED: Final = "k"
ROLLBACK_PREPARED: Final = "r"
"""The kinds of a journal's entries; committed transactions (and messages between them) may share
one.
"""


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
    """One entry on its way into the journal: messages in stream order, the first of them on disk
    already, perhaps.

    Attributes:
        relations: the relation map as of the first frame that is not yet written; never changed,
            but replaced by another.
        unwritten_bytes: size of the frames that are not yet written.
    """

    relations: Mapping[int, Relation]
    unwritten_bytes: int

    @property
    def position(self) -> int:
        """How many messages it holds."""

    @property
    def unwritten(self) -> int:
        """How many of them are not yet written."""

    def append(self, frame: bytes) -> None:
        """Add a message: the whole CopyData payload."""

    def extend(self, frames: Sequence[bytes]) -> None:
        """Add several messages."""

    def split(self, count: int) -> list[bytes]:
        """Take out the unwritten messages after the first ``count``, and give them back."""

    def spill(self) -> None:
        """Move the collected frames to disk."""

    def truncate(self, position: int) -> None:
        """Forget the messages from ``position`` on, but not the relation descriptions among
        them.
        """

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
        """Make an entry durable and visible; ``kind`` is one of the four above. The builder is
        empty afterwards.
        """

    def advance(self, received: LSN) -> None:
        """Record durably that nothing was published for us up to ``received``."""

    def holds_prepared(self, xid: int) -> bool:
        """Whether the changes of prepared transaction ``xid`` are in the journal."""

    def applied(self) -> LSN:
        """How far the slowest known consumer has come; cheap enough for every turn of the
        receiver's loop.
        """

    def trim(self) -> None:
        """Look for consumers that are new or gone, and remove what every one has passed."""

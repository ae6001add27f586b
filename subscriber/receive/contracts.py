"""What the receiver requires of a replication stream and of a journal, as protocols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, TypeVar

from subscriber.lsn import LSN
from subscriber.protocol.messages import Relation

TRANSACTIONS: Final = "t"
PREPARED: Final = "p"
COMMIT_PREPARED: Final = "k"
ROLLBACK_PREPARED: Final = "r"
"""The four kinds of journal entries. Several committed transactions, and messages between them, may
share one entry.
"""


class ReplicationStream(Protocol):
    """A CopyBoth stream that has been started."""

    def read(self) -> Sequence[bytes]:
        """The next CopyData payloads, as many as have arrived, up to a limit; none when none has
        arrived yet. The server's notices are among them (:mod:`subscriber.protocol.notice`).

        Raises:
            PublisherUnavailable: the stream has ended or the connection was lost. Everything that
                came before was returned.
        """

    def wait(self, seconds: float, *, more: bool) -> None:
        """Wait until data may have arrived, but at most ``seconds``.

        Args:
            seconds: the longest time to wait.
            more: whether much has arrived recently, so that more will come in a moment. It is read
                with fewer calls if the stream is left alone for that moment.
        """

    def send(self, data: bytes) -> None:
        """Send a CopyData payload."""


class EntryBuilder(Protocol):
    """One entry on its way into the journal: messages in stream order, of which the first may be on
    disk.

    Attributes:
        relations: the relation map as of the first frame that is not yet written; it is never
            modified, but replaced by a new map.
        unwritten_bytes: size of the frames that are not yet written.
    """

    relations: Mapping[int, Relation]
    unwritten_bytes: int

    @property
    def position(self) -> int:
        """The number of messages in the entry."""

    @property
    def unwritten(self) -> int:
        """The number of messages that are not yet written."""

    def append(self, frame: bytes) -> None:
        """Add one message, given as its whole CopyData payload."""

    def extend(self, frames: Sequence[bytes]) -> None:
        """Add several messages."""

    def split(self, count: int) -> list[bytes]:
        """Remove and return the unwritten messages after the first ``count``."""

    def spill(self) -> None:
        """Write the collected frames to disk."""

    def truncate(self, position: int) -> None:
        """Remove the messages from ``position`` on, except the relation messages among them."""

    def prepend(self, frame: bytes) -> None:
        """Put a message before all others."""

    def discard(self) -> None:
        """Remove every message, but keep the relations that they described in ``relations``."""


B = TypeVar("B", bound=EntryBuilder)


class Journal(Protocol[B]):
    """The journal in which finished transactions become durable.

    Attributes:
        end: end LSN of the last entry.
    """

    end: LSN

    @property
    def durable_lsn(self) -> LSN:
        """The LSN up to which everything that was published is on disk."""

    def builder(self, relations: Mapping[int, Relation], *, in_stream: bool) -> B:
        """A builder for a new entry."""

    def publish(self, builder: B, end: LSN, *, kind: str, xid: int, finish: bytes) -> None:
        """Make an entry durable and visible. The builder is empty afterwards.

        Args:
            builder: the entry's messages.
            end: end LSN of the entry.
            kind: ``TRANSACTIONS``, ``PREPARED``, ``COMMIT_PREPARED`` or ``ROLLBACK_PREPARED``.
            xid: the transaction of the entry; 0 for a run of several transactions.
            finish: the message that finished the entry.
        """

    def advance(self, received: LSN) -> None:
        """Record durably that nothing was published between the last entry and ``received``."""

    def holds_prepared(self, xid: int) -> bool:
        """Whether the changes of prepared transaction ``xid`` are in the journal."""

    def applied(self) -> LSN:
        """The position of the slowest known consumer. It is cheap enough to ask in every cycle of
        the receiver's loop.
        """

    def fastest(self) -> LSN:
        """The position of the fastest known consumer, as cheap as :meth:`applied`."""

    def trim(self) -> None:
        """Remove the entries that every consumer has passed, and keep the number of files small."""

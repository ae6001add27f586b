"""Streamed transactions before they finish (rules C42 to C44).

::

    S 731 ── R I I(733) I(733) ── E      spool 731:  R I I I          subtransactions: (733 → 2)
    S 731 ── I(734) ── E                 spool 731:  R I I I I                         (733 → 2, 734 → 4)
    A 731/733                            spool 731:  R I               733 and everything after it is gone
    c 731                                B R I … C become one entry of the journal

A subtransaction's changes are cut off at its first change, together with all that follow: what follows
belongs to it or to its children, since its parent cannot write while it is open. Nothing is applied and no
relation map changes before the transaction commits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic

from subscriber.receive.contracts import B


@dataclass(slots=True)
class StreamedTransaction(Generic[B]):
    """One transaction that arrives in blocks.

    Attributes:
        xid: the top-level transaction.
        builder: its changes so far.
        current: raw xid of the (sub)transaction that made the last change.
        first_changes: for each subtransaction, in order of appearance, where it began.
        described: relation id → when it was described, counted over the whole connection.
    """

    xid: int
    builder: B
    current: bytes = b""
    first_changes: list[tuple[bytes, int]] = field(default_factory=list)
    described: dict[int, int] = field(default_factory=dict)

    def note_subtransaction(self, xid: bytes) -> None:
        """A change of ``xid`` is about to be added: remember where it began, if it is new."""
        self.current = xid
        if int.from_bytes(xid) != self.xid and all(xid != known for known, _ in self.first_changes):
            self.first_changes.append((xid, self.builder.position))

    def abort_subtransaction(self, subxid: int) -> None:
        """Cut off what ``subxid`` did; an unknown one had done nothing (rule C43)."""
        wanted = subxid.to_bytes(4)
        for index, (xid, position) in enumerate(self.first_changes):
            if xid == wanted:
                self.builder.truncate(position)
                del self.first_changes[index:]
                self.current = b""
                return

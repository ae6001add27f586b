"""Check whether the publisher's WAL is still the history that was received.

A publisher that was restored from a backup, or a standby that was behind and was promoted, writes a
different history from some point on, with the same LSNs and the same system identifier::

    received     ───────────────┬─────────▶ D              on timeline 1
    publisher                   └──────────────────▶ F     on timeline 2, which left timeline 1 at S

A client that asks for the changes after D gets no error, and nothing between S and D. Two facts
reveal this:

- A logical walsender sends flushed WAL only. Nothing beyond the publisher's flush position F was
  therefore ever received from this history: D > F proves a different history.
- A server that ends recovery begins a new timeline, and its history file has the position at which
  each older timeline ended. D may therefore be at most the position S at which the timeline that it
  was received on ended.

A server that was restored without recovery (from a cold copy) keeps its timeline. The difference is
detected only while F is less than D.

A standby may be promoted while a connection stays open, so what is received from it is recorded
with the unknown timeline 0. After a restart, a standby replays WAL that it had before, so F < D
proves nothing there; the receiver waits for it.

After a failover, a name or the first host of a list may lead to a server that was the primary
before. If changes were received from a primary, a standby or a server on an older timeline is
refused and asked again later (:func:`check_is_primary`): what it says of the slot proves nothing,
and the primary keeps the slot meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from subscriber.base import errors
from subscriber.base.lsn import LSN, format_lsn, parse_lsn
from subscriber.publisher.server_errors import PRIMARY_HINT

UNKNOWN_TIMELINE: Final = 0


def check_system(found: str, before: str | None) -> None:
    if before not in (None, found):
        raise errors.OtherSystem(
            f"the publisher is system {found}, but the subscription has replicated from system {before}",
            detail="An LSN of one system has no meaning in another system.",
            hint="If CONNECTION names the wrong server, use ALTER SUBSCRIPTION … CONNECTION. If the publisher went through pg_upgrade"
            f" (17 or later keeps its slots), use ALTER SUBSCRIPTION … DISABLE, SET (system_identifier = '{found}'), ENABLE."
            f" Otherwise: {errors.COPY_FROM_SCRATCH}",
        )


class ReplicationCommands(Protocol):
    """A replication connection that has not started to stream."""

    @property
    def address(self) -> str: ...

    def execute(self, command: str) -> list[dict[str, str | None]]: ...


@dataclass(frozen=True, slots=True)
class TimelineEnd:
    """A line of a timeline's history file: an older timeline, and the LSN at which it was left."""

    timeline: int
    end: LSN


@dataclass(frozen=True, slots=True)
class Server:
    """A server's WAL, ``flushed`` up to there (on a standby: what it may send). ``ancestors`` are
    older timelines, oldest first, if they were read; ``address`` is for messages.
    """

    system_identifier: str
    timeline: int
    flushed: LSN
    is_standby: bool
    ancestors: tuple[TimelineEnd, ...] = ()
    address: str = ""

    def __str__(self) -> str:
        role = "a standby (in recovery)" if self.is_standby else "not in recovery"
        return f"The server that answered is {self.address}: it is {role}, on timeline {self.timeline}."

    @property
    def stays_on(self) -> int:
        """The timeline of what is received over this connection; 0 if it may change meanwhile."""
        return UNKNOWN_TIMELINE if self.is_standby else self.timeline


def identify(connection: ReplicationCommands, *, received_on: int) -> Server:
    """IDENTIFY_SYSTEM, and TIMELINE_HISTORY if it is needed."""
    is_standby = connection.execute("SELECT pg_is_in_recovery()")[0]["pg_is_in_recovery"] == "t"
    row = connection.execute("IDENTIFY_SYSTEM")[0]
    timeline = int(row["timeline"] or 0)
    ancestors: tuple[TimelineEnd, ...] = ()
    if received_on not in (UNKNOWN_TIMELINE, timeline) and timeline > 1:
        ancestors = _ancestors(connection, timeline)
    flushed = parse_lsn(row["xlogpos"] or "")
    return Server(str(row["systemid"]), timeline, flushed, is_standby, ancestors, connection.address)


@contextlib.contextmanager
def naming_server(server: Server) -> Iterator[None]:
    """Add to an error that stops a subscription which server has answered, of several."""
    try:
        yield
    except errors.PublisherError as error:
        if not error.stops:
            raise
        detail = f"{error.detail} {server}" if error.detail else str(server)
        hint = error.hint if isinstance(error, errors.OtherSystem) else f"{_OTHER_SERVER_HINT} {error.hint}"
        raise error.replace(detail=detail, hint=hint) from None


_OTHER_SERVER_HINT: Final = (
    "If that server is not the primary, correct CONNECTION: name all hosts, with target_session_attrs=primary; nothing is lost then."
    " If it is the primary:"
)


def check_is_primary(server: Server, received_on: int, *, wants_standby: bool = False) -> None:
    """Refuse a server that is in recovery, or on an older timeline; see the module's docstring."""
    if received_on == UNKNOWN_TIMELINE:
        return
    if server.is_standby and not wants_standby:
        raise errors.PublisherUnavailable(
            f"the server is a standby, but changes were received from a primary, on timeline {received_on}",
            sqlstate="55000",
            detail=f"{server} It was demoted, or its name leads to another server than before.",
            hint=PRIMARY_HINT,
        )
    if not server.is_standby and server.timeline < received_on:
        raise errors.PublisherUnavailable(
            f"the server is on timeline {server.timeline}, but changes were received on timeline {received_on}",
            sqlstate="55000",
            detail=f"{server} It was the primary before another server was promoted, and lacks what was written since.",
            hint="Stop it, or make it a standby of the present primary. If only its name is wrong, correct CONNECTION: name all hosts,"
            " with target_session_attrs=primary. The slot on the present primary is not affected, and the next attempt follows.",
        )


def _ancestors(connection: ReplicationCommands, timeline: int) -> tuple[TimelineEnd, ...]:
    try:
        content = connection.execute(f"TIMELINE_HISTORY {timeline}")[0]["content"]
    except errors.PublisherUnavailable as error:
        if error.sqlstate[:2] != "58":
            raise
        # The file is missing (58P01): somebody must restore it.
        raise errors.PublisherNotReady(
            f"the publisher does not have the history file of its timeline {timeline}",
            detail=error.message,
            hint="Restore the file to the publisher's pg_wal folder: it is in the WAL archive. Without it, it cannot be"
            " proven that the received changes are part of the publisher's history.",
        ) from error
    return parse_timeline_history(content or "")


def parse_timeline_history(content: str) -> tuple[TimelineEnd, ...]:
    r"""The lines of a timeline's history file: parent timeline and the LSN where it ended. The
    reason in a line is ignored.

    >>> parse_timeline_history("1\t0/3000060\tno recovery target specified\n")
    (TimelineEnd(timeline=1, end=50331744),)
    """
    fields = [line.split("\t") for line in content.splitlines() if line.strip() and not line.startswith("#")]
    return tuple(TimelineEnd(int(field[0]), parse_lsn(field[1].strip())) for field in fields)


def check_history(server: Server, received: LSN, received_on: int) -> None:
    """Refuse a server whose history is not the history up to ``received``, which was received on
    timeline ``received_on`` (0 if unknown). HistoryDiverged has both positions and ``diverged_at``.
    PublisherUnavailable: a standby has not replayed up to ``received`` yet.
    """
    if received_on not in (UNKNOWN_TIMELINE, server.timeline):
        end = next((ancestor.end for ancestor in server.ancestors if ancestor.timeline == received_on), None)
        if end is None:
            raise errors.HistoryDiverged(
                f"the publisher is on timeline {server.timeline}, whose history does not contain timeline {received_on},"
                f" on which changes up to {format_lsn(received)} were received",
                diverged_at=min(server.flushed, received),
                lsn=received,
            )
        if received > end:
            raise errors.HistoryDiverged(
                f"changes up to {format_lsn(received)} were received on timeline {received_on}, but the publisher, now on timeline"
                f" {server.timeline}, left that timeline at {format_lsn(end)}",
                diverged_at=end,
                lsn=received,
            )
    if received > server.flushed:
        if server.is_standby:
            raise errors.PublisherUnavailable(
                f"the standby has replayed WAL up to {format_lsn(server.flushed)},"
                f" and changes up to {format_lsn(received)} were received",
                hint="The receiver waits until the standby has caught up. If it does not, it is not a standby of the same history.",
                lsn=received,
            )
        raise errors.HistoryDiverged(
            f"changes up to {format_lsn(received)} were received, but the publisher's WAL ends at {format_lsn(server.flushed)}",
            diverged_at=server.flushed,
            lsn=received,
        )


def explain(
    error: errors.HistoryDiverged, relations: Sequence[str] | None, *, trimmed: LSN, journal: str
) -> errors.HistoryDiverged:
    """The error with an explanation and instructions. ``relations`` are the tables with changes
    after ``diverged_at`` in the journal, None if unknown.
    """
    detail = (
        "The publisher was restored to an older state, or a server that had not received all WAL was promoted."
        " The changes that were received after that state are in the journal or in the target, and no longer at the publisher."
    )
    if relations:
        shown = ", ".join(relations[:_SHOWN]) + (
            f" and {len(relations) - _SHOWN} more" if len(relations) > _SHOWN else ""
        )
        detail += f" After {format_lsn(error.diverged_at)} the journal has changes of: {shown}."
    elif relations is not None and trimmed <= error.diverged_at:
        detail += f" After {format_lsn(error.diverged_at)} the journal has no change of any table."
    if relations is None or trimmed > error.diverged_at:
        detail += " Which tables had changes that were applied since then is not known: the journal keeps what is not applied."
    hint = (
        f"{errors.RECREATE_SLOT} If you have made these tables equal by other means, WITH (copy_data = false) begins without copies."
        f' The command removes the journal at "{journal}": give it on the machine of the journal.'
    )
    return error.replace(detail=detail, hint=hint)


_SHOWN: Final = 10

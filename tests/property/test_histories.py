"""Random histories through receiver, journal and apply: at every step the target equals the
publisher at some commit.

A history is what PostgreSQL's WAL would contain. Some transactions are plain, some are streamed in
blocks with subtransactions that are rolled back, and some are prepared and finished later, in any
interleaving. A walsender sends it. Whenever the receiver is stopped or cut off, the walsender
starts again at the confirmed position. The journal's contents are applied in random batches,
trimmed, and applied again.
"""

from __future__ import annotations

import bisect
import contextlib
import copy
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event as note
from hypothesis import given, settings
from hypothesis import strategies as st

from subscriber.apply.exact import ExactApplier
from subscriber.base.errors import PublisherUnavailable
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.base.settings import Settings
from subscriber.postgres.protocol import messages as m
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.storage import LocalStorage
from subscriber.stream.receive.walreceiver import WalReceiver
from subscriber.testing.emulate import emulate
from tests.journals import passed
from tests.property.test_apply import SHAPES, Publisher, contents, fresh_target, operations
from tests.streams import EndingStream, ScriptedStream, frame, journal_at, keepalive

pytestmark = pytest.mark.slow

KINDS = (
    "plain",
    "plain",
    "streamed",
    "aborted",
    "prepared",
    "rolled back",
    "streamed prepared",
    "streamed rolled back",
)
LOST = ("aborted", "rolled back", "streamed rolled back")
STEP = 0x100
"""WAL between two events."""


@dataclass
class Chunk:
    """Changes of the same block. They are ``aborted`` if they belong to a subtransaction that is
    rolled back.
    """

    changes: list[m.Message]
    aborted: bool


@dataclass
class Transaction:
    """One transaction of the history.

    Attributes:
        prepared_at: its PREPARE, if it has one.
        finished_at: its end: commit, abort, COMMIT PREPARED or ROLLBACK PREPARED.
    """

    xid: int
    kind: str
    chunks: list[Chunk]
    prepared_at: int = 0
    finished_at: int = 0

    @property
    def changes(self) -> list[m.Message]:
        return [change for chunk in self.chunks if not chunk.aborted for change in chunk.changes]

    @property
    def gid(self) -> str:
        return f"gid {self.xid}"


@dataclass
class Event:
    """An event at one position of the WAL: a block of changes, a prepare, or a transaction's
    end.
    """

    what: str
    transaction: Transaction
    chunk: int = 0
    lsn: int = 0

    def delivered_at(self) -> int:
        """The position of the event for a walsender. A walsender that starts there or later does
        not send it.
        """
        transaction = self.transaction
        return (self.what != "finish" and transaction.prepared_at) or transaction.finished_at


@dataclass
class Wal:
    """Events in order, and the contents of the publisher's tables after each end."""

    events: list[Event]
    ends: list[int] = field(default_factory=lambda: [0])
    states: list[object] = field(default_factory=lambda: [Publisher().state()])

    def state_at(self, lsn: int) -> object:
        return self.states[bisect.bisect_right(self.ends, lsn) - 1]


steps = st.lists(st.tuples(operations, st.booleans(), st.integers(0, 3)), min_size=1, max_size=3)
histories = st.lists(st.tuples(st.sampled_from(KINDS), steps), min_size=1, max_size=7)


def wal_of(history: Sequence[tuple[str, list[tuple[list[Any], bool, int]]]]) -> Wal:
    """Run the history at a publisher, with the transactions in the order of their ends, and write
    its WAL.
    """
    publisher, states = Publisher(), []
    placed: list[tuple[tuple[int, int, int], Event]] = []
    for number, (kind, chunks) in enumerate(history):
        work = copy.deepcopy(publisher)
        transaction = Transaction(1000 * (number + 1), kind, [_run(work, *chunk[:2]) for chunk in chunks])
        if kind not in LOST:
            publisher = work
        states.append(publisher.state())
        placed += _placed(transaction, number, [chunk[2] for chunk in chunks])
    events = [event for _, event in sorted(placed, key=lambda pair: pair[0])]
    wal = Wal(events)
    for number, event in enumerate(events, start=1):
        event.lsn = number * STEP
        if event.what == "prepare":
            event.transaction.prepared_at = event.lsn
        elif event.what == "finish":
            event.transaction.finished_at = event.lsn
            wal.ends.append(event.lsn)
            wal.states.append(states[event.transaction.xid // 1000 - 1])
    return wal


def _run(publisher: Publisher, operations: list[Any], aborted: bool) -> Chunk:
    where = copy.deepcopy(publisher) if aborted else publisher
    return Chunk([change for step in operations if (change := where.run(*step)) is not None], aborted)


def _placed(transaction: Transaction, number: int, leads: list[int]) -> Iterator[tuple[tuple[int, int, int], Event]]:
    """The events of a transaction and their places. Blocks and prepare may come up to three
    transactions before the end.
    """
    slot = 0
    for index, lead in enumerate(leads):
        slot = max(slot, number - lead)
        if transaction.kind.startswith(("streamed", "aborted")):
            yield (slot, slot == number, index), Event("block", transaction, index)
    if transaction.kind.endswith(("prepared", "rolled back")):
        yield (slot, slot == number, len(leads)), Event("prepare", transaction)
    yield (number, 2, 0), Event("finish", transaction)


class Walsender:
    """Sends a WAL from a position, and describes relations as pgoutput does (rule A24)."""

    def __init__(self, wal: Wal, start: int) -> None:
        self._events = [event for event in wal.events if event.delivered_at() > start]
        self._described: set[int] = set()
        self._streams: dict[int, set[int]] = {}

    def frames(self, keepalives: Sequence[int]) -> Iterator[bytes]:
        for number, event in enumerate(self._events):
            for message in self._messages(event):
                yield frame(message, 0 if isinstance(message, m.Relation) else event.lsn)
            if number in keepalives:
                yield keepalive(event.lsn + STEP // 2, reply_requested=number % 2 == 0)

    def _messages(self, event: Event) -> Iterator[m.Message]:
        transaction, end = event.transaction, LSN(event.lsn)
        place = (LSN(end - 8), end)
        streamed = transaction.kind.startswith("streamed")
        two_phase = (*place, 1, transaction.xid, transaction.gid)
        match event.what, transaction.kind:
            case "block", _:
                yield from self._block(transaction, transaction.chunks[event.chunk], event.chunk)
            case "prepare", _ if streamed:
                yield m.StreamPrepare(*two_phase)
            case "prepare", _:
                yield m.BeginPrepare(*two_phase)
                yield from self._described_changes(transaction.changes, self._described, None)
                yield m.Prepare(*two_phase)
            case "finish", "plain":
                yield m.Begin(place[0], 1, transaction.xid)
                yield from self._described_changes(transaction.changes, self._described, None)
                yield m.Commit(*place, 1)
            case "finish", "streamed":
                self._described |= self._streams.pop(transaction.xid)
                yield m.StreamCommit(transaction.xid, *place, 1)
            case "finish", "aborted":
                yield m.StreamAbort(transaction.xid, transaction.xid)
            case "finish", "prepared" | "streamed prepared":
                yield m.CommitPrepared(*two_phase)
            case "finish", _:
                yield m.RollbackPrepared(LSN(transaction.prepared_at), end, 1, 2, transaction.xid, transaction.gid)

    def _block(self, transaction: Transaction, chunk: Chunk, number: int) -> Iterator[m.Message]:
        """Send one block. A block that is rolled back belongs to a subtransaction and its child,
        and their aborts follow it.
        """
        xid = transaction.xid
        first = xid not in self._streams
        known = self._streams.setdefault(xid, set())
        sub, child = xid + 10 * number + 1, xid + 10 * number + 2
        yield m.StreamStart(xid, first)
        for place, change in enumerate(chunk.changes):
            owner = (child if place % 2 else sub) if chunk.aborted else (sub if number % 2 else xid)
            yield from self._described_changes([change], known, owner)
        yield m.StreamStop()
        if chunk.aborted:
            yield m.StreamAbort(xid, child)
            yield m.StreamAbort(xid, sub)

    def _described_changes(self, changes: list[m.Message], known: set[int], xid: int | None) -> Iterator[m.Message]:
        for change in changes:
            for shape in SHAPES:
                if shape.relation_id in _named(change) and shape.relation_id not in known:
                    known.add(shape.relation_id)
                    yield replace(shape, xid=xid)
            yield change if xid is None else replace(change, xid=xid)  # type: ignore[arg-type]


def _named(change: m.Message) -> tuple[int, ...]:
    if isinstance(change, m.Truncate):
        return change.relation_ids
    assert isinstance(change, m.Insert | m.Update | m.Delete)
    return (change.relation_id,)


@dataclass(frozen=True)
class Life:
    """One connection: how many frames arrive, how it ends, and which status updates the publisher
    receives.

    Attributes:
        frames: how many frames arrive.
        cut_off: the connection breaks before the receiver reads what has arrived. If it is
            False, the receiver is stopped instead.
        pauses: places at which nothing has arrived for a moment.
        keepalives: events after which one is sent.
        unheard: how many of the last status updates the publisher did not get.
        segment_bytes: memory for frames.
        batches: limits of the micro-batches applied afterwards, in bytes.
    """

    frames: int
    cut_off: bool
    pauses: frozenset[int]
    keepalives: frozenset[int]
    unheard: int
    segment_bytes: int
    batches: tuple[int, ...]


lives = st.builds(
    Life,
    st.sampled_from((10**6, 40, 20, 10, 5)),
    st.booleans(),
    st.frozensets(st.integers(0, 60), max_size=8),
    st.frozensets(st.integers(0, 12), max_size=4),
    st.sampled_from((0, 1, 99)),
    st.sampled_from((1, 300, 1500, 10**6)),
    st.lists(st.sampled_from((1, 8000, 10**9)), max_size=3).map(tuple),
)
LAST = Life(10**6, False, frozenset(), frozenset(), 0, 10**6, ())


class Replication:
    """Receiver, journal and target of one history; everything is checked after every step."""

    def __init__(self, wal: Wal, folder: Path, applier: ExactApplier) -> None:
        self.wal = wal
        self.folder = folder
        self.reader = JournalReader(LocalStorage(folder))
        self.applier = applier
        self.confirmed = 0
        self.applied = INVALID_LSN

    def live(self, life: Life) -> None:
        """Receive over one connection."""
        frames = list(Walsender(self.wal, self.confirmed).frames(sorted(life.keepalives)))[: life.frames]
        script: list[bytes | None] = []
        for number, each in enumerate(frames):
            script += [None, each] if number in life.pauses else [each]
        stream = (EndingStream if life.cut_off else ScriptedStream)(script)
        options = Settings(journal="", segment_bytes=life.segment_bytes, wal_receiver_timeout=0)
        with journal_at(self.folder, confirmed=self.confirmed, applied=self.applied) as journal:
            receiver = WalReceiver(stream, journal, options, clock=lambda: 0.0)
            with contextlib.suppress(PublisherUnavailable):
                receiver.run(lambda: stream.ended)
            durable = journal.durable_lsn
        flushed = [reply.flushed_lsn for reply in stream.replies]
        assert flushed == sorted(flushed)
        assert all(lsn <= durable for lsn in flushed), "slot_after_disk"
        heard = flushed[: max(1, len(flushed) - life.unheard)]
        self.confirmed = max([self.confirmed, *heard])

    def apply(self, max_bytes: int | None) -> None:
        """Apply one micro-batch, and replay everything that the journal still holds up to
        its end.
        """
        end = self.reader.latest(self.applied, max_bytes)
        result = emulate(self.reader, self.applier, self.applied, end)
        assert result.conflicts == {}
        assert result.progress == end
        self.applied = end
        assert contents(self.applier.target) == self.wal.state_at(end), "commit_order"
        replayed = emulate(self.reader, self.applier, self.reader.control().begin, end)
        assert (replayed.transactions, replayed.progress) == (0, end), "progress_with_data"
        passed(self.reader.storage, end)


@settings(max_examples=60)
@given(histories, st.lists(lives, min_size=1, max_size=4))
def test_the_target_is_a_prefix_of_the_publisher_at_every_step_and_complete_at_the_end(history, connections):
    """Invariants commit_order, progress_with_data, slot_after_disk, any_crash; rules A24, C35, C42,
    C43, C47, C50.
    """
    wal = wal_of(history)
    note(f"{len(connections)} connections before the last")
    with tempfile.TemporaryDirectory() as folder, fresh_target() as target:
        replication = Replication(wal, Path(folder), ExactApplier(target, subscription="s", subid=1))
        for life in connections:
            replication.live(life)
            for max_bytes in life.batches:
                replication.apply(max_bytes)
        replication.live(LAST)
        replication.apply(None)
        assert contents(target) == wal.states[-1]
        assert not list(Path(folder).glob("*.tmp"))

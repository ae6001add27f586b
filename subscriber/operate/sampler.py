"""Asks the publishers and the journals of a run, in threads of their own, at most every 10 s.

::

    every 10 s ──┬─ a thread for each publisher: clock, end of its WAL, all slots     one connection, which is kept
                 ├─ a thread for the journals: size, age, oldest commit, free disk
                 └─ /proc: memory and CPU of the receivers and of Spark's JVM

What is asked is asked again only when the answer has come, so a publisher that does not answer has
one thread, and delays none of the others. The answers are immutable, and any thread may read them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from subscriber.base.background import in_background
from subscriber.base.errors import SubscriberError
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.base.settings import Settings
from subscriber.catalog.subscriptions import Subscription
from subscriber.operate.lag import Backlog, WalEnd
from subscriber.operate.questions import Asking
from subscriber.publisher.client import PublisherClient, Slot
from subscriber.publisher.connection import Connection, connected, reporting
from subscriber.publisher.conninfo import session_conninfo
from subscriber.publisher.history import check_system
from subscriber.stream.journal.message_rows import oldest_commit
from subscriber.stream.journal.named_consumers import list_named
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.storage import journal_url, open_storage

if TYPE_CHECKING:
    from subscriber.worker.supervisor import Supervisor

logger = logging.getLogger(__name__)

SAMPLE_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.5
_END_SECONDS: Final = 1.0
_KEPT_MOMENTS: Final = 4
_APPLICATION_NAME: Final = "subscriber metrics"


@dataclass(frozen=True, slots=True)
class PublisherSample:
    """The last answers of a publisher, oldest first, and its slots by name at the last of them;
    ``error`` says why it has not answered the last question.
    """

    moments: tuple[WalEnd, ...] = ()
    slots: Mapping[str, Slot] = field(default_factory=dict)
    version: int = 0
    error: str | None = None

    def retained_bytes(self, slot: Slot | None) -> int | None:
        """The WAL that the publisher keeps for a slot; None if that is not known."""
        if slot is None or slot.restart_lsn is None or not self.moments:
            return None
        return max(0, self.moments[-1].lsn - slot.restart_lsn)


@dataclass(frozen=True, slots=True)
class JournalSample:
    """A journal: its size, its number of entries, the commit time of the oldest transaction that it
    still has (seconds since 1970), and the free space of its disk; None if that is not known.
    ``consumer_lags`` has the bytes of WAL after the position of each named consumer; ``dropped`` is
    the number of those that were dropped and not yet forgotten.
    """

    bytes: int = 0
    entries: int = 0
    oldest: float | None = None
    free_bytes: int | None = None
    backlog: Backlog | None = None
    consumer_lags: Mapping[tuple[str], float] = field(default_factory=dict)
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class ProcessSample:
    resident_bytes: int
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Samples:
    """The last answers: publishers by connection string, journals by subscription number,
    processes by their number.
    """

    publishers: Mapping[str, PublisherSample] = field(default_factory=dict)
    journals: Mapping[int, JournalSample] = field(default_factory=dict)
    processes: Mapping[int, ProcessSample] = field(default_factory=dict)


class Sampler:
    """Keeps :attr:`samples` up to date while :meth:`running` is entered; ``on_sample`` is called
    every ``seconds``.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        settings: Settings,
        seconds: float = SAMPLE_SECONDS,
        on_sample: Callable[[], None] = lambda: None,
    ) -> None:
        self.samples = Samples()
        self._supervisor = supervisor
        self._settings = settings
        self._seconds = seconds
        self._on_sample = on_sample
        self._publishers: dict[str, AskedPublisher] = {}
        self._journals: dict[str, AskedJournal] = {}
        self._asking = Asking(self._read_journals, "samples of journals")

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        with in_background("samples", self._work, _END_SECONDS):
            yield

    def _work(self, end: threading.Event) -> None:
        due = 0.0
        while not end.wait(_LOOK_SECONDS if due else 0.0):
            asks = time.monotonic() >= due
            if asks:
                due = time.monotonic() + self._seconds
            try:
                self.sample(asks=asks)
                if asks:
                    self._on_sample()
            except Exception as error:  # what is shown must not end what shows it
                logger.warning("the metrics could not be brought up to date: %s", type(error).__name__)
        for publisher in self._publishers.values():
            publisher.close()

    def sample(self, *, asks: bool = True) -> None:
        """Take the answers that have come, and with ``asks`` ask again."""
        subscriptions = self._supervisor.catalog_watch.subscriptions
        wanted: dict[str, list[str]] = {}
        asked = {one.connection: one for one in subscriptions if one.connection is not None}
        for one in subscriptions:
            if one.connection is None:
                continue  # its server has no user mapping
            wanted.setdefault(one.connection, []).extend([one.slot_name] if one.slot_name else [])
        for conninfo in self._publishers.keys() - wanted.keys():
            self._publishers.pop(conninfo).close()
        for conninfo, slots in wanted.items():
            if conninfo not in self._publishers:
                self._publishers[conninfo] = AskedPublisher(conninfo)
            self._publishers[conninfo].take(slots, asked[conninfo].system_identifier, asks=asks)
        answer = self._asking.answer(asks=asks)
        journals = self.samples.journals if answer is None else answer
        known = {one.subid for one in subscriptions}
        self.samples = Samples(
            {conninfo: publisher.sample for conninfo, publisher in self._publishers.items()},
            {subid: journal for subid, journal in journals.items() if subid in known},
            self._processes() if asks else self.samples.processes,
        )

    def _processes(self) -> dict[int, ProcessSample]:
        pids = [one.receiver_pid for one in self._supervisor.snapshots(look=False).values()]
        found = ((pid, process_sample(pid)) for pid in [*pids, self._supervisor.jvm_pid] if pid is not None)
        return {pid: sample for pid, sample in found if sample is not None}

    def _read_journals(self) -> dict[int, JournalSample]:
        snapshots = self._supervisor.snapshots(look=False)
        found: dict[int, JournalSample] = {}
        subscriptions = self._supervisor.catalog_watch.subscriptions
        urls = {one.subid: journal_of(one, self._settings) for one in subscriptions}
        self._journals = {url: journal for url, journal in self._journals.items() if url in urls.values()}
        for subid, url in urls.items():
            if url is None:
                continue
            journal = self._journals.setdefault(url, AskedJournal(url))
            snapshot = snapshots.get(subid)
            with contextlib.suppress(SubscriberError):  # the worker that needs the journal reports it
                found[subid] = journal.look(None if snapshot is None else snapshot.applied)
        return found


class AskedPublisher:
    """Asks one publisher, over one connection, which is opened again after an error."""

    def __init__(self, conninfo: str) -> None:
        self.sample = PublisherSample()
        self._conninfo = conninfo
        self._slots: Sequence[str] = ()
        self._system: str | None = None
        self._connection: Connection | None = None
        self._asking = Asking(self._ask, "sample of a publisher")

    def take(self, slots: Sequence[str], system: str | None, *, asks: bool) -> None:
        self._slots, self._system = tuple(slots), system
        self.sample = self._asking.answer(asks=asks) or self.sample

    def close(self) -> None:
        if not self._asking.is_under_way:
            self._close()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _ask(self) -> PublisherSample:
        try:
            if self._connection is None:
                self._connection = connected(session_conninfo(self._conninfo, _APPLICATION_NAME))
                with reporting(self._connection):
                    check_system(PublisherClient(self._connection).system_identifier(), self._system)
            with reporting(self._connection):
                return self._answer(PublisherClient(self._connection))
        except SubscriberError as error:
            self._close()
            return PublisherSample(self.sample.moments, {}, self.sample.version, error.message)

    def _answer(self, client: PublisherClient) -> PublisherSample:
        began = time.time()
        at, lsn = client.clock(), client.flushed_lsn()
        moment = WalEnd(at, at - (began + time.time()) / 2, lsn)
        moments = (*self.sample.moments, moment)[-_KEPT_MOMENTS:]
        return PublisherSample(moments, client.slots(self._slots), client.version)


class AskedJournal:
    """Asks one journal; its listing is kept, so only what is new is read."""

    def __init__(self, url: str) -> None:
        self._reader = JournalReader(open_storage(url))
        self._url = url
        self._oldest: tuple[LSN, float | None] = (INVALID_LSN, None)

    def look(self, applied: LSN | None) -> JournalSample:
        listed = self._reader.listed()
        named = list_named(self._reader.storage, self._reader.other_files)
        end = listed[-1].end if listed else INVALID_LSN
        sample = JournalSample(
            free_bytes=_free_bytes(self._url),
            consumer_lags={(one.name,): max(0, end - one.lsn) for one in named if one.dropped is None},
            dropped=sum(one.dropped is not None for one in named),
        )
        if not listed:
            return sample
        begin = listed[0].begin
        if self._oldest[0] != begin:
            self._oldest = begin, self._commit_after(begin)
        backlog = None
        if applied is not None and applied != INVALID_LSN and applied < end:
            committed = self._commit_after(applied)
            backlog = None if committed is None else Backlog(committed)
        size = sum(entry.size for entry in listed)
        return replace(sample, bytes=size, entries=len(listed), oldest=self._oldest[1], backlog=backlog)

    def _commit_after(self, position: LSN) -> float | None:
        committed = oldest_commit(self._reader, position)
        return None if committed is None else committed.timestamp()


def journal_of(subscription: Subscription, settings: Settings) -> str | None:
    """The URL of a subscription's journal; None if it has none yet, or no slot."""
    if subscription.system_identifier is None or subscription.slot_name is None:
        return None
    return journal_url(settings.journal, subscription.system_identifier, subscription.slot_name)


def _free_bytes(url: str) -> int | None:
    if "://" in url and not url.startswith("file://"):
        return None
    try:
        return shutil.disk_usage(url.removeprefix("file://")).free
    except OSError:
        return None


def process_sample(pid: int, root: Path = Path("/proc")) -> ProcessSample | None:
    """Memory and CPU time of a process; None if it has ended, or on a system without /proc."""
    try:
        after_name = (root / str(pid) / "stat").read_text().rpartition(")")[2].split()
        pages = int((root / str(pid) / "statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return None
    ticks = [int(text) for text in after_name[11:13]]
    return ProcessSample(pages * os.sysconf("SC_PAGE_SIZE"), sum(ticks) / os.sysconf("SC_CLK_TCK"))

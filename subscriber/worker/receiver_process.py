"""The process of a walreceiver: ``python -m subscriber.worker.receiver_process``, started by the
supervisor, which lets the fork server fork it (:mod:`subscriber.base.fork_server`).

::

    supervisor ──stdin: one line of JSON (Assignment), then "go"──▶ walreceiver ──▶ journal
               ◀─stdout: events, one line of JSON each────────────┘

    walreceiver   which server? check it ─ open journal ─ START_REPLICATION ─ check again ── "ready"─┐ nothing is received
    supervisor    read the catalog again:    is the subscription still the one that was assigned? ────┤ or confirmed until here
    walreceiver   receive, confirm ◀── "go" ───────────────────────────────────────────────────────────┘

The process sends a beat once a second with what it has received, so that the supervisor notices one
that was stopped (SIGSTOP) or gets no processor time; less often if it receives nothing. It also
reports each entry that it has added to the journal, so that the apply loop need not look for it.
This event is left out while the supervisor reads nothing, because a receiver does not wait for a
supervisor that was stopped.

The connection string comes through the pipe, so it is in no command line. The end of stdin is the
order to stop, which also arrives if the supervisor was killed.

Two checks are made twice, because what they check may change before the walsender holds the slot,
and cannot change afterwards:

- The slot. The first check uses a separate connection. Another receiver may confirm a position
  before START_REPLICATION.
- The catalog. A command that changes what is streamed (ALTER SUBSCRIPTION … ADD PUBLICATION)
  returns when no receiver that was started before the command holds the slot any more
  (:func:`subscriber.commands.subscription_slots.end_receiver`). The command would miss a receiver
  that is just about to take the slot. Therefore a receiver that holds the slot waits for "go",
  which the supervisor writes after it has read the catalog.

A receiver also waits for "go" after the publisher has said that it skips a publication, until the
catalog has a record of that (:mod:`subscriber.worker.publisher_notices`). What comes after this
notice is neither stored nor confirmed before, so after a crash the publisher says it again.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import os
import pickle
import re
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from typing_extensions import override

from subscriber.base.errors import BinaryFormNotRead, HistoryDiverged, SlotInUse, Stopped, SubscriberError, fault
from subscriber.base.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.base.settings import Settings
from subscriber.base.signals import set_by_signals
from subscriber.base.waiting import notices_to
from subscriber.base.without_pandas import use_arrow_without_pandas
from subscriber.postgres.protocol.envelope import Notice
from subscriber.postgres.schema.server_features import ServerFeatures
from subscriber.publisher import history
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.connection import ReplicationConnection, connect_publisher
from subscriber.publisher.conninfo import wants_standby
from subscriber.publisher.fence.open_transactions import standbys_of
from subscriber.publisher.slots import StreamOptions, start_command
from subscriber.stream.journal.control import read_control
from subscriber.stream.journal.message_rows import changed_relations
from subscriber.stream.journal.storage import Storage, open_storage
from subscriber.stream.journal.writer import KeepRules, open_writer
from subscriber.stream.receive.quiet import Quiet
from subscriber.stream.receive.walreceiver import ReceiverCounts, WalReceiver
from subscriber.worker import RECEIVER_NAME

Emit = Callable[..., None]

GO: Final = "go\n"
"""What the supervisor writes to a receiver that is ready, to let it receive and confirm."""
_RELEASE_SECONDS: Final = 10.0
"""How long a walsender may take to notice that its connection was closed."""
_POLL_SECONDS: Final = 0.1
BEAT_SECONDS: Final = 1.0
"""The time between two signs of life while something is received."""
QUIET_BEATS: Final = 5
"""How many times as long it is otherwise, but at most a quarter of ``wal_receiver_timeout``."""
_ALIVE_SECONDS: Final = 5.0
"""How often a receiver that waits for "go" tells the publisher that it is there."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one walreceiver is to do; it is sent to the process as JSON."""

    subscription: str
    conninfo: str
    slot: str
    publications: tuple[str, ...]
    streaming: Literal["off", "on", "parallel"]
    two_phase: bool
    binary: bool
    origin: Literal["any", "none"]
    system_identifier: str
    journal: str
    applied_lsn: int
    messages: bool = False
    wal_receiver_timeout: float = 60.0
    """That of the subscription, in seconds; it replaces the setting's."""
    has_target: bool = True
    """Whether a target is to read the journal, also before it has a consumer there."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Assignment:
        fields = json.loads(text)
        return cls(**{**fields, "publications": tuple(fields["publications"])})


def receive(
    assignment: Assignment,
    settings: Settings,
    stop: threading.Event,
    emit: Emit,
    go: threading.Event | None = None,
    counts: ReceiverCounts | None = None,
    woken_by: int | None = None,
) -> None:
    """Check the publisher, open the journal, and stream until ``stop`` is set.

    With the option ``binary``, the stream is binary until a table appears whose values cannot be
    read in that form (user-defined types, money, the names of catalogs' objects). Then it is
    restarted as text; the values are the same. ``emit`` is called with events (``ready``,
    ``streaming``, ``entry``, ``warning``, ``notice``). ``go`` is waited for after ``ready``, and
    after a ``notice`` that a publication is skipped, and then cleared. What is received is added to
    ``counts``, also if the stream is restarted as text. ``woken_by`` is a descriptor that can be
    read after ``stop`` was set; without it, ``stop`` is looked at some times a second.
    """
    options = StreamOptions(
        assignment.publications,
        streaming=assignment.streaming,
        two_phase=assignment.two_phase,
        binary=assignment.binary,
        origin=assignment.origin,
        messages=assignment.messages,
    )
    run = _Run(settings, stop, emit, go, counts or ReceiverCounts(), woken_by)
    begin = partial(_begin, assignment, run)
    try:
        begin(options)
    except BinaryFormNotRead as unread:
        emit("warning", message=f"values are received as text, because {unread.message}")
        _start_again(partial(begin, replace(options, binary=False)), stop)


@dataclass(frozen=True, slots=True)
class _Run:
    """The arguments of :func:`receive`."""

    settings: Settings
    stop: threading.Event
    emit: Emit
    go: threading.Event | None
    counts: ReceiverCounts
    woken_by: int | None


def _begin(assignment: Assignment, run: _Run, options: StreamOptions) -> None:
    control = read_control(open_storage(assignment.journal))
    received_on = history.UNKNOWN_TIMELINE if control is None else control.timeline
    with ReplicationConnection(assignment.conninfo, assignment.subscription) as stream:
        stream.woken_by = run.woken_by
        server = history.identify(stream, received_on=received_on)
        with history.naming_server(server):
            history.check_system(server.system_identifier, assignment.system_identifier)
            history.check_is_primary(server, received_on, wants_standby=wants_standby(assignment.conninfo))
            found = _check_publisher(assignment, stream, server, run.emit)
            _stream(assignment, stream, found, run, options)


@dataclass(frozen=True, slots=True)
class _Found:
    server: history.Server
    confirmed: LSN
    is_synchronous: bool
    is_failover: bool


def _check_publisher(
    assignment: Assignment, stream: ReplicationConnection, server: history.Server, emit: Emit
) -> _Found:
    """Check that the publisher is ready, over an ordinary connection to the same server."""
    with connect_publisher(stream.same_server, assignment.subscription) as connection:
        publisher = PublisherClient(connection)
        publisher.check_server()
        slot = publisher.check_slot(assignment.slot)
        for missing in publisher.check_publications(assignment.publications):
            emit("warning", message=f'skipped loading publication "{missing}": it does not exist on the publisher')
        return _Found(
            server,
            slot.confirmed_flush_lsn,
            publisher.may_wait_for_us(),
            publisher.is_failover_slot(assignment.slot),
        )


def _stream(
    assignment: Assignment, stream: ReplicationConnection, found: _Found, run: _Run, options: StreamOptions
) -> None:
    settings, stop, emit, go = run.settings, run.stop, run.emit, run.go
    storage = open_storage(assignment.journal)
    with open_writer(
        storage,
        system_identifier=assignment.system_identifier,
        slot=assignment.slot,
        confirmed_lsn=found.confirmed,
        applied_lsn=LSN(assignment.applied_lsn),
        rules=KeepRules(
            settings.journal_keep_size,
            settings.journal_absent_consumers,
            None if assignment.has_target else settings.journal_absent_consumers,
        ),
        segment_bytes=settings.segment_bytes,
        batch_bytes=settings.max_batch_bytes,
    ) as journal:
        try:
            history.check_history(found.server, journal.durable_lsn, journal.control.timeline)
        except HistoryDiverged as error:
            relations = _changed_relations(storage, LSN(error.diverged_at))
            raise history.explain(error, relations, trimmed=journal.control.begin, journal=assignment.journal) from None
        stream.start(start_command(stream.server_version, assignment.slot, journal.durable_lsn, options))
        # This process holds the slot now; another receiver can only have confirmed positions
        # before.
        journal.check_confirmed(_confirmed(assignment, stream))
        journal.receive_on(found.server.stays_on, assignment.publications)
        journal.on_entry = partial(emit, "entry")
        if go is not None:
            emit("ready")
            while not go.wait(_POLL_SECONDS):
                if stop.is_set():
                    return
            go.clear()
        emit("streaming", start=format_lsn(journal.durable_lsn), server=stream.server)
        parallel = assignment.streaming == "parallel" and ServerFeatures(stream.server_version).protocol_version >= 4
        receiver = WalReceiver(
            stream,
            journal,
            settings,
            write_abort_info=parallel,
            binary=options.binary,
            may_linger=not found.is_synchronous,
            is_woken=run.woken_by is not None and not found.is_failover,
        )
        receiver.counts = run.counts
        receiver.on_notice = partial(_on_notice, assignment.publications, stop, emit, go, receiver.stay_alive)
        ask = partial(_standbys, assignment, stream)
        with (
            contextlib.suppress(Stopped),
            notices_to(lambda text: emit("warning", message=text)),
            Quiet("the walsender", ask) as quiet,
        ):

            def ends() -> bool:
                quiet.look(receiver.received)
                return stop.is_set()

            receiver.run(ends if found.is_failover else stop.is_set)


def _standbys(assignment: Assignment, stream: ReplicationConnection) -> list[str]:
    with connect_publisher(stream.same_server, assignment.subscription) as server:
        return standbys_of(server, stream.process_id)


def _on_notice(
    publications: tuple[str, ...],
    stop: threading.Event,
    emit: Emit,
    go: threading.Event | None,
    stay_alive: Callable[[], None],
    notice: Notice,
    received: LSN,
) -> None:
    """Tell what the publisher has said. If it skips a publication, wait until that is recorded."""
    skipped = _named(notice.message, publications) if notice.skips_publication else ()
    lsn = format_lsn(notice.lsn or received)
    emit("notice", severity=notice.severity, report=notice.report(), skipped=skipped, lsn=lsn)
    if not skipped or go is None:
        return
    alive_at = time.monotonic()
    while not go.wait(_POLL_SECONDS):
        if stop.is_set():
            raise Stopped("stopped before it was recorded that a publication is skipped")
        if time.monotonic() >= alive_at + _ALIVE_SECONDS:
            stay_alive()
            alive_at = time.monotonic()
    go.clear()


def _named(message: str, publications: tuple[str, ...]) -> tuple[str, ...]:
    """The publications that a message names in quotation marks of any language; else all."""
    named = (name for name in publications if re.search(f'["„“”«»]{re.escape(name)}["„“”«»]', message))
    return tuple(named) or publications


def _confirmed(assignment: Assignment, stream: ReplicationConnection) -> LSN:
    """The confirmed position of the slot; 0/0 if it was dropped, which the stream reports."""
    with connect_publisher(stream.same_server, assignment.subscription) as connection:
        slot = PublisherClient(connection).slot(assignment.slot)
    return INVALID_LSN if slot is None else slot.confirmed_flush_lsn


def _changed_relations(storage: Storage, start: LSN) -> list[str] | None:
    """The tables with changes after ``start``; None if the journal cannot be read."""
    try:
        return changed_relations(storage, start)
    except SubscriberError:
        return None


def _start_again(begin: Callable[[], None], stop: threading.Event) -> None:
    """Restart the stream: the walsender of a connection that was just closed may still be there."""
    deadline = time.monotonic() + _RELEASE_SECONDS
    while True:
        try:
            begin()
        except SlotInUse:
            if time.monotonic() > deadline:
                raise
            if stop.wait(_POLL_SECONDS):
                return
        else:
            return


def main() -> int:
    # The supervisor handles the terminal's Ctrl-C; it then closes the stdin of this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stop, go, counts = threading.Event(), threading.Event(), ReceiverCounts()
    set_by_signals(stop, [signal.SIGTERM])
    with contextlib.suppress(OSError):  # Linux only
        Path("/proc/self/comm").write_text(RECEIVER_NAME)
    use_arrow_without_pandas()
    logging.basicConfig(format="%(message)s", level=logging.WARNING, handlers=[_ToSupervisor()])
    line = sys.stdin.readline()
    if not line:
        return 0  # the supervisor was killed before it wrote the assignment
    assignment = Assignment.from_json(line)

    woken_by, wakes = os.pipe()

    def watch() -> None:
        for line in sys.stdin:
            if line == GO:
                go.set()
        stop.set()
        os.close(wakes)

    threading.Thread(target=watch, daemon=True).start()
    beating = partial(beat, stop.wait, counts, _emit, assignment.wal_receiver_timeout)
    threading.Thread(target=beating, daemon=True).start()
    try:
        settings = replace(Settings.from_environment(), wal_receiver_timeout=assignment.wal_receiver_timeout)
        receive(assignment, settings, stop, _emit, go, counts, woken_by)
    except SubscriberError as error:
        _emit_error(error)
        return 1
    except Exception as error:
        _emit_error(fault("the walreceiver failed", error))
        return 1
    return 0


def beat(wait: Callable[[float], bool], counts: ReceiverCounts, emit: Emit, timeout: float) -> None:
    """Give signs of life until ``wait`` says that it is time to stop."""
    most = QUIET_BEATS if timeout <= 0 else max(1, min(QUIET_BEATS, int(timeout / 4 / BEAT_SECONDS)))
    sent: ReceiverCounts | None = None
    passed = 0
    while not wait(BEAT_SECONDS):
        passed += 1
        if replace(counts, looped_at=0.0) != sent or passed >= most:
            first = counts.take_first_commit()
            sent, passed = replace(counts, looped_at=0.0, first_commit=None), 0
            emit("beat", **{**asdict(sent), "first_commit": first})


class _ToSupervisor(logging.Handler):
    """Lets the supervisor log what this process warns of: there is one log."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        _emit("warning", message=self.format(record))


_EMITTING: Final = threading.Lock()


def _emit_error(error: SubscriberError) -> None:
    _emit("error", error=base64.b64encode(pickle.dumps(error)).decode())


def _emit(event: str, **fields: Any) -> None:
    try:
        with _EMITTING:
            if event == "entry" and not select.select([], [sys.stdout], [], 0)[1]:
                return
            sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
            sys.stdout.flush()
    except BrokenPipeError:
        # The supervisor was killed, so nobody reads the events any more. The end of stdin stops
        # this process in order.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())

"""Holding the apply of one subscription at an LSN, while `subscriber run` is running, so that a
command can compare or finish the target as of a snapshot of the publisher.

::

    command                          catalog: subscriber_apply_hold           subscriber run (runtime/hold_half.py)
    insert a row ──────────────────▶ requested ─────────────────────────────▶ no batch begins any more
                                     paused ◀──────────────────────────────── no batch is in progress
    temporary slot at the publisher:
      snapshot, consistent point L
    bound := L, barrier ───────────▶ paused, bound L ───────────────────────▶ applies what ends at or before L
                                     held, reached L ◀─────────────────────── L is received, and nothing up to L is left
    reads publisher and target
    check(): is the row still there?
    delete the row ────────────────▶ (none) ────────────────────────────────▶ goes on

Why the target then has exactly the transactions of the snapshot:

- *Nothing more.* The slot is created after the pause. A walsender sends only WAL that is flushed,
  so everything that was applied before the pause ends before L. After the pause no batch ends after
  the bound. A transaction is in the snapshot if and only if its commit record ends at or before L
  (rule D6), and a batch is never divided inside a transaction.
- *Nothing less.* The run acknowledges when the journal has received L and no entry that ends at or
  before L is left to apply. A barrier, a small message that the command writes after L, lets the
  stream pass L although the publisher is idle.
- *Only tables that are ready.* Copies and catch-ups go on, because they do not write tables that are
  ready. No table becomes ready during the hold. A command may take a table out of state r (REFRESH
  TABLE); :meth:`HeldApply.check` notices that.
- *To the end.* The row is the hold. Whoever lets the apply go on deletes it first: this command, DROP
  SUBSCRIPTION, or the run when the holder is dead, which renews a heartbeat every few seconds. So if
  the row is there after the last read, every read was of L. A run that is killed and started again
  reads the row before its first batch.

The slot is created after the pause and waits for transactions that are in progress at the
publisher. So a long transaction there delays the apply for as long as it lasts, or until the time
limit. Whom it waits for is said. *Rejected:* creating the slot first, and having the run stop at its
L: the run may have passed L by the time it knows of it, and then the snapshot is useless.
*Rejected:* a disabled subscription and a run of our own in the command: it would need Spark, and
the receiver would lose its slot. *Rejected:* a lock in the target instead of a row with heartbeats:
not every target has one, and DuckDB's file can be open in one process only.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from subscriber import catalog
from subscriber.catalog import ApplyHold, HoldState, RelationState, Subscription
from subscriber.commands.hold_failing import Failing
from subscriber.commands.hold_heartbeat import now_as_text, renewing, trying
from subscriber.commands.wake import wake_run
from subscriber.errors import ApplyNotHeld, PublisherError, SubscriberError, UsageError
from subscriber.filters.analyze.typeinfo import quote_identifier
from subscriber.lsn import LSN, format_lsn
from subscriber.publisher.publisher import Publisher, connect_publisher
from subscriber.publisher.snapshot import Snapshot, exported_snapshot
from subscriber.settings import Settings
from subscriber.targets import Connection, Target
from subscriber.waiting import watched

_SHORTEST_POLL_SECONDS: Final = 0.05
_LONGEST_POLL_SECONDS: Final = 0.5
"""How often the row is read while the command waits for the run. A target that can be open in one
process only needs time between two reads, so the pause grows.
"""
_ABSENCE_SECONDS: Final = 60.0
"""How long a run may be absent during a hold: it may be about to be started again."""


@dataclass(frozen=True, slots=True)
class HeldApply:
    """A subscription whose apply is held.

    Attributes:
        lsn: the LSN at which the target is.
        snapshot: the snapshot of the publisher at this LSN; its name is for
            :func:`subscriber.publisher.snapshot.snapshot_session`.
        tables: the tables that are ready, by schema and name at the publisher. Only these are known
            to be as of the LSN.
    """

    lsn: LSN
    snapshot: Snapshot
    tables: frozenset[tuple[str, str]]
    _target: Target = field(repr=False)
    _hold: ApplyHold = field(repr=False)
    _name: str

    def check(self) -> None:
        """Return if the apply was held all the time until now. What was read of the target before
        is then proven to be of :attr:`lsn`.

        Raises:
            ApplyNotHeld: 55000, the hold was lost, or a table that was ready is copied again.
            TargetUnavailable: the target cannot be queried.
        """
        found, ready = trying(self._read)
        if found is None or found.holder != self._hold.holder or found.state is not HoldState.HELD:
            raise _lost(self._name, self.lsn)
        changed = sorted(self.tables - ready)
        if changed:
            table = ".".join(changed[0])
            raise ApplyNotHeld(
                f'table "{table}" of subscription "{self._name}" was taken out of state r while the apply was held',
                hint="A command has refreshed or removed it. Wait until its copy is ready, and repeat the command.",
                relation=table,
            )

    def _read(self) -> tuple[ApplyHold | None, frozenset[tuple[str, str]]]:
        with self._target.reporting(), self._target.engine.connect() as connection:
            return catalog.find_hold(connection, self._hold.subid), _ready_tables(connection, self._hold.subid)


@contextlib.contextmanager
def hold_apply(
    target: Target, subscription: Subscription, settings: Settings, *, seconds: float | None = None
) -> Iterator[HeldApply]:
    """Hold the apply of a subscription while the block runs; see the module's docstring.

    Inside the block, the tables of the subscription that are ready have exactly the transactions of
    the publisher that the snapshot has. `subscriber run` applies nothing more of this subscription,
    and goes on with the others.

    Args:
        target: the target of the subscription.
        subscription: the subscription; it must be enabled.
        settings: the place of the journals, for waking the run.
        seconds: the longest time until the apply is held; None if there is no limit.

    Raises:
        UsageError: 55000, no `subscriber run` is running, or the subscription is disabled; 55P03,
            another command holds its apply.
        ApplyNotHeld: the apply cannot reach the LSN because of an error, the target is ahead of the
            publisher, or the time is over (57014).
        PublisherError: the publisher cannot be reached, or cannot create a slot.
        TargetUnavailable: the target cannot be written.
    """
    with target.reporting():
        catalog.ensure_catalog(target.engine)
    holding = _Holding(target, subscription, settings, seconds)
    with holding.row(), renewing(target, holding.hold):
        holding.wait_for(_is_paused, "pausing")
        with holding.snapshot() as snapshot:
            holding.bind(snapshot.lsn)
            holding.wait_for(_is_held, f"applying up to {format_lsn(snapshot.lsn)} in")
            yield holding.held(snapshot)


def _is_paused(hold: ApplyHold) -> bool:
    return hold.state is not HoldState.REQUESTED


def _is_held(hold: ApplyHold) -> bool:
    return hold.state is HoldState.HELD


class _Holding:
    """One hold, from its request to its end."""

    def __init__(self, target: Target, subscription: Subscription, settings: Settings, seconds: float | None) -> None:
        moment = now_as_text()
        self.hold = ApplyHold(
            subscription.subid, secrets.token_hex(16), socket.gethostname(), os.getpid(), moment, moment
        )
        self._target = target
        self._subscription = subscription
        self._settings = settings
        self._seconds = seconds
        self._deadline = float("inf") if seconds is None else time.monotonic() + seconds
        self._is_refused = False
        self._runner = "`subscriber run`"
        self._applied = LSN(0)

    @contextlib.contextmanager
    def row(self) -> Iterator[None]:
        """Keep the row in the catalog while the block runs."""
        try:
            trying(self._insert)
            wake_run(self._settings)
            yield
        finally:
            if not self._is_refused:
                with contextlib.suppress(SubscriberError):  # the run removes it when its heartbeat is old
                    trying(self._delete)
                wake_run(self._settings)

    def _insert(self) -> None:
        """Write the row.

        Raises:
            UsageError: the apply cannot be held now, and why.
        """
        try:
            with self._target.begin() as connection:
                self._check(connection)
                catalog.insert_hold(connection, self.hold)
        except UsageError:
            self._is_refused = True
            raise
        except SubscriberError:
            with self._target.reporting(), self._target.engine.connect() as connection:
                self._check(connection)  # another command may have been quicker
            raise

    def _check(self, connection: Connection) -> None:
        name = self._subscription.name
        stored = catalog.get_subscription(connection, name)
        if not stored.enabled:
            raise UsageError(
                f'the apply of subscription "{name}" cannot be held, because the subscription is disabled',
                sqlstate="55000",
                detail="Only a subscription that `subscriber run` applies can be brought to an LSN.",
                hint=f"ALTER SUBSCRIPTION {quote_identifier(name)} ENABLE;",
            )
        other = catalog.find_hold(connection, stored.subid)
        if other is not None and other.holder != self.hold.holder:
            raise UsageError(
                f'the apply of subscription "{name}" is held by another command',
                sqlstate="55P03",
                detail=f"It has been held since {other.since} by {other.holder_in_words}.",
                hint="Wait for its end, or end it. If its process was killed, `subscriber run` removes the hold within a minute.",
            )
        if not self._sees_run(connection):
            raise self._no_run()

    def _sees_run(self, connection: Connection) -> bool:
        runner = catalog.read_runner(connection)
        if runner is None:
            return False
        self._runner = f"`subscriber run`, process {runner.process_id} on host {runner.host}"
        held = None if self._target.run_lock is None else self._target.run_lock.is_held(connection)
        return catalog.is_alive(runner, held)

    def _no_run(self) -> UsageError:
        place = self._target.url.set(query={}).render_as_string()
        return UsageError(
            "no `subscriber run` is running for this target",
            sqlstate="55000",
            detail="Only a run can bring the target to an LSN of the publisher.",
            hint=f"Start: subscriber run --target {place}",
        )

    def _delete(self) -> None:
        with self._target.begin() as connection:
            catalog.delete_hold(connection, self.hold)

    # Waiting --------------------------------------------------------------------------------------

    def wait_for(self, condition: Callable[[ApplyHold], bool], what: str) -> None:
        """Return when the run has written a state that meets ``condition``.

        Raises:
            ApplyNotHeld: see :func:`hold_apply`.
            UsageError: the run has been absent for a while.
        """
        began = seen = time.monotonic()
        pause = _SHORTEST_POLL_SECONDS
        failing = Failing()
        with watched(f'{what} subscription "{self._subscription.name}"', lambda: [self._runner]):
            while True:
                found, is_running, statistics = trying(self._look)
                if found is None or found.holder != self.hold.holder:
                    raise _lost(self._subscription.name, None)
                if condition(found):
                    return
                now = time.monotonic()
                seen = now if is_running else seen
                if now - seen > _ABSENCE_SECONDS:
                    raise self._no_run()
                error = failing.note(statistics, (found.state, self._applied), now)
                if error is not None:
                    raise self._cannot_reach(error)
                if now >= self._deadline:
                    raise self._too_late()
                time.sleep(min(pause, max(0.0, self._deadline - now)))
                pause = min(_LONGEST_POLL_SECONDS, max(pause, (time.monotonic() - began) / 20))

    def _look(self) -> tuple[ApplyHold | None, bool, Mapping[str, Any]]:
        """Return the row, whether a run is alive, and the statistics of the subscription."""
        subid = self.hold.subid
        with self._target.reporting(), self._target.engine.connect() as connection:
            found = catalog.find_hold(connection, subid)
            self._applied = self._subscription.progress.find(connection) or LSN(0)
            return found, self._sees_run(connection), catalog.statistics_of(connection, subid)

    def _too_late(self) -> ApplyNotHeld:
        assert self._seconds is not None
        return ApplyNotHeld(
            f'the apply of subscription "{self._subscription.name}" could not be held within {self._seconds:g} s',
            sqlstate="57014",
            detail=f"The subscription has applied up to {format_lsn(self._applied)}.",
            hint="`subscriber status` shows what it is waiting for, and how far it is behind. Allow more time, or try"
            " again when it has caught up.",
        )

    def _cannot_reach(self, report: str) -> ApplyNotHeld:
        first = report.partition("\n")[0].removeprefix("ERROR:").strip()
        return ApplyNotHeld(
            f'the apply of subscription "{self._subscription.name}" cannot be held, because it fails: {first}',
            detail=f"The subscription has applied up to {format_lsn(self._applied)}.",
            hint="`subscriber status` shows the whole error. Remove its cause, and repeat the command.",
        )

    # The publisher --------------------------------------------------------------------------------

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Export a snapshot of the publisher, which is not before what was applied.

        Raises:
            ApplyNotHeld: the target is ahead of the publisher, or the time is over.
            PublisherError: the publisher cannot be reached, or cannot create a slot.
        """
        subscription = self._subscription
        with connect_publisher(subscription.conninfo, subscription.name) as server:
            self._check_ahead(Publisher(server).flushed_lsn())
        with contextlib.ExitStack() as stack:
            try:
                with self._time_limit() as stop:
                    snapshot = stack.enter_context(exported_snapshot(subscription.conninfo, subscription.name, stop))
            except PublisherError:
                if time.monotonic() >= self._deadline:
                    raise self._too_late() from None
                raise
            self._check_ahead(snapshot.lsn)
            yield snapshot

    @contextlib.contextmanager
    def _time_limit(self) -> Iterator[threading.Event]:
        """Give an event that is set when the time is over."""
        stop = threading.Event()
        if self._seconds is None:
            yield stop
            return
        timer = threading.Timer(max(0.0, self._deadline - time.monotonic()), stop.set)
        timer.daemon = True
        timer.start()
        try:
            yield stop
        finally:
            timer.cancel()

    def _check_ahead(self, publisher: LSN) -> None:
        """Raise if the target has applied more than the publisher has."""
        if self._applied <= publisher:
            return
        raise ApplyNotHeld(
            f'the target has applied changes of subscription "{self._subscription.name}" up to'
            f" {format_lsn(self._applied)}, but the publisher has WAL only up to {format_lsn(publisher)}",
            detail="The publisher was restored to an older state, or it is another server.",
            hint="`subscriber run` says which tables have changes that the publisher lost, and what to do.",
            lsn=self._applied,
        )

    def bind(self, lsn: LSN) -> None:
        """Let the run apply up to ``lsn``, and have the stream pass it.

        Raises:
            ApplyNotHeld: the hold was lost.
            PublisherError: the publisher cannot be reached.
        """
        if not trying(partial(self._bind, lsn)):
            raise _lost(self._subscription.name, lsn)
        wake_run(self._settings)
        with connect_publisher(self._subscription.conninfo, self._subscription.name) as server:
            Publisher(server).write_barrier()

    def _bind(self, lsn: LSN) -> bool:
        with self._target.begin() as connection:
            return catalog.bind_hold(connection, self.hold, lsn)

    def held(self, snapshot: Snapshot) -> HeldApply:
        """Return what the caller may use."""

        def read() -> frozenset[tuple[str, str]]:
            with self._target.reporting(), self._target.engine.connect() as connection:
                return _ready_tables(connection, self.hold.subid)

        return HeldApply(snapshot.lsn, snapshot, trying(read), self._target, self.hold, self._subscription.name)


def _ready_tables(connection: Connection, subid: int) -> frozenset[tuple[str, str]]:
    relations = catalog.read_states(connection, subid)
    return frozenset((one.schema, one.name) for one in relations if one.state is RelationState.READY)


def _lost(name: str, lsn: LSN | None) -> ApplyNotHeld:
    at = "" if lsn is None else f" at {format_lsn(lsn)}"
    return ApplyNotHeld(
        f'the apply of subscription "{name}" is no longer held{at}',
        detail="The subscription was dropped, or `subscriber run` has removed the hold because this command did not"
        " renew it in time.",
        hint="What was read of the target may be newer. Repeat the command.",
        lsn=lsn,
    )

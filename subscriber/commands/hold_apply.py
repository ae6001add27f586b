"""Holding the apply of one subscription at an LSN, while `subscriber run` is running, so that a
command can compare or finish the target as of a snapshot of the publisher.

::

    command                          catalog: the lease of the pause          subscriber run (worker/pausing.py)
    claim it ──────────────────────▶ requested ─────────────────────────────▶ no batch begins any more
                                     paused ◀──────────────────────────────── no batch is in progress
    temporary slot at the publisher:
      snapshot, consistent point L
    bound := L, barrier ───────────▶ paused, bound L ───────────────────────▶ applies what ends at or before L
                                     held, reached L ◀─────────────────────── L is received, and nothing up to L is left
    reads publisher and target
    check(): is it still there?
    release it ────────────────────▶ (none) ────────────────────────────────▶ goes on

Why the target then has exactly the transactions of the snapshot:

- *Nothing more.* The slot is created after the pause. A walsender sends only WAL that is flushed,
  so everything that was applied before the pause ends before L, and after it no batch ends after
  the bound. A transaction is in the snapshot if and only if its commit record ends at or before L
  (rule D6), and a batch never ends inside a transaction.
- *Nothing less.* The run acknowledges when the journal has received L and no entry that ends at or
  before L is left to apply. A barrier, a small message that the command writes after L, lets the
  stream pass L although the publisher is idle.
- *Only tables that are ready.* Copies and catch-ups go on, because they write other tables; no
  table becomes ready during the hold. :meth:`RequestedPause.check` notices that a command has taken
  one out of state r (REFRESH TABLE).
- *To the end.* The lease is the pause. Whoever lets the apply go on deletes it first: this command,
  DROP SUBSCRIPTION, or the run when the holder is dead. So if it is there after the last read,
  every read was of L. A run that is started again reads it before its first batch.

During a pause something is always left to apply, so a failure that is over may not be marked as
resolved. So the command gives up after three new errors, or after 60 s without progress.

The slot waits for transactions in progress at the publisher, and the apply waits with it, at most
until the time limit. Commits that wait for this subscription (``synchronous_commit =
remote_apply``) would never end then, so the wait is limited where the publisher may have some.

*Rejected:* creating the slot first, and having the run stop at its L: it may have passed L by then.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import sqlalchemy as sa

from subscriber.base.errors import ApplyNotHeld, PublisherError, SubscriberError, UsageError
from subscriber.base.lsn import LSN, format_lsn
from subscriber.base.retry import repeat_if_busy
from subscriber.base.settings import Settings
from subscriber.base.waiting import watched
from subscriber.catalog.apply_pauses import PauseState, bind_pause
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.leases import (
    Lease,
    LeaseKind,
    Renewal,
    claim,
    find_lease,
    find_run,
    is_running,
    new_lease,
    release,
    renewing,
)
from subscriber.catalog.statistics import statistics_of
from subscriber.catalog.subscriptions import Subscription, get_subscription
from subscriber.catalog.table_states import RelationState, read_states
from subscriber.commands.wake import wake_run
from subscriber.postgres.sql.quoting import quote_identifier
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.connection import connect_publisher
from subscriber.publisher.snapshot import Snapshot, exported_snapshot
from subscriber.targets import Connection, Target

_SHORTEST_POLL_SECONDS: Final = 0.05
_LONGEST_POLL_SECONDS: Final = 0.5
"""How often the row is read while the command waits for the run. A target that can be open in one
process only needs time between two reads, so the pause grows.
"""
_ABSENCE_SECONDS: Final = 60.0
"""How long a run may be absent during a hold: it may be about to be started again."""

SYNCHRONOUS_SECONDS: Final = 10.0
"""How long the snapshot may wait for transactions whose commits may wait for the apply."""
_CANCELLED: Final = "57014"
_REPEATED: Final = 3
"""After so many failures during the wait, it is useless to wait."""
_SILENT_SECONDS: Final = 60.0
"""How long nothing may happen while an error is not resolved."""


@dataclass(frozen=True, slots=True)
class RequestedPause:
    """A subscription whose apply is held: the target is at ``lsn``, of which ``snapshot`` is the
    publisher's (:func:`subscriber.publisher.snapshot.snapshot_session`). Only ``tables``, by the
    publisher's names, were ready and are as of the LSN.
    """

    lsn: LSN
    snapshot: Snapshot
    tables: frozenset[tuple[str, str]]
    _target: Target = field(repr=False)
    _pause: Lease = field(repr=False)
    _name: str

    def check(self) -> None:
        """Prove that what was read of the target is of :attr:`lsn`: the apply was held until now.
        ApplyNotHeld (55000): the hold was lost, or a ready table is copied again.
        """
        found, ready = repeat_if_busy(self._read)
        if found is None or found.holder != self._pause.holder or found.state != PauseState.HELD:
            raise _lost(self._name, self.lsn)
        changed = sorted(self.tables - ready)
        if changed:
            table = ".".join(changed[0])
            raise ApplyNotHeld(
                f'table "{table}" of subscription "{self._name}" was taken out of state r while the apply was held',
                hint="A command has refreshed or removed it. Wait until its copy is ready, and repeat the command.",
                relation=table,
            )

    def _read(self) -> tuple[Lease | None, frozenset[tuple[str, str]]]:
        with self._target.reporting(), self._target.engine.connect() as connection:
            return find_lease(connection, LeaseKind.PAUSE, self._pause.subid), _ready_tables(
                connection, self._pause.subid
            )


@contextlib.contextmanager
def hold_apply(
    target: Target, subscription: Subscription, settings: Settings, *, seconds: float | None = None
) -> Iterator[RequestedPause]:
    """Hold the apply of an enabled subscription while the block runs; see the module's docstring.
    `subscriber run` goes on with the other subscriptions. ``seconds`` limits the time until the
    apply is held.

    UsageError is 55000 if no `subscriber run` is running or the subscription is disabled, 55P03 if
    another command holds its apply. ApplyNotHeld: an error stops the apply before the LSN, the
    target is ahead of the publisher, or the time is over (57014).
    """
    with target.reporting():
        ensure_catalog(target.engine)
    pause = PauseRequest(target, subscription, settings, seconds)
    with pause.claimed():
        pause.wait_for((PauseState.PAUSED, PauseState.HELD), "pausing")
        with pause.snapshot() as snapshot:
            pause.bind(snapshot.lsn)
            pause.wait_for((PauseState.HELD,), f"applying up to {format_lsn(snapshot.lsn)} in")
            tables = repeat_if_busy(pause.tables)
            yield RequestedPause(snapshot.lsn, snapshot, tables, target, pause.lease, subscription.name)


class PauseRequest:
    """One pause, from its request to its end, on the side of the command."""

    def __init__(self, target: Target, subscription: Subscription, settings: Settings, seconds: float | None) -> None:
        self.lease = new_lease(LeaseKind.PAUSE, subscription.subid, PauseState.REQUESTED)
        self._target = target
        self._subscription = subscription
        self._settings = settings
        self._seconds = seconds
        self._deadline = float("inf") if seconds is None else time.monotonic() + seconds
        self._is_refused = False
        self._run = "`subscriber run`"
        self._applied = LSN(0)

    @contextlib.contextmanager
    def claimed(self) -> Iterator[None]:
        """Have the lease while the block runs."""
        try:
            repeat_if_busy(self._claim)
            wake_run(self._settings)
            with renewing(self._target, Renewal(self.lease)):
                yield
        finally:
            if not self._is_refused:
                with contextlib.suppress(SubscriberError):  # the run deletes it when this process has ended
                    repeat_if_busy(self._release)
                wake_run(self._settings)

    def _claim(self) -> None:
        try:
            with self._target.begin() as connection:
                self._check(connection)
                other = claim(connection, self.lease)
            if other is not None and other.holder != self.lease.holder:
                raise self._held_by(other)
        except UsageError:
            self._is_refused = True
            raise
        except (SubscriberError, sa.exc.IntegrityError):
            with self._target.reporting(), self._target.engine.connect() as connection:
                quicker = find_lease(connection, LeaseKind.PAUSE, self.lease.subid)
            if quicker is not None and quicker.holder != self.lease.holder:
                self._is_refused = True
                raise self._held_by(quicker) from None
            raise

    def _check(self, connection: Connection) -> None:
        name = self._subscription.name
        stored = get_subscription(connection, name)
        if not stored.enabled:
            raise UsageError(
                f'the apply of subscription "{name}" cannot be held, because the subscription is disabled',
                sqlstate="55000",
                detail="Only a subscription that `subscriber run` applies can be brought to an LSN.",
                hint=f"ALTER SUBSCRIPTION {quote_identifier(name)} ENABLE;",
            )
        if not self._sees_run(connection):
            raise self._no_run()

    def _held_by(self, other: Lease) -> UsageError:
        return UsageError(
            f'the apply of subscription "{self._subscription.name}" is held by another command',
            sqlstate="55P03",
            detail=f"It has been held since {other.since} by {other.holder_in_words}.",
            hint="Wait for its end, or end it. If its process was killed, `subscriber run` removes the hold within a minute.",
        )

    def _sees_run(self, connection: Connection) -> bool:
        run = find_run(connection)
        if run is None:
            return False
        self._run = f"`subscriber run`, {run.holder_in_words}"
        return is_running(self._target, connection, run)

    def _no_run(self) -> UsageError:
        place = self._target.url.set(query={}).render_as_string()
        return UsageError(
            "no `subscriber run` is running for this target",
            sqlstate="55000",
            detail="Only a run can bring the target to an LSN of the publisher.",
            hint=f"Start: subscriber run --target {place}",
        )

    def _release(self) -> None:
        with self._target.begin() as connection:
            release(connection, self.lease)

    # Waiting --------------------------------------------------------------------------------------

    def wait_for(self, states: tuple[PauseState, ...], what: str) -> None:
        """Return when the run has written one of some states."""
        began = seen = time.monotonic()
        pause = _SHORTEST_POLL_SECONDS
        failing = _Failing()
        with watched(f'{what} subscription "{self._subscription.name}"', lambda: [self._run]):
            while True:
                found, is_running, statistics = repeat_if_busy(self._look)
                if found is None or found.holder != self.lease.holder:
                    raise _lost(self._subscription.name, None)
                if found.state in states:
                    return
                now = time.monotonic()
                seen = now if is_running else seen
                if now - seen > _ABSENCE_SECONDS:
                    raise self._no_run()
                error = failing.observe(statistics, (found.state, self._applied), now)
                if error is not None:
                    raise self._cannot_reach(error)
                if now >= self._deadline:
                    raise self._too_late()
                time.sleep(min(pause, max(0.0, self._deadline - now)))
                pause = min(_LONGEST_POLL_SECONDS, max(pause, (time.monotonic() - began) / 20))

    def _look(self) -> tuple[Lease | None, bool, Mapping[str, Any]]:
        subid = self.lease.subid
        with self._target.reporting(), self._target.engine.connect() as connection:
            found = find_lease(connection, LeaseKind.PAUSE, subid)
            self._applied = self._subscription.progress.find(connection) or LSN(0)
            return found, self._sees_run(connection), statistics_of(connection, subid)

    def _too_late(self) -> ApplyNotHeld:
        assert self._seconds is not None
        return ApplyNotHeld(
            f'could not pause subscription "{self._subscription.name}" within {self._seconds:g} s',
            sqlstate="57014",
            detail=f"The subscription has applied up to {format_lsn(self._applied)}.",
            hint="`subscriber status` shows what it is waiting for, and how far it is behind. Allow more time, or try"
            " again when it has caught up.",
        )

    def _commits_wait(self) -> ApplyNotHeld:
        name = self._subscription.name
        return ApplyNotHeld(
            f'could not pause subscription "{name}" within {SYNCHRONOUS_SECONDS:g} s: the publisher\'s commits wait for this'
            " subscription",
            sqlstate="57014",
            detail=f'"{name}" is a synchronous standby of the publisher, and synchronous_commit is remote_apply. Deadlock:'
            " commits wait for the apply, the apply for the snapshot, the snapshot for the commits.",
            hint="Stop the writes, or set synchronous_commit = on at the publisher for the time of this command.",
        )

    def _cannot_reach(self, report: str) -> ApplyNotHeld:
        first = report.partition("\n")[0].removeprefix("ERROR:").strip()
        return ApplyNotHeld(
            f'cannot pause subscription "{self._subscription.name}": it is failing with: {first}',
            detail=f"The subscription has applied up to {format_lsn(self._applied)}.",
            hint="`subscriber status` shows the whole error. Remove its cause, and repeat the command.",
        )

    # The publisher --------------------------------------------------------------------------------

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Export a snapshot of the publisher, which is not before what was applied."""
        subscription = self._subscription
        with connect_publisher(subscription.conninfo, subscription.name) as server:
            publisher = PublisherClient(server)
            self._check_ahead(publisher.flushed_lsn())
            waits_for_us = publisher.may_wait_for_apply()
        with contextlib.ExitStack() as stack:
            try:
                with self._time_limit(SYNCHRONOUS_SECONDS if waits_for_us else None) as stop:
                    snapshot = stack.enter_context(exported_snapshot(subscription.conninfo, subscription.name, stop))
            except PublisherError as error:
                if time.monotonic() >= self._deadline:
                    raise self._too_late() from None
                if waits_for_us and error.sqlstate == _CANCELLED:
                    raise self._commits_wait() from None
                raise
            self._check_ahead(snapshot.lsn)
            yield snapshot

    @contextlib.contextmanager
    def _time_limit(self, seconds: float | None) -> Iterator[threading.Event]:
        """Give an event that is set when the time of the pause, or ``seconds``, is over."""
        stop = threading.Event()
        if self._seconds is None and seconds is None:
            yield stop
            return
        left = self._deadline - time.monotonic()
        timer = threading.Timer(max(0.0, left if seconds is None else min(left, seconds)), stop.set)
        timer.daemon = True
        timer.start()
        try:
            yield stop
        finally:
            timer.cancel()

    def _check_ahead(self, publisher: LSN) -> None:
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
        """Let the run apply up to ``lsn``, and have the stream pass it."""
        if not repeat_if_busy(partial(self._bind, lsn)):
            raise _lost(self._subscription.name, lsn)
        wake_run(self._settings)
        with connect_publisher(self._subscription.conninfo, self._subscription.name) as server:
            PublisherClient(server).write_barrier()

    def _bind(self, lsn: LSN) -> bool:
        with self._target.begin() as connection:
            return bind_pause(connection, self.lease, lsn)

    def tables(self) -> frozenset[tuple[str, str]]:
        with self._target.reporting(), self._target.engine.connect() as connection:
            return _ready_tables(connection, self.lease.subid)


def _ready_tables(connection: Connection, subid: int) -> frozenset[tuple[str, str]]:
    relations = read_states(connection, subid)
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


class _Failing:
    """Observes the errors of one subscription during one wait."""

    def __init__(self) -> None:
        self._errors: set[str] = set()
        self._first: str | None = None
        self._has_begun = False
        self._situation: object = None
        self._since = 0.0

    def observe(self, statistics: Mapping[str, Any], situation: object, now: float) -> str | None:
        """The report of an error after which waiting is useless, if there is one."""
        if situation != self._situation:
            self._situation, self._since = situation, now
        error_at = statistics.get("last_error_at")
        if not self._has_begun:
            self._has_begun, self._first = True, error_at
        if error_at is None or statistics.get("last_error_worker") != "apply":
            return None
        if statistics.get("last_error_resolved_at") is not None:
            return None
        if error_at != self._first:
            self._errors.add(error_at)
        if len(self._errors) < _REPEATED and now - self._since < _SILENT_SECONDS:
            return None
        report: str = statistics["last_error"]
        return report

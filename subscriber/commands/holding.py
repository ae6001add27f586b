"""The steps of a hold of the apply, on the side of the command: the row, the waits for the run, and
the snapshot. :mod:`subscriber.commands.hold_apply` has the protocol.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from subscriber import catalog
from subscriber.catalog import ApplyHold, RelationState, Subscription
from subscriber.commands.hold_failing import Failing
from subscriber.commands.hold_heartbeat import now_as_text, trying
from subscriber.commands.wake import wake_run
from subscriber.errors import ApplyNotHeld, PublisherError, SubscriberError, UsageError
from subscriber.lsn import LSN, format_lsn
from subscriber.publisher.publisher import Publisher, connect_publisher
from subscriber.publisher.snapshot import Snapshot, exported_snapshot
from subscriber.settings import Settings
from subscriber.sql.keywords import quote_identifier
from subscriber.targets import Connection, Target
from subscriber.waiting import watched

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


class Holding:
    """One hold, from its request to its end.

    Args:
        target: the target of the subscription.
        subscription: the subscription.
        settings: the place of the journals.
        seconds: the longest time until the apply is held; None if there is no limit.

    Attributes:
        hold: the row, as it was requested.
    """

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
            ApplyNotHeld: see :func:`~subscriber.commands.hold_apply.hold_apply`.
            UsageError: the run has been absent for a while.
        """
        began = seen = time.monotonic()
        pause = _SHORTEST_POLL_SECONDS
        failing = Failing()
        with watched(f'{what} subscription "{self._subscription.name}"', lambda: [self._runner]):
            while True:
                found, is_running, statistics = trying(self._look)
                if found is None or found.holder != self.hold.holder:
                    raise lost(self._subscription.name, None)
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

    def _commits_wait(self) -> ApplyNotHeld:
        name = self._subscription.name
        return ApplyNotHeld(
            f'the apply of subscription "{name}" could not be held within {SYNCHRONOUS_SECONDS:g} s, because commits of the'
            " publisher wait for it",
            sqlstate="57014",
            detail=f'"{name}" is a synchronous standby of the publisher, and synchronous_commit is remote_apply. Commits'
            " wait until they are applied, the snapshot waits for these commits, and the apply for the snapshot.",
            hint="Stop the writes, or set synchronous_commit = on at the publisher for the time of this command.",
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
            publisher = Publisher(server)
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
        """Give an event that is set when the time of the hold, or ``seconds``, is over."""
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
            raise lost(self._subscription.name, lsn)
        wake_run(self._settings)
        with connect_publisher(self._subscription.conninfo, self._subscription.name) as server:
            Publisher(server).write_barrier()

    def _bind(self, lsn: LSN) -> bool:
        with self._target.begin() as connection:
            return catalog.bind_hold(connection, self.hold, lsn)

    def tables(self) -> frozenset[tuple[str, str]]:
        """Return the tables that are ready, by schema and name."""
        with self._target.reporting(), self._target.engine.connect() as connection:
            return ready_tables(connection, self.hold.subid)


def ready_tables(connection: Connection, subid: int) -> frozenset[tuple[str, str]]:
    """Return the tables of a subscription that are ready, by schema and name."""
    relations = catalog.read_states(connection, subid)
    return frozenset((one.schema, one.name) for one in relations if one.state is RelationState.READY)


def lost(name: str, lsn: LSN | None) -> ApplyNotHeld:
    """Return the error for a hold that is no longer there."""
    at = "" if lsn is None else f" at {format_lsn(lsn)}"
    return ApplyNotHeld(
        f'the apply of subscription "{name}" is no longer held{at}',
        detail="The subscription was dropped, or `subscriber run` has removed the hold because this command did not"
        " renew it in time.",
        hint="What was read of the target may be newer. Repeat the command.",
        lsn=lsn,
    )

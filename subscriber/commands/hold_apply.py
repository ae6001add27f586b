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
- *Only tables that are ready.* Copies and catch-ups go on, because they do not write tables that
  are ready. No table becomes ready during the hold. A command may take a table out of state r
  (REFRESH TABLE); :meth:`HeldApply.check` notices that.
- *To the end.* The row is the hold. Whoever lets the apply go on deletes it first: this command,
  DROP SUBSCRIPTION, or the run when the holder is dead, which renews a heartbeat every few seconds.
  So if the row is there after the last read, every read was of L. A run that is killed and started
  again reads the row before its first batch.

The slot is created after the pause and waits for transactions that are in progress at the
publisher. So a long transaction there delays the apply for as long as it lasts, or until the time
limit. Whom it waits for is said. Commits that wait until this subscription has applied them
(``synchronous_commit = remote_apply``) would never end then, so the wait is limited where the
publisher may have such commits. *Rejected:* creating the slot first, and having the run stop at
its L: the run may have passed L by the time it knows of it, and then the snapshot is useless.
*Rejected:* a disabled subscription and a run of our own in the command: it would need Spark, and
the receiver would lose its slot. *Rejected:* a lock in the target instead of a row with heartbeats:
not every target has one, and DuckDB's file can be open in one process only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from subscriber import catalog
from subscriber.catalog import ApplyHold, HoldState, Subscription
from subscriber.commands.hold_heartbeat import renewing, trying
from subscriber.commands.holding import Holding, lost, ready_tables
from subscriber.errors import ApplyNotHeld
from subscriber.lsn import LSN, format_lsn
from subscriber.publisher.snapshot import Snapshot
from subscriber.settings import Settings
from subscriber.targets import Target


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
            raise lost(self._name, self.lsn)
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
            return catalog.find_hold(connection, self._hold.subid), ready_tables(connection, self._hold.subid)


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
    holding = Holding(target, subscription, settings, seconds)
    with holding.row(), renewing(target, holding.hold):
        holding.wait_for(_is_paused, "pausing")
        with holding.snapshot() as snapshot:
            holding.bind(snapshot.lsn)
            holding.wait_for(_is_held, f"applying up to {format_lsn(snapshot.lsn)} in")
            tables = trying(holding.tables)
            yield HeldApply(snapshot.lsn, snapshot, tables, target, holding.hold, subscription.name)


def _is_paused(hold: ApplyHold) -> bool:
    return hold.state is not HoldState.REQUESTED


def _is_held(hold: ApplyHold) -> bool:
    return hold.state is HoldState.HELD

"""Publisher and target compared while the subscription is disabled after a switch.

::

    switch: target is at the barrier ──▶ nothing is applied any more
                                          publisher: snapshot ──▶ verify ◀── target as it is
                                          then: was anything published after the barrier?  (slot, journal)

Nothing is applied, so no `subscriber run` has to be held, and none has to run. If nothing was
published after the barrier, the publisher's tables in the snapshot are those of the barrier, and
every difference was made in the target, or was there at the switch. The question comes after the
snapshot, so that whatever the snapshot has is known to it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from subscriber import catalog
from subscriber.catalog import Subscription
from subscriber.errors import ApplyNotHeld
from subscriber.lsn import INVALID_LSN, LSN
from subscriber.migration.cutover.world import VerifyResult
from subscriber.publisher.snapshot import Snapshot, exported_snapshot
from subscriber.settings import Settings
from subscriber.targets import Target
from subscriber.verify.report import VerifyReport
from subscriber.verify.verify_subscription import verify_subscription


@dataclass(frozen=True, slots=True)
class _AtRest:
    """A disabled subscription; see :class:`~subscriber.verify.verify_subscription.Held`.

    Attributes:
        lsn: the LSN of the snapshot.
        snapshot: the snapshot of the publisher.
    """

    lsn: LSN
    snapshot: Snapshot
    _target: Target = field(repr=False)
    _name: str

    def check(self) -> None:
        """Return if the subscription is still disabled.

        Raises:
            ApplyNotHeld: 55000, it was enabled meanwhile.
        """
        if catalog.existing_subscription(self._target, self._name).enabled:
            raise ApplyNotHeld(
                f'subscription "{self._name}" was enabled while publisher and target were compared',
                hint="Run the command again.",
            )


@contextlib.contextmanager
def at_rest(
    target: Target, subscription: Subscription, settings: Settings, *, seconds: float | None = None
) -> Iterator[_AtRest]:
    """A snapshot of the publisher while nothing is applied. It waits for the transactions that are
    in progress there.

    Raises:
        PublisherError: the publisher cannot be reached, or cannot create a slot.
    """
    del settings, seconds  # no run is asked for anything
    with exported_snapshot(subscription.conninfo, subscription.name) as snapshot:
        yield _AtRest(snapshot.lsn, snapshot, target, subscription.name)


def compare_at_rest(target: Target, name: str, settings: Settings) -> VerifyResult:
    """Compare the tables of a disabled subscription with the publisher's.

    Raises:
        SubscriberError: a side cannot be read.
    """
    return verify_result(verify_subscription(target, name, settings, hold=at_rest))


def verify_result(report: VerifyReport) -> VerifyResult:
    """The result of a comparison, without keys of rows."""
    differing = []
    lines = []
    for one in report.tables:
        counts = {
            "publisher_rows": one.publisher_rows,
            "target_rows": one.target_rows,
            "differing": one.differing,
            "only_publisher": one.only_publisher,
            "only_target": one.only_target,
        }
        lines.append({"table": one.table, **counts, "notes": list(one.notes), "error": one.error})
        if one.error:
            differing.append(f"{one.table}: {one.error}")
        elif one.differences:
            differing.append(
                f"{one.table}: {one.differing} differing, {one.only_publisher} only at the publisher,"
                f" {one.only_target} only in the target"
            )
    return VerifyResult(report.is_equal, report.lsn or INVALID_LSN, differing, {"tables": lines})

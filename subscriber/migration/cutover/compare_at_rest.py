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
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from subscriber import catalog
from subscriber.catalog import Subscription
from subscriber.errors import ApplyNotHeld, PublisherError
from subscriber.lsn import INVALID_LSN, LSN
from subscriber.migration.cutover.world import VerifyResult
from subscriber.publisher.snapshot import Snapshot, exported_snapshot
from subscriber.settings import Settings
from subscriber.targets import Target
from subscriber.verify.report import VerifyOptions, VerifyReport
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
        ApplyNotHeld: 57014, the time is over.
        PublisherError: the publisher cannot be reached, or cannot create a slot.
    """
    del settings  # no run is asked for anything
    stop = threading.Event()
    with contextlib.ExitStack() as stack:
        timer = threading.Timer(threading.TIMEOUT_MAX if seconds is None else seconds, stop.set)
        timer.daemon = True
        timer.start()
        try:
            snapshot = stack.enter_context(exported_snapshot(subscription.conninfo, subscription.name, stop))
        except PublisherError:
            if not stop.is_set():
                raise
            raise ApplyNotHeld(
                f"the snapshot of the publisher was not there within {seconds:g} s",
                sqlstate="57014",
                detail="It waits for the end of every transaction in progress at the publisher's server.",
                hint="Wait for them or end them, and run the same command again, or with a longer --timeout.",
            ) from None
        finally:
            timer.cancel()
        yield _AtRest(snapshot.lsn, snapshot, target, subscription.name)


def compare_at_rest(target: Target, name: str, settings: Settings, seconds: float) -> VerifyResult:
    """Compare the tables of a disabled subscription with the publisher's.

    Args:
        target: the target.
        name: the subscription's name.
        settings: the size of a range.
        seconds: the longest time until a snapshot of the publisher is there.

    Raises:
        SubscriberError: a side cannot be read, or the time is over.
    """
    return verify_result(verify_subscription(target, name, settings, VerifyOptions(seconds=seconds), hold=at_rest))


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
            # Its HINT and DETAIL would be taken for those of the whole command.
            differing.append(f"{one.table}: {one.error.splitlines()[0].removeprefix('ERROR:  ')}")
        elif one.differences:
            differing.append(
                f"{one.table}: {one.differing} differing, {one.only_publisher} only at the publisher,"
                f" {one.only_target} only in the target"
            )
    return VerifyResult(report.is_equal, report.lsn or INVALID_LSN, differing, {"tables": lines})

"""The command's claim on a cutover: only one command at a time carries it out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from subscriber.base.errors import SubscriberError
from subscriber.base.retry import repeat_if_busy
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.cutovers import Cutover, claim_cutover, find_cutover, leave_cutover
from subscriber.catalog.leases import Renewal, renewing
from subscriber.targets import Target


@contextlib.contextmanager
def carrying_out(target: Target, name: str, subid: int) -> Iterator[Cutover]:
    """Claim the cutover of a subscription during the block. UsageError 55P03: another has it."""
    with target.reporting():
        ensure_catalog(target.engine)

    def claimed() -> Cutover:
        with target.begin() as connection:
            return claim_cutover(connection, name, subid)

    def left() -> None:
        with target.begin() as connection:
            leave_cutover(connection, cutover)

    cutover = repeat_if_busy(claimed)
    assert cutover.lease is not None
    try:
        with renewing(target, Renewal(cutover.lease)):
            yield cutover
    finally:
        # If it cannot be released, another command may claim it when this process has ended.
        with contextlib.suppress(SubscriberError):
            repeat_if_busy(left)


def look_at(target: Target, subid: int) -> Cutover | None:
    """The cutover of a subscription, without a claim on it; None if there is none."""
    with target.reporting(), target.engine.connect() as connection:
        return find_cutover(connection, subid)

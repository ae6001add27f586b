"""The command's claim on a cutover: only one command at a time carries it out.

A thread writes a heartbeat every few seconds, because a step such as verify may take hours. On
SQLite and DuckDB a heartbeat waits while `subscriber run` writes; one that cannot be written is
left out.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import uuid
from collections.abc import Iterator
from functools import partial
from typing import Final

from subscriber import catalog
from subscriber.catalog.cutovers import Cutover, beat_cutover, claim_cutover, find_cutover, leave_cutover
from subscriber.commands.hold_heartbeat import trying
from subscriber.errors import SubscriberError
from subscriber.targets import Target

logger = logging.getLogger(__name__)

INTERVAL_SECONDS: Final = 5.0
_END_SECONDS: Final = 2.0


@contextlib.contextmanager
def holding(target: Target, name: str, subid: int) -> Iterator[Cutover]:
    """Hold the cutover of a subscription while the block runs.

    Raises:
        UsageError: 55P03, another command holds it.
    """
    with target.reporting():
        catalog.ensure_catalog(target.engine)

    def claimed() -> Cutover:
        with target.begin() as connection:
            return claim_cutover(connection, name, subid, uuid.uuid4().hex)

    cutover = trying(claimed)
    end = threading.Event()
    thread = threading.Thread(target=_beat, args=(target, cutover, end), name="cutover heartbeat", daemon=True)
    thread.start()
    try:
        yield cutover
    finally:
        end.set()
        thread.join(_END_SECONDS)
        # If it cannot be given back, it is free as soon as this process has ended.
        with contextlib.suppress(SubscriberError):
            trying(partial(_leave, target, cutover))


def _leave(target: Target, cutover: Cutover) -> None:
    with target.begin() as connection:
        leave_cutover(connection, cutover)


def look_at(target: Target, subid: int) -> Cutover | None:
    """The cutover of a subscription, without a claim on it; None if there is none.

    Raises:
        TargetUnavailable: the target cannot be queried.
    """
    with target.reporting(), target.engine.connect() as connection:
        return find_cutover(connection, subid)


def _beat(target: Target, cutover: Cutover, end: threading.Event) -> None:
    while not end.wait(INTERVAL_SECONDS):
        try:
            with target.begin() as connection:
                beat_cutover(connection, cutover)
        except SubscriberError as error:
            logger.debug("a heartbeat of the cutover could not be written: %s", error.message)

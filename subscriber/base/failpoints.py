"""Failpoints: named places where a test may kill the process.

A failpoint is one call, ``failpoints.hit("journal.rename.before")``, which costs a dictionary
look-up while none is armed. A test arms failpoints through an environment variable, which child
processes inherit::

    SUBSCRIBER_FAILPOINTS="journal.rename.before=kill@3:/tmp/once"

When this process passes ``journal.rename.before`` for the third time, it gets SIGKILL, unless the
file ``/tmp/once`` exists. The file is created before the signal is sent, so the restarted process
survives. ``@N`` and the file are optional. The actions are ``kill`` (SIGKILL), ``interrupt``
(SIGINT) and ``enospc`` (an OSError as from a full disk). Commas separate failpoints.

The list of names is closed, so a wrong name in a test is an error and not a test that cannot fail.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from subscriber.base.digits import parse_int
from subscriber.base.errors import UsageError

ENVIRONMENT: Final = "SUBSCRIBER_FAILPOINTS"

FAILPOINTS: Final = frozenset(
    f"{step}.{moment}"
    for step in (
        "journal.sync",
        "journal.rename",
        "journal.merge",
        "feedback",
        "target.alter",
        "target.commit",
        "target.prepare",
        "target.finish",
        "copy.begin",
        "copy.block",
        "copy.commit",
        "handover",
        "cutover.preconditions",
        "cutover.writes",
        "cutover.barrier",
        "cutover.sequences",
        "cutover.schema",
        "cutover.verify",
        "cutover.reverse",
        "cutover.switch",
        "cutover.undo",
        "cutover.finish",
        "recreate",
        "hold.pause",
        "hold.reach",
    )
    for moment in ("before", "after")
)


@dataclass(slots=True)
class _Armed:
    action: str
    passes_left: int
    once: Path | None


def parse(text: str) -> dict[str, _Armed]:
    """The failpoints that the text of the environment variable arms."""
    armed = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, rest = item.partition("=")
        rest, _, once = rest.partition(":")
        action, _, count = rest.partition("@")
        if name not in FAILPOINTS:
            raise UsageError(f'unknown failpoint "{name}"', hint=f"Known: {', '.join(sorted(FAILPOINTS))}.")
        if action not in ("kill", "interrupt", "enospc"):
            raise UsageError(f'unknown failpoint action "{action}"', hint="Use kill, interrupt or enospc.")
        if count and not count.isdecimal():
            raise UsageError(f'invalid count of failpoint "{name}": "{count}"', hint="Write it as in kill@3.")
        armed[name] = _Armed(action, parse_int(count or "1"), Path(once) if once else None)
    return armed


def arm(environment: Mapping[str, str]) -> None:
    _armed.clear()
    _armed.update(parse(environment.get(ENVIRONMENT, "")))


def hit(name: str) -> None:
    """Pass a failpoint: returns at once unless a test has armed it."""
    point = _armed.get(name)
    if point is None:
        return
    point.passes_left -= 1
    if point.passes_left > 0 or (point.once is not None and point.once.exists()):
        return
    if point.once is not None:
        point.once.touch()
    if point.action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if point.action == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
        return
    raise OSError(errno.ENOSPC, f"No space left on device (failpoint {name})")


_armed: dict[str, _Armed] = {}
arm(os.environ)

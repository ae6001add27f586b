"""Named places where a test may kill the process, and nothing else.

A failpoint is one call, ``failpoints.hit("journal.rename.before")``, that costs a dictionary
look-up when nothing is armed. A test arms some through the environment, so that child processes
inherit them::

    SUBSCRIBER_FAILPOINTS="journal.rename.before=kill@3:/tmp/once"

means: the third time this process passes ``journal.rename.before``, send it SIGKILL - unless the
file ``/tmp/once`` exists; it is created first, so that the restarted process survives. ``@N`` and
the file are optional. Actions: ``kill`` (SIGKILL), ``enospc`` (an OSError as from a full disk).
Several failpoints are separated by commas.

The names are a closed list, so that a typo in a test is an error and not a test that cannot fail.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from subscriber.digits import integer_of
from subscriber.errors import UsageError

ENVIRONMENT: Final = "SUBSCRIBER_FAILPOINTS"

FAILPOINTS: Final = frozenset(
    f"{step}.{moment}"
    for step in (
        "journal.sync",
        "journal.rename",
        "feedback",
        "target.alter",
        "target.commit",
        "target.prepare",
        "target.finish",
        "copy.begin",
        "copy.block",
        "copy.commit",
        "handover",
    )
    for moment in ("before", "after")
)


@dataclass(slots=True)
class _Armed:
    action: str
    passes_left: int
    once: Path | None


def parse(text: str) -> dict[str, _Armed]:
    """Read the environment's text into the failpoints it arms.

    Raises:
        UsageError: an unknown name or action, naming it.
    """
    armed = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, rest = item.partition("=")
        rest, _, once = rest.partition(":")
        action, _, count = rest.partition("@")
        if name not in FAILPOINTS:
            raise UsageError(f'unknown failpoint "{name}"', hint=f"Known: {', '.join(sorted(FAILPOINTS))}.")
        if action not in ("kill", "enospc"):
            raise UsageError(f'unknown failpoint action "{action}"', hint="Use kill or enospc.")
        if count and not count.isdecimal():
            raise UsageError(f'invalid count of failpoint "{name}": "{count}"', hint="Write it as in kill@3.")
        armed[name] = _Armed(action, integer_of(count or "1"), Path(once) if once else None)
    return armed


def arm(environment: Mapping[str, str]) -> None:
    """Arm what ``environment`` asks for; called once when the module is imported."""
    _armed.clear()
    _armed.update(parse(environment.get(ENVIRONMENT, "")))


def hit(name: str) -> None:
    """Pass a failpoint: returns at once unless a test armed it."""
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
    raise OSError(errno.ENOSPC, f"No space left on device (failpoint {name})")


_armed: dict[str, _Armed] = {}
arm(os.environ)

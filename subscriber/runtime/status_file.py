"""What ``subscriber status`` reads while a batch holds the target's file.

::

    subscriber run ──▶ target.duckdb                      held by the batch: nobody else may open it
          └─ thread ─▶ target.duckdb.subscriber-status    the statuses, every few seconds while that lasts
    subscriber status ─────────────▶ reads that, and says as of when it is

The file is there only while a batch or a copy has been in progress for a moment. It is written
under another name and renamed, only the owner may read it, and it holds what ``status --json``
prints: no passwords and no values. One that a killed run has left is not believed, since its
process is gone.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from subscriber.catalog import SchemaChange
from subscriber.errors import SubscriberError
from subscriber.runtime.subscription_status import (
    CopyFigures,
    RelationStatus,
    RunnerStatus,
    SlotStatus,
    SubscriptionStatus,
)

logger = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.25
_HELD_SECONDS: Final = 1.0
"""Whoever opens the target waits longer than that, so a shorter batch needs no file."""
_REFRESH_SECONDS: Final = 3.0
_FRESH_SECONDS: Final = 10.0
_END_SECONDS: Final = 2.0
"""How long the end of a run waits for a look at the publisher; one that does not answer is not
waited for.
"""


@dataclass(frozen=True, slots=True)
class StatusFile:
    """The statuses that a run has left while its batch holds the target.

    Attributes:
        statuses: by name; each has ``as_of``.
        as_of: when they were read, as ISO 8601 has it.
    """

    statuses: list[SubscriptionStatus]
    as_of: str

    @property
    def is_fresh(self) -> bool:
        """Whether a batch must be in progress still; if not, the run may just have been kept from
        taking the file away.
        """
        return (datetime.now(UTC) - datetime.fromisoformat(self.as_of)).total_seconds() < _FRESH_SECONDS


def read_status_file(path: Path | None) -> StatusFile | None:
    """What the run that holds the target has left; None where there is none, or its process is
    gone.
    """
    if path is None:
        return None
    try:
        content = json.loads(path.read_text())
        os.kill(content["pid"], 0)
        return StatusFile([_status(one) for one in content["subscriptions"]], content["as_of"])
    except PermissionError:
        return None  # somebody else's: either the file or the process
    except (OSError, ValueError, LookupError, TypeError):
        return None


@contextlib.contextmanager
def keeping_status_file(
    path: Path | None, read: Callable[[], Sequence[SubscriptionStatus]], busy_since: Callable[[], float | None]
) -> Iterator[None]:
    """Keep the file while the block runs; for a target that can be read meanwhile there is none.

    Args:
        path: where; None does nothing.
        read: reads the statuses; called in a thread of its own.
        busy_since: when the longest batch began that is in progress (monotonic seconds), None where
            there is none.
    """
    if path is None:
        yield
        return
    path.unlink(missing_ok=True)  # a killed run may have left one
    end = threading.Event()
    thread = threading.Thread(target=_keep, args=(path, read, busy_since, end), name="status file", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join(_END_SECONDS)
        path.unlink(missing_ok=True)


def _keep(
    path: Path,
    read: Callable[[], Sequence[SubscriptionStatus]],
    busy_since: Callable[[], float | None],
    end: threading.Event,
) -> None:
    written = 0.0
    while not end.wait(_POLL_SECONDS):
        since, now = busy_since(), time.monotonic()
        try:
            if since is None or now - since < _HELD_SECONDS:
                if written:
                    path.unlink(missing_ok=True)
                written = 0.0
            elif now - written >= _REFRESH_SECONDS:
                statuses = read()
                if end.is_set():
                    return
                _write(path, statuses)
                written = time.monotonic()
        except (SubscriberError, OSError) as error:
            logger.debug("the status file cannot be written: %s", type(error).__name__)


def _write(path: Path, statuses: Sequence[SubscriptionStatus]) -> None:
    as_of = datetime.now(UTC).isoformat(timespec="seconds")
    content = {
        "pid": os.getpid(),
        "as_of": as_of,
        "subscriptions": [{**asdict(one), "as_of": as_of} for one in statuses],
    }
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(content, file)
    new.replace(path)


def _status(fields: dict[str, Any]) -> SubscriptionStatus:
    relations = tuple(
        RelationStatus(**{**relation, "copy": relation["copy"] and CopyFigures(**relation["copy"])})
        for relation in fields["relations"]
    )
    changes = tuple(SchemaChange(**change) for change in fields["schema_changes"])
    return SubscriptionStatus(
        **{
            **fields,
            "publications": tuple(fields["publications"]),
            "relations": relations,
            "slot": fields["slot"] and SlotStatus(**fields["slot"]),
            "runner": fields["runner"] and RunnerStatus(**fields["runner"]),
            "schema_changes": changes,
        },
    )

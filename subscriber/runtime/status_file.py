"""The status file: ``subscriber status`` reads it while a batch holds the file of the target.

::

    subscriber run ──▶ target.duckdb                      held by the batch: no other process can open it
          └─ thread ─▶ target.duckdb.subscriber-status    the statuses, every few seconds while that lasts
    subscriber status ─────────────▶ reads the statuses, and shows their time

The status file exists only while a batch or a copy has been in progress for a moment. It is written
under another name and renamed, and only its owner may read it. It contains what ``status --json``
prints: no passwords and no values. The status file of a run that was killed is ignored, because the
process of the run no longer exists.
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
from functools import partial
from pathlib import Path
from typing import Any, Final

from subscriber.background import in_background
from subscriber.catalog import ReplacedCount, SchemaChange, WorkerStatus
from subscriber.errors import SubscriberError
from subscriber.runtime.subscription_status import (
    CopyFigures,
    CutoverStatus,
    FailoverStatus,
    HoldStatus,
    RelationStatus,
    RunnerStatus,
    SlotStatus,
    SubscriptionStatus,
)

logger = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.25
_HELD_SECONDS: Final = 1.0
"""A batch that is shorter needs no status file, because a process that opens the target waits
longer than this.
"""
_REFRESH_SECONDS: Final = 3.0
_FRESH_SECONDS: Final = 10.0
_END_SECONDS: Final = 2.0
"""How long the end of a run waits while the thread queries the publisher; a publisher that does not
answer must not delay the end further.
"""


@dataclass(frozen=True, slots=True)
class StatusFile:
    """The statuses that a run has written while its batch holds the target.

    Attributes:
        statuses: ordered by name; each has ``as_of``.
        as_of: when they were read (ISO 8601).
    """

    statuses: list[SubscriptionStatus]
    as_of: str

    @property
    def is_fresh(self) -> bool:
        """Whether the batch must still be in progress. If the file is older, the run may have
        failed to remove it.
        """
        return (datetime.now(UTC) - datetime.fromisoformat(self.as_of)).total_seconds() < _FRESH_SECONDS


def read_status_file(path: Path | None) -> StatusFile | None:
    """Read the statuses that the run which holds the target has written; None if there is no file,
    or if the process of the run no longer exists.
    """
    if path is None:
        return None
    try:
        content = json.loads(path.read_text())
        os.kill(content["pid"], 0)
        return StatusFile([_status(one) for one in content["subscriptions"]], content["as_of"])
    except PermissionError:
        return None  # the file or the process belongs to another user
    except (OSError, ValueError, LookupError, TypeError):
        return None


@contextlib.contextmanager
def keeping_status_file(
    path: Path | None, read: Callable[[], Sequence[SubscriptionStatus]], busy_since: Callable[[], float | None]
) -> Iterator[None]:
    """Keep the status file up to date while the block runs. There is no file for a target that can
    be read during a batch.

    Args:
        path: the path of the file; None if the target needs no file.
        read: reads the statuses; a separate thread calls it.
        busy_since: returns when the longest batch in progress began (monotonic seconds), or None if
            there is none.
    """
    if path is None:
        yield
        return
    path.unlink(missing_ok=True)  # a killed run may have left one
    try:
        with in_background("status file", partial(_keep, path, read, busy_since), _END_SECONDS):
            yield
    finally:
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
    replaced = tuple(ReplacedCount(**(one | {"key": tuple(one["key"])})) for one in fields.get("replaced_values", ()))
    changes = tuple(SchemaChange(**change) for change in fields["schema_changes"])
    return SubscriptionStatus(
        **{
            **fields,
            "publications": tuple(fields["publications"]),
            "missing_publications": tuple(fields["missing_publications"]),
            "waits_for": tuple(fields["waits_for"]),
            "relations": relations,
            "slot": fields["slot"] and SlotStatus(**fields["slot"]),
            "runner": fields["runner"] and RunnerStatus(**fields["runner"]),
            "cutover": fields["cutover"] and CutoverStatus(**fields["cutover"]),
            "failover": fields["failover"]
            and FailoverStatus(
                fields["failover"]["ready"],
                tuple(fields["failover"]["standbys"]),
                tuple(fields["failover"]["problems"]),
            ),
            "hold": fields["hold"] and HoldStatus(**fields["hold"]),
            "worker": fields["worker"] and WorkerStatus(**fields["worker"]),
            "schema_changes": changes,
            "replaced_values": replaced,
        },
    )

"""How far the copies of a subscription's tables are: in memory for the terminal, in a file for
everybody else.

The file lies beside the journal and not in the target: a target with one writer (SQLite) cannot be
written by anybody else while a copy is in progress, and what is in progress is nobody's to commit.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Final

from subscriber.catalog import SubscriptionRelation
from subscriber.errors import SubscriberError
from subscriber.journal.storage import Storage
from subscriber.pipeline.copy import CopyProgress

logger = logging.getLogger(__name__)

_SAVE_SECONDS: Final = 1.0
_LOG_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class CopyStatus:
    """How far the copy of one table is; estimates are the publisher's statistics.

    Attributes:
        schema: the table's.
        name: the table's.
        rows: loaded so far, not yet committed.
        bytes: of COPY data that they came as.
        estimated_rows: of the whole table.
        estimated_bytes: of the whole table on the publisher's disk.
        rows_per_second: on the average.
        started_at: UTC, ISO 8601.
    """

    schema: str
    name: str
    rows: int
    bytes: int
    estimated_rows: int
    estimated_bytes: int
    rows_per_second: float
    started_at: str


class Copies:
    """The tables of one subscription that are being copied now."""

    def __init__(self, storage: Storage, target_identifier: str, subid: int) -> None:
        self._storage = storage
        self._file = copies_file(target_identifier, subid)
        self._lock = threading.Lock()
        self._began: dict[tuple[str, str], tuple[float, str]] = {}
        self._current: dict[tuple[str, str], CopyStatus] = {}
        self._saved = 0.0
        self._logged = time.monotonic()

    def current(self) -> list[CopyStatus]:
        """What is being copied, in the order in which it began."""
        with self._lock:
            return list(self._current.values())

    def note(self, relation: SubscriptionRelation, done: CopyProgress) -> None:
        """Take down how far a table is; the file and the log follow at their own pace."""
        now = time.monotonic()
        key = (relation.schema, relation.name)
        with self._lock:
            began, started_at = self._began[key]
            status = self._current[key] = CopyStatus(
                *key,
                done.rows,
                done.bytes,
                done.estimated_rows,
                done.estimated_bytes,
                done.rows / (now - began) if now > began else 0.0,
                started_at,
            )
        if now - self._logged >= _LOG_SECONDS:
            self._logged = now
            logger.info(
                'table "%s": %s%s rows copied, %s rows/s',
                relation.qualified_name,
                f"{status.rows:,}",
                f" of about {status.estimated_rows:,}" if status.estimated_rows else "",
                f"{status.rows_per_second:,.0f}",
            )
        if now - self._saved >= _SAVE_SECONDS:
            self._save(now)

    @contextlib.contextmanager
    def showing(self, relation: SubscriptionRelation) -> Iterator[None]:
        """A table's copy begins here, and when it is over, well or not, it is forgotten."""
        with self._lock:
            began = (time.monotonic(), datetime.now(UTC).isoformat(timespec="milliseconds"))
            self._began[relation.schema, relation.name] = began
        try:
            yield
        finally:
            with self._lock:
                self._began.pop((relation.schema, relation.name), None)
                self._current.pop((relation.schema, relation.name), None)
            self._save(time.monotonic())

    def _save(self, now: float) -> None:
        self._saved = now
        current = self.current()
        # It only informs: a journal that cannot be written now says so where it matters.
        with contextlib.suppress(SubscriberError):
            if current:
                content = json.dumps([asdict(status) for status in current]).encode()
                self._storage.replace(self._file, content, durable=False, from_reserve=False)
            else:
                self._storage.delete([self._file])


def read_copies(storage: Storage, target_identifier: str, subid: int) -> list[CopyStatus]:
    """What another process is copying for a subscription, as it last said; a process that was
    killed may have left it.

    Raises:
        JournalUnavailable: the journal cannot be read now.
    """
    content = storage.read(copies_file(target_identifier, subid))
    return [CopyStatus(**status) for status in json.loads(content)] if content else []


def copies_file(target_identifier: str, subid: int) -> str:
    """The file of a subscription's copies; its name has nothing in it that somebody may choose."""
    return f"copy-{target_identifier}-{subid}.json"

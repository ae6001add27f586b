"""Keeps the progress of the copies of a subscription's tables: in memory for the terminal, and in a
file for other processes.

The file is beside the journal and not in the target, for two reasons. A target with one writer
(SQLite) cannot be written by anybody else while a copy is in progress. And the progress of a copy
is not committed, so no transaction of the target could record it.
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
from typing import TYPE_CHECKING, Final

from subscriber.catalog import SubscriptionRelation
from subscriber.errors import SubscriberError

if TYPE_CHECKING:
    from subscriber.journal.storage import Storage
    from subscriber.pipeline.copy import CopyProgress

logger = logging.getLogger(__name__)

_SAVE_SECONDS: Final = 1.0
_LOG_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class CopyStatus:
    """The progress of the copy of one table. The estimates are from the statistics of the
    publisher.

    Attributes:
        schema: the schema of the table.
        name: the name of the table.
        rows: the number of rows that are loaded, but not yet committed.
        bytes: the size of the COPY data of these rows.
        estimated_rows: the number of rows of the whole table.
        estimated_bytes: the size of the whole table on the publisher's disk.
        rows_per_second: the average rate.
        started_at: when the copy began (UTC, ISO 8601).
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
        """Return the progress of each copy, in the order in which the copies began."""
        with self._lock:
            return list(self._current.values())

    def note(self, relation: SubscriptionRelation, done: CopyProgress) -> None:
        """Record the progress of a copy. The file is written at most once a second, the log every
        ten seconds.
        """
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
        """Show the copy of a table while the block runs. When the block ends, with or without an
        error, the copy is no longer shown.
        """
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
        # The file only informs people. If the journal cannot be written now, the code that depends
        # on the journal reports it.
        with contextlib.suppress(SubscriberError):
            if current:
                content = json.dumps([asdict(status) for status in current]).encode()
                self._storage.replace(self._file, content, durable=False, from_reserve=False)
            else:
                self._storage.delete([self._file])


def read_copies(storage: Storage, target_identifier: str, subid: int) -> list[CopyStatus]:
    """Read what another process is copying for a subscription, as it reported last. A process that
    was killed may have left an outdated file.

    Raises:
        JournalUnavailable: the journal cannot be read now.
    """
    content = storage.read(copies_file(target_identifier, subid))
    return [CopyStatus(**status) for status in json.loads(content)] if content else []


def copies_file(target_identifier: str, subid: int) -> str:
    """Return the name of the file with a subscription's copies. It contains no text that a user can
    choose.
    """
    return f"copy-{target_identifier}-{subid}.json"

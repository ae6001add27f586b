"""Keeps the progress of the copies of a subscription's tables: in memory for the terminal, and in a
file beside the journal for other processes.

*Rejected:* the target. One with one writer (SQLite) cannot be written during a copy, and what a
copy has done is not committed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Final

from subscriber.base import clock
from subscriber.base.errors import SubscriberError
from subscriber.catalog.table_states import SubscriptionRelation

if TYPE_CHECKING:
    from subscriber.spark.copy import CopyProgress
    from subscriber.stream.journal.storage import Storage

logger = logging.getLogger(__name__)

_SAVE_SECONDS: Final = 1.0
_LOG_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class CopyFigures:
    """Uncommitted rows with the size of their COPY data, and the publisher's estimates."""

    rows: int
    bytes: int
    estimated_rows: int
    estimated_bytes: int
    rows_per_second: float
    started_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyStatus(CopyFigures):
    schema: str
    name: str

    @property
    def figures(self) -> CopyFigures:
        return CopyFigures(*(getattr(self, one.name) for one in fields(CopyFigures)))


class Copies:
    def __init__(self, storage: Storage, target_identifier: str, subid: int, subscription: str) -> None:
        self._storage = storage
        self._file = copies_file(target_identifier, subid)
        self._subscription = subscription
        self._lock = threading.Lock()
        self._began: dict[tuple[str, str], tuple[float, str]] = {}
        self._current: dict[tuple[str, str], CopyStatus] = {}
        self._saved = 0.0
        self._logged = time.monotonic()

    def current(self) -> list[CopyStatus]:
        """The progress of each copy, in the order in which the copies began."""
        with self._lock:
            return list(self._current.values())

    def record(self, relation: SubscriptionRelation, done: CopyProgress) -> None:
        """Record the progress of a copy: each second in the file, each minute in the log."""
        now = time.monotonic()
        key = (relation.schema, relation.name)
        with self._lock:
            began, started_at = self._began[key]
            status = self._current[key] = CopyStatus(
                done.rows,
                done.bytes,
                done.estimated_rows,
                done.estimated_bytes,
                done.rows / (now - began) if now > began else 0.0,
                started_at,
                schema=relation.schema,
                name=relation.name,
            )
        if now - self._logged >= _LOG_SECONDS:
            self._logged = now
            logger.info(
                'table "%(relation)s" of subscription "%(subscription)s": %(progress)s rows copied, %(rate)s rows/s',
                {
                    "subscription": self._subscription,
                    "relation": relation.qualified_name,
                    "rows": status.rows,
                    "estimated_rows": status.estimated_rows,
                    "progress": f"{status.rows:,}"
                    + (f" of about {status.estimated_rows:,}" if status.estimated_rows else ""),
                    "rate": f"{status.rows_per_second:,.0f}",
                },
            )
        if now - self._saved >= _SAVE_SECONDS:
            self._save(now)

    @contextlib.contextmanager
    def showing(self, relation: SubscriptionRelation) -> Iterator[None]:
        with self._lock:
            began = (time.monotonic(), clock.now())
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
    """What another process copies, as last reported; one that was killed may have left the file."""
    content = storage.read(copies_file(target_identifier, subid))
    return [CopyStatus(**status) for status in json.loads(content)] if content else []


def copies_file(target_identifier: str, subid: int) -> str:
    """The name of the file with a subscription's copies: nothing that a user can choose."""
    return f"copy-{target_identifier}-{subid}.json"

"""The status of a subscription as plain data, and the status file, by which ``subscriber status``
reads it while a batch holds the file of the target.

::

    subscriber run ──▶ target.duckdb                      held by the batch: no other process can open it
          └─ thread ─▶ target.duckdb.subscriber-status    the statuses, every few seconds while that lasts
    subscriber status ─────────────▶ reads the statuses, and shows their time

Its fields are the keys of ``subscriber status --json``. The status file exists only while a batch
or a copy has been in progress for a moment. Only its owner may read it. It contains no passwords
and no values. The file of a run that was killed is ignored.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shlex
import threading
import time
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from subscriber.base import clock
from subscriber.base.background import in_background
from subscriber.base.errors import SubscriberError
from subscriber.base.files import replace_file
from subscriber.catalog.replaced_values import ReplacedCount
from subscriber.catalog.schema_changes import SchemaChange
from subscriber.catalog.worker_status import WorkerStatus
from subscriber.worker.copy_progress import CopyFigures

logger = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.25
_HELD_SECONDS: Final = 1.0
"""A shorter batch needs no file: a process that opens the target waits longer than this."""
_REFRESH_SECONDS: Final = 3.0
_FRESH_SECONDS: Final = 10.0
_END_SECONDS: Final = 2.0
"""A publisher that does not answer the thread must not delay the end of a run further."""


@dataclass(frozen=True, slots=True)
class RelationStatus:
    """The status of one table or sequence of a subscription.

    Attributes:
        state: the letter of the table state (rule D1).
        lsn: the position that belongs to the state.
        error: why the table could not be copied, or could not catch up, or the sequence not be set.
        copy: None if the table is not being copied, or the journal cannot be read from here.
    """

    schema: str
    name: str
    state: str
    lsn: str | None
    error: str | None
    error_at: str | None
    copy: CopyFigures | None


@dataclass(frozen=True, slots=True)
class SlotStatus:
    """The replication slot, as ``pg_replication_slots`` shows it.

    Attributes:
        wal_status: reserved, extended, unreserved or lost; None before PostgreSQL 13.
        retained_bytes: the WAL that the publisher keeps for the slot; None if none, or not known.
        safe_wal_bytes: how much WAL may be written before the slot may be lost; None: no limit.
        lost: why the slot cannot be used any more (``invalidation_reason``, before PostgreSQL 17
            wal_removed); None if it can be used.
    """

    active: bool
    confirmed_lsn: str
    wal_status: str | None
    retained_bytes: int | None
    safe_wal_bytes: int | None
    lost: str | None


@dataclass(frozen=True, slots=True)
class RunnerStatus:
    """The last `subscriber run` of the target. Times are UTC in ISO 8601.

    Attributes:
        busy_since: since when a batch or a copy was in progress at the last heartbeat.
        ended_at: when it ended in order; None while it is alive, and if it was killed.
        silent_seconds: how old its last heartbeat is, if the run is alive and may hang.
        may_be_busy: no heartbeat is written during a batch or a copy, which may also explain an old
            one.
    """

    alive: bool
    host: str
    process_id: int
    started_at: str
    heartbeat_at: str
    busy_since: str | None
    ended_at: str | None
    silent_seconds: float | None = None
    may_be_busy: bool = False


@dataclass(frozen=True, slots=True)
class CutoverStatus:
    """A cutover in progress. Times are UTC in ISO 8601. In state switched, the subscription is
    disabled and its slot is kept. ``process`` is None if it is interrupted, or waits for --finish.
    """

    state: str
    step: str
    started_at: str
    switched_at: str | None
    barrier_lsn: str | None
    process: str | None
    fenced_database: str | None
    way_back: str | None
    options: str = ""

    def in_words(self, name: str) -> str:
        """A cutover in progress of the subscription ``name``, and the ways on."""
        command = f"subscriber cutover {shlex.quote(name)}"
        step = self.step or "preconditions"
        if self.state == "switched":
            text = f"cutover of {name}: switched over at {self.switched_at}, barrier {self.barrier_lsn}"
            ways = f"to stay: {command} --finish; to go back: {command} --abandon"
        else:
            text = f"cutover of {name}: in step {step} since {self.started_at}"
            ways = f"stopped; to go on: {f'{command} {self.options}'.rstrip()}; to go back: {command} --abandon"
        if self.fenced_database is not None:
            text += f'; database "{self.fenced_database}" of the publisher is fenced'
        if self.way_back is not None:
            text += f'; way back "{self.way_back}"'
        return f"{text}; carried out by {self.process}" if self.process else f"{text}; {ways}"


@dataclass(frozen=True, slots=True)
class FailoverStatus:
    """Whether each standby of CONNECTION could take the slot over (``ready``: None if none has
    answered), and what stands against it: the host and port, and a sentence.
    """

    ready: bool | None
    standbys: tuple[str, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HoldStatus:
    """A hold of the apply by a command: "requested", "paused" or "held"."""

    host: str
    process_id: int
    since: str
    state: str
    lsn: str | None


@dataclass(frozen=True, slots=True)
class SubscriptionStatus:
    """The status of one subscription. LSNs are text; None means that the value is not known from
    here.

    Attributes:
        state: disabled; not running, if no `subscriber run` is alive; otherwise that of its worker:
            starting, copying, streaming, retrying or stopped. A worker that had stopped when its
            run ended is still stopped.
        publisher_lsn: the end of the publisher's WAL.
        lag_bytes: from the end of the publisher's WAL to what was received, plus what is received
            and not applied; None also if ``history_diverged``, and before the first run with a slot
            that already existed.
        lag_seconds: the age of the oldest commit that is received and not applied, by the
            publisher's clock; 0 if the target has everything; None also if the publisher has WAL
            that was not received.
        tables: the number of tables by the letter of their state (rule D1).
        relations: the tables, ordered by schema and name.
        sequences: those of publications FOR ALL SEQUENCES, in state i or r.
        apply_errors: the number of errors of the apply worker; ``sync_errors`` of the copies,
            ``sequence_errors`` of the sequence synchronization.
        schema_changes: the tables that were altered in the target, oldest first.
        replaced_values: how many values got NULL instead, by relation and column.
        history_diverged: more was received than the publisher has, because it was restored to an
            older state.
        sequences_behind: the target's columns and sequences that would give out values again that
            the publisher has used.
        waits_for: the standbys that the walsender waits for (``synchronized_standby_slots``).
        as_of: when it was read (ISO 8601), if it is from the status file of a run that holds the
            target.
        publisher_version: such as "18.4"; ``target_version`` also names the database, such as
            "MariaDB 11.8.3"; ``version`` is that of this program, not of the run.
        unknown: why values are None, a sentence for each cause.
        conflict_resolvers: those that are not the default, by conflict type.
    """

    name: str
    enabled: bool
    state: str
    connection: str
    publications: tuple[str, ...]
    slot_name: str | None
    slot_active: bool | None
    publisher_lsn: str | None
    confirmed_lsn: str | None
    received_lsn: str | None
    applied_lsn: str
    lag_bytes: int | None
    lag_seconds: float | None
    tables: dict[str, int]
    relations: tuple[RelationStatus, ...]
    conflicts: dict[str, int]
    apply_errors: int
    last_error: str | None
    last_error_at: str | None
    schema_changes: tuple[SchemaChange, ...] = ()
    replaced_values: tuple[ReplacedCount, ...] = ()
    history_diverged: bool = False
    sync_errors: int = 0
    sequence_errors: int = 0
    last_error_resolved_at: str | None = None
    slot: SlotStatus | None = None
    slot_missing: bool = False
    runner: RunnerStatus | None = None
    hold: HoldStatus | None = None
    as_of: str | None = None
    cutover: CutoverStatus | None = None
    worker: WorkerStatus | None = None
    sequences_behind: tuple[str, ...] | None = None
    missing_publications: tuple[str, ...] = ()
    waits_for: tuple[str, ...] = ()
    failover: FailoverStatus | None = None
    sequences: tuple[RelationStatus, ...] = ()
    journal_bytes: int | None = None
    publisher_version: str | None = None
    target_version: str | None = None
    version: str = metadata.version("subscriber")
    unknown: tuple[str, ...] = ()
    conflict_resolvers: dict[str, str] = field(default_factory=dict)


# The status file ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StatusFile:
    """The statuses that a run has written while its batch holds the target, read at ``as_of``."""

    statuses: list[SubscriptionStatus]
    as_of: str

    @property
    def is_fresh(self) -> bool:
        """Whether the batch must still be in progress; a run may have failed to remove a file."""
        return clock.seconds_since(self.as_of) < _FRESH_SECONDS


def read_status_file(path: Path | None) -> StatusFile | None:
    """The statuses that the run which holds the target has written; None if there is none."""
    if path is None:
        return None
    try:
        content = json.loads(path.read_text())
        os.kill(content["pid"], 0)
        return StatusFile([_value(SubscriptionStatus, one) for one in content["subscriptions"]], content["as_of"])
    except PermissionError:
        return None  # the file or the process belongs to another user
    except (OSError, ValueError, LookupError, TypeError):
        return None


@contextlib.contextmanager
def keeping_status_file(
    path: Path | None, read: Callable[[], Sequence[SubscriptionStatus]], busy_since: Callable[[], float | None]
) -> Iterator[None]:
    """Keep the status file up to date while the block runs. ``path`` is None if the target can be
    read during a batch; ``busy_since`` returns when the longest batch began (monotonic seconds).
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
    as_of = clock.now()
    content = {
        "pid": os.getpid(),
        "as_of": as_of,
        "subscriptions": [{**asdict(one), "as_of": as_of} for one in statuses],
    }
    replace_file(path, json.dumps(content).encode())


def _value(kind: Any, value: Any) -> Any:
    """The value of a type (a dataclass, a tuple of one type, or what JSON has) from its JSON."""
    if value is None:
        return None
    arguments = [one for one in typing.get_args(kind) if one is not type(None)]
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return _value(arguments[0], value)
    if typing.get_origin(kind) is tuple:
        return tuple(_value(arguments[0], one) for one in value)
    if isinstance(kind, type) and is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return kind(**{name: _value(hints[name], one) for name, one in value.items()})
    return value

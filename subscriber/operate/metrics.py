"""All metrics, as a table: a line adds one.

::

    Metric("subscriber_received_bytes_total", "counter", "…", counted("received_bytes"))
                     │                            │                └─ the value: a function of an Observation
                     │                            └─ help, as docs/metrics.md prints it
                     └─ name: Prometheus' conventions, base units

A function gives a number; a mapping of label values to numbers, if the metric has labels of its own
(the label ``subscription`` comes first); or None if the value is not known, and then there is no
sample. It reads memory only. Nothing that it gives may be the value of a row or a secret.

What a worker counts has two places: the line here with :func:`counted`, and ``state.count`` of
:class:`~subscriber.worker.worker_state.WorkerState` where it happens. A count that ``subscriber
status`` shows, too, is a field of :class:`~subscriber.catalog.counters.WorkerCounters` and needs no
line here.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from importlib.metadata import version
from typing import Any, Final, Literal, TypeAlias, TypeVar

from subscriber.catalog.counters import WorkerCounters
from subscriber.catalog.own_tables import ConflictKind
from subscriber.operate.observation import STATES, Observation, RunObservation
from subscriber.publisher.client import Slot
from subscriber.worker.slot_receiver import RECEIVER_STATES
from subscriber.worker.worker_snapshot import WorkerSnapshot
from subscriber.worker.worker_state import BUCKETS

Labels = tuple[str, ...]
MetricValue: TypeAlias = float | Mapping[Labels, float] | None
Kind = Literal["counter", "gauge", "histogram", "info"]

OTHER: Final = "other"
"""The table label of the rows of all tables that have no label of their own."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of each subscription; ``labels`` come after ``subscription``."""

    name: str
    kind: Kind
    help: str
    value: Callable[[Observation], Any]
    labels: Labels = ()


@dataclass(frozen=True, slots=True)
class RunMetric:
    """A metric of the whole run."""

    name: str
    kind: Kind
    help: str
    value: Callable[[RunObservation], Any]


@dataclass(frozen=True, slots=True)
class ReceiverMetric:
    """A metric of ``subscriber receive``; ``labels`` come after ``slot``."""

    name: str
    kind: Kind
    help: str
    value: Callable[[Any], Any]
    """Of a :class:`~subscriber.operate.observation.ReceiverObservation`, which has publisher, slot
    and journal as an :class:`~subscriber.operate.observation.Observation` has them.
    """
    labels: Labels = ()


# Where values come from ---------------------------------------------------------------------------

T = TypeVar("T")


def of_worker(read: Callable[[WorkerSnapshot], T | None]) -> Callable[[Observation], T | None]:
    """A value of the worker; none while there is no worker."""
    return lambda one: None if one.worker is None else read(one.worker)


def of_slot(read: Callable[[Slot], T | None]) -> Callable[[Observation], T | None]:
    return lambda one: None if one.slot is None else read(one.slot)


def counted(name: str, *known: Labels) -> Callable[[Observation], MetricValue]:
    """What ``state.count(name, …)`` has counted. With labels, ``known`` ones are 0 at first, so
    that the first event increases a series that is there.
    """

    def read(worker: WorkerSnapshot) -> MetricValue:
        counts = dict(worker.counts)  # a copy: the worker goes on counting
        if not known:
            return counts.get((name,), 0)
        found: dict[Labels, float] = {labels[1:]: number for labels, number in counts.items() if labels[0] == name}
        return dict.fromkeys(known, 0) | found

    return of_worker(read)


def rows(one: Observation, most_tables: int = 200) -> Mapping[Labels, float]:
    """Rows by schema, table and operation: the first tables by name, the others in one."""
    if one.worker is None:
        return {}
    found: defaultdict[Labels, float] = defaultdict(float)
    named: dict[tuple[str, str], None] = {}
    for labels, number in dict(one.worker.counts).items():
        if labels[0] == "rows":
            schema, table, operation = labels[1:]
            if len(named) < most_tables:
                named[schema, table] = None
            kept = (schema, table) if (schema, table) in named else ("", OTHER)
            found[*kept, operation] += number
    return found


def histogram(name: str) -> Callable[[Observation], MetricValue]:
    """The events by the upper bounds of their buckets, and their sum."""

    def read(worker: WorkerSnapshot) -> MetricValue:
        counts = dict(worker.counts)
        bounds = [*map(str, BUCKETS), str(math.inf)]
        found: dict[Labels, float] = {(bound,): counts.get((name, bound), 0) for bound in (*bounds, "sum")}
        return found

    return of_worker(read)


def _one_hot(states: tuple[str, ...], now: Any) -> Mapping[Labels, float]:
    return {} if now is None else {(state,): float(state == now) for state in states}


def _copies(read: Callable[[Any], float], one: Observation) -> Mapping[Labels, float]:
    worker = one.worker
    return {} if worker is None else {(copy.schema, copy.name): read(copy) for copy in worker.copies}


def _table_states(worker: WorkerSnapshot) -> Mapping[Labels, float]:
    found = Counter(relation.state.value for relation in worker.relations)
    return {(state,): found[state] for state in "idfsr"}


def _attempts(worker: WorkerSnapshot) -> Mapping[Labels, float]:
    parts = {"receive": worker.receiving, "apply": worker.applying, "copy": worker.rounds, "fault": worker.faults}
    return {(part,): attempts.in_all for part, attempts in parts.items()}


def _info(one: Observation) -> Mapping[Labels, float]:
    return {(one.subscription.slot_name or "", ", ".join(one.subscription.publications), _VERSION): 1}


def _known(number: float | None) -> float | None:
    """An LSN of 0/0 is one that is not known."""
    return number or None


_VERSION: Final = version("subscriber")
_WAL_STATUSES: Final = ("reserved", "extended", "unreserved", "lost")
_STAGES: Final = tuple((stage,) for stage in ("read", "decode", "filter", "apply", "commit"))
_REASONS: Final = ("", "order_matters", "failed_batch", "skip", "prepared_transaction", "replaced_values")
_PATHS: Final = tuple(("exact" if reason else "bulk", reason) for reason in _REASONS)
_CONFLICTS: Final = tuple((kind.value,) for kind in ConflictKind)

# The table ----------------------------------------------------------------------------------------

# fmt: off
METRICS: Final = (
    # state
    Metric("subscriber_subscription_state", "gauge", "1 for the state that the subscription is in, 0 for the others.", lambda one: _one_hot(STATES, one.state), ("state",)),
    Metric("subscriber_subscription", "info", "Slot and publications of the subscription, and the version of this program.", _info, ("slot", "publications", "version")),
    Metric("subscriber_errors_total", "counter", "Errors, by the part that failed (apply, copy, worker) and the class of the error.", counted("errors", ("apply", "ConflictError")), ("part", "error")),
    Metric("subscriber_failed_attempts_total", "counter", "Failed attempts, by part.", of_worker(_attempts), ("part",)),
    Metric("subscriber_failed_attempts_in_a_row", "gauge", "Failed attempts since the last success; 0 if nothing fails.", of_worker(lambda one: one.failing.in_a_row)),
    Metric("subscriber_receiver_restarts_total", "counter", "Receiver processes that have ended and were replaced.", counted("receiver_restarts")),
    Metric("subscriber_apply_restarts_total", "counter", "Apply loops that have ended and were replaced.", counted("apply_restarts")),
    # received
    Metric("subscriber_received_bytes_total", "counter", "Bytes of the replication stream.", counted("received_bytes")),
    Metric("subscriber_received_transactions_total", "counter", "Transactions whose commit was received.", counted("received_transactions")),
    Metric("subscriber_received_lsn", "gauge", "The LSN up to which the journal has received, as a number of bytes.", of_worker(lambda one: _known(one.received))),
    Metric("subscriber_last_message_timestamp_seconds", "gauge", "When the last message of the publisher arrived.", of_worker(lambda one: one.received_counts.heard_at)),
    Metric("subscriber_last_confirmed_timestamp_seconds", "gauge", "When the slot was last confirmed further.", of_worker(lambda one: one.received_counts.confirmed_at)),
    # journal
    Metric("subscriber_journal_bytes", "gauge", "Size of the journal.", lambda one: one.journal and one.journal.bytes),
    Metric("subscriber_journal_entries", "gauge", "Entries of the journal.", lambda one: one.journal and one.journal.entries),
    Metric("subscriber_journal_oldest_commit_timestamp_seconds", "gauge", "Commit time of the oldest transaction that the journal still has.", lambda one: one.journal and one.journal.oldest),
    Metric("subscriber_journal_free_bytes", "gauge", "Free space on the disk of the journal; absent for a journal at a URL.", lambda one: one.journal and one.journal.free_bytes),
    Metric("subscriber_journal_consumer_lag_bytes", "gauge", "WAL from the position of a named consumer to the end of the journal.", lambda one: one.journal and one.journal.consumer_lags, ("consumer",)),
    Metric("subscriber_journal_dropped_consumers", "gauge", "Named consumers that were dropped because they were too far behind, and not yet forgotten.", lambda one: one.journal and one.journal.dropped),
    # applied
    Metric("subscriber_applied_lsn", "gauge", "The LSN up to which the target has applied, as a number of bytes.", of_worker(lambda one: _known(one.applied))),
    Metric("subscriber_applied_transactions_total", "counter", "Transactions that were applied.", of_worker(lambda one: one.transactions)),
    Metric("subscriber_last_applied_timestamp_seconds", "gauge", "When the last commit was applied.", of_worker(lambda one: one.applied_at)),
    Metric("subscriber_rows_total", "counter", "Rows that were written, by the publisher's table and operation. Changes of a row that were merged count once.", rows, ("schema", "table", "operation")),
    Metric("subscriber_batches_total", "counter", "Batches that were applied. Exact batches are applied in the publisher's order, for the reason given.", counted("batches", *_PATHS), ("path", "reason")),
    Metric("subscriber_batch_seconds_total", "counter", "Time of batches by stage. The stages read, decode and filter of a large batch run in parallel.", counted("batch_seconds", *_STAGES), ("stage",)),
    Metric("subscriber_commit_to_visible_seconds", "histogram", "From the commit at the publisher until it was visible in the target; the last transaction of each batch.", histogram("commit_to_visible")),
    Metric("subscriber_lag_bytes", "gauge", "WAL of the publisher that is not applied; absent if that is not known.", lambda one: one.lag_bytes),
    Metric("subscriber_lag_seconds", "gauge", "Age of the oldest commit that is not applied, by the publisher's clock; 0 only if it is proven that there is none, absent if that is not known.", lambda one: one.lag_seconds),
    # differences
    Metric("subscriber_conflicts_total", "counter", "Conflicts by kind. One that stops a transaction counts at every attempt.", counted("conflicts", *_CONFLICTS), ("kind",)),
    Metric("subscriber_replaced_values_total", "counter", "Values that the target could not hold, and that were replaced by NULL.", counted("replaced_values")),
    Metric("subscriber_skipped_transactions_total", "counter", "Transactions that ALTER SUBSCRIPTION … SKIP has left out.", counted("skipped_transactions")),
    # tables
    Metric("subscriber_tables", "gauge", "Tables by the letter of their state: i init, d copying, f copied, s synced, r ready.", of_worker(_table_states), ("state",)),
    Metric("subscriber_failed_tables", "gauge", "Tables whose last copy has failed.", of_worker(lambda one: len(one.failed_tables))),
    Metric("subscriber_copy_rows", "gauge", "Rows of a copy in progress.", partial(_copies, lambda copy: copy.rows), ("schema", "table")),
    Metric("subscriber_copy_bytes", "gauge", "COPY data of a copy in progress.", partial(_copies, lambda copy: copy.bytes), ("schema", "table")),
    Metric("subscriber_copy_estimated_rows", "gauge", "The publisher's estimate of the rows of the table.", partial(_copies, lambda copy: copy.estimated_rows), ("schema", "table")),
    # slot
    Metric("subscriber_slot_active", "gauge", "Whether a receiver uses the slot.", of_slot(lambda one: float(one.active_pid is not None))),
    Metric("subscriber_slot_wal_status", "gauge", "1 for the wal_status of the slot, 0 for the others.", lambda one: _one_hot(_WAL_STATUSES, one.slot and one.slot.wal_status), ("status",)),
    Metric("subscriber_slot_confirmed_lsn", "gauge", "confirmed_flush_lsn of the slot, as a number of bytes.", of_slot(lambda one: one.confirmed_flush_lsn)),
    Metric("subscriber_slot_retained_bytes", "gauge", "WAL that the publisher keeps for the slot.", lambda one: one.retained_bytes),
    Metric("subscriber_slot_safe_bytes", "gauge", "WAL that may still be written before the slot may be lost; absent without a limit.", of_slot(lambda one: one.safe_wal_size)),
    Metric("subscriber_slot_inactive_since_timestamp_seconds", "gauge", "Since when no receiver uses the slot; absent while one does, and before PostgreSQL 17.", of_slot(lambda one: one.inactive_since)),
    Metric("subscriber_slot_failover", "gauge", "Whether the slot is synchronized to standbys; absent before PostgreSQL 17.", of_slot(lambda one: one.failover)),
    Metric("subscriber_slot_synced", "gauge", "Whether the slot was synchronized from a primary; absent before PostgreSQL 17.", of_slot(lambda one: one.synced)),
    Metric("subscriber_slot_spilled_bytes_total", "counter", "What logical decoding of the slot has written to the publisher's disk; absent before PostgreSQL 14.", of_slot(lambda one: one.spilled_bytes)),
    # publisher
    Metric("subscriber_publisher_up", "gauge", "Whether the publisher has answered the last question; absent before the first answer.", lambda one: None if one.publisher.error is None and not one.publisher.moments else float(one.publisher.error is None)),
    Metric("subscriber_publisher_lsn", "gauge", "The end of the publisher's WAL, as a number of bytes, when it last answered.", lambda one: one.publisher.moments[-1].lsn if one.publisher.moments else None),
    Metric("subscriber_publisher_clock_offset_seconds", "gauge", "By how much the publisher's clock is ahead of this machine's.", lambda one: one.publisher.moments[-1].offset if one.publisher.moments else None),
    # receiver process
    Metric("subscriber_receiver_resident_memory_bytes", "gauge", "Memory of the receiver process; absent on systems without /proc.", lambda one: one.receiver and one.receiver.resident_bytes),
    Metric("subscriber_receiver_cpu_seconds_total", "counter", "CPU time of the receiver process.", lambda one: one.receiver and one.receiver.cpu_seconds),
    # what status shows, too
    *(Metric(f"subscriber_{one.name}_total", "counter", one.metadata["help"], counted(one.name)) for one in fields(WorkerCounters)),
)
"""The metrics of a subscription."""

RUN_METRICS: Final = (
    RunMetric("subscriber_catalog_reads_total", "counter", "Reads of the catalog in the target.", lambda run: run.polls),
    RunMetric("subscriber_catalog_failed_reads", "gauge", "Reads of the catalog that have failed since the last one that succeeded.", lambda run: run.failed_polls),
    RunMetric("subscriber_jvm_resident_memory_bytes", "gauge", "Memory of Spark's JVM; absent on systems without /proc.", lambda run: run.jvm and run.jvm.resident_bytes),
    RunMetric("subscriber_jvm_cpu_seconds_total", "counter", "CPU time of Spark's JVM.", lambda run: run.jvm and run.jvm.cpu_seconds),
)
"""The metrics of the run. Those of its own process (``process_*``) come from the library."""

RECEIVER_METRICS: Final = (
    ReceiverMetric("subscriber_receiver_state", "gauge", "1 for the state that the receiver is in, 0 for the others.", lambda one: _one_hot(RECEIVER_STATES, one.state), ("state",)),
    ReceiverMetric("subscriber_failed_attempts_total", "counter", "Failed attempts to receive.", lambda one: one.failing.in_all),
    ReceiverMetric("subscriber_failed_attempts_in_a_row", "gauge", "Failed attempts since the last success; 0 if nothing fails.", lambda one: one.failing.in_a_row),
    ReceiverMetric("subscriber_received_bytes_total", "counter", "Bytes of the replication stream.", lambda one: one.counts.bytes),
    ReceiverMetric("subscriber_received_transactions_total", "counter", "Transactions whose commit was received.", lambda one: one.counts.transactions),
    ReceiverMetric("subscriber_received_lsn", "gauge", "The LSN up to which everything is durable in the journal, as a number of bytes.", lambda one: _known(one.received)),
    ReceiverMetric("subscriber_last_message_timestamp_seconds", "gauge", "When the last message of the publisher arrived.", lambda one: one.counts.heard_at),
    ReceiverMetric("subscriber_last_confirmed_timestamp_seconds", "gauge", "When the slot was last confirmed further.", lambda one: one.counts.confirmed_at),
    ReceiverMetric("subscriber_receive_lag_bytes", "gauge", "WAL of the publisher that is not received; absent if that is not known.", lambda one: one.lag_bytes),
    *(ReceiverMetric(one.name, one.kind, one.help, one.value, one.labels) for one in METRICS if one.name.startswith(("subscriber_journal_", "subscriber_slot_", "subscriber_publisher_"))),
)
"""The metrics of ``subscriber receive``."""
# fmt: on

"""All workloads, and what they and the plugins write in memory."""

from __future__ import annotations

from functools import cache
from typing import TypeAlias

from subscriber.base.errors import SubscriberError
from subscriber.postgres.logical_decoding import (
    MemoryDatabase,
    RecordedWal,
    ReorderSettings,
    ReplicationSlot,
    SlotFunctions,
)
from subscriber.postgres.logical_decoding import wal_records as wal
from subscriber.postgres.logical_decoding.plugins.pgoutput import PgOutput
from subscriber.postgres.logical_decoding.plugins.test_decoding import TestDecoding
from tests.workloads import publications, rows, schema_changes, streams, transactions
from tests.workloads.canonical import Rows
from tests.workloads.registry import WORKLOADS, Workload
from tests.workloads.runs import RUNS, WORK_MEM, Run

__all__ = ["MAJORS", "RUNS", "WORKLOADS", "Failure", "Result", "in_memory", "pairs"]

_MODULES = (rows, transactions, streams, schema_changes, publications)
"""They are imported for the workloads that they register."""

MAJORS = (18, 16, 15)

Failure: TypeAlias = tuple[str, str]
"""SQLSTATE and message of an error."""

Result: TypeAlias = Rows | Failure


def pairs(major: int) -> list[tuple[Workload, Run]]:
    """Every workload with every run that a server of this version knows."""
    return [
        (workload, run)
        for workload in WORKLOADS.values()
        for run in RUNS.values()
        if workload.since <= major and run.since <= major
    ]


@cache
def published(workload: Workload, major: int) -> MemoryDatabase:
    """A publisher in memory after a workload; its records are those after the setup."""
    publisher = MemoryDatabase(major * 10000)
    steps = workload.script(publisher)
    next(steps)
    setup = publisher.take()
    publisher.records = [record for record in setup if isinstance(record, wal.OriginChangeRecord)]
    assert list(steps) == []
    return publisher


def in_memory(workload: Workload, run: Run, major: int) -> list[tuple[int, int, bytes]] | Failure:
    """What our plugin writes, or the error."""
    plugin = PgOutput() if run.plugin == "pgoutput" else TestDecoding()
    publisher = published(workload, major)
    settings = ReorderSettings(
        logical_decoding_work_mem=WORK_MEM,
        debug_logical_replication_streaming="immediate" if run.immediate else "buffered",
    )
    slot = ReplicationSlot("s", run.plugin, two_phase=run.two_phase)
    functions = SlotFunctions(plugin, slot, RecordedWal.of(publisher), settings=settings)
    try:
        return [
            (lsn, xid, data) for lsn, xid, data in functions.peek_binary_changes(None, None, *run.options_for(workload))
        ]
    except SubscriberError as error:
        return error.sqlstate or "", error.message

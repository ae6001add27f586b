"""The speed at which W1's transaction is received into a durable journal, in rows per second.

Neither Spark nor a target takes part. Run it with ``python -m benchmarks.receive``.
"""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import SERVER_SETTINGS
from benchmarks.subscribers import wait
from benchmarks.workloads import BY_NAME, Workload
from subscriber.base.settings import Settings
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.connection import connect_publisher
from subscriber.stream.journal.segment import journal_entries
from subscriber.stream.journal.storage import LocalStorage
from subscriber.testing.servers.open_servers import open_postgresql
from subscriber.worker.receiver_process import Assignment, receive

_LIMIT = 300.0


def measure(size: float = 1.0) -> dict[str, float]:
    """Rows per second from the publisher into the journal, as ``rows_per_second``."""
    workload = BY_NAME["W1"].scaled(size)
    with tempfile.TemporaryDirectory(prefix="subscriber-bench-") as folder:
        return {"rows_per_second": workload.amount / fill_journal(workload, folder).seconds}


class Received(NamedTuple):
    """The seconds that it took to receive a run of a workload, and the OID of its table ``t``."""

    seconds: float
    table_oid: int


def fill_journal(workload: Workload, folder: str) -> Received:
    """Receive the first run of a workload into the journal in ``folder``."""
    with open_postgresql(18, SERVER_SETTINGS) as publisher:
        for statement in workload.preparation():
            publisher.execute(statement)
        publisher.execute("SELECT pg_create_logical_replication_slot('receive', 'pgoutput')")
        with connect_publisher(publisher.conninfo(), "bench") as server:
            slot = PublisherClient(server).check_slot("receive")
            system = PublisherClient(server).system_identifier()
        publisher.execute(workload.backlog(1))
        assignment = Assignment(
            subscription="receive",
            conninfo=publisher.conninfo(),
            slot="receive",
            publications=("p",),
            streaming="parallel",
            two_phase=False,
            binary=False,
            origin="any",
            system_identifier=system,
            journal=folder,
            applied_lsn=slot.confirmed_flush_lsn,
        )
        stop = threading.Event()
        thread = threading.Thread(target=receive, args=(assignment, Settings.from_environment(), stop, _silent))
        began = time.monotonic()
        thread.start()
        ended = wait(lambda: bool(journal_entries(LocalStorage(Path(folder)))), _LIMIT, 0.02)
        stop.set()
        thread.join()
        ((oid,),) = publisher.execute("SELECT 't'::regclass::oid::int")
        return Received(ended - began, int(oid))


def _silent(_event: str, **_fields: str) -> None:
    """Ignore the events of the receiver, which are meant for a supervisor."""


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name}: {value:,.0f}")

"""The demo of the change feed: the shop of :mod:`subscriber.testing.demo_data` goes into Delta
Lake.

::

    PostgreSQL ──slot──▶ SlotReceiver ──▶ journal ──▶ one query a table: snapshot, then changes ──▶ Delta tables
        ▲                                        └──▶ live query: how many orders got which status
    OrderLoad                                                        at the end: rows of both sides are compared
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from subscriber.base.background import in_background
from subscriber.base.errors import PipelineError, UsageError
from subscriber.base.lsn import LSN
from subscriber.base.settings import Settings
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.connection import connect_publisher
from subscriber.spark.lakehouse.fold import Sink, apply_changes
from subscriber.spark.session import spark_session
from subscriber.spark.source import PgoutputSource
from subscriber.stream.journal.positions import journal_positions
from subscriber.testing import demo_data
from subscriber.testing.servers.open_servers import PostgreSQL, open_postgresql
from subscriber.worker.slot_receiver import SlotReceiver, SlotSource

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from subscriber.spark.lakehouse.delta import DeltaSink

KEYS: Final = {"orders": ("id",), "order_lines": ("order_id", "line")}
"""The tables that go into Delta Lake, and their keys."""

_NAME: Final = "lake_demo"
_POLL_SECONDS: Final = 0.1
_SHOW_SECONDS: Final = 1.0
_END_SECONDS: Final = 10.0


@dataclass(frozen=True)
class StoredTable:
    """A table at the end: its rows at the publisher and in Delta Lake."""

    table: str
    published: int
    stored: int
    is_equal: bool


def demonstrate(
    folder: Path, seconds: float, stop: threading.Event, say: Callable[[str], object]
) -> list[StoredTable] | None:
    """Write the shop into ``folder/lake``, and compare; None if ``stop`` was set before the end.

    SubscriberError: the receiver or a query has failed.
    """
    lake = folder / "lake"
    shutil.rmtree(lake, ignore_errors=True)
    sinks = {table: _sink(lake / table) for table in KEYS}
    settings = replace(Settings.from_environment(os.environ), journal=str(lake / "journal"))
    say("starting Spark (local[*]) and PostgreSQL 18 (wal_level = logical) …")
    with (
        spark_session("local[*]", folder / "spark.log") as spark,
        open_postgresql(18) as publisher,
        _receiver(publisher, settings) as receiver,
    ):
        spark.conf.set("spark.sql.shuffle.partitions", "4")
        spark.dataSource.register(PgoutputSource)
        journal = _wait_for_journal(receiver, stop)
        load = demo_data.OrderLoad(publisher.conninfo())
        with contextlib.ExitStack() as end:
            queries = []
            for query in _queries(spark, journal, publisher.conninfo(), lake, sinks):
                end.callback(query.stop)
                queries.append(query)
            end.callback(load.stop)
            working = threading.Thread(target=load.run, args=(seconds,), name="load", daemon=True)
            while not stop.wait(_SHOW_SECONDS):
                _check(queries)
                if not working.ident and all(sink.applied() is not None for sink in sinks.values()):
                    working.start()
                if working.ident:
                    say(_line(spark, load, sinks))
                    if not working.is_alive():
                        break
            if stop.is_set():
                return None
            _catch_up(publisher, journal, queries, stop)
            return None if stop.is_set() else [_compare(publisher, table, sinks[table]) for table in KEYS]


def _sink(folder: Path) -> DeltaSink:
    try:
        from subscriber.spark.lakehouse.delta import DeltaSink
    except ImportError:
        raise UsageError(
            "the package deltalake is not installed",
            hint="Install the extra lakehouse: pip install 'subscriber[lakehouse]'.",
        ) from None
    return DeltaSink(str(folder))


@contextlib.contextmanager
def _receiver(publisher: PostgreSQL, settings: Settings) -> Iterator[SlotReceiver]:
    publisher.execute(demo_data.PUBLISHER_SCHEMA)
    publisher.execute(demo_data.EARLIER_ORDERS)
    receiver = SlotReceiver(SlotSource(publisher.conninfo(), _NAME, ("shop",), create=True), settings)
    with in_background("receiver", receiver.run, _END_SECONDS):
        yield receiver


def _wait_for_journal(receiver: SlotReceiver, stop: threading.Event) -> str:
    while receiver.state != "streaming" and not stop.wait(_POLL_SECONDS):
        if receiver.attempts.error is not None:
            raise receiver.attempts.error
    return "" if receiver.assignment is None else receiver.assignment.journal


def _queries(spark: Any, journal: str, conninfo: str, lake: Path, sinks: dict[str, DeltaSink]) -> Iterator[Any]:
    """A query for each table, and one that counts beside them."""

    def feed(table: str, **options: str) -> Any:
        known = {"journal": journal, "table": table, "connection": conninfo, "publication": "shop"}
        return spark.readStream.format("pgoutput").options(**known, **options).load()

    def merge_into(sink: Sink, keys: tuple[str, ...]) -> Callable[[Any, int], None]:
        return lambda batch, _number: apply_changes(batch, sink, keys=keys)

    for table, keys in KEYS.items():
        changes = feed(table, startingSnapshot="true", consumer=f"{_NAME} {table}")
        writing = changes.writeStream.foreachBatch(merge_into(sinks[table], keys)).queryName(table)
        yield writing.option("checkpointLocation", str(lake / "checkpoints" / table)).start()
    statuses = feed("orders").where("_change_type IN ('insert', 'update_postimage')").groupBy("status").count()
    yield statuses.writeStream.format("memory").queryName("statuses").outputMode("complete").start()


def _check(queries: list[Any]) -> None:
    for query in queries:
        error = query.exception()
        if error is not None:
            raise PipelineError(f'the query "{query.name}" has failed', detail=str(error).strip().splitlines()[0])


def _line(spark: Any, load: demo_data.OrderLoad, sinks: dict[str, DeltaSink]) -> str:
    counts = {row["status"]: row["count"] for row in spark.table("statuses").collect()}
    live = ", ".join(f"{counts[status]:,} {status}" for status in ("placed", "paid", "shipped") if status in counts)
    stored = ", ".join(f"{_stored(sink).count():,} {table}" for table, sink in sinks.items())
    return f"{load.transactions:,} transactions at the publisher; live: orders {live or '…'}; in Delta Lake: {stored}"


def _stored(sink: DeltaSink) -> DeltaTable:
    from deltalake import DeltaTable

    return DeltaTable(sink.uri)


def _catch_up(publisher: PostgreSQL, journal: str, queries: list[Any], stop: threading.Event) -> None:
    """Wait until everything that the publisher has is in the tables."""
    with connect_publisher(publisher.conninfo(), _NAME) as connection:
        end: LSN = PublisherClient(connection).write_barrier()
    while journal_positions(journal)[0] < end and not stop.wait(_POLL_SECONDS):
        _check(queries)
    for query in queries:
        if not stop.is_set():
            query.processAllAvailable()


def _compare(publisher: PostgreSQL, table: str, sink: DeltaSink) -> StoredTable:
    published = publisher.execute(f"SELECT * FROM {table}")
    stored: list[tuple[Any, ...]] = [tuple(row.values()) for row in pa.table(_stored(sink).scan()).to_pylist()]
    return StoredTable(table, len(published), len(stored), sorted(published) == sorted(stored))

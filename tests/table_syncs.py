"""A table synchronization in SQLite, with a simulated publisher and a simulated Spark."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from subscriber.base.errors import PublisherUnavailable, SubscriberError
from subscriber.base.lsn import LSN
from subscriber.base.settings import Settings
from subscriber.catalog.progress import OriginProgress
from subscriber.catalog.table_states import RelationState, SubscriptionRelation
from subscriber.commands.consumers import JournalConsumers, sync_consumer
from subscriber.postgres.protocol.messages import Relation
from subscriber.publisher.snapshot import Snapshot
from subscriber.spark.apply_loop import OnFailure, end_loop
from subscriber.spark.apply_pause import ApplyPause
from subscriber.spark.copy import CopyProgress
from subscriber.spark.spark_functions import SparkFunctions
from subscriber.stream.journal.retention import read_consumer
from subscriber.stream.journal.storage import open_storage
from subscriber.targets import Target
from subscriber.worker import tablesync
from subscriber.worker.tablesync import TableSync
from tests.subscriptions import create_subscription, set_state, stored_relations, stored_states
from tests.waits import wait_until

SOON = 10.0
INIT, DATASYNC, FINISHED, SYNCED = (
    RelationState.INIT,
    RelationState.DATASYNC,
    RelationState.FINISHEDCOPY,
    RelationState.SYNCDONE,
)


TARGET = "8c1f" * 8


class Scene:
    """A subscription to tables a and b in SQLite, with a simulated publisher and a simulated
    Spark.
    """

    def __init__(self, target: Target, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.target = target
        with self.target.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE a (id INTEGER PRIMARY KEY)")
            connection.exec_driver_sql("CREATE TABLE b (id INTEGER PRIMARY KEY)")
        self.subscription = create_subscription(self.target, conninfo="dbname=none", applied=50)
        (folder / "journal").mkdir()
        self.journal = str(folder / "journal")
        self.snapshot_lsn = 100
        self.estimated_bytes = 20
        self.events: list[str] = []
        self.errors: list[tuple[str, str | None]] = []
        self.copy: Callable[[str], None] = lambda _table: None
        self.catch_up: Callable[[CatchUp], None] = lambda query: query.go_to(LSN(10_000))
        self.pause = ApplyPause()
        self.spark = SparkFunctions(self._start_apply, self._copy_table)
        self.settings = Settings(self.journal, wal_retrieve_retry_interval=0.2)
        self.sync = self.new_sync()
        monkeypatch.setattr(tablesync, "connect_publisher", lambda *_: contextlib.nullcontext())
        monkeypatch.setattr(tablesync, "table_files", lambda _connection, tables: dict.fromkeys(tables, ()))
        monkeypatch.setattr(tablesync, "exported_snapshot", self._snapshot)

    def new_sync(self) -> TableSync:
        return TableSync(
            self.subscription,
            self.target,
            JournalConsumers(self.journal, TARGET, 1, subscription="s", place="sqlite:///t.db"),
            pause=self.pause,
            writer_lock=threading.Lock(),
            spark=self.spark,
            settings=self.settings,
            on_error=lambda error, relation: self.errors.append((error.message, relation.name if relation else None)),
        )

    # The simulated publisher and Spark ------------------------------------------------------------

    @contextlib.contextmanager
    def _snapshot(self, *_):
        self.events.append("snapshot")
        yield Snapshot("00000003-1", LSN(self.snapshot_lsn))
        self.events.append("snapshot ends")

    def _copy_table(self, source, target, begin, _settings, *, on_progress, stop):
        assert target is self.target
        self.events.append(f"copy {source.table} from {source.snapshot}")
        on_progress(CopyProgress(0, 0, 2, self.estimated_bytes))
        with begin() as connection:
            connection.exec_driver_sql(f"INSERT INTO {source.table} VALUES (1)")
            on_progress(CopyProgress(1, 10, 2, 20))
            self.copied = connection
            self.copy(source.table)
            if stop.is_set():
                raise PublisherUnavailable("the copy was stopped")
        return CopyProgress(1, 10, 1, 10)

    def _start_apply(self, name, stream, applier, _settings, *, on_applied, pause, on_failure=end_loop):
        with self.target.engine.connect() as connection:
            tables = [table for table in "ab" if applier._read_rules(connection).should_apply(_relation(table), 0)]
        self.events.append(f"catch up {', '.join(tables)} from {stream.applied}")
        query = CatchUp(self, applier, stream.applied, on_failure)
        self.catch_up(query)
        return query

    # What tests ask for ---------------------------------------------------------------------------

    def table(self, name: str, state: RelationState = INIT, lsn: int | None = None) -> None:
        set_state(self.target, name, state, lsn)

    def relations(self) -> list[SubscriptionRelation]:
        return stored_relations(self.target)

    def states(self) -> dict[str, tuple[str, int | None]]:
        return stored_states(self.target)

    def committed_states(self) -> dict[str, str]:
        """The states, as another session sees them during a copy."""
        return {name: state for name, (state, _) in self.states().items()}

    def stream_goes_on(self, _table: str) -> None:
        """Let the apply worker be ahead of the copy, in the copy's transaction: SQLite has one
        writer.
        """
        progress = OriginProgress(1)
        progress.advance(self.copied, progress.read(self.copied), LSN(400))

    def rows(self, table: str) -> list[Any]:
        with self.target.engine.connect() as connection:
            return [row[0] for row in connection.exec_driver_sql(f"SELECT id FROM {table} ORDER BY id")]

    def applied(self, lsn: int) -> None:
        with self.target.begin() as connection:
            OriginProgress(1).advance(connection, OriginProgress(1).read(connection), LSN(lsn))

    def round(self) -> None:
        """Run one round to its end."""
        self.sync.tick(self.relations())
        wait_until(lambda: not self.sync.running)

    def insert(self, table: str, key: int) -> None:
        with self.target.begin() as connection:
            connection.exec_driver_sql(f"INSERT INTO {table} VALUES ({key})")

    def retry(self, table: str) -> None:
        """Run a round for a table that has failed, before its next attempt is due."""
        self.sync._failed_tables["public", table].wait(0.0)
        self.round()

    def kept_from(self) -> LSN:
        return read_consumer(open_storage(self.journal), sync_consumer(TARGET, 1))


class CatchUp:
    """The query of a catch-up."""

    def __init__(self, scene: Scene, applier: Any, applied: LSN, on_failure: OnFailure = end_loop) -> None:
        self._scene = scene
        self.on_failure = on_failure
        self._applier = applier
        self.applied = applied
        self.running = True
        self.error: SubscriberError | None = None

    def go_to(self, lsn: LSN) -> None:
        with self._scene.target.begin() as connection:
            self._applier._progress.advance(connection, self.applied, lsn)
        self.applied = lsn

    def failure(self) -> SubscriberError | None:
        return self.error

    def stop(self) -> None:
        self.running = False


def _relation(table: str) -> Relation:
    return Relation(1, "public", table, "d", ())


def raising(error: SubscriberError) -> Callable[[str], None]:
    def fail(_table: str) -> None:
        raise error

    return fail


def failing(error: SubscriberError | None) -> Callable[[CatchUp], None]:
    def fail(query: CatchUp) -> None:
        query.error, query.running = error, False

    return fail

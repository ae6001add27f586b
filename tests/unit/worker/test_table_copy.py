"""The copy of one table: one transaction of the target (rules D2, D6)."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
import sqlalchemy as sa

from subscriber.base.errors import ConflictError, ProgressConflict, TargetRelationError
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import SUBSCRIPTION
from subscriber.catalog.table_states import (
    RelationState,
    SubscriptionRelation,
    delete_relations,
    replace_relations,
)
from subscriber.postgres.schema.relation_names import parse_names
from subscriber.publisher.snapshot import CopySession, Snapshot
from subscriber.spark.copy import CopyProgress, CopySource
from subscriber.spark.spark_functions import SparkFunctions
from subscriber.stream.journal.storage import open_storage
from subscriber.targets import Interruption
from subscriber.worker.copy_progress import Copies
from subscriber.worker.sync_catalog import SyncCatalog
from subscriber.worker.table_copy import TableCopy
from tests.subscriptions import stored_relations, stored_subscription
from tests.table_syncs import DATASYNC, INIT, TARGET, Scene, raising

SNAPSHOT = Snapshot("00000003-1", LSN(100))


class Copying:
    """Copies table a of the scene without a round of the table synchronization."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.sources: list[CopySource] = []
        self.files = ("the files of a",)
        self.session = CopySession("dbname=none", "s", SNAPSHOT.name)
        self.progress: list[int] = []
        self.copies = Copies(open_storage(scene.journal), TARGET, 1, "s")
        self.table_copy = TableCopy(
            SyncCatalog(scene.target, scene.subscription, threading.Lock()),
            self.copies,
            spark=SparkFunctions(scene.spark.start_apply, self._copy_table),
            settings=scene.settings,
            interruption=Interruption(scene.target),
        )

    def _copy_table(self, source: CopySource, *args: object, **options: object) -> CopyProgress:
        self.sources.append(source)
        return self.scene.spark.copy_table(source, *args, **options)  # type: ignore[arg-type]

    def run(self) -> SubscriptionRelation:
        (relation,) = stored_relations(self.scene.target)
        return self.table_copy.copy(
            relation,
            snapshot=SNAPSHOT,
            session=self.session,
            files=self.files,  # type: ignore[arg-type]
            local=self.table_copy.target_tables([relation]),
            on_progress=self._note,
        )

    def _note(self, done: CopyProgress) -> None:
        self.progress.append(done.rows)


@pytest.fixture
def copying(scene) -> Copying:
    return Copying(scene)


def test_a_table_is_in_state_f_at_the_lsn_of_the_snapshot_when_its_rows_are_there(scene, copying):
    scene.table("a")
    copied = copying.run()
    assert (copied.name, copied.state.value, copied.lsn) == ("a", "f", 100)
    assert scene.states() == {"a": ("f", 100)}
    assert scene.rows("a") == [1]
    assert copying.progress == [0, 1]


def test_a_table_that_is_already_in_state_d_is_copied_again(scene, copying):
    """D3: an earlier copy was interrupted."""
    scene.table("a", DATASYNC)
    assert copying.run().state.value == "f"


def test_the_rows_of_a_copy_that_fails_are_rolled_back_and_the_table_stays_in_d(scene, copying):
    """D15"""
    scene.table("a")
    scene.copy = raising(ConflictError("duplicate key"))
    with pytest.raises(ConflictError):
        copying.run()
    assert (scene.states(), scene.rows("a")) == ({"a": ("d", None)}, [])


def change_the_map(connection: sa.Connection) -> None:
    connection.execute(sa.update(SUBSCRIPTION).values(submap="public.a => public.b"))


def remove_the_table(connection: sa.Connection) -> None:
    delete_relations(connection, 1, [("public", "a")])


@pytest.mark.parametrize("change", [change_the_map, remove_the_table])
def test_the_rows_are_rolled_back_if_a_command_has_changed_the_subscription(scene, copying, change):
    """D11: the command is in the copy's own transaction here, because SQLite has one writer."""
    scene.table("a")
    scene.copy = lambda _table: change(scene.copied)
    with pytest.raises(ProgressConflict):
        copying.run()
    assert scene.rows("a") == []


def test_the_pipeline_gets_the_source_and_the_target_of_a_copy(scene, copying):
    scene.table("a", INIT)
    copying.run()
    (source,) = copying.sources
    assert (source.schema, source.table, source.snapshot, source.files) == ("public", "a", "00000003-1", copying.files)
    assert (source.conninfo, source.subscription, source.session) == ("dbname=none", "s", copying.session)
    assert source.local is not None
    assert source.local.name == "a"
    assert source.publishing is None
    assert source.add_columns is None, "schema_changes is not add_columns"


def test_tables_that_cannot_be_read_together_are_read_one_by_one(scene, copying, monkeypatch):
    scene.table("a", INIT)
    fail = raising(TargetRelationError("a view is broken"))
    monkeypatch.setattr(scene.target.shapes, "reflect_all", lambda _connection, places: fail(places))
    copying.run()
    assert [source.local for source in copying.sources] == [None]


def test_a_table_that_was_read_under_another_map_is_read_again(scene, copying):
    """The map may change between the read and the copy."""
    scene.table("a", INIT)
    (relation,) = stored_relations(scene.target)
    options = replace(scene.subscription.options, map=parse_names("public.a => public.b"))
    before = copying.table_copy.target_tables([relation])
    changed = SyncCatalog(scene.target, replace(scene.subscription, options=options), threading.Lock())
    copying.table_copy._states = changed
    source = copying.table_copy._source(relation, SNAPSHOT, copying.session, copying.files, before)
    assert list(before) == [("public", "a")]
    assert source.local is None


def test_a_copy_is_shown_while_its_transaction_is_open(scene, copying):
    seen = []
    scene.copy = lambda _table: seen.append((copying.copies.current()[0].rows, copying.table_copy.loads_since))
    scene.table("a")
    copying.run()
    ((rows, since),) = seen
    assert rows == 1
    assert since > 0
    assert (copying.copies.current(), copying.table_copy.loads_since) == ([], None)


def test_a_copy_that_fails_is_no_longer_shown(scene, copying):
    scene.table("a")
    scene.copy = raising(ConflictError("duplicate key"))
    with pytest.raises(ConflictError):
        copying.run()
    assert (copying.copies.current(), copying.table_copy.loads_since) == ([], None)


# REFRESH TABLE ------------------------------------------------------------------------------------


def refresh(scene) -> None:
    with scene.target.begin() as connection:
        replace_relations(connection, 1, [("public", "a")])


def test_a_copy_that_replaces_rows_deletes_the_old_ones_in_its_transaction(scene, copying):
    scene.table("a", RelationState.READY)
    scene.insert("a", 1)
    scene.insert("a", 7)
    refresh(scene)
    seen: list[list[int]] = []
    scene.copy = lambda _table: seen.append(scene.rows("a"))  # another connection
    assert copying.run().state.value == "f"
    assert seen == [[1, 7]]
    assert scene.rows("a") == [1]


def test_a_copy_that_fails_leaves_the_old_rows_and_the_next_one_replaces_them(scene, copying):
    """progress_with_data"""
    scene.table("a", RelationState.READY)
    scene.insert("a", 7)
    refresh(scene)
    scene.copy = raising(ConflictError("duplicate key"))
    with pytest.raises(ConflictError):
        copying.run()
    assert (scene.states(), scene.rows("a")) == ({"a": ("d", None)}, [7])
    scene.copy = lambda _table: None
    copying.run()
    assert (scene.states(), scene.rows("a")) == ({"a": ("f", 100)}, [1])


def test_the_rows_are_deleted_in_the_table_of_the_map(scene, copying):
    scene.table("a", RelationState.READY)
    scene.insert("a", 7)
    scene.insert("b", 8)
    with scene.target.begin() as connection:
        change_the_map(connection)
    refresh(scene)
    copying.table_copy._states.subscription = stored_subscription(scene.target)
    copying.run()
    assert (scene.rows("a"), scene.rows("b")) == ([1, 7], []), "the simulated copy writes to a"

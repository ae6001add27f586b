"""The catalog as the table synchronization of one subscription uses it."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest

from subscriber.base.errors import ProgressConflict, UsageError
from subscriber.base.lsn import LSN
from subscriber.catalog.table_states import CatchUpProgress, RelationState
from subscriber.postgres.schema.relation_names import parse_names
from subscriber.targets import Target
from subscriber.worker.sync_catalog import SyncCatalog
from tests.subscriptions import create_subscription, set_state, stored_states


def catalog_of(target: Target, **options: object) -> SyncCatalog:
    return SyncCatalog(target, create_subscription(target, **options), threading.Lock())  # type: ignore[arg-type]


def execute(target: Target, *statements: str) -> None:
    with target.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def test_tables_and_progress_are_read_as_they_are_now(target):
    states = catalog_of(target, applied=50)
    assert states.relations() == []
    assert states.applied() == 50
    set_state(target, "a", RelationState.DATASYNC)
    assert [(one.name, one.state) for one in states.relations()] == [("a", RelationState.DATASYNC)]


def test_the_position_of_a_table_is_the_lsn_of_its_copy_until_it_catches_up(target):
    states = catalog_of(target)
    set_state(target, "a", RelationState.FINISHEDCOPY, 100)
    progress = CatchUpProgress(1, states.relations())
    assert states.position(progress) == 100
    with target.begin() as connection:
        progress.advance(connection, LSN(100), LSN(300))
    assert states.position(progress) == 300


def test_several_tables_are_set_to_a_state_together_or_not_at_all(target):
    states = catalog_of(target)
    for name in "ab":
        set_state(target, name, RelationState.FINISHEDCOPY, 100)
    before = states.relations()
    set_state(target, "b", RelationState.INIT)
    with pytest.raises(ProgressConflict):
        states.advance_all(before, RelationState.INIT, LSN(100))
    assert stored_states(target) == {"a": ("f", 100), "b": ("i", None)}
    states.advance_all(before[:1], RelationState.INIT, LSN(100))
    assert stored_states(target) == {"a": ("i", 100), "b": ("i", None)}


def test_publications_that_the_server_evaluates_are_not_emulated(target):
    assert catalog_of(target).publishing() is None


def test_emulated_publications_need_the_tables_of_the_publisher(target):
    with pytest.raises(UsageError, match="have not been read yet") as raised:
        catalog_of(target, carrier="all_tables").publishing()
    assert raised.value.sqlstate == "55000"


def test_a_table_has_rows_only_if_it_exists_and_is_not_empty(target):
    states = catalog_of(target)
    set_state(target, "a", RelationState.INIT)
    (relation,) = states.relations()
    assert not states.has_rows(relation)
    execute(target, "CREATE TABLE a (id INTEGER)")
    assert not states.has_rows(relation)
    execute(target, "INSERT INTO a VALUES (1)")
    assert states.has_rows(relation)


def test_rows_are_looked_for_in_the_table_of_the_map(target):
    states = catalog_of(target, map=parse_names("public.a => public.b"))
    set_state(target, "a", RelationState.INIT)
    execute(target, "CREATE TABLE a (id INTEGER)", "CREATE TABLE b (id INTEGER)", "INSERT INTO b VALUES (1)")
    assert states.has_rows(states.relations()[0])


def test_a_table_goes_to_its_next_state(target):
    states = catalog_of(target)
    set_state(target, "a", RelationState.DATASYNC)
    (relation,) = states.relations()
    advanced = states.advance(relation, RelationState.FINISHEDCOPY, LSN(100))
    assert (advanced.state, advanced.lsn) == (RelationState.FINISHEDCOPY, 100)
    assert stored_states(target) == {"a": ("f", 100)}


def test_a_state_that_another_process_has_changed_is_not_overwritten(target):
    states = catalog_of(target)
    set_state(target, "a", RelationState.INIT)
    (relation,) = states.relations()
    set_state(target, "a", RelationState.READY, 70)
    with pytest.raises(ProgressConflict):
        states.advance(relation, RelationState.DATASYNC, None)
    assert stored_states(target) == {"a": ("r", 70)}


def test_the_target_is_written_in_its_turn_and_rolled_back_after_an_error(target):
    inside: list[str] = []

    @contextmanager
    def turn():
        inside.append("begins")
        yield
        inside.append("ends")

    states = SyncCatalog(target, create_subscription(target), turn())
    execute(target, "CREATE TABLE a (id INTEGER)")
    with states.write() as connection:
        inside.append("writes")
        connection.exec_driver_sql("INSERT INTO a VALUES (1)")
    assert inside == ["begins", "writes", "ends"]
    states.writer_lock = threading.Lock()
    with pytest.raises(ZeroDivisionError), states.write() as connection:
        connection.exec_driver_sql("INSERT INTO a VALUES (2)")
        raise ZeroDivisionError
    assert target.query("SELECT id FROM a").rows == [("1",)]
    assert not states.writer_lock.locked()

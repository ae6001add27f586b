"""A reading that is kept for a version of the catalog never hides a change by another connection,
on every target (catalog/catalog_version.py).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from subscriber import catalog
from subscriber.catalog import CatchUpProgress, KeptStates, RelationState, Subscription
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.lsn import LSN
from subscriber.targets import Target
from tests.target_databases import KINDS, applied_to

TABLES = [("public", "a"), ("public", "b")]


@pytest.fixture(params=KINDS)
def target(request, tmp_path) -> Iterator[Target]:
    with applied_to(request.param, request, tmp_path) as on:
        catalog.ensure_catalog(on.target.engine)
        with on.target.begin() as connection:
            catalog.insert_subscription(connection, "s", "", ["p"], SubscriptionOptions(slot_name="s"))
            catalog.set_relation_states(connection, 1, TABLES, RelationState.INIT)
        yield on.target


def subscription(connection: sa.Connection) -> Subscription:
    return catalog.get_subscription(connection, "s")


def look(target: Target, kept: KeptStates) -> str:
    """The states as they are kept; they must equal the stored states."""
    with target.engine.connect() as connection:
        states = kept.read(connection, subscription(connection))
        assert states == catalog.read_states(connection, 1)
    return "".join(one.state for one in states)


def set_state(connection: sa.Connection, state: RelationState) -> None:
    catalog.set_relation_states(connection, 1, TABLES[:1], state, LSN(10))


def test_a_write_between_the_version_and_the_tables_is_not_missed(target):
    """READ COMMITTED sees it in the tables and not in the version; a snapshot in neither"""
    if target.capabilities.single_writer:
        pytest.skip("who reads keeps a writer from committing")
    kept = KeptStates()
    with target.engine.connect() as reading:
        read = subscription(reading)
        with target.begin() as connection:
            set_state(connection, RelationState.READY)
        assert kept.read(reading, read)[0].state in "ir"
    assert look(target, kept) == "ri"


def test_a_write_that_has_not_committed_is_neither_seen_nor_waited_for(target):
    kept = KeptStates()
    assert look(target, kept) == "ii"
    with target.begin() as connection:
        set_state(connection, RelationState.READY)
        assert look(target, kept) == "ii"
        connection.rollback()
    assert look(target, kept) == "ii"
    with target.begin() as connection:
        set_state(connection, RelationState.SYNCDONE)
        assert look(target, kept) == "ii"
    assert look(target, kept) == "si"


def test_what_a_transaction_kept_of_its_own_is_not_kept_when_it_is_rolled_back(target):
    kept = KeptStates()
    with target.begin() as connection:
        set_state(connection, RelationState.READY)
        assert kept.read(connection, subscription(connection))[0].state is RelationState.READY
        connection.rollback()
    assert look(target, kept) == "ii"
    with target.begin() as connection:
        catalog.set_relation_states(connection, 1, TABLES[1:], RelationState.READY)
    assert look(target, kept) == "ir"


def test_a_subscription_that_is_dropped_and_made_again_is_another(target):
    kept = KeptStates()
    assert look(target, kept) == "ii"
    with target.begin() as connection:
        catalog.delete_subscription(connection, "s")
        assert catalog.insert_subscription(connection, "s", "", ["p"], SubscriptionOptions(slot_name="s")).subid == 1
        catalog.set_relation_states(connection, 1, TABLES[:1], RelationState.READY)
    assert look(target, kept) == "r"


def test_a_catch_up_lets_commands_change_the_subscription(target):
    """The transaction locks the row of its table for the duration of a batch, and nothing else of
    the catalog.
    """
    if target.capabilities.single_writer:
        pytest.skip("one connection writes at a time")
    with target.begin() as connection:
        set_state(connection, RelationState.FINISHEDCOPY)
        relation = catalog.relations_of(connection, 1)[0]
    with target.begin() as batch:
        CatchUpProgress(1, relation).lock(batch, LSN(10))
        CatchUpProgress(1, relation).advance(batch, LSN(10), LSN(20))
        with target.begin() as connection:
            catalog.set_enabled(connection, "s", enabled=False)
            catalog.set_relation_states(connection, 1, TABLES[1:], RelationState.READY)
    with target.engine.connect() as connection:
        assert not subscription(connection).enabled
        assert [(one.state, one.lsn) for one in catalog.relations_of(connection, 1)] == [("f", 20), ("r", None)]


def test_a_catalog_of_an_earlier_version_gets_versions(target):
    """And is read as before, whoever keeps it first"""
    with target.engine.begin() as connection:
        for table, column in (("subscriber_subscription", "subversion"), ("subscriber_publication", "pubversion")):
            connection.exec_driver_sql(f"ALTER TABLE {table} DROP COLUMN {column}")
    catalog.ensure_catalog(target.engine)
    kept = KeptStates()
    assert look(target, kept) == "ii"
    with target.begin() as connection:
        set_state(connection, RelationState.READY)
    assert look(target, kept) == "ri"


def test_a_catalog_of_an_earlier_version_can_say_who_runs_and_which_errors_are_over(target):
    """The table and the columns are added to the existing catalog."""
    columns = ("last_error_worker", "last_error_lsn", "last_error_resolved_at")
    with target.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE subscriber_runner")
        for column in columns:
            connection.exec_driver_sql(f"ALTER TABLE subscriber_stat_subscription_stats DROP COLUMN {column}")
        connection.exec_driver_sql(
            "UPDATE subscriber_stat_subscription_stats SET last_error = 'ERROR:  old', last_error_at = 'long ago'"
        )
    catalog.ensure_catalog(target.engine)
    with target.begin() as connection:
        assert catalog.read_runner(connection) is None
        assert catalog.statistics_of(connection, 1)["last_error_resolved_at"] is None
        # Of what worker and transaction it was is not known: it is over when nothing is left to
        # apply.
        assert not catalog.resolve_error(connection, 1, applied=LSN(10), waiting=True)
        assert catalog.resolve_error(connection, 1, applied=LSN(10), waiting=False)

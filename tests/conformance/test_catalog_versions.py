"""A reading that is kept for a version of the catalog never hides a change by another connection,
on every target (catalog/catalog_version.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from subscriber.base.errors import UsageError
from subscriber.base.lsn import LSN
from subscriber.base.settings import Settings
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.cutovers import claim_cutover, read_cutover
from subscriber.catalog.leases import find_run
from subscriber.catalog.own_tables import CONFLICT, LEASE, OWN_TABLES
from subscriber.catalog.publications import find_publication, insert_publication
from subscriber.catalog.statistics import resolve_error, statistics_of
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.catalog.subscriptions import (
    Subscription,
    delete_subscription,
    get_subscription,
    insert_subscription,
    set_enabled,
    set_options,
)
from subscriber.catalog.table_states import (
    CachedStates,
    CatchUpProgress,
    RelationState,
    read_states,
    relations_of,
    sequences_of,
    set_relation_states,
)
from subscriber.commands.dispatch import run_command
from subscriber.commands.subscription_grammar import DropSubscription
from subscriber.postgres.publication.definition import Publication, TableEntry
from subscriber.targets import Target
from tests.target_databases import KINDS, applied_to

TABLES = [("public", "a"), ("public", "b")]


@pytest.fixture(params=KINDS)
def target(request, tmp_path) -> Iterator[Target]:
    with applied_to(request.param, request, tmp_path) as on:
        ensure_catalog(on.target.engine)
        with on.target.begin() as connection:
            insert_subscription(connection, "s", "", ["p"], SubscriptionOptions(slot_name="s"))
            set_relation_states(connection, 1, TABLES, RelationState.INIT)
        yield on.target


def subscription(connection: sa.Connection) -> Subscription:
    return get_subscription(connection, "s")


def look(target: Target, kept: CachedStates) -> str:
    """The states as they are kept; they must equal the stored states."""
    with target.engine.connect() as connection:
        states = kept.read(connection, subscription(connection))
        assert states == read_states(connection, 1)
    return "".join(one.state for one in states)


def set_state(connection: sa.Connection, state: RelationState) -> None:
    set_relation_states(connection, 1, TABLES[:1], state, LSN(10))


def test_a_write_between_the_version_and_the_tables_is_not_missed(target):
    """READ COMMITTED sees it in the tables and not in the version; a snapshot in neither"""
    if target.capabilities.single_writer:
        pytest.skip("who reads keeps a writer from committing")
    kept = CachedStates()
    with target.engine.connect() as reading:
        read = subscription(reading)
        with target.begin() as connection:
            set_state(connection, RelationState.READY)
        assert kept.read(reading, read)[0].state in "ir"
    assert look(target, kept) == "ri"


def test_a_write_that_has_not_committed_is_neither_seen_nor_waited_for(target):
    kept = CachedStates()
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
    kept = CachedStates()
    with target.begin() as connection:
        set_state(connection, RelationState.READY)
        assert kept.read(connection, subscription(connection))[0].state is RelationState.READY
        connection.rollback()
    assert look(target, kept) == "ii"
    with target.begin() as connection:
        set_relation_states(connection, 1, TABLES[1:], RelationState.READY)
    assert look(target, kept) == "ir"


def test_a_subscription_that_is_dropped_and_made_again_is_another(target):
    kept = CachedStates()
    assert look(target, kept) == "ii"
    with target.begin() as connection:
        delete_subscription(connection, "s")
        assert insert_subscription(connection, "s", "", ["p"], SubscriptionOptions(slot_name="s")).subid == 1
        set_relation_states(connection, 1, TABLES[:1], RelationState.READY)
    assert look(target, kept) == "r"


def test_a_catch_up_lets_commands_change_the_subscription(target):
    """The transaction locks the row of its table for the duration of a batch, and nothing else of
    the catalog.
    """
    if target.capabilities.single_writer:
        pytest.skip("one connection writes at a time")
    with target.begin() as connection:
        set_state(connection, RelationState.FINISHEDCOPY)
        relation = relations_of(connection, 1)[0]
    with target.begin() as batch:
        CatchUpProgress(1, [relation]).lock(batch, LSN(10))
        CatchUpProgress(1, [relation]).advance(batch, LSN(10), LSN(20))
        with target.begin() as connection:
            set_enabled(connection, "s", enabled=False)
            set_relation_states(connection, 1, TABLES[1:], RelationState.READY)
    with target.engine.connect() as connection:
        assert not subscription(connection).enabled
        assert [(one.state, one.lsn) for one in relations_of(connection, 1)] == [("f", 20), ("r", None)]


def test_a_catalog_of_an_earlier_version_gets_versions(target):
    """And is read as before, whoever keeps it first"""
    with target.engine.begin() as connection:
        for table, column in (("subscriber_subscription", "subversion"), ("subscriber_publication", "pubversion")):
            connection.exec_driver_sql(f"ALTER TABLE {table} DROP COLUMN {column}")
    ensure_catalog(target.engine)
    kept = CachedStates()
    assert look(target, kept) == "ii"
    with target.begin() as connection:
        set_state(connection, RelationState.READY)
    assert look(target, kept) == "ri"


def test_a_catalog_of_an_earlier_version_can_say_who_runs_and_which_errors_are_over(target):
    """The table and the columns are added to the existing catalog."""
    columns = ("last_error_worker", "last_error_lsn", "last_error_resolved_at")
    with target.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE subscriber_lease")
        for column in columns:
            connection.exec_driver_sql(f"ALTER TABLE subscriber_stat_subscription_stats DROP COLUMN {column}")
        connection.exec_driver_sql(
            "UPDATE subscriber_stat_subscription_stats SET last_error = 'ERROR:  old', last_error_at = 'long ago'"
        )
    ensure_catalog(target.engine)
    with target.begin() as connection:
        assert find_run(connection) is None
        assert statistics_of(connection, 1)["last_error_resolved_at"] is None
        # Of what worker and transaction it was is not known: it is over when nothing is left to
        # apply.
        assert not resolve_error(connection, 1, applied=LSN(10), waiting=True)
        assert resolve_error(connection, 1, applied=LSN(10), waiting=False)


OLD_TABLES = (
    """CREATE TABLE subscriber_runner (runnerid INTEGER NOT NULL, host VARCHAR(255) NOT NULL, processid BIGINT NOT NULL,
        startedat VARCHAR(40) NOT NULL, heartbeatat VARCHAR(40) NOT NULL, busysince VARCHAR(40), endedat VARCHAR(40),
        PRIMARY KEY (runnerid))""",
    """CREATE TABLE subscriber_apply_hold (subid INTEGER NOT NULL, holder VARCHAR(32) NOT NULL, host VARCHAR(255) NOT NULL,
        processid BIGINT NOT NULL, heldsince VARCHAR(40) NOT NULL, heartbeatat VARCHAR(40) NOT NULL,
        state VARCHAR(16) NOT NULL, boundlsn VARCHAR(32), reachedlsn VARCHAR(32), PRIMARY KEY (subid))""",
    """CREATE TABLE subscriber_cutover (subid INTEGER NOT NULL, state VARCHAR(16) NOT NULL, step VARCHAR(16) NOT NULL,
        holder VARCHAR(32) NOT NULL, host VARCHAR(255) NOT NULL, processid BIGINT NOT NULL, startedat VARCHAR(40) NOT NULL,
        heartbeatat VARCHAR(40) NOT NULL, barrierlsn VARCHAR(32), switchedat VARCHAR(40), abandonedat VARCHAR(40),
        options TEXT NOT NULL, findings TEXT NOT NULL, PRIMARY KEY (subid))""",
    "INSERT INTO subscriber_runner VALUES (1, 'db1', 4711, '2026-11-27T10:00:00.000+00:00', '2026-11-27T11:00:00.000+00:00', NULL, '2026-11-27T11:00:00.000+00:00')",
    "INSERT INTO subscriber_apply_hold VALUES (1, 'a', 'db1', 4712, 'x', 'x', 'held', '0/100', '0/100')",
    """INSERT INTO subscriber_cutover VALUES (1, 'switched', 'switch', '', 'db1', 4713, '2026-11-27T10:00:00.000+00:00', 'x', '0/100',
        '2026-11-27T10:30:00.000+00:00', NULL, '{"fence": {"database": "shop"}}', '{}')""",
)
"""What 0.1.0 had in the place of subscriber_lease, as its catalog was recorded."""


@pytest.fixture
def old_catalog(target: Target) -> Target:
    """A target whose catalog 0.1.0 has created."""
    with target.engine.begin() as connection:
        for table in ("subscriber_lease", "subscriber_cutover"):
            connection.exec_driver_sql(f"DROP TABLE {table}")
        for statement in OLD_TABLES:
            connection.exec_driver_sql(statement)
    return target


def tables_of(target: Target) -> set[str]:
    return {name for name in sa.inspect(target.engine).get_table_names() if name.startswith("subscriber_")}


def check_migrated(target: Target) -> None:
    assert tables_of(target) == OWN_TABLES
    with target.begin() as connection:
        run, cutover = find_run(connection), read_cutover(connection, 1)
        assert run is not None
        assert (run.host, run.process_id, run.since, run.is_alive()) == (
            "db1",
            4711,
            "2026-11-27T10:00:00.000+00:00",
            False,
        )
        assert cutover is not None
        assert (cutover.state, cutover.barrier, cutover.is_held) == ("switched", 0x100, False)
        assert cutover.options == {"fence": {"database": "shop"}}
        claimed = claim_cutover(connection, "s", 1)
        assert (claimed.is_held, claimed.options, claimed.switched_at) == (True, cutover.options, cutover.switched_at)


def test_a_catalog_of_0_1_0_keeps_its_last_run_and_its_cutover(old_catalog):
    ensure_catalog(old_catalog.engine)
    check_migrated(old_catalog)
    ensure_catalog(old_catalog.engine)
    assert tables_of(old_catalog) == OWN_TABLES


@pytest.mark.parametrize("steps", [0, 1, 3, 5])
def test_a_migration_of_the_catalog_that_was_interrupted_is_finished_the_next_time(old_catalog, steps):
    """any_crash: before the run was moved, before and between the changes of the tables."""
    engine = old_catalog.engine
    done: list[str] = []

    def interrupt(_connection, _cursor, statement, *_):
        if statement.lstrip().upper().startswith(("ALTER", "DROP")):
            if len(done) == steps:
                raise KeyboardInterrupt
            done.append(statement)

    sa.event.listen(engine, "before_cursor_execute", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ensure_catalog(engine)
    sa.event.remove(engine, "before_cursor_execute", interrupt)
    ensure_catalog(engine)
    check_migrated(old_catalog)


ADDED_FOR_19 = {
    "subscriber_subscription": (
        "subserver", "subretentionactive", "subretentionround", "subretaindeadtuples", "submaxretention",
        "subwalrcvtimeout", "subconflictlogdest",
    ),
    "subscriber_subscription_rel": ("srsequence",),
    "subscriber_publication": ("puballsequences",),
    "subscriber_stat_subscription_stats": ("sync_seq_error_count", "confl_update_deleted"),
    "subscriber_conflict": (
        "schemaname", "relname", "remote_origin", "replica_identity_full", "replica_identity", "remote_tuple",
        "local_conflicts",
    ),
}  # fmt: skip
TABLES_FOR_19 = (
    "subscriber_deleted_row",
    "subscriber_foreign_data_wrapper",
    "subscriber_foreign_server",
    "subscriber_user_mapping",
)


def test_a_catalog_from_before_19_has_the_defaults_of_19(target):
    """Its subscriptions, tables, publications, counts and conflicts are as they were."""
    with target.begin() as connection:
        insert_publication(connection, Publication("p", tables=(TableEntry("public", "a"),)), "ann")
        connection.execute(
            sa.insert(CONFLICT).values(
                conflictid=1, recorded_at="x", subid=1, subname="s", relation="public.a", conflict_type="insert_exists",
                remote_commit_lsn=LSN(1), remote_xid=1, remote_commit_ts="x", attempts=3,
            )
        )  # fmt: skip
    with target.engine.begin() as connection:
        for table, columns in ADDED_FOR_19.items():
            for column in columns:
                connection.exec_driver_sql(f"ALTER TABLE {table} DROP COLUMN {column}")
        for table in TABLES_FOR_19:
            connection.exec_driver_sql(f"DROP TABLE {table}")
    ensure_catalog(target.engine)
    assert tables_of(target) == OWN_TABLES
    with target.engine.connect() as connection:
        stored = subscription(connection)
        options = stored.options
        assert (stored.server, stored.retention_active, stored.connection) == (None, False, "")
        assert (options.retain_dead_tuples, options.max_retention_duration) == (False, 0)
        assert (options.wal_receiver_timeout, options.conflict_log_destination) == ("-1", "all")
        assert (stored.enabled, options.slot_name) == (True, "s")
        assert [(one.name, str(one.state)) for one in relations_of(connection, 1)] == [("a", "i"), ("b", "i")]
        assert sequences_of(connection, 1) == []
        assert find_publication(connection, "p") == Publication("p", tables=(TableEntry("public", "a"),))
        counts = statistics_of(connection, 1)
        assert (counts["sync_seq_error_count"], counts["confl_update_deleted"]) == (0, 0)
        ((attempts, schema),) = connection.execute(sa.select(CONFLICT.c.attempts, CONFLICT.c.schemaname))
        assert (attempts, schema) == (3, None)
    with target.begin() as connection:
        set_options(connection, 1, {"max_retention_duration": 5})
        assert subscription(connection).options.max_retention_duration == 5


def test_a_subscription_whose_cutover_another_command_carries_out_is_not_dropped(target):
    with target.begin() as connection:
        claim_cutover(connection, "s", 1)
        connection.execute(sa.update(LEASE).values(processid=os.getppid()))
    command = DropSubscription("s", if_exists=False, cascade=False)
    with pytest.raises(UsageError, match="another command carries out a cutover"):
        run_command(target, command, Settings(journal=""), print)

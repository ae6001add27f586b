"""The tables of the catalog: they are created once, and completed in a catalog of an earlier
version.
"""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from subscriber.catalog import own_tables
from subscriber.catalog.catalog_names import is_catalog_table, map_elsewhere, occupies
from subscriber.catalog.catalog_upgrade import ensure_catalog, target_identifier
from subscriber.catalog.own_tables import CATALOG, SUBSCRIPTION_STATS
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.catalog.subscriptions import get_subscription, insert_subscription
from subscriber.postgres.schema.relation_names import SAME_NAMES, parse_names
from subscriber.targets import open_target

CONTROL = ["controlid", "targetidentifier"]


@pytest.fixture
def engine(target):
    return target.engine


def identifier(engine: sa.Engine) -> str:
    with engine.connect() as connection:
        return target_identifier(connection)


def test_the_catalog_is_created_once(engine):
    ensure_catalog(engine)
    tables = set(sa.inspect(engine).get_table_names())
    assert tables == {
        "subscriber_cutover",
        "subscriber_conflict",
        "subscriber_dropped_rel",
        "subscriber_control",
        "subscriber_replaced_row",
        "subscriber_replaced_value",
        "subscriber_lease",
        "subscriber_relation_shape",
        "subscriber_schema_change",
        "subscriber_logical_message",
        "subscriber_prepared_transaction",
        "subscriber_released_slot",
        "subscriber_deleted_row",
        "subscriber_foreign_data_wrapper",
        "subscriber_foreign_server",
        "subscriber_user_mapping",
        "subscriber_schema_difference",
        "subscriber_subscription",
        "subscriber_subscription_rel",
        "subscriber_publication",
        "subscriber_publication_rel",
        "subscriber_publication_namespace",
        "subscriber_replication_origin_status",
        "subscriber_stat_subscription",
        "subscriber_stat_subscription_stats",
        "subscriber_target_fact",
    }
    assert tables == own_tables.OWN_TABLES


def test_a_catalog_of_an_earlier_version_gets_the_columns_that_it_lacks(engine):
    with engine.begin() as connection:
        insert_subscription(connection, "s", "", ("p",), SubscriptionOptions(slot_name="s"))
        made = get_subscription(connection, "s")
        for column in ("subschemachanges", "submap"):
            connection.exec_driver_sql(f"ALTER TABLE subscriber_subscription DROP COLUMN {column}")
    ensure_catalog(engine)
    with engine.begin() as connection:
        assert get_subscription(connection, "s") == made


def test_stored_conflicts_get_the_columns_of_postgresql_20(engine):
    """Columns with lists of values go: objects with names have taken their place."""
    with engine.begin() as connection:
        for column in (
            "schemaname",
            "relname",
            "remote_origin",
            "replica_identity_full",
            "replica_identity",
            "remote_tuple",
            "local_conflicts",
        ):
            connection.exec_driver_sql(f"ALTER TABLE subscriber_conflict DROP COLUMN {column}")
        for column in ("key_values", "local_row", "remote_row"):
            connection.exec_driver_sql(f"ALTER TABLE subscriber_conflict ADD COLUMN {column} TEXT")
        connection.exec_driver_sql(
            "INSERT INTO subscriber_conflict (conflictid, recorded_at, subid, subname, relation, conflict_type,"
            " remote_commit_lsn, remote_xid, remote_commit_ts, attempts, key_values)"
            " VALUES (1, '', 1, 's', 'public.t', 'insert_exists', '0/1', 7, '', 1, '[\"1\"]')"
        )
    ensure_catalog(engine)
    with engine.begin() as connection:
        (row,) = connection.execute(sa.select(own_tables.CONFLICT)).mappings()
    assert (row["relation"], row["schemaname"], row["local_conflicts"]) == ("public.t", None, None)
    assert "key_values" not in {column["name"] for column in sa.inspect(engine).get_columns("subscriber_conflict")}


def test_the_targets_identifier_never_changes(engine):
    first = identifier(engine)
    assert len(bytes.fromhex(first)) == 16
    ensure_catalog(engine)
    assert identifier(engine) == first


def test_a_table_of_the_user_with_the_name_of_a_former_table_of_the_catalog_stays(engine):
    """names_are_data"""
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE subscriber_runner (runnerid INTEGER, shoes TEXT)")
    ensure_catalog(engine)
    assert sa.inspect(engine).has_table("subscriber_runner")


def test_a_catalog_of_an_earlier_version_gets_an_identifier(engine):
    with engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM subscriber_control")
    ensure_catalog(engine)
    assert len(bytes.fromhex(identifier(engine))) == 16


def test_two_targets_have_different_identifiers(engine):
    other = sa.create_engine("sqlite://", poolclass=sa.StaticPool)
    ensure_catalog(other)
    assert identifier(other) != identifier(engine)
    other.dispose()


@pytest.mark.parametrize(
    ("names", "schema", "table", "columns", "own"),
    [
        (SAME_NAMES, "public", "subscriber_control", CONTROL, True),
        (SAME_NAMES, "other", "subscriber_control", CONTROL, True),
        (SAME_NAMES, "public", "subscriber_control", CONTROL[:1], True),
        (SAME_NAMES, "public", "subscriber_control", [*CONTROL, "later"], True),
        (SAME_NAMES, "public", "subscriber_control", [*CONTROL[:1], "plan"], False),
        (SAME_NAMES, "public", "subscriber_control", None, False),
        (SAME_NAMES, "public", "subscriber_of_newspapers", CONTROL, False),
        (SAME_NAMES, "public", "Subscriber_Control", CONTROL, False),
        (parse_names("public.t => app.subscriber_control"), "public", "t", CONTROL, False),
        (parse_names("public.subscriber_control => app.t"), "public", "subscriber_control", CONTROL, False),
    ],
)
def test_the_catalog_of_a_publisher_is_known_by_its_names_and_columns(names, schema, table, columns, own):
    assert is_catalog_table(names, schema, table, columns) is own


@pytest.mark.parametrize(
    ("schema", "name", "occupied"),
    [
        ("public", "subscriber_subscription", True),
        ("public", "Subscriber_Subscription", True),
        ("public", "subscriptions", False),
        ("crm", "subscriber_subscription", False),
        ("archive", "subscriber_subscription", False),
    ],
)
@pytest.mark.parametrize("existing", [False, True])
def test_only_the_very_table_of_the_catalog_is_in_the_way(tmp_path, schema, name, occupied, existing):
    """SQLite ignores the case of names, and has tables of other schemas under longer names, or in
    an attached database.
    """
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as target, target.engine.connect() as connection:
        connection.exec_driver_sql(f"ATTACH '{tmp_path / 'other.db'}' AS archive")
        connection.exec_driver_sql("CREATE TABLE archive.subscriber_subscription (a INT)")
        if existing:
            CATALOG.create_all(connection)
        found = target.shapes.reflect(connection, schema, name)
        assert occupies(target, schema, name, found) is occupied


def test_the_entry_for_another_place_is_added_to_the_map():
    assert map_elsewhere(SAME_NAMES, "public", "subscriber_control") == (
        "map = 'public.subscriber_control => public.published_subscriber_control'"
    )
    names = parse_names('public.* => "o\'ne".*, a.t => b.t, public.film => b.subscriber_control')
    assert map_elsewhere(names, "public", "film") == (
        "map = 'a.t => b.t, public.film => b.published_film, public.* => \"o''ne\".*'"
    )


def test_keys_are_short_enough_for_innodb():
    """InnoDB limits a key to 3072 bytes; a character takes up to four."""
    for table in CATALOG.tables.values():
        keys = [column for column in table.columns if column.primary_key or column.unique]
        lengths = [column.type.length for column in keys if isinstance(column.type, sa.String)]
        assert sum((length or 9999) * 4 for length in lengths) <= 3072


def test_the_statistics_have_postgresqls_column_names():
    """pg_stat_subscription_stats of PostgreSQL 19, with 18's name for the errors of tables."""
    assert [column.name for column in SUBSCRIPTION_STATS.columns][:14] == [
        "subid",
        "subname",
        "apply_error_count",
        "sync_error_count",
        "sync_seq_error_count",
        "confl_insert_exists",
        "confl_update_origin_differs",
        "confl_update_exists",
        "confl_update_deleted",
        "confl_update_missing",
        "confl_delete_origin_differs",
        "confl_delete_missing",
        "confl_multiple_unique_conflicts",
        "stats_reset",
    ]

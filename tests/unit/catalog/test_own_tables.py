"""The tables of the catalog: they are created once, and completed in a catalog of an earlier
version.
"""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from subscriber import catalog
from subscriber.catalog import own_tables
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.schema.relation_names import SAME_NAMES, parse_names


@pytest.fixture
def engine(target):
    return target.engine


def identifier(engine: sa.Engine) -> str:
    with engine.connect() as connection:
        return catalog.target_identifier(connection)


def test_the_catalog_is_created_once(engine):
    catalog.ensure_catalog(engine)
    tables = set(sa.inspect(engine).get_table_names())
    assert tables == {
        "subscriber_apply_hold",
        "subscriber_cutover",
        "subscriber_conflict",
        "subscriber_dropped_rel",
        "subscriber_control",
        "subscriber_replaced_row",
        "subscriber_replaced_value",
        "subscriber_runner",
        "subscriber_relation_shape",
        "subscriber_schema_change",
        "subscriber_logical_message",
        "subscriber_prepared_transaction",
        "subscriber_released_slot",
        "subscriber_schema_difference",
        "subscriber_subscription",
        "subscriber_subscription_rel",
        "subscriber_publication",
        "subscriber_publication_rel",
        "subscriber_publication_namespace",
        "subscriber_replication_origin_status",
        "subscriber_stat_subscription",
        "subscriber_stat_subscription_stats",
    }
    assert tables == own_tables.OWN_TABLES


def test_a_catalog_of_an_earlier_version_gets_the_columns_that_it_lacks(engine):
    with engine.begin() as connection:
        catalog.insert_subscription(connection, "s", "", ("p",), SubscriptionOptions(slot_name="s"))
        made = catalog.get_subscription(connection, "s")
        for column in ("subschemachanges", "submap"):
            connection.exec_driver_sql(f"ALTER TABLE subscriber_subscription DROP COLUMN {column}")
    catalog.ensure_catalog(engine)
    with engine.begin() as connection:
        assert catalog.get_subscription(connection, "s") == made


def test_the_targets_identifier_never_changes(engine):
    first = identifier(engine)
    assert len(bytes.fromhex(first)) == 16
    catalog.ensure_catalog(engine)
    assert identifier(engine) == first


def test_a_catalog_of_an_earlier_version_gets_an_identifier(engine):
    with engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM subscriber_control")
    catalog.ensure_catalog(engine)
    assert len(bytes.fromhex(identifier(engine))) == 16


def test_two_targets_have_different_identifiers(engine):
    other = sa.create_engine("sqlite://", poolclass=sa.StaticPool)
    catalog.ensure_catalog(other)
    assert identifier(other) != identifier(engine)
    other.dispose()


@pytest.mark.parametrize(
    ("names", "schema", "table", "own"),
    [
        (SAME_NAMES, "public", "subscriber_subscription", True),
        (SAME_NAMES, "other", "subscriber_conflict", True),
        (SAME_NAMES, "public", "subscriber_of_newspapers", False),
        (SAME_NAMES, "public", "Subscriber_Subscription", False),
        (parse_names("public.t => app.subscriber_control"), "public", "t", True),
        (parse_names("public.subscriber_control => app.t"), "public", "subscriber_control", False),
    ],
    ids=["same name", "another schema", "only the prefix", "upper case", "mapped to it", "mapped away from it"],
)
def test_a_table_of_the_publisher_may_have_the_name_of_a_catalog_table(names, schema, table, own):
    assert catalog.is_own_table(names, schema, table) is own


def test_keys_are_short_enough_for_innodb():
    """InnoDB limits a key to 3072 bytes; a character takes up to four."""
    for table in catalog.CATALOG.tables.values():
        keys = [column for column in table.columns if column.primary_key or column.unique]
        lengths = [column.type.length for column in keys if isinstance(column.type, sa.String)]
        assert sum((length or 9999) * 4 for length in lengths) <= 3072


def test_the_statistics_have_postgresqls_column_names():
    """pg_stat_subscription_stats of PostgreSQL 18, in its order."""
    assert [column.name for column in catalog.SUBSCRIPTION_STATS.columns][:12] == [
        "subid",
        "subname",
        "apply_error_count",
        "sync_error_count",
        "confl_insert_exists",
        "confl_update_origin_differs",
        "confl_update_exists",
        "confl_update_missing",
        "confl_delete_origin_differs",
        "confl_delete_missing",
        "confl_multiple_unique_conflicts",
        "stats_reset",
    ]

"""subscription.catalog: one schema for every database, in the caller's transaction."""

from dataclasses import replace

import pytest
import sqlalchemy as sa
from sqlalchemy.schema import CreateTable

from subscriber import catalog
from subscriber.catalog import SUBSCRIPTION_STATS, OriginProgress, RelationState, SubscriptionRelation
from subscriber.catalog.logical_messages import insert_message
from subscriber.catalog.own_tables import LOGICAL_MESSAGE, OWN_TABLES
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.errors import ConflictError, ProgressConflict, UsageError
from subscriber.lsn import LSN
from subscriber.protocol.messages import LogicalMessage
from subscriber.schema.relation_names import parse_names

OPTIONS = SubscriptionOptions(slot_name="s", copy_data=False)
CONNINFO = "host=h password=secret"


@pytest.fixture
def engine(tmp_path):
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'target.db'}")
    catalog.ensure_catalog(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def connection(engine):
    with engine.begin() as connection:
        yield connection


def insert(
    connection: sa.Connection,
    name: str = "s",
    publications: tuple[str, ...] = ("p",),
    options: SubscriptionOptions = OPTIONS,
    system_identifier: str | None = None,
) -> catalog.Subscription:
    return catalog.insert_subscription(connection, name, CONNINFO, publications, options, system_identifier)


def test_the_catalog_is_created_once(engine):
    catalog.ensure_catalog(engine)
    tables = set(sa.inspect(engine).get_table_names())
    assert tables == {
        "subscriber_conflict",
        "subscriber_control",
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
        "subscriber_stat_subscription_stats",
    }
    assert tables == OWN_TABLES  # which no stream of a publisher's may reach


def test_a_catalog_of_an_earlier_version_gets_the_columns_that_it_lacks(engine):
    with engine.begin() as connection:
        insert(connection)
        made = catalog.get_subscription(connection, "s")
        for column in ("subschemachanges", "submap"):
            connection.exec_driver_sql(f"ALTER TABLE subscriber_subscription DROP COLUMN {column}")
    catalog.ensure_catalog(engine)
    with engine.begin() as connection:
        assert catalog.get_subscription(connection, "s") == made


def test_what_was_inserted_is_read_back(connection):
    inserted = insert(connection, "My s", ("p", 'ü",'), system_identifier="7421398461293847112")
    assert catalog.get_subscription(connection, "My s") == inserted
    assert inserted.name == "My s"
    assert inserted.conninfo == CONNINFO
    assert inserted.publications == ("p", 'ü",')
    assert inserted.system_identifier == "7421398461293847112"
    assert (inserted.subid, inserted.origin) == (1, "pg_1")
    assert (inserted.enabled, inserted.slot_name, inserted.skip_lsn) == (True, "s", 0)


@pytest.mark.parametrize(
    "change",
    [
        {"enabled": False},
        {"slot_name": None},
        {"binary": True},
        {"streaming": "off"},
        {"streaming": "on"},
        {"streaming": "parallel"},
        {"two_phase": True},
        {"disable_on_error": True},
        {"password_required": False},
        {"run_as_owner": True},
        {"failover": True},
        {"origin": "none"},
        {"synchronous_commit": "remote_apply"},
        {"create_tables": True},
        {"map": parse_names('public.t => "S x".t, a.* => b.*')},
        {"schema_changes": "add_columns"},
        {"log_conflict_values": True},
    ],
)
def test_every_option_of_a_subscription_is_kept(connection, change):
    """Invariant refuse_not_guess: an option that was taken is not forgotten. connect, create_slot
    and copy_data are acts.
    """
    wanted = replace(OPTIONS, create_slot=False, **change)
    inserted = insert(connection, options=wanted)
    assert inserted.options == wanted
    assert (inserted.enabled, inserted.slot_name) == (wanted.enabled, wanted.slot_name)


@pytest.mark.parametrize(("streaming", "code"), [("off", "f"), ("on", "t"), ("parallel", "p")])
def test_streaming_and_two_phase_are_stored_in_pg_subscriptions_letters(connection, streaming, code):
    insert(connection, options=replace(OPTIONS, streaming=streaming, two_phase=True))
    row = connection.execute(sa.select(catalog.SUBSCRIPTION)).one()
    assert (row.substream, row.subtwophasestate, row.subskiplsn) == (code, "p", "0/0")


def test_a_name_is_taken_once(connection):
    insert(connection)
    with pytest.raises(UsageError) as caught:
        insert(connection)
    assert (caught.value.message, caught.value.sqlstate) == ('subscription "s" already exists', "42710")


def test_names_are_compared_exactly(connection):
    insert(connection, "s")
    insert(connection, "S")
    assert [subscription.name for subscription in catalog.list_subscriptions(connection)] == ["S", "s"]


@pytest.mark.parametrize(
    "use",
    [
        lambda connection: catalog.get_subscription(connection, "t"),
        lambda connection: catalog.delete_subscription(connection, "t"),
        lambda connection: catalog.set_enabled(connection, "t", enabled=True),
    ],
)
def test_an_unknown_name_is_refused(connection, use):
    insert(connection)
    with pytest.raises(UsageError) as caught:
        use(connection)
    assert (caught.value.message, caught.value.sqlstate) == ('subscription "t" does not exist', "42704")


def test_a_name_can_be_looked_for(connection):
    assert catalog.find_subscription(connection, "s") is None
    assert catalog.list_subscriptions(connection) == []
    inserted = insert(connection)
    assert catalog.find_subscription(connection, "s") == inserted


def test_enabling_and_disabling_touches_one_subscription(connection):
    insert(connection, "a")
    insert(connection, "b")
    catalog.set_enabled(connection, "a", enabled=False)
    assert [subscription.enabled for subscription in catalog.list_subscriptions(connection)] == [False, True]
    catalog.set_enabled(connection, "a", enabled=True)
    assert catalog.get_subscription(connection, "a").options.enabled


@pytest.mark.parametrize(
    "changes",
    [
        {"binary": True, "streaming": "off", "disable_on_error": True, "synchronous_commit": "on"},
        {"password_required": False, "run_as_owner": True, "failover": True, "origin": "none", "create_tables": True},
        {"map": parse_names("a.* => b.*"), "schema_changes": "add_columns"},
        {"slot_name": None},
        {"two_phase": True},
        {},
    ],
)
def test_only_the_options_that_are_named_change(connection, changes):
    """C39."""
    subscription = insert(connection, "a")
    other = insert(connection, "b")
    catalog.set_options(connection, subscription.subid, changes)
    assert catalog.get_subscription(connection, "a").options == replace(subscription.options, **changes)
    assert catalog.get_subscription(connection, "b") == other


def test_two_phase_is_pending_until_somebody_says_that_it_is_enabled(connection):
    """C48."""
    subscription = insert(connection, options=replace(OPTIONS, two_phase=True))
    assert subscription.two_phase_state == "p"
    catalog.set_two_phase_state(connection, subscription.subid, "e")
    enabled = catalog.get_subscription(connection, "s")
    assert (enabled.two_phase_state, enabled.options.two_phase) == ("e", True)
    catalog.set_options(connection, subscription.subid, {"two_phase": False})
    assert catalog.get_subscription(connection, "s").two_phase_state == "d"
    assert catalog.insert_subscription(connection, "t", CONNINFO, ("p",), OPTIONS, None, "e").two_phase_state == "e"


def test_each_part_of_a_subscription_is_replaced_for_itself(connection):
    subscription = insert(connection, "a", system_identifier="7")
    other = insert(connection, "b")
    catalog.set_publications(connection, subscription.subid, ("q", 'ü",'))
    catalog.set_connection(connection, subscription.subid, "host=other")
    catalog.set_skip_lsn(connection, subscription.subid, LSN(0x16B3778))
    catalog.take_up_slot(connection, subscription.subid)
    assert catalog.get_subscription(connection, "a") == replace(
        subscription,
        publications=("q", 'ü",'),
        conninfo="host=other",
        skip_lsn=LSN(0x16B3778),
        slot_adopted=False,
    )
    assert catalog.get_subscription(connection, "b") == other


def test_a_subscription_is_renamed_with_its_statistics(connection):
    subscription = insert(connection, "a")
    insert(connection, "b")
    catalog.rename_subscription(connection, subscription.subid, "c")
    assert catalog.get_subscription(connection, "c") == replace(subscription, name="c")
    assert catalog.statistics_of(connection, subscription.subid)["subname"] == "c"
    with pytest.raises(UsageError, match=r'^subscription "b" already exists$') as caught:
        catalog.rename_subscription(connection, subscription.subid, "b")
    assert caught.value.sqlstate == "42710"


def test_nothing_of_a_dropped_subscription_stays(connection):
    """Its number is given again: progress that stayed would be taken for the next one's
    (progress_with_data).
    """
    for name in ("a", "b"):
        subscription = insert(connection, name)
        subscription.progress.create(connection, LSN(7))
        catalog.set_relation_state(connection, subscription.subid, "public", "t", RelationState.READY)
        message = LogicalMessage(True, LSN(5), "app", b"unheard")
        insert_message(connection, subscription.subid, message, final_lsn=LSN(6))
    catalog.delete_subscription(connection, "b")
    with pytest.raises(ProgressConflict):
        OriginProgress(2).read(connection)
    assert catalog.relations_of(connection, 2) == []
    assert catalog.find_subscription(connection, "b") is None
    assert connection.execute(sa.select(SUBSCRIPTION_STATS.c.subname)).scalars().all() == ["a"]
    assert connection.execute(sa.select(LOGICAL_MESSAGE.c.subid)).scalars().all() == [1]
    assert OriginProgress(1).read(connection) == 7
    assert len(catalog.relations_of(connection, 1)) == 1
    assert insert(connection, "c").subid == 2


def test_a_rolled_back_insert_leaves_nothing(engine):
    with engine.connect() as connection:
        insert(connection)
        connection.rollback()
        assert catalog.list_subscriptions(connection) == []


def test_table_states_are_kept_with_their_lsn(connection):
    """D1."""
    catalog.set_relation_state(connection, 1, "public", "b", RelationState.INIT)
    catalog.set_relation_state(connection, 1, "public", "a", RelationState.READY)
    catalog.set_relation_state(connection, 1, "public", "b", RelationState.SYNCDONE, LSN(0x16B3778))
    catalog.set_relation_state(connection, 2, "public", "b", RelationState.DATASYNC)
    assert catalog.relations_of(connection, 1) == [
        SubscriptionRelation("public", "a", RelationState.READY, None),
        SubscriptionRelation("public", "b", RelationState.SYNCDONE, LSN(0x16B3778)),
    ]


def test_the_states_are_those_of_the_catalog():
    """D1: w and c are in a worker's memory only."""
    assert [state.value for state in RelationState] == ["i", "d", "f", "s", "r"]


def test_an_error_is_counted_and_the_last_one_kept(connection):
    insert(connection, "a")
    insert(connection, "b")
    catalog.record_error(connection, "b", ConflictError("one").report())
    catalog.record_error(connection, "b", ConflictError("two").report())
    catalog.record_error(connection, "dropped", "three")
    rows = connection.execute(sa.select(SUBSCRIPTION_STATS).order_by(SUBSCRIPTION_STATS.c.subid)).all()
    assert [(row.subname, row.apply_error_count, row.last_error) for row in rows] == [
        ("a", 0, None),
        ("b", 2, "ERROR:  two"),
    ]
    assert rows[0].last_error_at is None
    assert rows[1].last_error_at.endswith("+00:00")


def test_a_subscription_does_not_show_its_connection_string(connection):
    """Invariant names_are_data."""
    assert "secret" not in repr(insert(connection))


def test_keys_fit_into_mariadbs():
    """InnoDB: 3072 bytes, at four a character."""
    for table in catalog.CATALOG.tables.values():
        keys = [column for column in table.columns if column.primary_key or column.unique]
        lengths = [column.type.length for column in keys if isinstance(column.type, sa.String)]
        assert sum((length or 9999) * 4 for length in lengths) <= 3072


def test_names_tell_case_and_blanks_at_the_end_in_mariadb_too():
    """Its default collations say that "S" is "s", and nearly all of them that "s " is."""
    assert "subname VARCHAR(63) COLLATE utf8mb4_nopad_bin NOT NULL" in _ddl("mysql://")
    assert "subname VARCHAR(63) COLLATE utf8mb4_nopad_bin NOT NULL" in _ddl("mariadb://")
    assert "COLLATE" not in _ddl("postgresql://")


def _ddl(url: str) -> str:
    dialect = sa.make_url(url).get_dialect()()
    return str(CreateTable(catalog.SUBSCRIPTION).compile(dialect=dialect))

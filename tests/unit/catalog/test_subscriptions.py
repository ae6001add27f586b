"""Subscriptions in the catalog, written in the caller's transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import sqlalchemy as sa

from subscriber import catalog
from subscriber.catalog import SUBSCRIPTION_STATS, OriginProgress, PreparedTransaction, RelationState
from subscriber.catalog.logical_messages import insert_message
from subscriber.catalog.own_tables import LOGICAL_MESSAGE
from subscriber.catalog.prepared_transactions import write_prepared
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.errors import ProgressConflict, UsageError
from subscriber.lsn import LSN
from subscriber.protocol.messages import LogicalMessage
from subscriber.schema.relation_names import parse_names

OPTIONS = SubscriptionOptions(slot_name="s", copy_data=False)
CONNINFO = "host=h password=secret"


def insert(
    connection: sa.Connection,
    name: str = "s",
    publications: tuple[str, ...] = ("p",),
    options: SubscriptionOptions = OPTIONS,
    system_identifier: str | None = None,
) -> catalog.Subscription:
    return catalog.insert_subscription(connection, name, CONNINFO, publications, options, system_identifier)


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
    """Invariant refuse_not_guess. connect, create_slot and copy_data are not stored."""
    wanted = replace(OPTIONS, create_slot=False, **change)
    inserted = insert(connection, options=wanted)
    assert inserted.options == wanted
    assert (inserted.enabled, inserted.slot_name) == (wanted.enabled, wanted.slot_name)


@pytest.mark.parametrize(("streaming", "code"), [("off", "f"), ("on", "t"), ("parallel", "p")])
def test_streaming_and_two_phase_are_stored_as_in_pg_subscription(connection, streaming, code):
    insert(connection, options=replace(OPTIONS, streaming=streaming, two_phase=True))
    row = connection.execute(sa.select(catalog.SUBSCRIPTION)).one()
    assert (row.substream, row.subtwophasestate, row.subskiplsn) == (code, "p", "0/0")


def test_a_name_is_unique(connection):
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


def test_a_subscription_is_found_by_its_name(connection):
    assert catalog.find_subscription(connection, "s") is None
    assert catalog.list_subscriptions(connection) == []
    inserted = insert(connection)
    assert catalog.find_subscription(connection, "s") == inserted


def test_one_subscription_is_enabled_or_disabled(connection):
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


def test_two_phase_is_pending_until_it_is_enabled(connection):
    """C48."""
    subscription = insert(connection, options=replace(OPTIONS, two_phase=True))
    assert subscription.two_phase_state == "p"
    catalog.set_two_phase_state(connection, subscription.subid, "e")
    enabled = catalog.get_subscription(connection, "s")
    assert (enabled.two_phase_state, enabled.options.two_phase) == ("e", True)
    catalog.set_options(connection, subscription.subid, {"two_phase": False})
    assert catalog.get_subscription(connection, "s").two_phase_state == "d"
    assert catalog.insert_subscription(connection, "t", CONNINFO, ("p",), OPTIONS, None, "e").two_phase_state == "e"


def test_each_property_of_a_subscription_is_replaced_alone(connection):
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


def test_no_row_of_a_dropped_subscription_remains(connection):
    """Its number is used again: a remaining progress would become that of another subscription
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


def test_an_insert_is_part_of_the_callers_transaction(target):
    with target.engine.connect() as connection:
        insert(connection)
        connection.rollback()
        assert catalog.list_subscriptions(connection) == []


def test_a_subscription_does_not_show_its_connection_string(connection):
    """Invariant names_are_data."""
    assert "secret" not in repr(insert(connection))


def test_a_number_is_not_used_again_while_a_prepared_transaction_has_it(connection):
    """The GID contains the number (rule C49)."""
    transaction = PreparedTransaction(subid=7, xid=731, gid="pg_gid_7_731", prepare_end_lsn=LSN(1), prepare_timestamp=0)
    write_prepared(connection, transaction)
    assert insert(connection).subid == 8


def test_the_carrier_is_streamed_instead_of_emulated_publications(connection):
    assert insert(connection, "a", ("p", "q")).streamed_publications == ("p", "q")
    emulating = insert(connection, "b", ("p", "q"), replace(OPTIONS, carrier="everything"))
    assert emulating.streamed_publications == ("everything",)


def test_a_slot_is_taken_up_and_adopted(connection):
    subscription = catalog.insert_subscription(connection, "s", CONNINFO, ("p",), OPTIONS, slot_adopted=False)
    assert (subscription.slot_adopted, subscription.system_identifier) == (False, None)
    catalog.adopt_slot(connection, subscription.subid, "7")
    adopted = catalog.get_subscription(connection, "s")
    assert (adopted.slot_adopted, adopted.system_identifier) == (True, "7")
    catalog.take_up_slot(connection, subscription.subid)
    assert not catalog.get_subscription(connection, "s").slot_adopted


def test_the_publishers_tables_are_stored_with_the_subscription(connection):
    subscription = insert(connection)
    assert catalog.publisher_tables(connection, subscription.subid) is None
    catalog.set_publisher_tables(connection, subscription.subid, "{}")
    assert catalog.publisher_tables(connection, subscription.subid) == "{}"
    assert catalog.publisher_tables(connection, 99) is None


OTHER_MAP = parse_names("a.* => b.*")
REPLICATED: dict[str, Callable[[sa.Connection], None]] = {
    "its publications": lambda inside: catalog.set_publications(inside, 1, ["q"]),
    "its slot": lambda inside: catalog.set_options(inside, 1, {"slot_name": "other"}),
    "its slot, which was recreated": lambda inside: catalog.take_up_slot(inside, 1),
    "its origin": lambda inside: catalog.set_options(inside, 1, {"origin": "none"}),
    "its map": lambda inside: catalog.set_options(inside, 1, {"map": OTHER_MAP}),
    "the subscription itself": lambda inside: catalog.delete_subscription(inside, "s"),
}


@pytest.mark.parametrize("options", [OPTIONS, replace(OPTIONS, map=OTHER_MAP)], ids=["without a map", "with a map"])
def test_what_a_subscription_replicates_is_unchanged_after_other_options_change(connection, options):
    subscription = insert(connection, options=options)
    catalog.set_options(connection, 1, {"binary": True, "streaming": "off"})
    catalog.set_enabled(connection, "s", enabled=False)
    catalog.check_replicated(connection, subscription)
    assert not catalog.get_subscription(connection, "s").enabled


@pytest.mark.parametrize("change", REPLICATED.values(), ids=REPLICATED.keys())
def test_a_change_of_what_a_subscription_replicates_is_noticed(connection, change):
    subscription = insert(connection)
    change(connection)
    with pytest.raises(ProgressConflict, match=r'^the definition of subscription "s" has changed$'):
        catalog.check_replicated(connection, subscription)

"""Subscriptions in the catalog, written in the caller's transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import sqlalchemy as sa

from subscriber.base.errors import ProgressConflict, UsageError
from subscriber.base.lsn import LSN
from subscriber.catalog.logical_messages import insert_message
from subscriber.catalog.own_tables import (
    CATALOG,
    LOGICAL_MESSAGE,
    PREPARED_TRANSACTION,
    SUBSCRIPTION,
    SUBSCRIPTION_STATS,
)
from subscriber.catalog.prepared_transactions import PreparedTransaction, write_prepared
from subscriber.catalog.progress import OriginProgress
from subscriber.catalog.rows import JsonText, Lsn
from subscriber.catalog.statistics import statistics_of
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.catalog.subscriptions import (
    CachedSubscription,
    Subscription,
    adopt_slot,
    check_replicated,
    delete_subscription,
    find_subscription,
    get_subscription,
    insert_subscription,
    list_subscriptions,
    publisher_tables,
    rename_subscription,
    set_connection,
    set_enabled,
    set_options,
    set_publications,
    set_publisher_tables,
    set_skip_lsn,
    set_two_phase_state,
    take_up_slot,
)
from subscriber.catalog.table_states import RelationState, relations_of, set_relation_states
from subscriber.postgres.protocol.messages import LogicalMessage
from subscriber.postgres.schema.relation_names import parse_names
from tests.subscriptions import as_stored

OPTIONS = SubscriptionOptions(slot_name="s", copy_data=False)
CONNINFO = "host=h password=secret"


def insert(
    connection: sa.Connection,
    name: str = "s",
    publications: tuple[str, ...] = ("p",),
    options: SubscriptionOptions = OPTIONS,
    system_identifier: str | None = None,
) -> Subscription:
    return insert_subscription(connection, name, CONNINFO, publications, options, system_identifier)


def test_what_was_inserted_is_read_back(connection):
    inserted = insert(connection, "My s", ("p", 'ü",'), system_identifier="7421398461293847112")
    assert get_subscription(connection, "My s") == inserted
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
        {"conflict_log_destination": "table"},
        {"parallel_apply": 4},
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
    row = connection.execute(as_stored(*SUBSCRIPTION.c)).one()
    assert (row.substream, row.subtwophasestate, row.subskiplsn) == (code, "p", "0/0")


def test_a_name_is_unique(connection):
    insert(connection)
    with pytest.raises(UsageError) as caught:
        insert(connection)
    assert (caught.value.message, caught.value.sqlstate) == ('subscription "s" already exists', "42710")


def test_names_are_compared_exactly(connection):
    insert(connection, "s")
    insert(connection, "S")
    assert [subscription.name for subscription in list_subscriptions(connection)] == ["S", "s"]


@pytest.mark.parametrize(
    "use",
    [
        lambda connection: get_subscription(connection, "t"),
        lambda connection: delete_subscription(connection, "t"),
        lambda connection: set_enabled(connection, "t", enabled=True),
    ],
)
def test_an_unknown_name_is_refused(connection, use):
    insert(connection)
    with pytest.raises(UsageError) as caught:
        use(connection)
    assert (caught.value.message, caught.value.sqlstate) == ('subscription "t" does not exist', "42704")


def test_a_subscription_is_found_by_its_name(connection):
    assert find_subscription(connection, "s") is None
    assert list_subscriptions(connection) == []
    inserted = insert(connection)
    assert find_subscription(connection, "s") == inserted


def test_a_subscription_is_read_again_only_if_it_has_changed(connection):
    subid = insert_subscription(connection, "s", "host=p", ["p"], SubscriptionOptions()).subid
    cached = CachedSubscription("s")
    first = cached.read(connection)
    assert cached.read(connection) is first
    assert [cached.any_retains] == [False]
    set_skip_lsn(connection, subid, LSN(200))
    assert cached.read(connection) == find_subscription(connection, "s") != first
    insert_subscription(connection, "t", "host=p", ["p"], SubscriptionOptions(retain_dead_tuples=True))
    assert cached.read(connection) is not first
    assert [cached.any_retains] == [True]
    rename_subscription(connection, subid, "u")
    assert cached.read(connection) is None


def test_one_subscription_is_enabled_or_disabled(connection):
    insert(connection, "a")
    insert(connection, "b")
    set_enabled(connection, "a", enabled=False)
    assert [subscription.enabled for subscription in list_subscriptions(connection)] == [False, True]
    set_enabled(connection, "a", enabled=True)
    assert get_subscription(connection, "a").options.enabled


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
    set_options(connection, subscription.subid, changes)
    assert get_subscription(connection, "a").options == replace(subscription.options, **changes)
    assert get_subscription(connection, "b") == other


def test_two_phase_is_pending_until_it_is_enabled(connection):
    """C48."""
    subscription = insert(connection, options=replace(OPTIONS, two_phase=True))
    assert subscription.two_phase_state == "p"
    set_two_phase_state(connection, subscription.subid, "e")
    enabled = get_subscription(connection, "s")
    assert (enabled.two_phase_state, enabled.options.two_phase) == ("e", True)
    set_options(connection, subscription.subid, {"two_phase": False})
    assert get_subscription(connection, "s").two_phase_state == "d"
    assert insert_subscription(connection, "t", CONNINFO, ("p",), OPTIONS, None, "e").two_phase_state == "e"


def test_each_property_of_a_subscription_is_replaced_alone(connection):
    subscription = insert(connection, "a", system_identifier="7")
    other = insert(connection, "b")
    set_publications(connection, subscription.subid, ("q", 'ü",'))
    set_connection(connection, subscription.subid, "host=other")
    set_skip_lsn(connection, subscription.subid, LSN(0x16B3778))
    take_up_slot(connection, subscription.subid)
    assert get_subscription(connection, "a") == replace(
        subscription,
        publications=("q", 'ü",'),
        connection="host=other",
        skip_lsn=LSN(0x16B3778),
        slot_adopted=False,
    )
    assert get_subscription(connection, "b") == other


def test_a_subscription_is_renamed_with_its_statistics(connection):
    subscription = insert(connection, "a")
    insert(connection, "b")
    rename_subscription(connection, subscription.subid, "c")
    assert get_subscription(connection, "c") == replace(subscription, name="c")
    assert statistics_of(connection, subscription.subid)["subname"] == "c"
    with pytest.raises(UsageError, match=r'^subscription "b" already exists$') as caught:
        rename_subscription(connection, subscription.subid, "b")
    assert caught.value.sqlstate == "42710"


def test_no_row_of_a_dropped_subscription_remains(connection):
    """Its number is used again: a remaining progress would become that of another subscription
    (progress_with_data).
    """
    for name in ("a", "b"):
        subscription = insert(connection, name)
        subscription.progress.create(connection, LSN(7))
        set_relation_states(connection, subscription.subid, [("public", "t")], RelationState.READY)
        message = LogicalMessage(True, LSN(5), "app", b"unheard")
        insert_message(connection, subscription.subid, message, final_lsn=LSN(6))
    delete_subscription(connection, "b")
    with pytest.raises(ProgressConflict):
        OriginProgress(2).read(connection)
    assert relations_of(connection, 2) == []
    assert find_subscription(connection, "b") is None
    assert connection.execute(sa.select(SUBSCRIPTION_STATS.c.subname)).scalars().all() == ["a"]
    assert connection.execute(sa.select(LOGICAL_MESSAGE.c.subid)).scalars().all() == [1]
    assert OriginProgress(1).read(connection) == 7
    assert len(relations_of(connection, 1)) == 1
    assert insert(connection, "c").subid == 2


FILLED: dict[type, object] = {
    Lsn: LSN(1),
    JsonText: ["a"],
    sa.String: "x",
    sa.Integer: 7,
    sa.Boolean: False,
    sa.LargeBinary: b"x",
}


@pytest.mark.parametrize("table", [one for one in CATALOG.sorted_tables if {"subid", "srsubid"} & set(one.c.keys())])
def test_every_table_forgets_a_dropped_subscription_except_what_is_prepared(connection, table):
    """A new table with a number of subscriptions is covered, too. A transaction that is prepared in
    the target still has the number.
    """
    key = table.c["srsubid" if "srsubid" in table.c else "subid"]
    subscriptions = [insert(connection, name) for name in ("a", "b")]
    if table not in (SUBSCRIPTION, SUBSCRIPTION_STATS):
        for subscription in subscriptions:
            values = {
                column.name: next(value for kind, value in FILLED.items() if isinstance(column.type, kind))
                for column in table.c
                if not column.nullable
            }
            unique = {column.name: subscription.subid for column in table.primary_key if column.name.endswith("id")}
            connection.execute(sa.insert(table).values(values | unique | {key.name: subscription.subid}))
    delete_subscription(connection, "b")
    left = connection.execute(sa.select(key).order_by(key)).scalars().all()
    assert left == ([1, 2] if table is PREPARED_TRANSACTION else [1])


def test_an_insert_is_part_of_the_callers_transaction(target):
    with target.engine.connect() as connection:
        insert(connection)
        connection.rollback()
        assert list_subscriptions(connection) == []


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
    subscription = insert_subscription(connection, "s", CONNINFO, ("p",), OPTIONS, slot_adopted=False)
    assert (subscription.slot_adopted, subscription.system_identifier) == (False, None)
    adopt_slot(connection, subscription.subid, "7")
    adopted = get_subscription(connection, "s")
    assert (adopted.slot_adopted, adopted.system_identifier) == (True, "7")
    take_up_slot(connection, subscription.subid)
    assert not get_subscription(connection, "s").slot_adopted


def test_the_publishers_tables_are_stored_with_the_subscription(connection):
    subscription = insert(connection)
    assert publisher_tables(connection, subscription.subid) is None
    set_publisher_tables(connection, subscription.subid, {})
    assert publisher_tables(connection, subscription.subid) == {}
    assert publisher_tables(connection, 99) is None


OTHER_MAP = parse_names("a.* => b.*")
REPLICATED: dict[str, Callable[[sa.Connection], None]] = {
    "its publications": lambda inside: set_publications(inside, 1, ["q"]),
    "its slot": lambda inside: set_options(inside, 1, {"slot_name": "other"}),
    "its slot, which was recreated": lambda inside: take_up_slot(inside, 1),
    "its origin": lambda inside: set_options(inside, 1, {"origin": "none"}),
    "its map": lambda inside: set_options(inside, 1, {"map": OTHER_MAP}),
    "the subscription itself": lambda inside: delete_subscription(inside, "s"),
}


@pytest.mark.parametrize("options", [OPTIONS, replace(OPTIONS, map=OTHER_MAP)], ids=["without a map", "with a map"])
def test_what_a_subscription_replicates_is_unchanged_after_other_options_change(connection, options):
    subscription = insert(connection, options=options)
    set_options(connection, 1, {"binary": True, "streaming": "off"})
    set_enabled(connection, "s", enabled=False)
    check_replicated(connection, subscription)
    assert not get_subscription(connection, "s").enabled


@pytest.mark.parametrize("change", REPLICATED.values(), ids=REPLICATED.keys())
def test_a_change_of_what_a_subscription_replicates_is_noticed(connection, change):
    subscription = insert(connection)
    change(connection)
    with pytest.raises(ProgressConflict, match=r'^the definition of subscription "s" has changed$'):
        check_replicated(connection, subscription)

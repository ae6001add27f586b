"""What a publisher is asked for before streaming, and the errors with PostgreSQL's texts."""

from __future__ import annotations

import psycopg
import pytest

from subscriber.base.errors import PublisherError, PublisherNotReady, PublisherUnavailable, SlotInUse, SlotLost
from subscriber.base.lsn import LSN
from subscriber.publisher.client import PublisherClient, Slot
from subscriber.publisher.connection import connect_publisher
from tests.scripted_server import VERSIONS, Row, ScriptedServer

SLOTS = "FROM pg_replication_slots"


def slot(
    *,
    plugin: str | None = "pgoutput",
    database: str | None = "shop",
    pid: int | None = None,
    confirmed: str | None = "16/B374D848",
    two_phase: bool = False,
    lost: str | None = None,
    restart: str | None = "16/B374D810",
    wal_status: str | None = "reserved",
    safe_wal_size: int | None = None,
) -> Row:
    """A row of pg_replication_slots."""
    return {
        "slot_name": "s", "plugin": plugin, "database": database, "active_pid": pid, "confirmed_flush_lsn": confirmed,
        "two_phase": two_phase, "lost": lost, "restart_lsn": restart, "wal_status": wal_status,
        "safe_wal_size": safe_wal_size, "failover": None, "synced": None, "inactive_since": None, "spill_bytes": None,
    }  # fmt: skip


def publisher_with(*slots: Row, version: int = 180000) -> PublisherClient:
    return PublisherClient(ScriptedServer({SLOTS: slots}, version=version).connection)


# Connections --------------------------------------------------------------------------------------


def test_a_timeout_that_is_no_number_is_an_error_of_the_connection():
    with (
        pytest.raises(PublisherError, match="bad value for connect_timeout"),
        connect_publisher("host=127.0.0.1 port=1 connect_timeout=soon", "sub"),
    ):
        pass


def test_a_server_that_does_not_answer_is_unavailable():
    with (
        pytest.raises(PublisherUnavailable, match=r"^could not connect to the publisher: ") as caught,
        connect_publisher("host=127.0.0.1 port=1 dbname=d", "sub"),
    ):
        pass
    assert caught.value.sqlstate == "08006"


# The server ---------------------------------------------------------------------------------------


def settings(**values: str) -> dict[str, list[Row]]:
    return {f"current_setting('{name}')": [{name: value}] for name, value in values.items()}


def test_a_publisher_is_told_by_its_version_and_database():
    publisher = publisher_with(version=150004)
    assert (publisher.version, publisher.database) == (150004, "shop")
    assert (publisher.features.row_filters, publisher.features.origin_option) == (True, False)


def decoding(level: str, *, version: int = 180000, libraries: str | None = None) -> PublisherClient:
    row = {"wal_level": level, "effective_wal_level": None, "standby": False, "libraries": libraries}
    return PublisherClient(ScriptedServer({"current_setting('wal_level')": [row]}, version=version).connection)


def test_a_server_with_logical_decoding_is_ready():
    decoding("logical", version=100000).check_server()
    decoding("replica", version=190000).check_server()


@pytest.mark.parametrize("level", ["minimal", "replica"])
def test_another_wal_level_is_refused_in_postgresqls_words(level):
    """CheckLogicalDecodingRequirements."""
    with pytest.raises(PublisherNotReady) as caught:
        decoding(level).check_server()
    assert (caught.value.message, caught.value.sqlstate) == (
        'logical decoding requires "wal_level" >= "logical"',
        "55000",
    )
    assert caught.value.detail == f'The publisher runs with wal_level = "{level}".'
    assert caught.value.hint == "Run at the publisher: ALTER SYSTEM SET wal_level = 'logical'; and restart it."


def test_a_server_that_does_not_trust_pgoutput_is_refused_in_postgresqls_words():
    with pytest.raises(PublisherNotReady) as caught:
        decoding("logical", libraries="wal2json").check_server()
    assert (caught.value.message, caught.value.sqlstate) == (
        'library "pgoutput" may not be used as an output plugin',
        "42501",
    )
    assert caught.value.detail == 'The publisher runs with output_plugin_libraries = "wal2json".'


def test_a_server_without_logical_replication_is_refused_with_its_version():
    with pytest.raises(PublisherNotReady) as caught:
        PublisherClient(ScriptedServer(settings(server_version="9.6.24"), version=90624).connection).check_server()
    assert caught.value.message == "the publisher is PostgreSQL 9.6.24, which has no logical replication"
    assert caught.value.sqlstate == "0A000"


def test_the_system_identifier_is_a_text_of_digits():
    server = ScriptedServer({"pg_control_system()": [{"system_identifier": 7300000000000000001}]})
    assert PublisherClient(server.connection).system_identifier() == "7300000000000000001"


@pytest.mark.parametrize("standby", [True, False])
def test_a_barrier_is_written_by_a_primary_and_read_from_a_standby(standby):
    server = ScriptedServer(
        {
            "SELECT pg_is_in_recovery()": [{"pg_is_in_recovery": standby}],
            "pg_last_wal_replay_lsn()": [{"lsn": "0/500"}],
            "pg_logical_emit_message(true": [{"lsn": "0/600"}],
        }
    )
    publisher = PublisherClient(server.connection)
    assert publisher.is_standby() is standby
    assert publisher.write_barrier() == (0x500 if standby else 0x600)
    assert bool(server.statements("pg_logical_emit_message")) is not standby


def test_the_end_of_the_durable_wal_is_an_lsn():
    server = ScriptedServer({"pg_current_wal_flush_lsn()": [{"lsn": "16/B374D848"}]})
    assert PublisherClient(server.connection).flushed_lsn() == LSN(0x16_B374D848)


def test_a_backend_is_ended_by_its_process_and_a_missing_privilege_is_told():
    server = ScriptedServer({"pg_terminate_backend": [{"pg_terminate_backend": False}]})
    PublisherClient(server.connection).end_backend(4711)
    assert server.asked[0].parameters == (4711,)
    refused = psycopg.errors.InsufficientPrivilege("permission denied to terminate process")
    with pytest.raises(PublisherNotReady) as caught:
        PublisherClient(ScriptedServer({"pg_terminate_backend": refused}).connection).end_backend(4711)
    assert caught.value.sqlstate == "42501"


# Slots --------------------------------------------------------------------------------------------


def test_a_slot_is_read_with_its_positions():
    given = slot(pid=7, two_phase=True, wal_status="extended", safe_wal_size=1024)
    assert publisher_with(given).slot("s") == Slot(
        "s", "pgoutput", "shop", 7, LSN(0x16_B374D848), True, None, LSN(0x16_B374D810), "extended", 1024
    )


def test_a_slot_that_keeps_no_wal_has_no_positions():
    found = publisher_with(slot(confirmed=None, restart=None)).slot("s")
    assert found is not None
    assert (found.confirmed_flush_lsn, found.restart_lsn) == (0, None)


def test_there_may_be_no_slot():
    assert publisher_with().slot("s") is None


@pytest.mark.parametrize("version", VERSIONS)
def test_only_what_the_servers_version_has_is_asked_for(version):
    server = ScriptedServer({SLOTS: [slot()]}, version=version)
    assert PublisherClient(server.connection).slot("s") is not None
    assert server.asked[0].parameters == (["s"],)
    assert bool(server.statements("safe_wal_size")) is (version >= 130000)
    assert bool(server.statements("pg_stat_replication_slots")) is (version >= 140000)
    assert bool(server.statements("inactive_since")) is (version >= 170000)
    assert bool(server.statements("two_phase")) is (version >= 140000)
    assert bool(server.statements("invalidation_reason")) is (version >= 170000)


def test_a_slot_that_is_ready_is_returned():
    assert publisher_with(slot()).check_slot("s").name == "s"


@pytest.mark.parametrize(
    ("slots", "kind", "sqlstate", "message"),
    [
        ([], SlotLost, "42704", 'replication slot "s" does not exist'),
        (
            [slot(plugin="test_decoding")],
            PublisherNotReady,
            "55000",
            'replication slot "s" has output plugin "test_decoding", but "pgoutput" is needed',
        ),
        (
            [slot(plugin=None, database=None)],
            PublisherNotReady,
            "55000",
            'replication slot "s" has no output plugin (it is a physical slot), but "pgoutput" is needed',
        ),
        (
            [slot(database="other")],
            PublisherNotReady,
            "55000",
            'replication slot "s" was not created in this database',
        ),
        (
            [slot(lost="wal_removed")],
            SlotLost,
            "55000",
            'can no longer access replication slot "s"',
        ),
        ([slot(pid=4711)], SlotInUse, "55006", 'replication slot "s" is active for PID 4711'),
    ],
    ids=["missing", "plugin", "physical", "database", "invalidated", "in use"],
)
def test_a_slot_that_is_not_ready_is_refused_with_a_next_step(slots, kind, sqlstate, message):
    """The texts of CreateDecodingContext and ReplicationSlotAcquire where PostgreSQL has them."""
    with pytest.raises(PublisherError) as caught:
        publisher_with(*slots).check_slot("s")
    assert (type(caught.value), caught.value.sqlstate, caught.value.message) == (kind, sqlstate, message)
    assert caught.value.hint


def test_the_reason_of_an_invalidated_slot_is_told():
    with pytest.raises(SlotLost) as caught:
        publisher_with(slot(lost="idle_timeout")).check_slot("s")
    assert caught.value.detail == 'This replication slot has been invalidated due to "idle_timeout".'


def test_dropping_a_slot_tells_whether_there_was_one():
    server = ScriptedServer({"pg_drop_replication_slot": [], SLOTS: [slot()]})
    assert PublisherClient(server.connection).drop_slot("s") is True
    assert server.asked[-1].parameters == ("s",)
    server = ScriptedServer({SLOTS: []})
    assert PublisherClient(server.connection).drop_slot("s") is False
    assert len(server.asked) == 1


def test_a_slot_in_use_is_not_dropped():
    active = psycopg.errors.ObjectInUse('replication slot "s" is active for PID 7')
    with pytest.raises(SlotInUse) as caught:
        PublisherClient(ScriptedServer({"pg_drop_replication_slot": active, SLOTS: [slot()]}).connection).drop_slot("s")
    assert caught.value.transient


# Publications -------------------------------------------------------------------------------------


def with_publications(*names: str, version: int = 180000) -> PublisherClient:
    rows = [{"pubname": name} for name in names]
    return PublisherClient(ScriptedServer({"FROM pg_publication": rows}, version=version).connection)


def test_missing_publications_are_told_in_the_order_given():
    assert with_publications("p").missing_publications(["z", "p", "a"]) == ["z", "a"]


@pytest.mark.parametrize(
    ("version", "existing", "refused"),
    [
        (180000, ("p", "q"), None),
        (180000, ("p",), None),
        (180000, (), "p"),
        (170000, ("p", "q"), None),
        (170000, ("p",), "q"),
    ],
)
def test_a_missing_publication_is_tolerated_by_a_walsender_of_18(version, existing, refused):
    """A32."""
    publisher = with_publications(*existing, version=version)
    if refused is None:
        assert publisher.check_publications(["p", "q"]) == [name for name in ("p", "q") if name not in existing]
        return
    with pytest.raises(PublisherNotReady) as caught:
        publisher.check_publications(["p", "q"])
    assert (caught.value.message, caught.value.sqlstate) == (f'publication "{refused}" does not exist', "42704")


@pytest.mark.parametrize(
    ("names", "expected"),
    [("", False), ("standby1", False), ('FIRST 1 (standby1, "Sub")', True), ("ANY 1 (*)", True), ("subs", True)],
)
def test_a_commit_may_wait_for_a_standby_of_the_subscription_s_name(names, expected):
    """Names are compared without case; a name that only contains ours counts, to be safe."""
    answers = {"synchronous_standby_names": names, "application_name": "sub"}
    assert PublisherClient(ScriptedServer(settings(**answers)).connection).may_wait_for_us() == expected


@pytest.mark.parametrize(
    ("names", "commit", "stored", "expected"),
    [("sub", "remote_apply", False, True), ("sub", "on", True, True), ("sub", "on", False, False), ("", "remote_apply", True, False)],
)  # fmt: skip
def test_a_commit_may_wait_until_it_is_applied(names, commit, stored, expected):
    """The setting may be that of the server, of the database, or of a role."""
    answers = {"synchronous_standby_names": names, "application_name": "sub", "synchronous_commit": commit}
    server = ScriptedServer({**settings(**answers), "pg_db_role_setting": [{"exists": stored}]})
    assert PublisherClient(server.connection).may_wait_for_apply() == expected

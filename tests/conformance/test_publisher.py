"""Whether a publisher is ready: checked with real servers and everything that may be wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from subscriber.base.errors import (
    NotSupportedError,
    PublisherError,
    PublisherNotReady,
    PublisherUnavailable,
    SlotInUse,
    SlotLost,
)
from subscriber.base.lsn import INVALID_LSN
from subscriber.migrate import check_publisher
from subscriber.postgres.protocol.envelope import XLogData, decode_envelope
from subscriber.postgres.publication.publishing import Publishing
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.postgres.schema.publisher_tables import PublisherTable
from subscriber.publisher.catalog_tables import read_publisher_tables
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.connection import Connection, ReplicationConnection, connect_publisher
from subscriber.publisher.fence.reverse_replication import target_obstacles
from subscriber.publisher.server_facts import read_server_facts
from subscriber.publisher.server_publications import ServerPublications, read_publications
from subscriber.publisher.shapes import read_published_shapes
from subscriber.publisher.slots import StreamOptions, create_slot, start_command
from subscriber.testing.servers.postgresql_server import PostgreSQLServer
from subscriber.testing.servers.processes import find_postgresql
from tests.conftest import Database, server_or_skip
from tests.crash.harness import wait_until


@contextmanager
def asking(conninfo: str) -> Iterator[PublisherClient]:
    with connect_publisher(conninfo, "sub") as connection:
        yield PublisherClient(connection)


@contextmanager
def streaming(
    database: Database, slot: str = "s", options: StreamOptions | None = None
) -> Iterator[ReplicationConnection]:
    with ReplicationConnection(database.conninfo, "sub") as connection:
        command = start_command(connection.server_version, slot, INVALID_LSN, options or StreamOptions(("p",)))
        connection.start(command)
        yield connection


def slot_name(database: Database, suffix: str = "s") -> str:
    """A name for a slot: slots belong to the cluster, databases to the test."""
    return f"{database.name}_{suffix}"


def made_slot(database: Database, plugin: str = "pgoutput") -> str:
    name = slot_name(database)
    database.execute(f"SELECT pg_create_logical_replication_slot('{name}', '{plugin}')")
    return name


def is_free(publisher: PublisherClient, name: str) -> bool:
    slot = publisher.slot(name)
    return slot is not None and slot.active_pid is None


def refusal(conninfo: str, slot: str) -> PublisherError:
    with pytest.raises(PublisherError) as caught, asking(conninfo) as publisher:
        publisher.check_slot(slot)
    error = caught.value
    assert error.hint
    assert "\n" not in error.message
    return error


# Server -------------------------------------------------------------------------------------------


def test_a_server_with_logical_decoding_is_accepted(database):
    with asking(database.conninfo) as publisher:
        publisher.check_server()
        assert publisher.version // 10000 == database.server.major
        ((identifier,),) = database.execute("SELECT system_identifier::text FROM pg_control_system()")
        assert publisher.system_identifier() == identifier


def test_the_flushed_position_and_a_barrier_move_on(database):
    with asking(database.conninfo) as publisher:
        before = publisher.flushed_lsn()
        barrier = publisher.write_barrier()
        assert INVALID_LSN < before < barrier


# Slot ---------------------------------------------------------------------------------------------


def test_a_stream_writes_names_with_their_schema_whatever_the_search_path_is(database):
    """As PostgreSQL's walreceiver, whose search_path is empty."""
    database.execute(f"CREATE TABLE named (a int); ALTER DATABASE {database.name} SET search_path = public")
    with ReplicationConnection(database.conninfo, "sub") as stream:
        assert stream.execute("SELECT 'public.named'::regclass AS name") == [{"name": "public.named"}]


def test_an_open_transaction_is_older_than_a_number_that_is_assigned_later(database):
    """Also the newest one, which a snapshot does not mention until a later one has ended."""
    with asking(database.conninfo) as publisher, psycopg.connect(database.conninfo) as other:
        ((number,),) = other.execute("SELECT txid_current()").fetchall()
        following = publisher.assign_transaction_id()
        assert publisher.oldest_transaction() <= number < following
        other.rollback()


def test_a_slot_that_is_ready_says_where_it_stands(database):
    name = made_slot(database)
    with asking(database.conninfo) as publisher:
        slot = publisher.check_slot(name)
        assert (slot.wal_status, slot.safe_wal_size) == ("reserved", None)
        assert slot.restart_lsn is not None
        assert 0 < slot.restart_lsn <= slot.confirmed_flush_lsn
        assert (slot.name, slot.plugin, slot.database) == (name, "pgoutput", database.name)
        assert (slot.active_pid, slot.two_phase, slot.lost) == (None, False, None)
        assert slot.confirmed_flush_lsn > INVALID_LSN


def test_a_missing_slot_is_refused(database):
    error = refusal(database.conninfo, "gone")
    assert isinstance(error, SlotLost)
    assert (error.message, error.sqlstate) == ('replication slot "gone" does not exist', "42704")
    assert "RECREATE SLOT" in str(error.hint)


def test_a_slot_of_another_plugin_is_refused(database):
    try:
        name = made_slot(database, "test_decoding")
    except psycopg.Error:
        pytest.skip("this server has no test_decoding")
    error = refusal(database.conninfo, name)
    assert error.message == f'replication slot "{name}" has output plugin "test_decoding", but "pgoutput" is needed'


def test_a_physical_slot_is_refused(database):
    name = slot_name(database, "physical")
    database.execute(f"SELECT pg_create_physical_replication_slot('{name}')")
    try:
        error = refusal(database.conninfo, name)
        assert "no output plugin (it is a physical slot)" in error.message
    finally:
        database.execute(f"SELECT pg_drop_replication_slot('{name}')")


def test_a_slot_of_another_database_is_refused_by_both_names(database):
    name = made_slot(database)
    error = refusal(database.server.conninfo("postgres"), name)
    assert error.message == f'replication slot "{name}" was not created in this database'
    assert f'"{database.name}"' in str(error.detail)
    assert '"postgres"' in str(error.detail)


def test_a_slot_that_somebody_streams_from_is_transient_and_names_the_process(database):
    name = made_slot(database)
    database.execute("CREATE PUBLICATION p")
    with streaming(database, name):
        ((pid,),) = database.execute(f"SELECT active_pid FROM pg_replication_slots WHERE slot_name = '{name}'")
        error = refusal(database.conninfo, name)
        assert isinstance(error, SlotInUse)
        assert error.message == f'replication slot "{name}" is active for PID {pid}'
        assert error.transient


def test_starting_from_a_slot_in_use_has_the_server_s_text(database):
    name = made_slot(database)
    database.execute("CREATE PUBLICATION p")
    with streaming(database, name), pytest.raises(SlotInUse, match="is active for PID"), streaming(database, name):
        pass


def test_dropping_a_slot_twice_is_no_error(database):
    name = made_slot(database)
    with asking(database.conninfo) as publisher:
        assert publisher.drop_slot(name)
        assert not publisher.drop_slot(name)


def test_a_slot_in_use_is_not_dropped_and_the_same_connection_may_try_again(database):
    """C53: DROP SUBSCRIPTION waits until the worker has released the slot"""
    name = made_slot(database)
    database.execute("CREATE PUBLICATION p")
    with asking(database.conninfo) as publisher:
        with streaming(database, name), pytest.raises(SlotInUse, match=f'"{name}" is active for PID'):
            publisher.drop_slot(name)
        wait_until(lambda: is_free(publisher, name), "the walsender to end")
        assert publisher.drop_slot(name)


def published_tables(publisher: PublisherClient, names: list[str]) -> list[PublishedTable]:
    return ServerPublications(publisher.connection, names).published_tables()


def emulation(publisher: PublisherClient, names: list[str]) -> Publishing:
    tables = read_publisher_tables(publisher.connection)
    return Publishing(tuple(read_publications(publisher.connection, names)), tables.without_system())


# Publications -------------------------------------------------------------------------------------


def test_publications_and_their_tables(database):
    database.execute('CREATE TABLE t (a int, b int, c int); CREATE SCHEMA "S x"; CREATE TABLE "S x"."T" (a int)')
    database.execute("ALTER TABLE t DROP COLUMN b")
    database.execute('CREATE PUBLICATION p FOR TABLE t; CREATE PUBLICATION "Q" FOR TABLE t, "S x"."T"')
    with asking(database.conninfo) as publisher:
        assert publisher.check_publications(["p", "Q"]) == []
        t, other = PublishedTable("public", "t", "table", ("a", "c")), PublishedTable("S x", "T", "table", ("a",))
        assert published_tables(publisher, ["p"]) == [t]
        assert published_tables(publisher, ["nope", "Q", "p"]) == [other, t]
        assert published_tables(publisher, []) == []


def test_a_table_with_a_column_list_is_published_with_those_columns(database):
    """B39: the lists of all publications must be the same."""
    database.execute("CREATE TABLE t (a int, b int); CREATE TABLE u (a int, g int GENERATED ALWAYS AS (1) STORED)")
    database.execute("CREATE PUBLICATION g FOR TABLE u")
    database.execute(
        "CREATE PUBLICATION a FOR TABLE t (a); CREATE PUBLICATION b FOR TABLE t; CREATE PUBLICATION c FOR TABLE t (b, a)"
    )
    with asking(database.conninfo) as publisher:
        assert published_tables(publisher, ["g"]) == [PublishedTable("public", "u", "table", ("a",))]
        assert published_tables(publisher, ["a"]) == [PublishedTable("public", "t", "table", ("a",))]
        assert published_tables(publisher, ["b", "c"]) == [PublishedTable("public", "t", "table", ("a", "b"))]
        with pytest.raises(NotSupportedError) as caught:
            published_tables(publisher, ["a", "b"])
    assert caught.value.message == 'cannot use different column lists for table "public.t" in different publications'
    assert (caught.value.sqlstate, caught.value.relation) == ("0A000", "public.t")


def test_an_initial_copy_reads_the_rows_that_any_publication_publishes(database):
    """D8: as many filters as there are, and none where one publication has none."""
    database.execute("CREATE TABLE t (a int, b int); CREATE TABLE alone (a int)")
    for name, what in {"low": "TABLE t WHERE (a < 1)", "high": "TABLE t WHERE (a > 9)", "all_of_it": "TABLE t"}.items():
        database.execute(f"CREATE PUBLICATION {name} FOR {what}")
    for names, filters in (
        (["low"], ("(a < 1)",)),
        (["low", "high"], ("(a < 1)", "(a > 9)")),
        (["low", "high", "all_of_it"], ()),
    ):
        table = PublishedTable("public", "t", "table", ("a", "b"), filters)
        with asking(database.conninfo) as publisher:
            assert published_tables(publisher, names) == [table]
            assert ServerPublications(publisher.connection, names).published_table("public", "t") == table
    with asking(database.conninfo) as publisher:
        whole = ServerPublications(publisher.connection, ["low"]).published_table("public", "alone")
    assert whole == PublishedTable("public", "alone")


def test_emulated_publications_publish_what_the_servers_publish(database):
    """B1, B5, B39-B41, D7-D9: whether the server or the subscriber evaluates them, the tables,
    columns, filters and operations are the same
    """
    database.execute(
        "CREATE SCHEMA s; CREATE TABLE t (a int PRIMARY KEY, b int, g int GENERATED ALWAYS AS (1) STORED);"
        "CREATE TABLE s.u (a int); CREATE UNLOGGED TABLE s.quick (a int); CREATE TABLE parent (a int);"
        "CREATE TABLE child () INHERITS (parent); CREATE VIEW v AS SELECT 1;"
        "CREATE TABLE root (a int, b int) PARTITION BY LIST (a); CREATE TABLE leaf PARTITION OF root DEFAULT"
    )
    publications = {
        "filtered": "FOR TABLE t WHERE (a < 1), ONLY parent",
        "listed": "FOR TABLE t (b, a), parent WITH (publish = 'insert, truncate')",
        "schema": "FOR TABLES IN SCHEMA s WITH (publish = 'delete')",
        "leaves": "FOR TABLE root",
        "roots": "FOR TABLE root (a) WHERE (b > 0) WITH (publish_via_partition_root)",
        "everything": "FOR ALL TABLES",
        "whole": "FOR ALL TABLES WITH (publish_via_partition_root, publish = 'insert')",
        "nothing": "",
    }
    for name, what in publications.items():
        database.execute(f"CREATE PUBLICATION {name} {what}")
    together = [[name] for name in publications] + [["filtered", "schema"], ["leaves", "everything"]]
    for names in together:
        with asking(database.conninfo) as publisher:
            server, emulated = ServerPublications(publisher.connection, names), emulation(publisher, names)
            tables = server.published_tables()
            assert emulated.published_tables() == tables, names
            assert emulated.changing_tables() == server.changing_tables(), names
            assert emulated.published_actions("s", "none") is server.published_actions("s", "none") is None
            for table in tables:
                actions = emulated.published_actions(*table.key)
                assert actions == server.published_actions(*table.key) is not None, (names, table)
                assert emulated.published_table(*table.key) == server.published_table(*table.key) == table, names


def test_15_compares_generated_columns_that_no_list_can_name(database):
    """B39, B40: from 16 on a list of all other columns equals none"""
    database.execute("CREATE TABLE t (a int PRIMARY KEY, b int, g int GENERATED ALWAYS AS (1) STORED)")
    database.execute("CREATE PUBLICATION whole FOR TABLE t; CREATE PUBLICATION listed FOR TABLE t (a, b)")
    names = ["whole", "listed"]
    with asking(database.conninfo) as publisher:
        for publications in (ServerPublications(publisher.connection, names), emulation(publisher, names)):
            if database.server.major < 16:
                with pytest.raises(NotSupportedError, match=r'different column lists for table "public\.t"'):
                    publications.published_tables()
            else:
                assert publications.published_tables() == [PublishedTable("public", "t", "table", ("a", "b"))]


def test_partitions_are_published_as_the_version_counts_them(database):
    """D9: before 16 each publication is evaluated separately."""
    database.execute("CREATE TABLE r (a int) PARTITION BY LIST (a); CREATE TABLE leaf PARTITION OF r DEFAULT")
    database.execute(
        "CREATE PUBLICATION p FOR TABLE r; CREATE PUBLICATION q FOR TABLE r WITH (publish_via_partition_root)"
    )
    root, leaf = (
        PublishedTable("public", "r", "partitioned table", ("a",)),
        PublishedTable("public", "leaf", "table", ("a",)),
    )
    with asking(database.conninfo) as publisher:
        assert published_tables(publisher, ["p"]) == [leaf]
        assert published_tables(publisher, ["q"]) == [root]
        assert published_tables(publisher, ["p", "q"]) == ([root] if database.server.major >= 16 else [leaf, root])


def shape_of(connection: Connection, table: PublishedTable) -> PublisherTable | None:
    return read_published_shapes(connection, [table]).get(table.key)


def test_a_shape_has_the_published_columns_and_what_they_suffice_for(database):
    database.execute("CREATE TABLE other (id int PRIMARY KEY)")
    database.execute(
        "CREATE TABLE t (a int PRIMARY KEY, b int UNIQUE CHECK (b > 0), c int REFERENCES other CHECK (c > a),"
        " g int GENERATED ALWAYS AS (a + 1) STORED, UNIQUE (a, b))"
    )
    with asking(database.conninfo) as publisher:
        whole = shape_of(publisher.connection, PublishedTable("public", "t"))
        part = shape_of(publisher.connection, PublishedTable("public", "t", "table", ("a", "b", "g")))
        without_key = shape_of(publisher.connection, PublishedTable("public", "t", "table", ("b",)))
        assert shape_of(publisher.connection, PublishedTable("public", "nope")) is None
    assert whole is not None
    assert [column.name for column in whole.columns] == ["a", "b", "c"]
    assert (len(whole.unique), len(whole.checks), len(whole.foreign_keys)) == (2, 2, 1)
    assert part is not None
    assert [(column.name, column.generated) for column in part.columns] == [("a", ""), ("b", ""), ("g", "")]
    assert part.key_columns == ("a",)
    assert (len(part.unique), part.checks, part.foreign_keys) == (2, ("(b > 0)",), ())
    assert without_key is not None
    assert (without_key.key_columns, [key.columns for key in without_key.unique]) == ((), [("b",)])


def test_a_missing_publication_is_what_the_version_makes_of_it(database):
    """Rule A32: 18 skips it with a warning, the versions before end the stream."""
    database.execute("CREATE PUBLICATION p")
    with asking(database.conninfo) as publisher:
        if database.server.major >= 18:
            assert publisher.check_publications(["gone", "p"]) == ["gone"]
        else:
            with pytest.raises(PublisherNotReady, match='publication "gone" does not exist'):
                publisher.check_publications(["gone", "p"])


def test_without_any_publication_nothing_would_ever_come(database):
    with asking(database.conninfo) as publisher, pytest.raises(PublisherNotReady) as caught:
        publisher.check_publications(["gone", "other"])
    assert (caught.value.message, caught.value.sqlstate) == ('publication "gone" does not exist', "42704")
    assert caught.value.hint


# Slots and streams --------------------------------------------------------------------------------


def test_an_exported_snapshot_is_what_the_slot_does_not_stream(database):
    """Rule A37: rows before the consistent point are in the snapshot, those after it in the
    stream.
    """
    database.execute("CREATE TABLE t (a int); INSERT INTO t VALUES (1); CREATE PUBLICATION p FOR TABLE t")
    name = slot_name(database)
    with ReplicationConnection(database.conninfo, "sub") as connection:
        created = create_slot(connection, name, snapshot="export")
        database.execute("INSERT INTO t VALUES (2)")
        with psycopg.connect(database.conninfo) as other:
            other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            other.execute(f"SET TRANSACTION SNAPSHOT '{created.snapshot_name}'")
            assert other.execute("SELECT a FROM t").fetchall() == [(1,)]
    with asking(database.conninfo) as publisher:
        assert publisher.check_slot(name).confirmed_flush_lsn == created.consistent_point
    with streaming(database, name) as stream:
        assert "I" in messages_until_commit(stream)


def messages_until_commit(stream: ReplicationConnection) -> list[str]:
    """The type bytes of the messages up to the first Commit."""
    seen: list[str] = []
    for _ in range(2000):
        frames = stream.read()
        if not frames:
            stream.wait(0.05, more=False)
        for envelope in map(decode_envelope, frames):
            if isinstance(envelope, XLogData):
                seen.append(chr(envelope.payload[0]))
                if seen[-1] == "C":
                    return seen
    raise AssertionError("nothing was committed")


@pytest.mark.parametrize("snapshot", ["use", "nothing"])
def test_a_slot_without_exported_snapshot(database, snapshot):
    name = slot_name(database)
    with ReplicationConnection(database.conninfo, "sub") as connection:
        if snapshot == "use":
            connection.execute("BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ")
        assert create_slot(connection, name, snapshot=snapshot).snapshot_name is None
        if snapshot == "use":
            connection.execute("COMMIT")
    with asking(database.conninfo) as publisher:
        assert publisher.check_slot(name).plugin == "pgoutput"


def test_a_two_phase_slot_is_one(database):
    name = slot_name(database)
    with ReplicationConnection(database.conninfo, "sub") as connection:
        create_slot(connection, name, snapshot="nothing", two_phase=True)
    with asking(database.conninfo) as publisher:
        assert publisher.check_slot(name).two_phase


def test_a_name_that_is_taken_is_the_server_s_refusal(database):
    name = made_slot(database)
    with ReplicationConnection(database.conninfo, "sub") as connection, pytest.raises(PublisherNotReady) as caught:
        create_slot(connection, name, snapshot="nothing")
    assert (caught.value.message, caught.value.sqlstate) == (f'replication slot "{name}" already exists', "42710")


@pytest.mark.parametrize("streaming_mode", ["off", "on", "parallel"])
@pytest.mark.parametrize("two_phase", [False, True])
def test_every_version_takes_the_command_that_is_made_for_it(database, streaming_mode, two_phase):
    """Rule A33."""
    name = made_slot(database)
    database.execute('CREATE TABLE t (a int); CREATE PUBLICATION "it\'s ""odd"", x" FOR TABLE t')
    options = StreamOptions(('it\'s "odd", x',), streaming_mode, two_phase=two_phase, binary=True, messages=True)
    with streaming(database, name, options) as stream:
        database.execute("INSERT INTO t VALUES (1)")
        assert messages_until_commit(stream) == ["B", "R", "I", "C"]


def test_origin_none_is_taken_from_16_on(database):
    name = made_slot(database)
    database.execute("CREATE PUBLICATION p")
    if database.server.major >= 16:
        with streaming(database, name, StreamOptions(("p",), origin="none")):
            pass


# Connections --------------------------------------------------------------------------------------


@contextmanager
def replicating(conninfo: str) -> Iterator[None]:
    with ReplicationConnection(conninfo, "sub"):
        yield


BOTH = pytest.mark.parametrize("connect", [asking, replicating], ids=["ordinary", "replication"])


def connection_error(connect, conninfo: str) -> PublisherError:
    with pytest.raises(PublisherError) as caught, connect(conninfo):
        pass
    error = caught.value
    assert error.message.startswith("could not connect to the publisher: ")
    assert "s3cret" not in error.report()
    assert error.hint
    return error


@BOTH
def test_a_database_that_does_not_exist_is_a_definite_refusal(publisher_database, connect):
    error = connection_error(connect, publisher_database.server.conninfo("no_such_db", password="s3cret"))
    assert isinstance(error, PublisherNotReady)
    assert 'database "no_such_db" does not exist' in error.message


@BOTH
def test_a_user_that_does_not_exist_is_a_definite_refusal(publisher_database, connect):
    conninfo = publisher_database.server.conninfo(publisher_database.name, user="no_such_user", password="s3cret")
    error = connection_error(connect, conninfo)
    assert isinstance(error, PublisherNotReady)
    assert 'role "no_such_user" does not exist' in error.message


@BOTH
def test_a_port_where_nobody_listens_is_tried_again(publisher_database, connect):
    error = connection_error(connect, publisher_database.server.conninfo("postgres", port=1, password="s3cret"))
    assert isinstance(error, PublisherUnavailable)
    assert "onnection refused" in error.message


def test_a_statement_that_the_server_refuses_keeps_its_text(publisher_database):
    with (
        pytest.raises(PublisherNotReady) as caught,
        connect_publisher(publisher_database.conninfo, "sub") as connection,
    ):
        connection.execute("SELECT nothing_of_that_name")
    assert (caught.value.message, caught.value.sqlstate) == ('column "nothing_of_that_name" does not exist', "42703")


def test_a_connection_that_the_server_ends_is_transient(publisher_database):
    with pytest.raises(PublisherUnavailable), connect_publisher(publisher_database.conninfo, "sub") as connection:
        publisher_database.execute(f"SELECT pg_terminate_backend({connection.info.backend_pid})")
        connection.execute("SELECT 1")


def test_a_walsender_that_the_server_ends_is_transient(publisher_database):
    name = made_slot(publisher_database)
    publisher_database.execute("CREATE PUBLICATION p")
    with streaming(publisher_database, name) as stream:
        publisher_database.execute(
            f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{name}'"
        )
        with pytest.raises(PublisherUnavailable):
            for _ in range(200):
                if not stream.read():
                    stream.wait(0.05, more=False)


# Servers that are set up otherwise ----------------------------------------------------------------


@pytest.fixture(scope="module", params=[18, 16, 15], ids="pg{}".format)
def private(request) -> Iterator[PostgreSQLServer]:
    """A separate server for this module: it keeps hardly any WAL, and requires a password of one
    user.
    """
    settings = {"max_slot_wal_keep_size": "1MB", "wal_keep_size": "0", "min_wal_size": "32MB", "max_wal_size": "32MB"}
    with server_or_skip(lambda: PostgreSQLServer(find_postgresql(request.param), settings)) as server:
        hba = server.data_directory / "pg_hba.conf"
        rules = "host all,replication asked 127.0.0.1/32 scram-sha-256\n"
        hba.write_text(rules + hba.read_text())
        server.execute("CREATE ROLE asked LOGIN REPLICATION PASSWORD 'right'")
        server.execute("SELECT pg_reload_conf()")
        yield server


@pytest.mark.server
def test_a_slot_that_lost_its_wal_is_refused_with_the_reason(private):
    private.execute("SELECT pg_create_logical_replication_slot('starved', 'pgoutput')")
    try:
        for _ in range(4):
            private.execute("SELECT pg_logical_emit_message(false, 'x', 'x')")
            private.execute("SELECT pg_switch_wal()")
            private.execute("CHECKPOINT")
        error = refusal(private.conninfo(), "starved")
        assert isinstance(error, SlotLost)
        assert error.message == 'can no longer access replication slot "starved"'
        assert error.detail == 'This replication slot has been invalidated due to "wal_removed".'
        assert not error.transient
    finally:
        private.execute("SELECT pg_drop_replication_slot('starved')")


@pytest.mark.server
@BOTH
@pytest.mark.parametrize("password", ["s3cret-wrong", None])
def test_a_wrong_or_missing_password_is_a_definite_refusal(private, connect, password, monkeypatch):
    """Invariant names_are_data: the password that was tried is not in the message."""
    monkeypatch.setenv("PGPASSFILE", "/dev/null")
    monkeypatch.delenv("PGPASSWORD", raising=False)
    given = {"password": password} if password else {}
    error = connection_error(connect, private.conninfo(user="asked", **given))
    assert isinstance(error, PublisherNotReady)
    assert "password" in error.message


@pytest.mark.server
@BOTH
def test_the_right_password_connects(private, connect):
    with connect(private.conninfo(user="asked", password="right")):
        pass


@pytest.mark.server
@BOTH
@pytest.mark.parametrize(
    ("variable", "value", "name"), [("PGTZ", "Europe/Zurich", "TimeZone"), ("PGDATESTYLE", "German", "DateStyle")]
)
def test_a_variable_of_libpq_that_changes_the_text_of_values_is_refused(
    private, connect, variable, value, name, monkeypatch
):
    """It is stronger than the options of the connection."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(PublisherNotReady) as caught, connect(private.conninfo()):
        pass
    error = caught.value
    assert error.message.startswith(f'the session has {name} "{value}')
    assert error.hint == f"Unset {variable} in the environment of this program."


@pytest.mark.server
def test_a_server_without_logical_decoding_is_told_which_setting_to_change(private):
    """By CREATE SUBSCRIPTION, by the check of a migration and by the check of a way back, and in
    the server's words.
    """
    private.restart({"wal_level": "replica"})
    try:
        with pytest.raises(PublisherNotReady) as caught, asking(private.conninfo()) as publisher:
            publisher.check_server()
        error = caught.value
        with pytest.raises(psycopg.Error) as refused:
            private.execute("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
        told = str(refused.value.diag.message_primary)  # before 17 without quotes
        assert (error.message.replace('"', ""), error.sqlstate) == (told.replace('"', ""), refused.value.sqlstate)
        assert error.detail == 'The publisher runs with wal_level = "replica".'
        statement = "ALTER SYSTEM SET wal_level = 'logical';"
        assert error.hint == f"Run at the publisher: {statement} and restart it."
        with asking(private.conninfo()) as publisher:
            (finding,) = (
                one for one in check_publisher.check_server(read_server_facts(publisher.connection))
                if one.severity == "FAIL"
            )  # fmt: skip
            (obstacle,) = (
                one for one in target_obstacles(publisher.connection, []) if "wal_level" in one.message
            )  # fmt: skip
        found = 'wal_level is "replica", and logical decoding needs "logical"'
        assert (finding.message, finding.remedy) == (found, f"{statement} -- and restart the publisher")
        assert (obstacle.message, obstacle.hint) == (
            f"in the target, {found}",
            f"Run at the target: {statement} and restart it.",
        )
    finally:
        private.restart({"wal_level": "logical"})

"""A publisher that is restored to an older state, or promoted while it was behind, is refused by
name (slot_after_disk; real servers, no Spark).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from subscriber.base.errors import HistoryDiverged, PublisherUnavailable, SubscriberError
from subscriber.base.lsn import parse_lsn
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.connection import connect_publisher
from subscriber.stream.journal.control import read_control
from subscriber.stream.journal.positions import journal_positions
from subscriber.stream.journal.storage import LocalStorage
from subscriber.testing.servers.open_servers import PostgreSQLServer
from subscriber.testing.servers.processes import find_postgresql
from tests.conformance.test_walreceiver import make_slot, receiving
from tests.conftest import Database, server_or_skip

pytestmark = [pytest.mark.server, pytest.mark.slow]


@pytest.fixture(params=[18, 16, 15], ids="pg{}".format)
def server(request: pytest.FixtureRequest) -> Iterator[PostgreSQLServer]:
    """A server that the test may stop, and whose data directory it may replace."""
    with server_or_skip(lambda: PostgreSQLServer(find_postgresql(request.param))) as running:
        yield running


@pytest.fixture
def published(server: PostgreSQLServer) -> Database:
    server.create_database("shop")
    database = Database(server, "shop", server.conninfo("shop"))
    database.execute("CREATE TABLE t(a int PRIMARY KEY, b text); CREATE TABLE other(a int PRIMARY KEY)")
    database.execute("CREATE PUBLICATION p FOR TABLE t, other")
    return database


def copied(server: PostgreSQLServer, folder: Path) -> Path:
    """A cold copy of the server's data directory; the server is started again afterwards."""
    server.stop()
    copy = folder / "copy"
    shutil.copytree(server.data_directory, copy)
    server.start()
    return copy


def restore(server: PostgreSQLServer, copy: Path, *, standby: bool = False) -> None:
    """Replace the server's data directory by the copy, and start the server."""
    server.stop()
    place = server.data_directory
    owner = place.stat()
    shutil.rmtree(place)
    shutil.copytree(copy, place)
    if standby:
        (place / "standby.signal").touch()
    for path in (place, *place.rglob("*")):
        shutil.chown(path, owner.st_uid, owner.st_gid)
    place.chmod(0o700)
    server.start()


def refusal(database: Database, journal: Path) -> SubscriberError:
    """The reason why a receiver that is started now ends."""
    with receiving(database, journal, journal_positions(str(journal))[0]) as receiver:
        while receiver.error is None:
            receiver.thread.join(0.05)
            assert receiver.thread.is_alive() or receiver.error is not None, "the receiver ended without an error"
    return receiver.error


def test_a_publisher_that_was_restored_to_an_older_state_is_refused_with_the_tables_that_have_lost_changes(
    server, published, tmp_path
):
    start = make_slot(published)
    journal = tmp_path / "journal"
    with receiving(published, journal, start) as receiver:
        published.execute("INSERT INTO other VALUES (1)")
        receiver.wait_received()
    copy = copied(server, tmp_path)
    with receiving(published, journal, start) as receiver:
        published.execute("INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 500) i")
        receiver.wait_received()
        received = journal_positions(str(journal))[0]
    restore(server, copy)
    published.execute("INSERT INTO t VALUES (-1, 'after the restore')")
    error = refusal(published, journal)
    assert isinstance(error, HistoryDiverged)
    assert "the publisher's WAL ends at" in error.message
    assert error.detail is not None
    assert "the journal has changes of: public.t. The server that answered is " in error.detail
    assert "public.other" not in error.detail
    # Nothing was received from the other history, and nothing confirmed.
    assert journal_positions(str(journal))[0] == received


def test_a_standby_that_was_behind_and_was_promoted_is_refused_by_its_timeline(server, published, tmp_path):
    """By then it has written more WAL than was received, so the positions alone would not show
    it.
    """
    start = make_slot(published)
    journal = tmp_path / "journal"
    with receiving(published, journal, start) as receiver:
        receiver.wait_received()
    copy = copied(server, tmp_path)
    with receiving(published, journal, start) as receiver:
        published.execute("INSERT INTO t VALUES (1, 'lost')")
        receiver.wait_received()
        received = journal_positions(str(journal))[0]
    restore(server, copy, standby=True)
    published.execute("SELECT pg_promote()")
    while receiver.flushed() <= received:
        published.execute("INSERT INTO t SELECT i, 'new' FROM generate_series(1000, 2000) i; TRUNCATE t")
    error = refusal(published, journal)
    assert isinstance(error, HistoryDiverged)
    assert "were received on timeline 1, but the publisher, now on timeline 2, left that timeline at" in error.message
    assert error.detail is not None
    assert "the journal has changes of: public.t. The server that answered is " in error.detail


def test_a_standby_that_had_everything_and_was_promoted_goes_on(server, published, tmp_path):
    start = make_slot(published)
    journal = tmp_path / "journal"
    with receiving(published, journal, start) as receiver:
        published.execute("INSERT INTO t VALUES (1, 'x')")
        receiver.wait_received()
    copy = copied(server, tmp_path)
    restore(server, copy, standby=True)
    published.execute("SELECT pg_promote()")
    published.execute("INSERT INTO t VALUES (2, 'on timeline 2')")
    with receiving(published, journal, start) as receiver:
        receiver.wait_received()
        assert receiver.changes() == ["I INSERT (a: '1', b: 'x')", "I INSERT (a: '2', b: 'on timeline 2')"]
    control = read_control(LocalStorage(journal))
    assert control is not None
    assert control.timeline == 2


def test_a_standby_that_is_behind_is_waited_for(server, published, tmp_path):
    """Streaming from a standby is possible since PostgreSQL 16; after a restart it may have
    replayed less than before.
    """
    if server.major < 16:
        pytest.skip("logical decoding on a standby came with PostgreSQL 16")
    start = make_slot(published)
    journal = tmp_path / "journal"
    with receiving(published, journal, start) as receiver:
        receiver.wait_received()
    copy = copied(server, tmp_path)
    with receiving(published, journal, start) as receiver:
        published.execute("INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 500) i")
        receiver.wait_received()
    restore(server, copy, standby=True)
    error = refusal(published, journal)
    assert isinstance(error, PublisherUnavailable)
    assert "is a standby, but changes were received from a primary, on timeline 1" in error.message
    wanted = replace(published, conninfo=f"{published.conninfo} target_session_attrs=standby")
    error = refusal(wanted, journal)
    assert isinstance(error, PublisherUnavailable)
    assert "the standby has replayed WAL up to" in error.message


def test_the_mark_of_a_run_on_a_standby_is_what_it_has_replayed(server, published, tmp_path):
    """A standby cannot write a message: `run --once` used to wait for ever."""
    restore(server, copied(server, tmp_path), standby=True)
    with connect_publisher(published.conninfo, "test") as connection:
        mark = PublisherClient(connection).write_barrier()
    ((replayed,),) = published.execute("SELECT pg_last_wal_replay_lsn()::text")
    assert mark == parse_lsn(replayed)

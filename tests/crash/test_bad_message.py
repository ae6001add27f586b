"""A message that cannot be decoded stops its subscription with its position, and the slot keeps
it.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3

import pytest

from subscriber.base.lsn import parse_lsn
from tests.conftest import fresh_database
from tests.crash.harness import Runner, differences, wait_until
from tests.crash.proxy import Proxy, flip_tuple_kind

MARKER = "the message of ill fate"
TABLES = "CREATE TABLE parcels (id int PRIMARY KEY, label text); CREATE TABLE letters (id int PRIMARY KEY, label text);"


@pytest.fixture
def database(postgresql18):
    yield from fresh_database(postgresql18)


@pytest.fixture
def proxy(database):
    with Proxy(database.conninfo) as proxy:
        yield proxy


@pytest.fixture
def runner(database, proxy, tmp_path):
    """A run in which subscription "unlucky" goes through the proxy, and "lucky" does not."""
    database.execute(TABLES)
    database.execute("CREATE PUBLICATION parcels FOR TABLE parcels")
    database.execute("CREATE PUBLICATION letters FOR TABLE letters")
    with contextlib.closing(sqlite3.connect(tmp_path / "target.db")) as target:
        target.executescript(TABLES)
    runner = Runner(f"sqlite:///{tmp_path / 'target.db'}", tmp_path)
    try:
        for name, publication, conninfo in (
            ("unlucky", "parcels", proxy.conninfo),
            ("lucky", "letters", database.conninfo),
        ):
            runner.sql(
                f"CREATE SUBSCRIPTION {name} CONNECTION '{conninfo}' PUBLICATION {publication} WITH (copy_data = false)"
            )
        yield runner
    finally:
        runner.close()


def confirmed(database):
    ((text,),) = database.execute("SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'unlucky'")
    return parse_lsn(text)


def test_a_message_that_cannot_be_decoded_stops_its_subscription_until_it_is_healed(database, proxy, runner, tmp_path):
    """A19, A20, slot_after_disk: the error has relation, LSN, byte offset and message type, and
    nothing is skipped.
    """
    proxy.transform = flip_tuple_kind(MARKER.encode())
    ((before,),) = database.execute("SELECT pg_current_wal_insert_lsn()")
    database.execute(f"INSERT INTO parcels VALUES (1, '{MARKER}')")
    ((after,),) = database.execute("SELECT pg_current_wal_insert_lsn()")
    database.execute("INSERT INTO parcels VALUES (2, 'later')")
    database.execute("INSERT INTO letters VALUES (1, 'arrives')")

    runner.start()
    trouble = 'ERROR:  subscription "unlucky": '
    wait_until(lambda: "sent at" in runner.said().partition(trouble)[2], "the bad message to be met")
    report = runner.said().partition(trouble)[2]
    assert 'relation "public.parcels"' in report
    assert 'at byte 5 of message type "I"' in report
    lsn = re.search(r"\b[0-9A-F]+/[0-9A-F]+\b", report)
    assert lsn is not None, report
    assert parse_lsn(before) <= parse_lsn(lsn[0]) <= parse_lsn(after)

    # It stays stopped while the other subscription continues.
    database.execute("INSERT INTO letters VALUES (2, 'arrives too')")
    wait_until(lambda: not differences(database.conninfo, runner.target, ("public.letters",)), "the letters to arrive")
    assert runner.said().count('ERROR:  subscription "unlucky": ') == 1
    assert runner.said().count('subscription "unlucky" streams from') == 1
    assert len(runner.walreceivers()) == 1
    assert confirmed(database) <= parse_lsn(before)
    status = runner.status()
    assert 'at byte 5 of message type "I"' in status["unlucky"]["last_error"]
    assert status["unlucky"]["slot_active"] is False
    assert status["lucky"]["last_error"] is None
    assert runner.interrupt() == 1
    said = runner.said()
    assert "Traceback" not in said
    assert MARKER not in said

    proxy.transform = None
    healed = runner.once()
    assert healed.returncode == 0, healed.stderr
    assert differences(database.conninfo, runner.target, ("public.parcels", "public.letters")) == []

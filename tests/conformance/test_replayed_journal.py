"""A journal of what PostgreSQL's pgoutput sent, replayed to test_decoding, beside PostgreSQL's own
test_decoding on the same WAL: the same positions, transactions and lines.

Two slots are created before the work: one is read with pgoutput into a journal, the other with
test_decoding. Only Debian's server ships the latter.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from subscriber.base.lsn import format_lsn
from subscriber.postgres.logical_decoding import ReplicationSlot, SlotFunctions, load_output_plugin
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.storage import LocalStorage
from subscriber.stream.replay_journal import ReplayedWal
from tests.conftest import Database, fresh_database
from tests.streams import frame, receive

SETUP = """
    CREATE TABLE t (a integer PRIMARY KEY, b text, n numeric(5,2), ok boolean, "Up" timestamptz);
    ALTER TABLE t ALTER b SET STORAGE EXTERNAL;
    CREATE TABLE f (a integer, b text[], c bit(3)); ALTER TABLE f REPLICA IDENTITY FULL;
    CREATE TABLE e (m text, j json);
    CREATE TYPE mood AS ENUM ('ok'); CREATE TABLE moods (ms mood[], m mood);
    CREATE PUBLICATION text FOR ALL TABLES; CREATE PUBLICATION binary_ FOR TABLE t, f, e
"""
WORK = [
    "INSERT INTO t VALUES (1, repeat('x', 5000), 1.50, true, '2000-01-01'), (2, 'it''s', NULL, NULL, NULL)",
    "BEGIN; UPDATE t SET a = 3 WHERE a = 1; UPDATE t SET n = 2 WHERE a = 2; DELETE FROM t WHERE a = 2; COMMIT",
    "BEGIN; INSERT INTO f VALUES (1, '{a,NULL}', B'101'); SAVEPOINT s; INSERT INTO f VALUES (2); ROLLBACK TO s; COMMIT",
    "BEGIN; SAVEPOINT s; UPDATE f SET a = 4, c = NULL; RELEASE s; DELETE FROM f; COMMIT",
    "INSERT INTO e VALUES ('ok', '{\"a\": [1]}')",
    "INSERT INTO moods VALUES ('{ok}', 'ok')",
    "SELECT pg_logical_emit_message(false, 'p', 'outside')",
    "BEGIN; INSERT INTO t VALUES (7); SELECT pg_logical_emit_message(true, 'p', 'in'); COMMIT",
    "TRUNCATE t, f RESTART IDENTITY CASCADE",
    "BEGIN; INSERT INTO e VALUES ('bad'); PREPARE TRANSACTION 'a''b'",
    "ALTER TABLE t ADD COLUMN later date",
    "INSERT INTO t VALUES (6, 'x', 0, false, NULL, '2000-01-02')",
    "COMMIT PREPARED 'a''b'",
    "BEGIN; INSERT INTO f VALUES (9); PREPARE TRANSACTION 'r'",
    "ROLLBACK PREPARED 'r'",
    "ALTER TABLE f RENAME TO g",
    "INSERT INTO g VALUES (10)",
]


@pytest.fixture(scope="module")
def database(postgresql15) -> Iterator[Database]:
    yield from fresh_database(postgresql15)


@pytest.fixture(scope="module")
def slots(database) -> tuple[str, str]:
    """The names of both slots, after the work."""
    database.execute(SETUP)
    names = f"{database.name}_pgoutput", f"{database.name}_lines"
    for name, plugin in zip(names, ("pgoutput", "test_decoding"), strict=True):
        database.execute(f"SELECT pg_create_logical_replication_slot('{name}', '{plugin}', false, true)")
    with psycopg.connect(database.conninfo, autocommit=True) as late, psycopg.connect(database.conninfo) as early:
        late.execute("SET lock_timeout = '10s'")
        early.execute("INSERT INTO t VALUES (100, 'early')")
        for number, statements in enumerate(WORK):
            for statement in statements.split("; "):
                late.execute(statement)
            if number == 2:  # before a command that needs the table for itself
                early.execute("INSERT INTO t VALUES (101, 'later')")
                early.commit()
    return names


@pytest.mark.parametrize(("publication", "binary"), [("text", "false"), ("binary_", "true")])
def test_a_replayed_journal_has_the_lines_of_the_server(database, slots, tmp_path, publication, binary):
    """The binary format of an enum is not read, so its table is not in the publication for it."""
    pgoutput, lines = slots
    frames = database.execute(
        "SELECT lsn - '0/0'::pg_lsn, data FROM pg_logical_slot_peek_binary_changes("
        f"'{pgoutput}', NULL, NULL, 'proto_version', '3', 'publication_names', '{publication}', 'messages', 'true', 'two_phase', 'true', 'binary', '{binary}')"
    )
    # A walsender sends no position with what is not the last write of its callback.
    without_position = b"RYO"
    script = [frame(data, 0 if data[0] in without_position else int(lsn)) for lsn, data in frames]
    first = min(int(lsn) for lsn, _ in frames)
    assert first > 0x100
    receive(tmp_path, script, binary=binary == "true")
    theirs = database.execute(
        "SELECT lsn::text, xid::text::int, data FROM pg_logical_slot_peek_changes("
        f"'{lines}', NULL, NULL, 'include-timestamp', '1', 'skip-empty-xacts', '1')"
    )
    if binary == "true":
        unpublished = {xid for _, xid, data in theirs if data.startswith("table public.moods")}
        assert len(unpublished) == 1
        theirs = [row for row in theirs if row[1] not in unpublished]
    wal = ReplayedWal(JournalReader(LocalStorage(tmp_path)), server_version=150000)
    slot = SlotFunctions(
        load_output_plugin("test_decoding"), ReplicationSlot("s", "test_decoding", two_phase=True), wal.recorded
    )
    ours = slot.get_changes(None, None, "include-timestamp", "1", "skip-empty-xacts", "1")
    assert [(format_lsn(lsn), xid, data) for lsn, xid, data in ours] == theirs
    assert len(theirs) > 40
    assert [sentence.split('"')[1] for sentence in wal.missing] == (
        ["public._mood", "public.mood"] if binary == "false" else []
    )

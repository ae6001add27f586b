"""Record what real PostgreSQL servers send, for the tests of the decoder.

    python -m tests.recordings.record [MAJOR ...]      (default: 15 16 18; a minute)

Each stream of :data:`STREAMS` becomes ``pgMAJOR-NAME.json.gz`` next to this file: the options, and
every CopyData of the walsender in hex, Keepalives included. The same workload is run for each, so
the files differ by server and options only. Transaction IDs, OIDs and times differ from run to run.

A walsender and not ``pg_logical_slot_get_binary_changes``: the function decodes from the slot's
restart point up to the end of WAL at its start and forgets, so a transaction that is streamed
first and aborted later (Stream Abort, rule A6) is out of its reach, and so is the envelope.
"""

from __future__ import annotations

import gzip
import json
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import pq

from subscriber.base.errors import SubscriberError
from subscriber.base.lsn import parse_lsn
from subscriber.postgres.protocol.envelope import Keepalive, StandbyStatusUpdate, decode_envelope, encode_envelope
from subscriber.testing.servers.open_servers import PostgreSQL, open_postgresql

DIRECTORY: Final = Path(__file__).parent
PATIENCE_SECONDS: Final = 60.0
DATABASE: Final = "recording"


@dataclass(frozen=True, slots=True)
class Stream:
    """One set of options with which the workload is received."""

    name: str
    proto_version: int
    streaming: str | None = None
    binary: bool = False
    two_phase: bool = False
    messages: bool = False

    def options(self) -> str:
        """The option list of START_REPLICATION (rules A.4)."""
        given = {
            "proto_version": self.proto_version,
            "publication_names": "p",
            "streaming": self.streaming,
            "binary": "true" if self.binary else None,
            "two_phase": "on" if self.two_phase else None,
            "messages": "true" if self.messages else None,
        }
        return ", ".join(f"\"{name}\" '{value}'" for name, value in given.items() if value is not None)


_PLAIN: Final = Stream("proto1", 1)
_STREAMED: Final = Stream("proto2-streaming", 2, streaming="on", messages=True)
_BINARY: Final = Stream("proto3-two-phase-binary", 3, two_phase=True, binary=True)
_BOTH: Final = Stream("proto3-streaming-two-phase", 3, streaming="on", two_phase=True, messages=True)
_ON: Final = Stream("proto4-streaming", 4, streaming="on", two_phase=True, messages=True)
_PARALLEL: Final = Stream("proto4-parallel", 4, streaming="parallel", two_phase=True, messages=True)
_ALL: Final = Stream("proto4-parallel-binary", 4, streaming="parallel", two_phase=True, messages=True, binary=True)

STREAMS: Final = {
    15: (_PLAIN, _STREAMED, _BINARY, _BOTH),
    16: (_STREAMED, _ON, _PARALLEL, _ALL),
    18: (_PLAIN, _STREAMED, _BINARY, _BOTH, _ON, _PARALLEL, _ALL),
}

SCHEMA: Final = """
CREATE SCHEMA s2;
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TYPE s2.point2 AS (x int, y int);
CREATE TABLE plain (id bigint PRIMARY KEY, note varchar(40), amount numeric(12,2), at timestamptz);
CREATE TABLE kinds (id int PRIMARY KEY, m mood, p positive, c s2.point2, j jsonb, a int[], b bytea, f float8, ip inet);
CREATE TABLE full_identity (a int, b text);
ALTER TABLE full_identity REPLICA IDENTITY FULL;
CREATE TABLE by_index (a int NOT NULL, b text, c int NOT NULL);
CREATE UNIQUE INDEX by_index_key ON by_index (c, a);
ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_key;
CREATE TABLE insert_only (a int);
ALTER TABLE insert_only REPLICA IDENTITY NOTHING;
CREATE TABLE toasted (id int PRIMARY KEY, big text, other int);
ALTER TABLE toasted ALTER big SET STORAGE EXTERNAL;
CREATE TABLE s2."Odd Näme" (id uuid PRIMARY KEY, "a ""b"" c" text);
CREATE TABLE parted (id int, region text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE parted_eu PARTITION OF parted FOR VALUES IN ('eu');
CREATE TABLE parted_us PARTITION OF parted FOR VALUES IN ('us');
CREATE TABLE not_published (a int);
CREATE PUBLICATION p FOR TABLE plain, kinds, full_identity, by_index, toasted, s2."Odd Näme", parted
    WITH (publish_via_partition_root = true);
ALTER PUBLICATION p ADD TABLE insert_only;
"""

ORDINARY: Final = (
    "INSERT INTO plain VALUES (1, 'one', 1.10, '2024-02-29 12:00+00'), (2, NULL, 'NaN', 'infinity'), (3, '', NULL, NULL)",
    "UPDATE plain SET note = 'eins' WHERE id = 1",
    "UPDATE plain SET id = 20 WHERE id = 2",
    "DELETE FROM plain WHERE id = 3",
    "INSERT INTO kinds VALUES (1, 'happy', 7, (1, 2), '{\"k\": [1, null]}', '{1,NULL,3}', '\\x00ff', '-0', '::1/64')",
    "INSERT INTO full_identity VALUES (1, 'x'), (1, 'x'), (NULL, NULL)",
    "UPDATE full_identity SET b = 'y' WHERE a = 1",
    "DELETE FROM full_identity WHERE a IS NULL",
    "INSERT INTO by_index VALUES (1, 'b', 10)",
    "UPDATE by_index SET c = 11",
    "DELETE FROM by_index",
    "INSERT INTO insert_only VALUES (1)",
    "INSERT INTO toasted VALUES (1, repeat('long', 1000), 0)",
    "UPDATE toasted SET other = 1",
    "UPDATE toasted SET id = 2",
    "INSERT INTO s2.\"Odd Näme\" VALUES ('00000000-0000-0000-0000-000000000001', 'Größe 😀')",
    "INSERT INTO parted VALUES (1, 'eu'), (2, 'us')",
    "UPDATE parted SET region = 'us' WHERE id = 1",
    "BEGIN; SAVEPOINT a; INSERT INTO plain VALUES (5); ROLLBACK TO a; INSERT INTO plain VALUES (6); COMMIT",
    "INSERT INTO not_published VALUES (1)",
    "SELECT pg_logical_emit_message(true, 'prefix', 'transactional')",
    "SELECT pg_logical_emit_message(false, 'préfixe', '\\x0001ff'::bytea)",
    "ALTER TABLE plain ADD extra int DEFAULT 5",
    "ALTER TABLE plain DROP note",
    "INSERT INTO plain VALUES (7, 7, NULL)",
    "TRUNCATE full_identity, toasted RESTART IDENTITY CASCADE",
    "TRUNCATE by_index",
)

PREPARED: Final = (
    "BEGIN; INSERT INTO plain VALUES (30); PREPARE TRANSACTION 'gid one'",
    "COMMIT PREPARED 'gid one'",
    "BEGIN; DELETE FROM plain WHERE id = 30; PREPARE TRANSACTION 'gïd'",
    "ROLLBACK PREPARED 'gïd'",
    "BEGIN; INSERT INTO not_published VALUES (1); PREPARE TRANSACTION ''",
    "COMMIT PREPARED ''",
)

FILL: Final = "INSERT INTO plain SELECT i, i FROM generate_series({first}, {first} + 699) i"
"""700 changes are more than the 64 kB of logical_decoding_work_mem, so the transaction is streamed.
"""


class Walsender:
    """A replication connection that keeps every CopyData it receives."""

    def __init__(self, server: PostgreSQL, stream: Stream) -> None:
        self.server = server
        self.received: list[bytes] = []
        self._connection = pq.PGconn.connect(server.conninfo(DATABASE, replication="database").encode())
        if self._connection.status != pq.ConnStatus.OK:
            raise SubscriberError("no replication connection")
        result = self._connection.exec_(f"START_REPLICATION SLOT recording LOGICAL 0/0 ({stream.options()})".encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            raise SubscriberError(result.error_message.decode())

    def catch_up(self) -> None:
        """Receive everything up to now, WAL of open transactions included. A commit flushes that
        with its own.
        """
        self.server.execute("INSERT INTO not_published VALUES (0)", DATABASE)
        target = parse_lsn(self.server.execute("SELECT pg_current_wal_flush_lsn()::text", DATABASE)[0][0])
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not any(envelope.wal_end >= target for envelope in self._ask()):
            if time.monotonic() > deadline:
                raise SubscriberError("the walsender does not catch up")

    def close(self) -> None:
        """End the connection, and its walsender."""
        self._connection.finish()

    def _ask(self) -> Iterator[Keepalive]:
        """Ask for a Keepalive. Keep everything that has arrived, and yield the Keepalives among
        it.
        """
        self._connection.put_copy_data(encode_envelope(StandbyStatusUpdate(1, 1, 1, 0, reply_requested=True)))
        self._connection.flush()
        select.select([self._connection.socket], [], [], 0.1)
        self._connection.consume_input()
        while True:
            size, data = self._connection.get_copy_data(1)
            if size < 0:
                raise SubscriberError(self._connection.error_message.decode())
            if size == 0:
                return
            self.received.append(bytes(data))
            envelope = decode_envelope(data)
            if isinstance(envelope, Keepalive):
                yield envelope


def run_workload(server: PostgreSQL, walsender: Walsender) -> None:
    """Run a workload that contains every kind of message. Large transactions stay open until the
    walsender has sent their changes.
    """
    with session(server) as one:
        for statement in (*ORDINARY, *PREPARED):
            one.execute(statement.encode())
        one.execute("SELECT pg_replication_origin_create('upstream')")
        one.execute("SELECT pg_replication_origin_session_setup('upstream')")
        one.execute("BEGIN; SELECT pg_replication_origin_xact_setup('0/ABCDEF', '2024-01-01')")
        one.execute("INSERT INTO plain VALUES (40)")
        one.execute("COMMIT")
        one.execute("BEGIN; SELECT pg_replication_origin_xact_setup('0/ABCDFF', '2024-01-02')")
        one.execute(FILL.format(first=50_000))
        walsender.catch_up()
        one.execute("COMMIT")
        one.execute("SELECT pg_replication_origin_session_reset()")
        one.execute("SELECT pg_replication_origin_drop('upstream')")
        _large_transactions(one, walsender)
    walsender.catch_up()


def _large_transactions(one: psycopg.Connection[Any], walsender: Walsender) -> None:
    one.execute("BEGIN")
    one.execute(FILL.format(first=1000))
    one.execute("SELECT pg_logical_emit_message(true, 'in stream', 'content')")
    one.execute("SAVEPOINT a")
    one.execute(FILL.format(first=2000))
    walsender.catch_up()
    one.execute("ROLLBACK TO a")
    one.execute("UPDATE plain SET id = -id WHERE id BETWEEN 1000 AND 1009")
    one.execute("DELETE FROM plain WHERE id BETWEEN 1010 AND 1019")
    one.execute("INSERT INTO kinds VALUES (2, 'sad', 1)")
    one.execute("TRUNCATE by_index RESTART IDENTITY")
    one.execute(FILL.format(first=3000))
    walsender.catch_up()
    one.execute("COMMIT")
    one.execute("BEGIN")
    one.execute(FILL.format(first=4000))
    walsender.catch_up()
    one.execute("ROLLBACK")
    one.execute("BEGIN")
    one.execute(FILL.format(first=5000))
    walsender.catch_up()
    one.execute("PREPARE TRANSACTION 'streamed'")
    one.execute("COMMIT PREPARED 'streamed'")


@contextmanager
def session(server: PostgreSQL) -> Iterator[psycopg.Connection[Any]]:
    """One psql-like session."""
    with psycopg.connect(server.conninfo(DATABASE), autocommit=True) as connection:
        yield connection


def record(server: PostgreSQL, stream: Stream) -> Path:
    """Run the workload in a separate database and write the stream to a file. Returns the file."""
    server.create_database(DATABASE)
    try:
        server.execute(SCHEMA, DATABASE)
        server.execute(
            "SELECT pg_create_logical_replication_slot('recording', 'pgoutput', false,"
            f" {'true' if stream.two_phase else 'false'})",
            DATABASE,
        )
        walsender = Walsender(server, stream)
        try:
            run_workload(server, walsender)
        finally:
            walsender.close()
    finally:
        server.drop_database(DATABASE)
    path = DIRECTORY / f"pg{server.major}-{stream.name}.json.gz"
    content = {"major": server.major, **asdict(stream), "copy_data": [data.hex() for data in walsender.received]}
    # mtime 0, so that the same stream gives the same file.
    path.write_bytes(gzip.compress(json.dumps(content, indent=0).encode(), mtime=0))
    return path


def main(majors: list[int]) -> None:
    """Record every stream of these servers."""
    for major in majors or sorted(STREAMS):
        server = open_postgresql(major, {"logical_decoding_work_mem": "64kB"})
        try:
            for stream in STREAMS[major]:
                path = record(server, stream)
                print(f"{path.name}: {path.stat().st_size} bytes")  # noqa: T201 - a command's output
        finally:
            server.close()


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]])

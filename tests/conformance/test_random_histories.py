"""Random histories of a real publisher, received and applied to every target: after each batch the
target equals the publisher.

::

    sessions of a publisher ──▶ walreceiver ──▶ journal ──┬─▶ SQLite       in batches that end anywhere,
    (interleaved, streamed,     (stopped and   (one for   ├─▶ DuckDB       some of them applied twice,
     prepared, rolled back)      started)       all)      ├─▶ MariaDB      by appliers that are started anew
                                                          └─▶ PostgreSQL

What the publisher's tables held is written down after each commit, with its place in the WAL. So
not only the end is compared: what a reader of the target sees after a batch is what a reader of the
publisher saw at the batch's end (commit_order).

``RANDOM_HISTORIES=50`` makes 50 histories; ``SEED`` repeats one that differed, whose statements are
printed.
"""

from __future__ import annotations

import bisect
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg

from subscriber.apply.exact import ExactApplier
from subscriber.apply.parallel.parallel_applier import ParallelApplier
from subscriber.apply.prepared import prepared_names
from subscriber.base.lsn import LSN, format_lsn, parse_lsn
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.progress import OriginProgress
from subscriber.stream.decode import decode_frames
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.segment import journal_entries
from subscriber.stream.journal.storage import LocalStorage
from subscriber.targets import Target, open_target
from subscriber.targets.ddl import create_table
from subscriber.testing.emulate import emulate
from subscriber.testing.servers.open_servers import MariaDB, PostgreSQL
from subscriber.verify.table_sides import target_texts
from tests.conformance.test_walreceiver import make_slot, receiving
from tests.conftest import Database, fresh_database
from tests.random_seed import random_seed
from tests.table_shapes import read_shape

HISTORIES: Final = int(os.environ.get("RANDOM_HISTORIES", "3"))
STEPS: Final = 130
SESSIONS: Final = 3
LONG: Final = 2200
"""The number of characters of a text that is stored out of line."""
STREAMED: Final = 450
"""The number of rows of 200 bytes that do not fit into logical_decoding_work_mem (64 kB)."""

SCHEMA: Final = """
CREATE TABLE keyed (id int PRIMARY KEY, code int UNIQUE, name text, big text, amount numeric);
CREATE TABLE pair (a int, b varchar(20), v text, PRIMARY KEY (a, b));
CREATE TABLE bag (a int, b text, c numeric(10,2), d date);
CREATE TABLE wide (id int PRIMARY KEY, one text, two text, n int);
CREATE TABLE indexed (a int, k varchar(30) NOT NULL UNIQUE, c int);
CREATE TABLE typed (id bigint PRIMARY KEY, o bool, n numeric(20,6), f float8, d date, t timestamp, u uuid, y bytea);
CREATE TABLE parted (id int, v text, n int, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE low (n int, id int NOT NULL, v text);
ALTER TABLE parted ATTACH PARTITION low FOR VALUES FROM (MINVALUE) TO (4);
CREATE TABLE high PARTITION OF parted DEFAULT;
CREATE TABLE full_keyed (id int PRIMARY KEY, v text, big text, n int);

ALTER TABLE keyed ALTER big SET STORAGE EXTERNAL;
ALTER TABLE wide ALTER one SET STORAGE EXTERNAL, ALTER two SET STORAGE EXTERNAL;
ALTER TABLE bag REPLICA IDENTITY FULL;
ALTER TABLE bag ALTER b SET STORAGE EXTERNAL;
ALTER TABLE full_keyed REPLICA IDENTITY FULL;
ALTER TABLE full_keyed ALTER big SET STORAGE EXTERNAL;
ALTER TABLE indexed REPLICA IDENTITY USING INDEX indexed_k_key;
CREATE PUBLICATION p FOR TABLE keyed, pair, bag, wide, indexed, typed, parted, full_keyed WITH (publish_via_partition_root = true);
"""
TABLES: Final = ("keyed", "pair", "bag", "wide", "indexed", "typed", "parted", "full_keyed")
SPREAD: Final = ("pair", "typed")
OWN_COLUMN: Final = "note"
"""A column that only the target's table ``wide`` has, with a default."""
TARGETS: Final = ("sqlite", "duckdb", "mariadb", "postgresql")

Contents = dict[str, Counter[tuple[str | None, ...]]]


@dataclass
class Session:
    """A connection, in a transaction or between two transactions."""

    connection: psycopg.Connection[Any]
    savepoints: int = 0
    has_bag: bool = False

    @property
    def is_idle(self) -> bool:
        return self.connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


@dataclass
class History:
    """The history of a publisher.

    Attributes:
        two_phase: transactions are prepared.
        prepares_bags: also those with changes of a table without a key.
        spread: most changes are of single rows with different keys, in two tables.
        script: all statements, for the report of a failure.
        ends: WAL positions behind the commits.
        states: what the tables held there.
        seen: how often what happened.
    """

    database: Database
    source: random.Random
    two_phase: bool
    prepares_bags: bool
    spread: bool = False
    script: list[str] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    states: list[Contents] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    _sessions: list[Session] = field(default_factory=list)
    _prepared: list[str] = field(default_factory=list)

    def state_at(self, lsn: int) -> Contents:
        """The tables' contents at a position of the WAL."""
        return self.states[min(bisect.bisect_left(self.ends, lsn), len(self.states) - 1)]

    def make(self, lives: Sequence[int], receive: Callable[[], Any]) -> None:
        """Run random steps of the sessions, received by several receivers one after the other; no
        transaction is left open.
        """
        with ExitStack() as stack:
            for number in range(SESSIONS + 1):
                connection = psycopg.connect(self.database.conninfo, autocommit=number == SESSIONS)
                # One thread runs all sessions, so none of them can wait for another.
                connection.execute("SET lock_timeout = '15ms'")
                connection.execute("SELECT setseed(%s)", (self.source.random(),))
                connection.commit()
                self._sessions.append(Session(stack.enter_context(closing(connection))))
            self._reader = self._sessions.pop().connection
            self._note()
            for life, steps in enumerate(lives, start=1):
                with receive() as receiver:
                    for _ in range(steps):
                        self._step(self.source.randrange(SESSIONS))
                    if life == len(lives):
                        self._end_all()
                    receiver.wait_received()

    def _step(self, number: int) -> None:
        session = self._sessions[number]
        choice = self.source.random()
        if session.is_idle and self._prepared and choice < 0.2:
            self._finish_prepared()
        elif session.is_idle and choice < (0.21 if self.spread else 0.25):
            self._truncate(number)
        elif not session.is_idle and choice < 0.2:
            self._end(number, self.source.choices(["COMMIT", "ROLLBACK", "PREPARE"], [12, 2, 4])[0])
        elif choice < 0.4:
            self._savepoint(number)
        elif choice < 0.43 and not self.spread:
            self._run(number, self._many())
        else:
            for statement in self._statements():
                self._run(number, statement)

    def _run(self, number: int, sql: str) -> bool:
        session = self._sessions[number]
        session.has_bag |= " bag " in sql
        self.script.append(f"/* {number} */ {sql};")
        try:
            session.connection.execute(sql.encode())
        except psycopg.Error as error:
            self.script.append(f"-- {error.sqlstate}")
            if session.savepoints:
                self.script.append(f"/* {number} */ ROLLBACK TO s{session.savepoints};")
                session.connection.execute(f"ROLLBACK TO s{session.savepoints}")
            else:
                self._over(session)
                session.connection.rollback()
                self.script.append(f"/* {number} */ ROLLBACK;")
            self.seen["failed"] += 1
            return False
        return True

    def _savepoint(self, number: int) -> None:
        session = self._sessions[number]
        if not session.savepoints or self.source.random() < 0.5:
            if self._run(number, f"SAVEPOINT s{session.savepoints + 1}"):
                session.savepoints += 1
            return
        target = self.source.randint(1, session.savepoints)
        if self.source.random() < 0.5:
            self._run(number, f"ROLLBACK TO s{target}")
            session.savepoints = target
            self.seen["rolled back to a savepoint"] += 1
        else:
            self._run(number, f"RELEASE s{target}")
            session.savepoints = target - 1

    def _end(self, number: int, how: str) -> None:
        session = self._sessions[number]
        if how == "PREPARE" and self.two_phase and (self.prepares_bags or not session.has_bag):
            gid = f"g{len(self.script)}"
            if self._run(number, f"PREPARE TRANSACTION '{gid}'"):
                self._prepared.append(gid)
                self.seen["prepared"] += 1
                self._note()
            session.connection.rollback()
        elif how == "ROLLBACK":
            self.script.append(f"/* {number} */ ROLLBACK;")
            session.connection.rollback()
        else:
            self.script.append(f"/* {number} */ COMMIT;")
            session.connection.commit()
            self._note()
        self._over(session)

    def _over(self, session: Session) -> None:
        session.savepoints = 0
        session.has_bag = False

    def _finish_prepared(self) -> None:
        gid = self._prepared.pop(self.source.randrange(len(self._prepared)))
        verdict = self.source.choices(["COMMIT", "ROLLBACK"], [3, 1])[0]
        self.script.append(f"{verdict} PREPARED '{gid}';")
        self._reader.execute(f"{verdict} PREPARED '{gid}'".encode())
        self.seen[f"{verdict} PREPARED"] += 1
        self._note()

    def _truncate(self, number: int) -> None:
        """Run a whole transaction at once, because the tables could not be read before its end."""
        for other, session in enumerate(self._sessions):
            if not session.is_idle and self.source.random() < 0.5:
                self._end(other, "COMMIT")
        tables = ", ".join(self.source.sample(TABLES, self.source.randint(1, 3)))
        if self._run(number, f"TRUNCATE {tables}{self.source.choice(['', ' CASCADE', ' RESTART IDENTITY'])}"):
            self.seen["truncated"] += 1
            for statement in self._statements():
                self._run(number, statement)
        if not self._sessions[number].is_idle:
            self._end(number, self.source.choices(["COMMIT", "ROLLBACK"], [3, 1])[0])

    def _end_all(self) -> None:
        for number, session in enumerate(self._sessions):
            if not session.is_idle:
                self._end(number, self.source.choice(["COMMIT", "ROLLBACK"]))
        while self._prepared:
            self._finish_prepared()

    def _note(self) -> None:
        """Record what is committed now."""
        state: Contents = {}
        with self._reader.cursor() as cursor:
            for table in TABLES:
                with cursor.copy(f"COPY (SELECT * FROM {table}) TO STDOUT".encode()) as copy:
                    state[table] = Counter(copy.rows())
            cursor.execute("SELECT pg_current_wal_insert_lsn()::text")
            row = cursor.fetchone()
            assert row is not None
        self.ends.append(int(parse_lsn(row[0])))
        self.states.append(state)

    # Statements ----------------------------------------------------------------------------------

    def _statements(self) -> list[str]:
        table = self.source.choice(SPREAD if self.spread and self.source.random() < 0.98 else TABLES)
        kind = self.source.random()
        key, other = self._number(), self._number()
        where = self._where(table, key)
        if kind < 0.4:
            return [f"INSERT INTO {table} VALUES ({', '.join(self._row(table, key))}) ON CONFLICT DO NOTHING"]
        if kind < 0.5:
            return [f"DELETE FROM {table} WHERE {where}"]
        if kind < 0.6:
            row = ", ".join(self._row(table, key))
            return [f"DELETE FROM {table} WHERE {where}", f"INSERT INTO {table} VALUES ({row})"]
        if kind < 0.68 and table == "keyed":
            return self._swap("code" if self.source.random() < 0.5 else "id", key, other)
        if kind < 0.78:
            return [self._key_change(table, key, other)]
        return [f"UPDATE {table} SET {self._assigned(table)} WHERE {where}"]

    def _swap(self, column: str, key: int, other: int) -> list[str]:
        """Two rows exchange a unique value, through a value that no row has."""
        if column == "id":
            return [
                f"UPDATE keyed SET id = -1 WHERE id = {key}",
                f"UPDATE keyed SET id = {key} WHERE id = {other}",
                f"UPDATE keyed SET id = {other} WHERE id = -1",
            ]
        read = [
            f"set_config('h.{name}', (SELECT code::text FROM keyed WHERE id = {of}), true)"
            for name, of in (("a", key), ("b", other))
        ]
        return [
            f"SELECT {', '.join(read)}",
            f"UPDATE keyed SET code = NULL WHERE id = {key}",
            f"UPDATE keyed SET code = nullif(current_setting('h.a'), '')::int WHERE id = {other}",
            f"UPDATE keyed SET code = nullif(current_setting('h.b'), '')::int WHERE id = {key}",
        ]

    def _key_change(self, table: str, key: int, other: int) -> str:
        match table:
            case "pair":
                return f"UPDATE pair SET b = {self._word()} WHERE a = {key}"
            case "bag":
                return f"UPDATE bag SET a = {other} WHERE a = {key}"
            case "indexed":
                return f"UPDATE indexed SET k = {self._word()} WHERE a = {key}"
        with_value = f", {self._assigned(table)}" if self.source.random() < 0.3 else ""
        return f"UPDATE {table} SET id = {other}{with_value} WHERE id = {key}"

    def _assigned(self, table: str) -> str:
        columns = COLUMNS[table]
        chosen = self.source.sample(range(len(columns)), self.source.randint(1, min(2, len(columns))))
        return ", ".join(f"{columns[index][0]} = {self._value(columns[index][1])}" for index in chosen)

    def _where(self, table: str, key: int) -> str:
        column = "a" if table in ("pair", "bag", "indexed") else "id"
        if table == "bag" and self.source.random() < 0.5:
            return f"ctid = (SELECT ctid FROM bag WHERE a = {key} OR a IS NULL ORDER BY random() LIMIT 1)"
        return f"{column} {'=' if self.spread else self.source.choice(['=', '=', '=', '<', '>'])} {key}"

    def _row(self, table: str, key: int) -> list[str]:
        values = {name: self._value(kind) for name, kind in COLUMNS[table]}
        match table:
            case "pair":
                return [str(key), self._word(), values["v"]]
            case "bag":
                return [self.source.choice([str(key), str(key), "NULL"]), *values.values()]
            case "indexed":
                return [str(key), self._word(), values["c"]]
        return [str(key), *values.values()]

    def _many(self) -> str:
        """Write so much that the transaction is streamed before its end."""
        first = self.source.choice([100, 200])
        texts = f"repeat(chr(97 + g % 26), 180 + {self._number()})"
        rows = f"generate_series({first}, {first + STREAMED}) AS g"
        self.seen["many"] += 1
        match self.source.randrange(5):
            case 0:
                return f"INSERT INTO keyed SELECT g, g, {texts}, NULL, g / 7.0 FROM {rows} ON CONFLICT DO NOTHING"
            case 1:
                return f"INSERT INTO bag SELECT g % 20, {texts}, g, NULL FROM {rows}"
            case 2:
                return f"INSERT INTO wide SELECT g, {texts}, NULL, g FROM {rows} ON CONFLICT DO NOTHING"
            case 3:
                return f"UPDATE {self.source.choice(['keyed', 'wide'])} SET id = id + 1000 WHERE id >= 100"
            case _:
                return f"DELETE FROM {self.source.choice(['keyed', 'wide'])} WHERE id >= 100"

    def _value(self, kind: str) -> str:
        if self.source.random() < 0.15:
            return "NULL"
        match kind:
            case "int":
                return str(self.source.randint(-3, 9))
            case "code":
                return str(self.source.randint(0, 9))
            case "text":
                letter = self.source.choice("axé'\\").replace("'", "''")
                return f"repeat('{letter}', {self.source.choice([0, 1, 1, 3, LONG])})"
            case _:
                return self.source.choice(VALUES[kind])

    def _word(self) -> str:
        return self.source.choice(["'x'", "'X'", "'x '", "'é'", "''", "'longer word'"])

    def _number(self) -> int:
        return self.source.randint(0, 300 if self.spread else 8)


COLUMNS: Final[dict[str, list[tuple[str, str]]]] = {
    "keyed": [("code", "code"), ("name", "text"), ("big", "text"), ("amount", "numeric")],
    "pair": [("v", "text")],
    "bag": [("b", "text"), ("c", "scaled"), ("d", "date")],
    "wide": [("one", "text"), ("two", "text"), ("n", "int")],
    "indexed": [("c", "int")],
    "typed": [
        ("o", "bool"), ("n", "scaled"), ("f", "float"), ("d", "date"), ("t", "timestamp"), ("u", "uuid"), ("y", "bytea"),
    ],
    "parted": [("v", "text"), ("n", "int")],
    "full_keyed": [("v", "text"), ("big", "text"), ("n", "int")],
}  # fmt: skip
"""Columns that are not in the identity, with their values."""

VALUES: Final = {
    "numeric": ["0", "1.50", "-12345678901234567890.123456789", "0.000"],
    "scaled": ["0", "1.5", "-99999.99", "12345"],
    "bool": ["true", "false"],
    "float": ["0", "0.1", "-1e300", "123456789.125"],
    "date": ["'2026-11-22'", "'1970-01-01'", "'2000-02-29'"],
    "timestamp": ["'2026-11-22 01:02:03.456789'", "'1999-12-31 23:59:59'"],
    "uuid": ["'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "'00000000-0000-0000-0000-000000000000'"],
    "bytea": [r"'\x00ff'", r"''", r"'\x61'"],
}


# Targets ------------------------------------------------------------------------------------------


class Replica:
    """One target, and the part of the journal that it has applied."""

    def __init__(self, url: str, start: LSN, database: Database, *, writers: int = 1) -> None:
        self._url = url
        self._writers = writers
        self.pieces: Counter[str] = Counter()
        self.target = self._open()
        with psycopg.connect(database.conninfo, autocommit=True) as publisher:
            shapes = [read_shape(publisher, "public", name) for name in TABLES]
        with self.target.begin() as connection:
            CATALOG.create_all(connection)
            OriginProgress(1).create(connection, start)
            for shape in shapes:
                assert shape is not None
                create_table(self.target, shape).create(connection)
            table = self.target.shapes.reflect(connection, "public", "wide")
            assert table is not None
            name = self.target.engine.dialect.identifier_preparer.format_table(table.clause())
            connection.exec_driver_sql(f"ALTER TABLE {name} ADD COLUMN {OWN_COLUMN} varchar(10) DEFAULT 'mine'")
        self.begin = self.applied = start
        self._start_anew()

    def _open(self) -> Target:
        target = open_target(self._url)
        target.__enter__()
        return target

    def _start_anew(self) -> None:
        self.applier = ExactApplier(self.target, subscription="s", subid=1)
        if self._writers > 1:
            self.applier = ParallelApplier(self.target, writers=self._writers, subscription="s", subid=1)
            self.applier.pieces = self.pieces

    def restart(self) -> None:
        self.close()
        self.target = self._open()
        self._start_anew()

    def close(self) -> None:
        self.target.__exit__(None, None, None)

    def end(self) -> None:
        """Close the target; transactions that a failed history has left prepared would lock its
        tables.
        """
        with self.target.engine.connect() as connection:
            names = prepared_names(self.target, connection)
        for gid in names:
            assert self.target.prepared is not None
            self.target.prepared.finish(gid, commit=False)
        self.close()

    def contents(self) -> Contents:
        """All rows as PostgreSQL's text."""
        found: Contents = {}
        with self.target.reporting(), self.target.engine.connect() as connection:
            for name in TABLES:
                table = self.target.shapes.reflect(connection, "public", name)
                assert table is not None
                columns = [column.name for column in table.columns if column.name != OWN_COLUMN]
                types = dict(zip(columns, TYPES[name], strict=True))
                found[name] = Counter(target_texts(self.target, connection, table, types))
                if name == "wide":
                    own = {one[0] for one in target_texts(self.target, connection, table, {OWN_COLUMN: 25})}
                    assert own <= {"mine"}, "rules C7, C9"
        return found


TYPES: Final[dict[str, list[int]]] = {
    "keyed": [23, 23, 25, 25, 1700],
    "pair": [23, 1043, 25],
    "bag": [23, 25, 1700, 1082],
    "wide": [23, 25, 25, 23],
    "indexed": [23, 1043, 23],
    "typed": [20, 16, 1700, 701, 1082, 1114, 2950, 17],
    "parted": [23, 25, 23],
    "full_keyed": [23, 25, 25, 23],
}
"""OIDs of the columns' types."""


def replay(history: History, reader: JournalReader, replica: Replica, source: random.Random, where: str) -> None:
    """Apply the journal in random batches, and compare the target after each."""
    last = reader.latest(replica.begin)
    while replica.applied < last:
        end = reader.latest(replica.applied, source.choice([1, 20_000, 100_000, None]))
        result = emulate(reader, replica.applier, replica.applied, end)
        assert result.conflicts == {}, where
        assert result.progress == end, where
        replica.applied = end
        if source.random() < 0.2:
            replica.restart()
        if source.random() < 0.2:
            again = emulate(reader, replica.applier, replica.begin, end)
            assert (again.transactions, again.progress) == (0, end), "progress_with_data"
        assert_equal(history.state_at(end), replica.contents(), f"{where}, at {format_lsn(end)}")


def assert_equal(expected: Contents, found: Contents, where: str) -> None:
    for name in TABLES:
        missing, unexpected = expected[name] - found[name], found[name] - expected[name]
        assert not missing, f"{where}: {name} lacks {shown(missing)}, and has {shown(unexpected)}"
        assert not unexpected, f"{where}: {name} has {shown(unexpected)}"


def shown(rows: Counter[tuple[str | None, ...]]) -> str:
    return str([tuple(text and text[:40] for text in row) for row in list(rows.elements())[:5]])


# Tests --------------------------------------------------------------------------------------------


@contextmanager
def history_of(server: Any, folder: Path, seed: int, *, spread: bool = False) -> Iterator[tuple[History, LSN]]:
    """A history, received into a journal in ``folder``."""
    source = random.Random(seed)
    two_phase, streaming = (
        seed % 2 == 1 if spread else source.random() < 0.6,
        source.choice(["off", "on", "parallel", "parallel"]),
    )
    with contextmanager(fresh_database)(server) as database:
        database.execute(SCHEMA)
        start = make_slot(database, two_phase=two_phase)
        history = History(database, source, two_phase, prepares_bags=source.random() < 0.3, spread=spread)
        binary, first = source.random() < 0.3, source.randint(0, STEPS)

        def receive() -> Any:
            return receiving(database, folder, start, streaming=streaming, two_phase=two_phase, binary=binary)

        history.make([first, STEPS - first], receive)
        yield history, start


@contextmanager
def fresh_url(kind: str, folder: Path, postgresql: PostgreSQL, mariadb: MariaDB) -> Iterator[str]:
    """An empty database for a target."""
    if kind in ("sqlite", "duckdb"):
        yield f"{kind}:///{folder / 'target'}.{kind}"
        return
    name = f"history_{os.getpid()}"
    server = mariadb if kind == "mariadb" else postgresql
    server.create_database(name)
    try:
        yield server.url(name)
    finally:
        server.drop_database(name)


def test_every_target_is_the_publisher_after_every_batch(postgresql18, mariadb, tmp_path):
    """Rules C1, C7-C9, C11, C14, C16, C29, C31-C34, C42-C51; invariants commit_order,
    progress_with_data, absence_is_typed.
    """
    seen, _ = play_histories(postgresql18, mariadb, tmp_path)
    if HISTORIES > 1:
        assert {"many", "truncated", "rolled back to a savepoint"} <= set(seen)


def test_several_writers_leave_what_one_does(postgresql18, mariadb, tmp_path, monkeypatch):
    """commit_order, progress_with_data: with parallel_apply, in pieces of a few transactions"""
    monkeypatch.setattr("subscriber.apply.parallel.pieces.LEAST_CHANGES", 1)
    monkeypatch.setattr(decode_frames, "JOINED_ROWS", 1)
    _, pieces = play_histories(postgresql18, mariadb, tmp_path, targets=("mariadb", "postgresql"), writers=3)
    if HISTORIES > 1:
        assert pieces["beside"] > 0 < pieces["alone"]


def play_histories(
    postgresql: PostgreSQL, mariadb: MariaDB, folder: Path, *, targets: Sequence[str] = TARGETS, writers: int = 1
) -> tuple[Counter[str], Counter[str]]:
    """What happened at the publisher, and how pieces were applied to targets of several writers."""
    first = random_seed()
    seen: Counter[str] = Counter()
    pieces: Counter[str] = Counter()
    for seed in range(first, first + HISTORIES):
        inside = folder / str(seed)
        with history_of(postgresql, inside / "journal", seed, spread=writers > 1) as (history, start):
            try:
                for kind in targets:
                    with fresh_url(kind, inside, postgresql, mariadb) as url:
                        pieces += play(history, start, inside, kind, url, seed, writers)
                seen += history.seen + kinds_of(inside)
            except BaseException:
                print(f"SEED={seed}", *history.script, sep="\n")  # noqa: T201 - pytest shows it with a failure
                raise
    return seen, pieces


def play(history: History, start: LSN, folder: Path, kind: str, url: str, seed: int, writers: int) -> Counter[str]:
    """Apply one history to a target."""
    reader = JournalReader(LocalStorage(folder / "journal"))
    replica = Replica(url, start, history.database, writers=writers)
    try:
        # Where a transaction is prepared in the target, its rows are locked, and whoever looks for
        # a row by reading the table waits for it: PostgreSQL's own worker, too, if the rows are
        # equal.
        if not (history.prepares_bags and replica.target.prepared is not None):
            replay(history, reader, replica, random.Random(seed), f"SEED={seed}, {kind}")
            assert_equal(history.states[-1], replica.contents(), f"SEED={seed}, {kind}, at the end")
    finally:
        replica.end()
    return replica.pieces


def kinds_of(folder: Path) -> Counter[str]:
    return Counter(entry.kind.name for entry in journal_entries(LocalStorage(folder / "journal")))

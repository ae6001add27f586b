"""PostgreSQL 18's log of conflicts compared with that of this program: one history is applied by
the native subscriber and to each target.

What a target does not know is left out (C20): who wrote a row, and when, only PostgreSQL can tell;
MariaDB and DuckDB have names of their own for some indexes. Numbers and times of transactions
differ between two servers' worth of history and are blotted out. A column that the publisher does
not have is shown as ``default`` in an inserted row, where PostgreSQL shows the default's value.

18.4 prints ``row`` (C21). A deferred constraint is not even checked: its trigger does not
fire in a replica session, and the row is there twice (C22).
"""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from subscriber.apply.apply_batch import apply_batch
from subscriber.apply.exact import ExactApplier
from subscriber.base.errors import ConflictError
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import ConflictKind
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.decode_message import decode
from subscriber.testing.servers.open_servers import PostgreSQL, open_postgresql
from tests.appliers import obeying
from tests.conftest import server_or_skip
from tests.failures import conflict_kind
from tests.frames import frame
from tests.target_databases import AppliedTo, applied_to

_PATIENCE: Final = 30.0
KINDS_OF_18: Final = [kind for kind in ConflictKind if kind is not ConflictKind.UPDATE_DELETED]
"""update_deleted is a kind of PostgreSQL 19."""

PUBLISHER = (
    "CREATE TABLE t (a int PRIMARY KEY, b text, c int)",
    "CREATE TABLE f (a int, b text)",
    "ALTER TABLE f REPLICA IDENTITY FULL",
    "CREATE TABLE pair (x int, y int, z text, PRIMARY KEY (x, y))",
    "CREATE TABLE e (a int PRIMARY KEY, b text, c int, d int)",
    "CREATE TABLE parted (a int PRIMARY KEY, b text)",
    "CREATE TABLE later (a int PRIMARY KEY, b int)",
    "CREATE PUBLICATION pub FOR TABLE t, f, pair, e, parted, later",
)
SUBSCRIBER = (
    "CREATE TABLE t (own varchar(20), c int, a int PRIMARY KEY, b varchar(100))",
    "CREATE UNIQUE INDEX t_c_key ON t (c)",
    "CREATE TABLE f (a int, b varchar(100))",
    "CREATE TABLE pair (x int, y int, z varchar(20), PRIMARY KEY (x, y))",
)


ON_POSTGRESQL = (
    'CREATE TABLE e (a int PRIMARY KEY, b text, c int, d int CONSTRAINT "d key" UNIQUE NULLS NOT DISTINCT)',
    "CREATE UNIQUE INDEX e_lower ON e (c, lower(b))",
    "CREATE UNIQUE INDEX e_partial ON e (b) WHERE a % 2 = 0",
    "CREATE TABLE parted (a int, b text, PRIMARY KEY (a)) PARTITION BY LIST (a)",
    "CREATE TABLE part PARTITION OF parted DEFAULT PARTITION BY LIST (a)",
    "CREATE TABLE leaf PARTITION OF part DEFAULT",
    "CREATE TABLE later (a int PRIMARY KEY, b int UNIQUE DEFERRABLE)",
)


@dataclass(frozen=True)
class Step:
    """What happens at the subscriber, then at the publisher, and how the subscriber is repaired if
    that stopped it.
    """

    name: str
    local: str
    published: str
    mend: str | None = None
    everywhere: bool = True
    """Tables that other databases can have, too."""


STEPS = (
    Step("a row to begin with", "DELETE FROM f", "INSERT INTO t VALUES (1, 'one', 1)"),
    Step("update_missing", "DELETE FROM t", "UPDATE t SET b = 'uno'"),
    Step("update_missing of another key", "DELETE FROM t", "UPDATE t SET a = 5, b = NULL"),
    Step("delete_missing", "DELETE FROM t", "DELETE FROM t"),
    Step("a row without a key", "DELETE FROM f", "INSERT INTO f VALUES (1, NULL)"),
    Step("update_missing by the whole row", "DELETE FROM f", "UPDATE f SET a = 2"),
    Step("delete_missing by the whole row", "DELETE FROM f", "DELETE FROM f"),
    Step(
        "insert_exists",
        "INSERT INTO t VALUES ('l', 10, 10, 'local')",
        "INSERT INTO t VALUES (10, 'remote', 11)",
        "DELETE FROM t",
    ),
    Step(
        "insert_exists by another key",
        "INSERT INTO t VALUES (NULL, 12, 20, 'local')",
        f"INSERT INTO t VALUES (11, '{'x' * 70}', 12)",
        "DELETE FROM t WHERE a = 20",
    ),
    Step(
        "update_exists",
        "INSERT INTO t VALUES ('l', 13, 21, 'local')",
        "UPDATE t SET c = 13 WHERE a = 11",
        "DELETE FROM t WHERE a = 21",
    ),
    Step("a key that stays", "DELETE FROM f", "UPDATE t SET a = a WHERE a = 11"),
    Step(
        "multiple_unique_conflicts of two rows",
        "INSERT INTO t VALUES ('l', 33, 31, 'p'), ('l', 34, 32, 'q')",
        "INSERT INTO t VALUES (31, 'r', 34)",
        "DELETE FROM t WHERE a IN (31, 32)",
    ),
    Step(
        "multiple_unique_conflicts of one row",
        "INSERT INTO t VALUES ('l', 43, 41, 'p')",
        "INSERT INTO t VALUES (41, 'r', 43)",
        "DELETE FROM t WHERE a = 41",
    ),
    Step(
        "multiple_unique_conflicts of an update",
        "INSERT INTO t VALUES ('l', 53, 51, 'p'), ('l', 54, 52, 'q')",
        "UPDATE t SET a = 51, c = 54 WHERE a = 41",
        "DELETE FROM t WHERE a IN (51, 52)",
    ),
    Step(
        "a key of two columns",
        "INSERT INTO pair VALUES (1, 2, 'l')",
        "INSERT INTO pair VALUES (1, 2, 'r')",
        "DELETE FROM pair",
    ),
    Step("delete_missing of two columns", "DELETE FROM pair", "DELETE FROM pair"),
    Step(
        "an expression's key",
        "INSERT INTO e VALUES (1, 'X', 1, 1)",
        "INSERT INTO e VALUES (3, 'x', 1, 3)",
        "DELETE FROM e WHERE a = 1",
        everywhere=False,
    ),
    Step(
        "keys of an expression and of some rows, and one where nulls are equal",
        "INSERT INTO e VALUES (2, 'X', 5, NULL)",
        "INSERT INTO e VALUES (6, 'X', 1, NULL)",
        "DELETE FROM e WHERE a < 5",
        everywhere=False,
    ),
    Step(
        "an update that keeps a part of the key",
        "INSERT INTO e VALUES (1, 'Y', 1, 11), (8, 'y', 9, 12)",
        "UPDATE e SET b = 'y' WHERE a = 6",
        "DELETE FROM e WHERE a IN (1, 8)",
        everywhere=False,
    ),
    Step(
        "a partition of a partition",
        "INSERT INTO parted VALUES (1, 'l')",
        "INSERT INTO parted VALUES (1, 'r')",
        "DELETE FROM parted",
        everywhere=False,
    ),
    Step(
        "update_origin_differs",
        "UPDATE t SET own = 'x' WHERE a = 11",
        "UPDATE t SET b = 'after' WHERE a = 11",
        everywhere=False,
    ),
    Step(
        "the row is the subscription's again",
        "DELETE FROM f",
        "UPDATE t SET b = 'again' WHERE a = 11",
        everywhere=False,
    ),
    Step("a row to be found whole", "DELETE FROM f", "INSERT INTO f VALUES (7, 'w'), (7, 'w')", everywhere=False),
    Step(
        "update_origin_differs of one of two equal rows",
        "DELETE FROM f; INSERT INTO f VALUES (7, 'w'), (7, 'w')",
        "UPDATE f SET a = 8 WHERE ctid = (SELECT min(ctid) FROM f)",
        everywhere=False,
    ),
    Step(
        "delete_origin_differs",
        "UPDATE t SET own = 'y' WHERE a = 11",
        "DELETE FROM t WHERE a IN (10, 11)",
        everywhere=False,
    ),
    Step(
        "update_origin_differs in a partition",
        "UPDATE parted SET b = 'l'",
        "UPDATE parted SET b = 'q'",
        everywhere=False,
    ),
    Step(
        "a deferrable key is none",
        "INSERT INTO later VALUES (1, 1)",
        "INSERT INTO later VALUES (2, 1)",
        everywhere=False,
    ),
)


@dataclass(frozen=True)
class Said:
    """One conflict of the log."""

    level: str
    headline: str
    detail: tuple[str, ...]


@dataclass(frozen=True)
class History:
    """What the publisher sent in each step, what the native subscriber logged, and how often it
    counted each kind.
    """

    messages: tuple[tuple[m.Message, ...], ...]
    said: tuple[tuple[Said, ...], ...]
    counted: dict[str, int]


def wait_until(reached: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not reached():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


class NativeSubscriber:
    """PostgreSQL's own subscriber, in a database beside its publisher's; an error disables it, so
    that it is logged once.
    """

    def __init__(self, server: PostgreSQL) -> None:
        self.server = server
        for database in ("pub", "sub"):
            server.create_database(database)
        for statement in (
            *PUBLISHER,
            *(f"SELECT pg_create_logical_replication_slot('{s}', 'pgoutput')" for s in ("s", "ours")),
        ):
            self.publish(statement)
        for statement in (*SUBSCRIBER, *ON_POSTGRESQL):
            self.execute(statement)
        self.execute(
            f"CREATE SUBSCRIPTION s CONNECTION '{server.conninfo('pub')}' PUBLICATION pub"
            " WITH (create_slot = false, copy_data = false, disable_on_error)"
        )

    def publish(self, sql: str) -> list[tuple]:
        return self.server.execute(sql, "pub")

    def execute(self, sql: str) -> list[tuple]:
        return self.server.execute(sql, "sub")

    def play(self, step: Step) -> None:
        self.execute(step.local)
        self.publish(step.published)
        if step.mend is None:
            self.catch_up()
            return
        wait_until(lambda: not self.execute("SELECT subenabled FROM pg_subscription")[0][0], step.name)
        self.execute(step.mend)
        self.execute("ALTER SUBSCRIPTION s ENABLE")
        self.catch_up()

    def catch_up(self) -> None:
        end = self.publish("SELECT pg_current_wal_lsn()")[0][0]
        confirmed = f"SELECT confirmed_flush_lsn >= '{end}' FROM pg_replication_slots WHERE slot_name = 's'"
        wait_until(lambda: self.publish(confirmed)[0][0], "the native subscriber does not catch up")

    def sent(self) -> tuple[m.Message, ...]:
        """The messages that this program must apply."""
        rows = self.publish(
            "SELECT data FROM pg_logical_slot_get_binary_changes('ours', NULL, NULL, 'proto_version', '1',"
            " 'publication_names', 'pub')"
        )
        return tuple(decode(data) for (data,) in rows)

    def log(self) -> str:
        return str(self.server.execute("SELECT pg_read_file('log/server.log')")[0][0])

    def counted(self) -> dict[str, int]:
        names = [f"confl_{kind}" for kind in KINDS_OF_18]
        row = self.execute(f"SELECT {', '.join(names)} FROM pg_stat_subscription_stats")[0]
        return dict(zip(KINDS_OF_18, row, strict=True))


@pytest.fixture(scope="module")
def native() -> Iterator[History]:
    settings = {
        "logging_collector": "on",
        "log_directory": "log",
        "log_filename": "server.log",
        "log_line_prefix": "",
        "wal_retrieve_retry_interval": "100ms",
    }
    with server_or_skip(lambda: open_postgresql(18, settings)) as server:
        if "log_line_prefix" not in getattr(server, "settings", {}):
            pytest.skip("a server that somebody else runs keeps its log to itself")
        subscriber = NativeSubscriber(server)
        messages, said, read = [], [], 0
        for step in STEPS:
            subscriber.play(step)
            log = subscriber.log()
            said.append(tuple(read_log(log[read:])))
            read = len(log)
            messages.append(subscriber.sent())
        wait_until(lambda: sum(subscriber.counted().values()) >= sum(map(len, said)), "statistics")
        yield History(tuple(messages), tuple(said), subscriber.counted())
        subscriber.execute("ALTER SUBSCRIPTION s DISABLE")
        subscriber.execute("ALTER SUBSCRIPTION s SET (slot_name = NONE)")
        subscriber.execute("DROP SUBSCRIPTION s")


_CONFLICT: Final = re.compile(
    r"^(LOG|ERROR):  (conflict detected on relation .*)\nDETAIL:  (.*(?:\n\t.*)*)", re.MULTILINE
)


def read_log(log: str) -> list[Said]:
    return [Said(level, headline, tuple(detail.split("\n\t"))) for level, headline, detail in _CONFLICT.findall(log)]


class Ours:
    """One target, to which a history is applied as a worker does."""

    def __init__(self, on: AppliedTo, *, show_values: bool) -> None:
        self.on = on
        rules = obeying(log_conflict_values=show_values)
        self._applier = ExactApplier(on.target, subscription="s", subid=1, read_rules=lambda _: rules)
        self._at = LSN(100)
        self.stopped_by: Counter[str] = Counter()
        on.execute(*SUBSCRIBER, *(ON_POSTGRESQL if on.kind == "postgresql" else ()))

    def play(self, step: Step, sent: tuple[m.Message, ...], caplog: pytest.LogCaptureFixture) -> list[Said]:
        self.on.execute(step.local)
        caplog.clear()
        error = self._apply(sent)
        said = [
            Said("LOG", headline, tuple(detail.splitlines()))
            for headline, detail in re.findall(r"(conflict detected on .*)\nDETAIL:  ((?s:.*))\nCONTEXT", caplog.text)
        ]
        if error is not None:
            assert step.mend is not None
            self.stopped_by[str(conflict_kind(error))] += 1
            said.append(Said("ERROR", error.message, tuple(str(error.detail).splitlines())))
            self.on.execute(step.mend)
            assert self._apply(sent) is None
        return said

    def _apply(self, sent: tuple[m.Message, ...]) -> ConflictError | None:
        relations = [message for message in sent if isinstance(message, m.Relation)]
        others = [message for message in sent if not isinstance(message, m.Relation | m.Type)]
        end = max((LSN(one.end_lsn) for one in others if isinstance(one, m.Commit)), default=self._at)
        text = self.on.target.capabilities.postgresql_text
        try:
            apply_batch(self._applier, lambda: [frame(relations, others, text=text)], self._at, end)
        except ConflictError as error:
            return error
        self._at = end
        return None

    def counted(self) -> dict[str, int]:
        names = [f"confl_{kind}" for kind in KINDS_OF_18]
        row = self.on.execute(f"SELECT {', '.join(names)} FROM subscriber_stat_subscription_stats")[0]
        return dict(zip(KINDS_OF_18, row, strict=True))


def _blotted(found: re.Match[str]) -> str:
    return f"{'origin O ' if found[1] else ''}in transaction N{' at T' if found[2] else ''}."


def as_ours_can_tell(said: Said, kind: str) -> Said:
    """PostgreSQL's log, without what this kind of target does not know."""
    detail = (re.sub(r'(origin ".*" )?in transaction \d+( at .*)?\.$', _blotted, line) for line in said.detail)
    if kind != "postgresql":
        detail = (re.sub(r", modified .*\.$", ".", line) for line in detail)
    return Said(said.level, said.headline, tuple(detail))


def as_native_would(said: Said, kind: str) -> Said:
    """The log of this program, with PostgreSQL's names of indexes, and null for the default of a
    column without one.
    """
    detail = (line.replace("remote row (default, ", "remote row (null, ") for line in said.detail)
    if kind == "duckdb":
        detail = (line.replace('"t_a_pkey"', '"t_pkey"').replace('"pair_x_y_pkey"', '"pair_pkey"') for line in detail)
    return as_ours_can_tell(Said(said.level, said.headline, tuple(detail)), kind)


def lines(said: Iterable[Said]) -> list[str]:
    return [line for one in said for line in (f"{one.level}: {one.headline}", *one.detail)]


@pytest.mark.server
@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "duckdb", "mariadb"])
def test_conflicts_are_said_and_counted_as_postgresql_does(
    kind: str,
    native: History,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """C18-C22: headline and details of every step, and the counters after all of them"""
    caplog.set_level(logging.INFO)
    with applied_to(kind, request, tmp_path) as on:
        ours = Ours(on, show_values=True)
        for step, sent, said in zip(STEPS, native.messages, native.said, strict=True):
            if not step.everywhere and kind != "postgresql":
                continue
            found = [as_native_would(one, kind) for one in ours.play(step, sent, caplog)]
            assert lines(found) == lines(as_ours_can_tell(one, kind) for one in said), step.name
        if kind == "postgresql":
            # What stops a transaction is counted by the worker, at every attempt as there:
            # tests/unit/worker/test_worker.py.
            assert Counter(ours.counted()) + ours.stopped_by == Counter(native.counted)
            assert on.execute("SELECT a, b FROM later ORDER BY a") == [(1, 1), (2, 1)]

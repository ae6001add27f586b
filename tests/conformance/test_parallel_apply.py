"""Several writers of one subscription into real targets: what readers see is a prefix of the
publisher's order at any time, and the end is that of one writer.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pytest
import sqlalchemy as sa

from subscriber.apply.applier import ApplyResult, Rules
from subscriber.apply.apply_batch import apply_batch
from subscriber.apply.parallel.parallel_applier import ParallelApplier
from subscriber.apply.parallel.piece_order import Line
from subscriber.base.errors import ConflictError, RowFilterError, Stopped
from subscriber.base.failpoints import ENVIRONMENT
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.changes import Frame
from subscriber.targets import Target
from tests.changes import delete, insert, update
from tests.frames import frame, relation, transaction
from tests.target_databases import opened
from tests.waits import wait_until

START: Final = LSN(100)
T: Final = relation("public.t", {"a": "int4", "b": "text"}, ["a"])
PAIR: Final = relation("public.pair", {"a": "int4", "b": "int4", "v": "text"}, ["a", "b"], oid=3)
TABLES: Final = (
    "CREATE TABLE {}t (a INT PRIMARY KEY, b VARCHAR(100))",
    "CREATE TABLE {}pair (a INT, b INT, v VARCHAR(100), PRIMARY KEY (a, b))",
)

State = tuple[tuple[Any, ...], ...]


@pytest.fixture(params=["mariadb", "postgresql", "seekdb"])
def target(request, tmp_path, monkeypatch) -> Iterator[Target]:
    monkeypatch.setattr("subscriber.apply.parallel.pieces.LEAST_CHANGES", 1)
    with opened(request.param, request, tmp_path) as target:
        with target.begin() as connection:
            CATALOG.create_all(connection)
            OriginProgress(1).create(connection, START)
        create(target)
        yield target


def create(target: Target) -> None:
    schema = "public." if target.capabilities.postgresql_types else ""
    execute(target, *(table.format(schema) for table in TABLES))


def execute(target: Target, *statements: str) -> None:
    with target.engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def applier(target: Target, **options: Any) -> ParallelApplier:
    """An applier whose tables have their shapes in the catalog."""
    made = ParallelApplier(target, writers=3, subscription="sub", subid=1, **options)
    with target.begin() as connection:
        for shape in (T, PAIR):
            made._changes.store(connection, shape, None)
    return made


def pieces(target: Target, *transactions: Sequence[m.Message], first: int = 1) -> list[Frame]:
    """A frame for each transaction; they finish at 1000, 2000, 3000 and so on."""
    return [
        frame([T, PAIR], transaction(number * 1000, *changes, xid=number), text=target.capabilities.postgresql_text)
        for number, changes in enumerate(transactions, first)
    ]


def apply(made: ParallelApplier, frames: Sequence[Frame], *, after: int = 0) -> ApplyResult:
    """Apply frames as one batch, after so many transactions."""
    start = LSN(1000 * after) if after else START
    end = LSN(1000 * (after + len(frames)))
    return apply_batch(made, lambda: (one for one in frames), start, end)


def seen(target: Target, connection: sa.Connection | None = None) -> State:
    """The progress and the rows of all tables, in one statement."""
    schema = "public." if target.capabilities.postgresql_types else ""
    query = (
        f"SELECT 't', a, 0, b FROM {schema}t UNION ALL SELECT 'p', a, b, v FROM {schema}pair"
        " UNION ALL SELECT 'at', 0, 0, remote_lsn FROM subscriber_replication_origin_status"
    )
    if target.capabilities.postgresql_types:
        query = query.replace("remote_lsn", "remote_lsn::text")
    if connection is None:
        with target.engine.connect() as opened:
            return seen(target, opened)
    return tuple(sorted(tuple(row) for row in connection.exec_driver_sql(query)))


@contextmanager
def watched(target: Target) -> Iterator[list[State]]:
    """The states that a reader sees during the block, each once in a row."""
    states: list[State] = []
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            state = seen(target)
            if not states or states[-1] != state:
                states.append(state)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield states
    finally:
        over.set()
        thread.join()


def test_pieces_of_different_rows_are_written_beside_each_other(target):
    made = applier(target)
    frames = pieces(target, *([insert(str(10 * n + i), "x") for i in range(10)] for n in range(12)))
    apply(made, frames)
    assert made.pieces == {"beside": 12}
    assert len(seen(target)) == 121
    assert made.read_progress() == 12_000


def test_a_piece_waits_for_one_that_touches_its_row(target):
    made = applier(target)
    frames = pieces(
        target,
        [insert("1", "one")],
        [update(("1", "two"))],
        [insert("2", "x")],
        [update(("3", "three"), key=("1", None))],
        [delete("3", None)],
        [insert("3", "again")],
    )
    apply(made, frames)
    assert made.pieces["alone"] == 0
    assert [row for row in seen(target) if row[0] == "t"] == [("t", 2, 0, "x"), ("t", 3, 0, "again")]


def test_the_first_piece_of_a_table_stores_its_shape_alone(target):
    made = ParallelApplier(target, writers=3, subscription="sub", subid=1)
    apply(made, pieces(target, *([insert(str(n), "x")] for n in range(9))))
    assert made.pieces["alone"] >= 1
    assert len(seen(target)) == 10


def random_history(source: random.Random, size: int) -> tuple[list[list[m.Message]], list[State]]:
    """Transactions of a publisher, and what its tables hold after each."""
    there: dict[tuple[str, int, int], str] = {}

    def state(number: int) -> State:
        progress = 1000 * number if number else START
        at = ("at", 0, 0, f"0/{progress:X}")
        return tuple(sorted([at, *((*key, text) for key, text in there.items())]))

    history, states = [], [state(0)]
    for number in range(1, size + 1):
        history.append([random_change(source, there) for _ in range(source.randint(1, 12))])
        states.append(state(number))
    return history, states


def random_change(source: random.Random, there: dict[tuple[str, int, int], str]) -> m.Message:
    """A change of one of the rows that are there by now, or a new row."""
    table, text = source.choice("tp"), f"v{source.randint(0, 99)}"
    shape = T if table == "t" else PAIR
    second = source.randint(0, 3) if table == "p" else 0
    key, other = ((table, source.randint(0, 60), second) for _ in range(2))

    def row(of: tuple[str, int, int], value: str | None) -> tuple[str | None, ...]:
        return (str(of[1]), value) if table == "t" else (str(of[1]), str(of[2]), value)

    choice = source.random()
    if key not in there:
        there[key] = text
        return insert(*row(key, text), into=shape.relation_id)
    if choice < 0.3:
        del there[key]
        return delete(*row(key, None), of=shape.relation_id)
    if choice < 0.4 and other not in there:
        del there[key]
        there[other] = text
        return update(row(other, text), key=row(key, None), of=shape.relation_id)
    there[key] = text
    return update(row(key, text), of=shape.relation_id)


@pytest.mark.parametrize("seed", range(3))
def test_readers_see_a_prefix_of_the_commit_order_at_any_time(target, seed):
    """commit_order, progress_with_data"""
    history, states = random_history(random.Random(seed), 60)
    made = applier(target)
    with watched(target) as visible:
        result = apply(made, pieces(target, *history))
    visible.append(seen(target))
    assert (result.conflicts, result.transactions) == ({}, len(history))
    assert result.changes == sum(map(len, history))
    places = [states.index(state) for state in visible]
    assert places == sorted(places)
    assert places[-1] == len(history)
    assert made.pieces["beside"] > 10


def test_a_row_that_is_missing_is_counted_once_by_a_piece_that_is_alone(target):
    """Invariant fast_equals_exact"""
    made = applier(target)
    changes: list[list[m.Message]] = [[insert(str(10 * n), "x"), update((str(10 * n + 1), "y"))] for n in range(4)]
    result = apply(made, pieces(target, *changes))
    assert result.conflicts == {"update_missing": 4}
    with target.engine.connect() as connection:
        counted = connection.exec_driver_sql("SELECT count(*) FROM subscriber_conflict").scalar_one()
    assert counted == 4
    assert [row[1] for row in seen(target) if row[0] == "t"] == [0, 10, 20, 30]


def test_transactions_in_several_frames_and_truncates_keep_their_order(target):
    made = applier(target)
    messages = [
        message
        for number in range(30)
        for message in transaction(
            (number + 1) * 1000,
            *([m.Truncate((T.relation_id,), cascade=False, restart_identity=False)] if number % 10 == 5 else []),
            *(insert(str(100 * number + i), "x") for i in range(5)),
        )
    ]
    text = target.capabilities.postgresql_text
    frames = [frame([T], messages[at : at + 9], text=text) for at in range(0, len(messages), 9)]
    with watched(target) as visible:
        result = apply_batch(made, lambda: (one for one in frames), START, LSN(30_000))
    assert (result.transactions, result.progress) == (30, 30_000)
    assert [row[1] for row in seen(target) if row[0] == "t"] == [100 * n + i for n in range(25, 30) for i in range(5)]
    assert made.pieces["beside"] > 0 < made.pieces["alone"]
    for state in visible:
        ((*_, at),) = (row for row in state if row[0] == "at")
        last = int(at.partition("/")[2], 16) // 1000
        rows = [100 * n + i for n in range(last // 10 * 10 - 5 + 10 * (last % 10 > 5), last) for i in range(5)]
        assert [row[1] for row in state if row[0] == "t"] == [row for row in rows if row >= 0]


def test_a_large_transaction_is_applied_as_with_one_writer(target, monkeypatch):
    """Invariant bounded_memory: it is not kept until its end."""
    monkeypatch.setattr("subscriber.apply.parallel.pieces._MOST_BYTES", 1)
    made = applier(target)
    text = target.capabilities.postgresql_text
    large = transaction(3000, *(insert(str(1000 + i), "x") for i in range(20)))
    frames = [
        *pieces(target, [insert("1", "x")], [insert("2", "x")]),
        *(frame([T], large[at : at + 6], text=text) for at in range(0, len(large), 6)),
        *pieces(target, [insert("4", "x")], first=4),
    ]
    read: list[int] = []

    def reading() -> Iterator[Frame]:
        for number, one in enumerate(frames):
            read.append(number)
            yield one

    result = apply_batch(made, reading, START, LSN(4000))
    assert result.transactions == 4
    assert read == [*range(len(frames))]
    assert len(seen(target)) == 1 + 3 + 20
    assert sum(made.pieces.values()) == 2


def test_an_error_of_reading_is_that_of_the_transaction_in_which_it_happens(target):
    """Rule C35: what is before it is applied."""
    made = applier(target)
    frames = pieces(target, *([insert(str(n), "x")] for n in range(6)))

    def reading() -> Iterator[Frame]:
        yield from frames
        raise RowFilterError("a row filter failed", lsn=LSN(7000))

    with pytest.raises(RowFilterError):
        apply_batch(made, reading, START, LSN(9000))
    assert made.read_progress() == 6000
    assert len(seen(target)) == 7


def test_a_command_that_changes_the_rules_meanwhile_is_obeyed_from_the_next_piece_on(target):
    """As by one writer: the rules are those after the commit of the piece before."""
    asked: list[int] = []

    def rules(_connection: sa.Connection) -> Rules:
        asked.append(len(asked))
        changed = len(asked) > 8
        return Rules(lambda relation, _lsn: not (changed and relation is PAIR), source=changed)

    made = applier(target, read_rules=rules)
    changes = [[insert(str(n), "x"), insert(str(n), "0", "x", into=PAIR.relation_id)] for n in range(9)]
    with watched(target) as visible:
        apply(made, pieces(target, *changes))
    assert [row[1] for row in seen(target) if row[0] == "t"] == [*range(9)]
    pairs = [row[1] for row in seen(target) if row[0] == "p"]
    assert pairs == [*range(len(pairs))]
    assert len(pairs) < 9
    assert visible


def test_if_a_piece_cannot_be_applied_nothing_of_the_later_ones_is_visible(target):
    execute(target, f"INSERT INTO {table(target)} VALUES (30, 'in the way')")
    made = applier(target)
    frames = pieces(target, *([insert(str(10 * n), "x")] for n in range(1, 9)))
    with pytest.raises(ConflictError) as raised:
        apply(made, frames)
    assert raised.value.lsn == 3000 - 8
    assert made.read_progress() == 2000
    assert [row[1] for row in seen(target) if row[0] == "t"] == [10, 20, 30]
    execute(target, f"DELETE FROM {table(target)} WHERE a = 30")
    apply(made, frames)
    assert [row[1] for row in seen(target) if row[0] == "t"] == [10 * n for n in range(1, 9)]


def table(target: Target) -> str:
    return "public.t" if target.capabilities.postgresql_types else "t"


def test_a_piece_that_waits_for_a_later_one_gets_its_locks(target, monkeypatch):
    """A deadlock that the server cannot see: the later piece waits for its turn, outside of it."""
    monkeypatch.setattr(
        "subscriber.apply.parallel.piece_order.meet", lambda one, other: False
    )  # as if they did not meet
    made = applier(target)
    apply(made, pieces(target, [insert("1", "a"), insert("2", "b")]))
    waits = threading.Event()
    wait_for_turn = Line.wait_for_turn

    def wait(line: Any, piece: Any, patience: float) -> None:
        waits.set()
        wait_for_turn(line, piece, patience)

    monkeypatch.setattr(Line, "wait_for_turn", wait)
    first = [update(("1", "first")), update(("2", "first"))]
    frames = pieces(target, first, [update(("2", "second"))], first=2)
    with target.engine.connect() as other:
        locking = other.begin()
        other.exec_driver_sql(f"UPDATE {table(target)} SET b = 'locked' WHERE a = 1")
        thread = threading.Thread(target=apply, args=(made, frames), kwargs={"after": 1})
        thread.start()
        assert waits.wait(30)  # the second piece has changed its row
        locking.commit()
        thread.join(30)
    assert not thread.is_alive()
    assert made.pieces["alone"] >= 1
    assert [row[1:] for row in seen(target) if row[0] == "t"] == [(1, 0, "first"), (2, 0, "second")]


def test_a_stop_ends_the_writers_that_wait(target):
    execute(target, f"INSERT INTO {table(target)} VALUES (1, 'a')")
    made = applier(target)
    frames = pieces(target, [update(("1", "b"))], [insert("2", "x")], [insert("3", "x")])
    errors: list[BaseException] = []

    def work() -> None:
        try:
            apply(made, frames)
        except Stopped as stopped:
            errors.append(stopped)

    with target.engine.connect() as other, other.begin():
        other.exec_driver_sql(f"UPDATE {table(target)} SET b = 'locked' WHERE a = 1")
        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0.5)
        made.interruption.stop.set()
        while thread.is_alive():
            made.interruption.interrupt()
            thread.join(0.2)
    assert len(errors) == 1
    assert [row for row in seen(target) if row[0] == "t"] == [("t", 1, 0, "locked")]


KILLED: Final = """
import json, sys
from subscriber.apply.parallel import pieces
from subscriber.apply.applier import ApplyResult
from tests.conformance.test_parallel_apply import applier, apply, history_to_kill
from subscriber.targets import open_target
pieces.LEAST_CHANGES = 1
with open_target(json.loads(sys.argv[1])) as target:
    made = applier(target)
    apply(made, history_to_kill(target))
"""


def history_to_kill(target: Target) -> list[Frame]:
    return pieces(target, *([insert(str(10 * n + i), "x") for i in range(5)] for n in range(9)))


@pytest.mark.parametrize("failpoint", ["target.commit.before", "target.commit.after"])
@pytest.mark.parametrize("passes", [2, 5])
def test_a_kill_between_two_commits_leaves_a_prefix(target, failpoint, passes):
    """any_crash, progress_with_data: the writers of later pieces die with the process"""
    url = json.dumps(target.url.render_as_string(hide_password=False))
    environment = {**os.environ, ENVIRONMENT: f"{failpoint}=kill@{passes}", "PYTHONPATH": os.getcwd()}
    done = subprocess.run([sys.executable, "-c", KILLED, url], env=environment, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL
    committed = passes if failpoint.endswith("after") else passes - 1
    made = applier(target)
    wait_until(lambda: made.read_progress() == 1000 * committed)
    assert len(seen(target)) == 1 + 5 * committed
    apply(made, history_to_kill(target))
    assert len(seen(target)) == 1 + 5 * 9
    assert made.read_progress() == 9000

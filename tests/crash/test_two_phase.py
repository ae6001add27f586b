"""The process is killed at every failpoint around prepared transactions, each time that it is
reached, and started again (rules C50, C50a).

The applier alone, in a process of its own: what happens between a PREPARE and its progress is
decided by the target's rows only.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from itertools import count, pairwise

import pytest

from subscriber.apply.exact import ExactApplier
from subscriber.base import failpoints
from subscriber.base.failpoints import FAILPOINTS
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import CATALOG, PREPARED_TRANSACTION
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.changes import Frame
from subscriber.targets import Target, open_target
from tests.commands import CONTEXT
from tests.frames import finishes_of, frame, relation, transaction, values
from tests.journals import commit_prepared, prepare

T = relation("public.t", {"a": "int4"}, ["a"])


def insert(key: int) -> m.Insert:
    return m.Insert(16384, values(str(key)))


ENTRIES: dict[int, list[m.Message]] = {
    150: transaction(150, insert(10)),
    200: prepare(200, insert(1), xid=731),
    250: transaction(250, insert(11)),
    300: prepare(300, insert(2), xid=732),
    350: commit_prepared(350, xid=731),
    400: prepare(400, insert(3), xid=733),
    450: [m.RollbackPrepared(LSN(300), LSN(450), 5, 9, 732, "g")],
    500: transaction(500, insert(12)),
    560: [*prepare(480, insert(4), xid=734), *commit_prepared(560, xid=734)],
    600: commit_prepared(600, xid=733),
}
"""The entries of a journal by their end LSNs."""
BATCHES = (100, 250, 350, 560, 600)
ROWS = [1, 3, 4, 10, 11, 12]
POINTS = sorted(name for name in FAILPOINTS if name.startswith("target.") and not name.startswith("target.alter"))


def frames(start: int, end: int, *, text: bool) -> Iterator[Frame]:
    for place, entry in ENTRIES.items():
        if start < place <= end:
            yield frame([T], entry, text=text, finishes=finishes_of(entry, two_phase=True) | finishes_of(entry))


def apply_everything(url: str, armed: str) -> None:
    """Apply everything, in a process that the failpoints kill."""
    failpoints.arm({failpoints.ENVIRONMENT: armed})
    with open_target(url) as target:
        applier = ExactApplier(target, subscription="sub", subid=1)
        for start, end in pairwise(BATCHES):
            batch = frames(start, end, text=target.capabilities.postgresql_text)
            applier.apply(batch, start=LSN(start), end=LSN(end))


def exit_code(url: str, armed: str = "") -> int | None:
    process = CONTEXT.Process(target=apply_everything, args=(url, armed))
    process.start()
    process.join(60)
    return process.exitcode


@pytest.fixture(params=["postgresql18", "mariadb"])
def target(request) -> Iterator[Target]:
    server = request.getfixturevalue(request.param)
    name = f"crash_2pc_{os.getpid()}"
    server.create_database(name)
    try:
        with open_target(server.url(name)) as opened:
            with opened.engine.begin() as connection:
                CATALOG.create_all(connection)
                connection.exec_driver_sql("CREATE TABLE t (a INT PRIMARY KEY)")
            yield opened
    finally:
        server.drop_database(name)


def begin_anew(target: Target) -> None:
    with target.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM t")
        OriginProgress(1).drop(connection)
        OriginProgress(1).create(connection, LSN(BATCHES[0]))


@pytest.mark.parametrize("failpoint", POINTS)
def test_a_kill_around_a_prepared_transaction_loses_nothing_and_applies_nothing_twice(target, failpoint):
    """any_crash, C50a"""
    url = target.url.render_as_string(hide_password=False)
    for passes in count(1):
        begin_anew(target)
        survived = exit_code(url, f"{failpoint}=kill@{passes}")
        assert survived in (0, -signal.SIGKILL)
        assert survived == 0 or exit_code(url) == 0
        with target.engine.begin() as connection:
            assert connection.exec_driver_sql("SELECT a FROM t ORDER BY a").scalars().all() == ROWS
            assert target.prepared.names(connection) == frozenset()
            assert connection.execute(PREPARED_TRANSACTION.select()).all() == []
            assert OriginProgress(1).read(connection) == BATCHES[-1]
        if survived == 0:
            break
    assert passes > len(ENTRIES) / 3

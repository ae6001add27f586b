"""Random histories, applied to a target and then damaged at random: ``subscriber verify`` finds
every difference and invents none, and its repair makes both sides equal.

::

    history of a publisher ──▶ journal ──▶ target ──▶ verify: equal
                                              └──random damage──▶ verify: exactly the damage ──▶ repair ──▶ verify: equal

The expected differences are counted from the contents of both sides, by code that shares nothing
with the code under test but the text of a value. ``VERIFY_HISTORIES=1000`` makes 1,000 histories;
``SEED`` repeats one, whose damage is printed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any, Final

import pytest
import sqlalchemy as sa

from subscriber.base.errors import ConflictError
from subscriber.base.lsn import INVALID_LSN
from subscriber.base.settings import Settings
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.catalog.subscriptions import insert_subscription
from subscriber.catalog.table_states import RelationState, set_relation_states
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.storage import LocalStorage
from subscriber.testing.emulate import emulate
from subscriber.verify.report import VerifyOptions, VerifyReport
from subscriber.verify.verify_subscription import verify_subscription
from tests.conformance.test_random_histories import TABLES, Contents, Replica, fresh_url, history_of
from tests.random_seed import random_seed
from tests.verifying import IdleHold

HISTORIES: Final = int(os.environ.get("VERIFY_HISTORIES", "3"))
KINDS: Final = ("sqlite", "postgresql", "duckdb", "mariadb")
DAMAGES: Final = (
    "UPDATE keyed SET name = 'damaged' WHERE id = {n}",
    "UPDATE keyed SET amount = 77.25 WHERE id = {n}",
    "DELETE FROM keyed WHERE id >= {n}",
    "INSERT INTO keyed (id, name) VALUES (1000 + {n}, 'surplus')",
    "UPDATE pair SET v = NULL WHERE a = {n}",
    "DELETE FROM pair WHERE a = {n}",
    "INSERT INTO pair (a, b, v) VALUES ({n}, 'surplus', NULL)",
    "INSERT INTO bag (a, b, c, d) VALUES ({n}, '', NULL, NULL)",
    "INSERT INTO bag (a, b, c, d) SELECT a, b, c, d FROM bag WHERE a = {n}",
    "DELETE FROM bag WHERE a = {n}",
    "UPDATE bag SET b = '' WHERE b IS NULL",
    "UPDATE wide SET one = 'damaged' WHERE id = {n}",
    "UPDATE wide SET n = NULL",
    "UPDATE indexed SET c = 77 WHERE a = {n}",
    "DELETE FROM indexed",
    "UPDATE typed SET f = 1.5 WHERE id = {n}",
    "UPDATE typed SET d = '1999-01-01' WHERE id = {n}",
    "UPDATE parted SET v = 'damaged' WHERE id = {n}",
    "DELETE FROM parted WHERE id > {n}",
    "UPDATE full_keyed SET big = '' WHERE id = {n}",
)
SURPLUS: Final = "INSERT INTO keyed (id, name) VALUES (1100, 'surplus')"


def expected(ours: Contents, theirs: Contents, keys: dict[str, list[int]]) -> dict[str, tuple[int, int, int]]:
    """Differing rows, rows only at the publisher, and rows only in the target.

    Args:
        ours: the publisher's rows.
        theirs: the target's rows.
        keys: the places of the columns of each table's key.
    """
    found = {}
    for name in TABLES:
        missing, surplus = ours[name] - theirs[name], theirs[name] - ours[name]
        of_missing, of_surplus = (
            {tuple(row[place] for place in keys[name]) for row in rows} for rows in (missing, surplus)
        )
        changed = of_missing & of_surplus if keys[name] else set()
        found[name] = (len(changed), missing.total() - len(changed), surplus.total() - len(changed))
    return found


def counted(report: VerifyReport) -> dict[str, tuple[int, int, int]]:
    assert [one.error for one in report.tables if one.error] == []
    return {
        one.table.removeprefix("public."): (one.differing, one.only_publisher, one.only_target) for one in report.tables
    }


class Verified:
    """A replica whose catalog has a subscription with ready tables."""

    def __init__(self, replica: Replica, conninfo: str) -> None:
        self.replica = replica
        self.keys: dict[str, list[int]] = {}
        with replica.target.begin() as connection:
            stored = insert_subscription(connection, "s", conninfo, ["p"], SubscriptionOptions())
            assert stored.subid == 1
            set_relation_states(connection, 1, [("public", name) for name in TABLES], RelationState.READY, INVALID_LSN)
            for name in TABLES:
                table = replica.target.shapes.reflect(connection, "public", name)
                assert table is not None
                self.keys[name] = [place for place, one in enumerate(table.columns) if one.name in (table.key or ())]

    def verify(self, **options: Any) -> VerifyReport:
        hold = IdleHold()
        return verify_subscription(
            self.replica.target, "s", Settings(journal="unused"), VerifyOptions(processes=1, **options), hold=hold
        )

    def damage(self, statements: Sequence[str]) -> None:
        for statement in statements:
            # A statement that would give two rows one key is refused, and damages nothing.
            with suppress(ConflictError), self.replica.target.begin() as connection:
                if self.replica.target.capabilities.postgresql_text:
                    connection.exec_driver_sql("SET LOCAL search_path = public")
                connection.execute(sa.text(statement))


@pytest.mark.server
@pytest.mark.slow
def test_every_difference_is_found_and_none_is_invented(postgresql18, mariadb, tmp_path):
    first = random_seed()
    for number, seed in enumerate(range(first, first + HISTORIES)):
        folder = tmp_path / str(seed)
        with ExitStack() as stack:
            history, start = stack.enter_context(history_of(postgresql18, folder / "journal", seed))
            # Prepared rows are locked, in MariaDB with their neighbours, and another session that
            # looks for one waits.
            kind = KINDS[number % len(KINDS)]
            if history.prepares_bags or (history.two_phase and kind == "mariadb"):
                kind = "sqlite"
            url = stack.enter_context(fresh_url(kind, folder, postgresql18, mariadb))
            replica = Replica(url, start, history.database)
            source = random.Random(seed)
            statements = [source.choice(DAMAGES).format(n=source.randint(0, 9)) for _ in range(source.randint(1, 6))]
            where = f"SEED={seed}, {kind}: {statements}"
            try:
                reader = JournalReader(LocalStorage(folder / "journal"))
                emulate(reader, replica.applier, start, reader.latest(start))
                verified = Verified(replica, history.database.conninfo)
                assert verified.verify().is_equal, where
                verified.damage(statements)
                wanted = expected(history.states[-1], replica.contents(), verified.keys)
                if not any(map(sum, wanted.values())):
                    # No statement found a row. A surplus row is always damage.
                    verified.damage([SURPLUS])
                    wanted = expected(history.states[-1], replica.contents(), verified.keys)
                    assert any(map(sum, wanted.values())), where
                assert counted(verified.verify()) == wanted, where
                repaired = verified.verify(repair=True)
                assert counted(repaired) == wanted, where
                assert repaired.is_equal, where
                assert set(expected(history.states[-1], replica.contents(), verified.keys).values()) == {(0, 0, 0)}, (
                    where
                )
            finally:
                replica.end()

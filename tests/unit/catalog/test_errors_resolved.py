"""The last error in `status`: whether it is over, and since when. One that was mended long ago used
to look like today's.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from subscriber import catalog
from subscriber.catalog import RelationState
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.lsn import LSN
from subscriber.targets import Target, open_target


class Kept:
    def __init__(self, target: Target) -> None:
        self.target = target

    def fail(self, **where: object) -> None:
        with self.target.begin() as connection:
            catalog.record_error(connection, "s", "ERROR:  away", **where)  # type: ignore[arg-type]

    def resolve(self, applied: int, *, waiting: bool = True) -> bool:
        with self.target.begin() as connection:
            return catalog.resolve_error(connection, 1, applied=LSN(applied), waiting=waiting)

    @property
    def resolved_at(self) -> str | None:
        with self.target.engine.connect() as connection:
            found: str | None = catalog.statistics_of(connection, 1)["last_error_resolved_at"]
        return found


@pytest.fixture
def kept(tmp_path) -> Iterator[Kept]:
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as target:
        catalog.ensure_catalog(target.engine)
        with target.begin() as connection:
            made = catalog.insert_subscription(connection, "s", "", ["p"], SubscriptionOptions(slot_name="s"), "1")
            made.progress.create(connection, LSN(50))
        yield Kept(target)


def test_without_an_error_there_is_nothing_to_resolve(kept):
    assert kept.resolve(50)
    assert kept.resolved_at is None


def test_the_error_of_a_transaction_is_over_when_that_is_applied(kept):
    kept.fail(lsn=100)
    assert (kept.resolve(99, waiting=False), kept.resolved_at) == (False, None)
    assert kept.resolve(100)
    first = kept.resolved_at
    assert first is not None
    assert kept.resolve(200)
    assert kept.resolved_at == first  # it stays the moment at which it was over


def test_an_error_without_a_transaction_is_over_when_nothing_is_left_to_apply(kept):
    kept.fail()
    assert not kept.resolve(100)
    assert kept.resolve(100, waiting=False)


def test_the_error_of_a_copy_is_over_when_no_table_is_left_with_an_error(kept):
    kept.fail(worker="sync")
    with kept.target.begin() as connection:
        catalog.set_relation_state(connection, 1, "public", "t", RelationState.DATASYNC)
        catalog.record_relation_error(connection, 1, "public", "t", "ERROR:  away")
    assert not kept.resolve(100, waiting=False)
    with kept.target.begin() as connection:
        (table,) = catalog.relations_of(connection, 1)
        catalog.advance_relation(connection, 1, table, RelationState.FINISHEDCOPY, LSN(60))
    assert kept.resolve(100)


def test_a_new_error_is_not_over(kept):
    kept.fail(lsn=100)
    assert kept.resolve(100)
    kept.fail(lsn=120)
    assert (kept.resolved_at, kept.resolve(110)) == (None, False)

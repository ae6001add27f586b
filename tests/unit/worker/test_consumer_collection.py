"""Consumers that no subscription of the target needs are removed from the journals."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from subscriber.base.lsn import LSN
from subscriber.base.settings import Settings
from subscriber.catalog.catalog_upgrade import target_identifier
from subscriber.catalog.released import ReleasedSlot, release_slot
from subscriber.stream.journal.control import CONTROL_FILE
from subscriber.stream.journal.retention import Consumer, list_consumers, write_consumer
from subscriber.stream.journal.storage import LocalStorage
from subscriber.targets import Target, open_target
from subscriber.worker.supervisor import ConsumerCollection
from tests.journals import writing
from tests.subscriptions import create_subscription


class Journal:
    """The journal of slot s of system 1, which consumers of the target read."""

    def __init__(self, folder: Path, target: Target) -> None:
        self.base = str(folder / "journals")
        self.storage = LocalStorage(folder / "journals" / "1_s")
        with writing(self.storage, system="1", slot="s"):
            pass
        with target.engine.connect() as connection:
            self._identifier = target_identifier(connection)

    def add_consumer(self, subid: int) -> Consumer:
        consumer = Consumer(self._identifier, subid)
        write_consumer(self.storage, consumer, LSN(200), subscription=f"s{subid}", place="sqlite:///t.db")
        return consumer

    def subids(self) -> set[int]:
        """The subscriptions whose consumers are left."""
        return {one.consumer.subid for one in list_consumers(self.storage) if one.consumer}


@pytest.fixture
def journal(tmp_path, target) -> Journal:
    return Journal(tmp_path, target)


@pytest.fixture
def collection(journal, target) -> ConsumerCollection:
    return ConsumerCollection(target, Settings(journal.base))


def test_the_consumer_of_a_dropped_subscription_is_removed_and_named(collection, journal, target, caplog):
    subscription = create_subscription(target)
    journal.add_consumer(1)
    dropped = journal.add_consumer(2)
    with caplog.at_level(logging.INFO):
        collection.collect([subscription])
    assert journal.subids() == {1}
    assert f'removed consumer "{dropped.file}" of the journal' in caplog.text


def test_the_journals_are_read_again_only_after_the_subscriptions_have_changed(collection, journal, target):
    subscriptions = [create_subscription(target, "s"), create_subscription(target, "t")]
    collection.collect(subscriptions)
    journal.add_consumer(3)
    collection.collect(subscriptions)
    assert journal.subids() == {3}
    collection.collect(subscriptions[:1])
    assert journal.subids() == set()


def test_the_consumer_of_a_released_slot_is_kept_for_its_successor(collection, journal, target):
    journal.add_consumer(2)
    with target.begin() as connection:
        release_slot(connection, ReleasedSlot("1", "s", applied=LSN(200), subscription="dropped"))
    collection.collect([])
    assert journal.subids() == {2}


def test_a_journal_that_cannot_be_read_is_tried_again_later(collection, journal):
    journal.add_consumer(2)
    control = Path(journal.base, "1_s", CONTROL_FILE)
    content = control.read_bytes()
    control.write_bytes(b"not a control file")
    collection.collect([])
    assert journal.subids() == {2}
    control.write_bytes(content)
    collection.collect([])
    assert journal.subids() == {2}, "it is not time yet"
    collection._again = 0.0
    collection.collect([])
    assert journal.subids() == set()


def test_a_target_that_cannot_be_queried_removes_nothing(journal, tmp_path):
    """Nobody knows then which consumers are needed."""
    journal.add_consumer(1)
    with open_target(f"sqlite:///{tmp_path / 'without_catalog.db'}") as empty:
        ConsumerCollection(empty, Settings(journal.base)).collect([])
    assert journal.subids() == {1}

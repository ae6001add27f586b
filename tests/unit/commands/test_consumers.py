"""The consumers of a subscription: their files, and when these are written and removed."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from subscriber.base.errors import JournalUnavailable, UsageError
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.catalog.subscriptions import Subscription
from subscriber.commands.consumers import (
    JournalConsumers,
    apply_consumer,
    check_other_targets,
    collect_consumers,
    display_url,
    sync_consumer,
)
from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.publication.publishing import Publishing
from subscriber.stream.decode.publication_history import read_publication_history
from subscriber.stream.journal.retention import Consumer, list_consumers, read_consumer, write_consumer
from subscriber.stream.journal.storage import LocalStorage, open_storage
from subscriber.targets import open_target
from tests.frames import transaction
from tests.journals import T, insert, passed, publish, writing
from tests.publications import entry, table, tables
from tests.streams import SLOT, SYSTEM

OURS = "8c1f" * 8
ANOTHERS = "00ff" * 8


def subscription(subid: int, slot: str | None = SLOT, system: str | None = SYSTEM) -> Subscription:
    options = SubscriptionOptions(slot_name=slot, copy_data=False)
    return Subscription(subid, f"s{subid}", "", ("p",), options, True, slot, INVALID_LSN, system)


@pytest.fixture
def storage(tmp_path):
    """A journal of slot SLOT below ``tmp_path``, with transactions that end at 200 and 300."""
    storage = open_storage(f"{tmp_path}/{SYSTEM}_{SLOT}")
    with writing(storage) as journal:
        publish(journal, 0x200, transaction(0x200, T, insert(1)))
        publish(journal, 0x300, transaction(0x300, T, insert(2)))
    return storage


def consumers(storage, name: str = "s") -> JournalConsumers:
    return JournalConsumers(storage.url, OURS, 1, subscription=name, place="sqlite:///t.db")


def left(storage) -> set[Consumer | None]:
    return {one.consumer for one in list_consumers(storage)}


def collect(tmp_path, *subscriptions, keep=()) -> list[str]:
    removed, complete = collect_consumers(str(tmp_path), OURS, subscriptions, keep)
    assert complete
    return removed


# Taking over ------------------------------------------------------------------------------------


def test_the_consumers_of_a_slots_last_subscription_are_removed_when_it_is_taken_over(storage, tmp_path):
    """The last subscription may be of another target, and its worker may still have written one."""
    released, late = Consumer(ANOTHERS, 7, "released"), apply_consumer(ANOTHERS, 7)
    stranger = apply_consumer("77aa" * 8, 1)
    for who in (released, late, stranger):
        passed(storage, 0x200, who)
    assert collect(tmp_path, subscription(1)) == []
    ours = consumers(storage)
    ours.take_over()
    assert left(storage) == {released, late, stranger}  # its own position is not there yet
    ours.record_applied(LSN(0x200))
    ours.take_over()
    assert left(storage) == {apply_consumer(OURS, 1), stranger}


def test_a_released_consumer_of_the_same_number_is_removed(storage):
    passed(storage, 0x200, Consumer(OURS, 1, "released"))
    ours = consumers(storage)
    ours.record_applied(LSN(0x200))
    ours.keep(LSN(0x200))
    ours.take_over()
    assert left(storage) == {apply_consumer(OURS, 1), sync_consumer(OURS, 1)}


# Collecting ---------------------------------------------------------------------------------------


def test_the_consumers_of_a_dropped_subscription_are_removed(storage, tmp_path):
    gone, stays = apply_consumer(OURS, 1), apply_consumer(OURS, 2)
    for who, lsn in ((gone, 0x200), (sync_consumer(OURS, 1), 0x180), (stays, 0x300)):
        passed(storage, lsn, who)
    with writing(storage) as journal:
        journal.trim()
        assert journal.applied() == 0x180
        assert collect(tmp_path, subscription(2)) == sorted([gone.file, sync_consumer(OURS, 1).file])
        journal.trim()
        assert journal.applied() == 0x300
    assert left(storage) == {stays}


def test_the_consumers_of_a_subscription_with_another_slot_are_removed(storage, tmp_path):
    passed(storage, 0x200, apply_consumer(OURS, 1))
    assert collect(tmp_path, subscription(1, slot="another"))
    passed(storage, 0x200, apply_consumer(OURS, 1))
    assert collect(tmp_path, subscription(1, slot=None))
    passed(storage, 0x200, apply_consumer(OURS, 1))
    assert collect(tmp_path, subscription(1, system="1"))


@pytest.mark.parametrize("system", [SYSTEM, None])
def test_the_consumers_of_a_subscription_with_this_slot_stay(storage, tmp_path, system):
    """Also where the subscription does not know its publisher's system identifier yet."""
    passed(storage, 0x200, apply_consumer(OURS, 1))
    assert collect(tmp_path, subscription(1, system=system)) == []
    assert left(storage) == {apply_consumer(OURS, 1)}


def test_the_consumers_of_a_released_slot_stay(storage, tmp_path):
    passed(storage, 0x200, apply_consumer(OURS, 1))
    assert collect(tmp_path, keep=[(SYSTEM, SLOT)]) == []
    assert collect(tmp_path) == [apply_consumer(OURS, 1).file]


def test_consumers_of_other_targets_and_of_earlier_versions_stay(storage, tmp_path):
    passed(storage, 0x200, apply_consumer(ANOTHERS, 1))
    (storage.folder / "consumer-s.lsn").write_text("0/200")
    assert collect(tmp_path) == []
    assert left(storage) == {apply_consumer(ANOTHERS, 1), None}


def test_a_journal_that_cannot_be_read_does_not_prevent_collecting_in_others(storage, tmp_path):
    passed(storage, 0x200, apply_consumer(OURS, 1))
    broken = LocalStorage(tmp_path / "1_a")
    broken.replace("journal.json", b"no control file", durable=False)
    passed(broken, 0x200, apply_consumer(OURS, 1))
    assert collect_consumers(str(tmp_path), OURS, []) == ([apply_consumer(OURS, 1).file], False)
    assert left(storage) == set()
    assert left(broken) == {apply_consumer(OURS, 1)}


# Earlier versions ---------------------------------------------------------------------------------


def test_a_worker_replaces_the_consumers_of_an_earlier_version(storage):
    (storage.folder / "consumer-s.lsn").write_text("0/200")
    (storage.folder / "consumer-s (table sync).lsn").write_text("0/180")
    (storage.folder / "consumer-S.lsn").write_text("0/250")
    consumers(storage).replace_earlier()
    assert read_consumer(storage, apply_consumer(OURS, 1)) == 0x200
    assert read_consumer(storage, sync_consumer(OURS, 1)) == 0x180
    assert [one.subscription for one in list_consumers(storage) if one.consumer is None] == ["S"]


def test_a_replacement_that_was_interrupted_keeps_the_newer_position(storage):
    passed(storage, 0x300, apply_consumer(OURS, 1))
    (storage.folder / "consumer-s.lsn").write_text("0/200")
    consumers(storage).replace_earlier()
    assert read_consumer(storage, apply_consumer(OURS, 1)) == 0x300
    assert left(storage) == {apply_consumer(OURS, 1)}


@pytest.mark.parametrize("name", ["a/b", "..", "../7300_s/journal", "x" * 63, "a\nb", "'\"", "a ", "é" * 31])
def test_no_file_is_named_after_a_subscription(storage, tmp_path, name):
    before = {path.name for path in storage.folder.iterdir()}
    one = consumers(storage, name)
    one.replace_earlier()
    one.record_applied(LSN(0x200))
    one.keep(LSN(0x180))
    added = {path.name for path in storage.folder.iterdir()} - before
    assert added == {apply_consumer(OURS, 1).file, sync_consumer(OURS, 1).file}
    assert {found.subscription for found in list_consumers(storage)} == {name}
    assert [path.name for path in tmp_path.iterdir()] == [storage.folder.name]


# Writing ------------------------------------------------------------------------------------------


def test_a_position_that_cannot_be_written_is_written_later_with_one_warning(storage, monkeypatch, caplog):
    """The target has committed, so an error would not help."""
    one = consumers(storage)
    one.record_applied(LSN(0x200))
    written = LocalStorage.replace

    def full(*_, **__):
        raise JournalUnavailable("could not write the journal: No space left on device")

    monkeypatch.setattr(LocalStorage, "replace", full)
    with caplog.at_level(logging.WARNING):
        one.record_applied(LSN(0x280))
        one.write_late()
        one.record_applied(LSN(0x300))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    monkeypatch.setattr(LocalStorage, "replace", written)
    assert read_consumer(storage, apply_consumer(OURS, 1)) == 0x200
    one.write_late()
    assert read_consumer(storage, apply_consumer(OURS, 1)) == 0x300


def test_only_the_position_of_table_synchronization_is_durable(storage, monkeypatch):
    """Otherwise a power failure could remove changes that a table still needs for its catch-up."""
    durable = {}
    written = LocalStorage.replace

    def replace(self, name, content, **options):
        durable[name] = options["durable"]
        written(self, name, content, **options)

    monkeypatch.setattr(LocalStorage, "replace", replace)
    one = consumers(storage)
    one.record_applied(LSN(0x200))
    one.keep(LSN(0x180))
    assert durable == {apply_consumer(OURS, 1).file: False, sync_consumer(OURS, 1).file: True}


def test_the_place_of_a_target_has_no_password(tmp_path):
    with open_target(f"sqlite:///{tmp_path}/t.db") as target:
        target.url = target.url.set(username="u", password="secret", query={"x": "secret"})
        assert "secret" not in display_url(target)
        assert display_url(target).endswith("/t.db")


@pytest.mark.parametrize("purpose", ["apply", "sync"])
def test_a_slot_that_a_subscription_of_another_target_uses_is_refused_with_its_name(storage, purpose):
    write_consumer(storage, Consumer(ANOTHERS, 7, purpose), LSN(0x200), subscription="shop", place="sqlite:///o.db")
    with pytest.raises(UsageError) as refused:
        check_other_targets(storage, OURS, SLOT)
    error = refused.value
    assert error.sqlstate == "55006"
    assert error.message == f'replication slot "{SLOT}" is used by subscription "shop" of sqlite:///o.db'
    assert f"subscriber journal forget --journal {storage.url} " in str(error.hint)


def test_a_slot_that_was_released_by_another_target_is_handed_on(storage):
    """Its worker may have written its position once more while it ended."""
    for purpose in ("apply", "released"):
        write_consumer(storage, Consumer(ANOTHERS, 7, purpose), LSN(0x200), subscription="s", place="sqlite:///o.db")
    write_consumer(storage, Consumer(OURS, 1), LSN(0x200), subscription="s", place="sqlite:///t.db")
    check_other_targets(storage, OURS, SLOT)


def test_a_slot_without_a_journal_here_has_no_consumers_that_are_known(tmp_path):
    check_other_targets(open_storage(f"{tmp_path}/none"), OURS, SLOT)
    assert list(tmp_path.iterdir()) == []


def test_publications_that_cannot_be_recorded_are_forgotten_rather_than_wrong(storage, monkeypatch, caplog):
    """A change feed is then refused; the subscription goes on."""
    t = table("public.t", {"a": "int4"}, key=["a"])
    publishing = Publishing((Publication("p", tables=(entry(t),)),), tables(t))
    ours = consumers(storage)
    ours.record_publishing(publishing, LSN(0x100))
    assert read_publication_history(storage) is not None

    def full(*_: object, **__: object) -> None:
        raise JournalUnavailable("no space left on device")

    monkeypatch.setattr(LocalStorage, "replace", full)
    ours.record_publishing(replace(publishing, publications=()), LSN(0x200))
    assert read_publication_history(storage) is None
    assert "change feeds cannot be read" in caplog.text

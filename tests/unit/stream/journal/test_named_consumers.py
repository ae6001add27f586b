"""Consumers with a name: what they have not passed is kept, and they never read past a gap."""

from __future__ import annotations

import pytest

from subscriber.base.errors import JournalGap, UsageError
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.stream.journal import named_consumers
from subscriber.stream.journal.named_consumers import advance, drop, forget, list_named, register
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.retention import Passed, consumer_files, list_consumers
from subscriber.stream.journal.retention import passed as passed_by
from subscriber.stream.journal.segment import journal_entries
from subscriber.stream.journal.storage import LocalStorage, Storage, open_storage
from subscriber.stream.journal.writer import KeepRules
from tests.frames import transaction
from tests.journals import T, insert, keys_of, passed, publish, three_transactions, writing


@pytest.fixture
def storage(tmp_path):
    """A journal from 0/100 with the transactions that end at 0/200, 0/300 and 0/400."""
    three_transactions(tmp_path)
    return LocalStorage(tmp_path)


def trimmed(storage: Storage) -> list[int]:
    """Trim the journal as a receiver does; returns the ends of the entries that are left."""
    with writing(storage, applied=0x400) as journal:
        journal.trim()
    return [entry.end for entry in journal_entries(storage)]


def positions(storage: Storage) -> dict[str, int]:
    return {one.name: one.lsn for one in list_named(storage) if one.dropped is None}


def the(storage: Storage, name: str) -> named_consumers.NamedConsumer:
    return next(one for one in list_named(storage) if one.name == name)


# Where a consumer begins --------------------------------------------------------------------------


def test_a_new_consumer_begins_where_it_says(storage):
    assert register(storage, "orders", LSN(0x300)) == 0x300
    assert positions(storage) == {"orders": 0x300}


def test_a_new_consumer_without_a_position_begins_at_the_beginning_of_the_journal(storage):
    assert register(storage, "orders") == 0x100


def test_a_known_consumer_continues_at_its_position(storage):
    register(storage, "orders")
    advance(storage, "orders", LSN(0x200))
    assert register(storage, "orders") == 0x200
    assert register(storage, "orders", LSN(0x300)) == 0x200  # the last advance was lost


def test_a_consumer_that_reads_again_gets_back_what_is_still_there(storage):
    register(storage, "orders", LSN(0x300))
    assert register(storage, "orders", LSN(0x200)) == 0x200
    assert positions(storage) == {"orders": 0x200}


def test_a_consumer_is_refused_when_the_journal_begins_later(storage):
    register(storage, "other", LSN(0x300))
    assert trimmed(storage) == [0x400]
    with pytest.raises(JournalGap, match="needs the changes after 0/200, but the journal begins at 0/300") as caught:
        register(storage, "orders", LSN(0x200))
    assert caught.value.lsn == 0x200
    assert "new checkpoint" in (caught.value.hint or "")
    assert positions(storage) == {"other": 0x300}
    with pytest.raises(JournalGap, match="needs the changes after 0/200") as caught:
        register(storage, "other", LSN(0x200))
    assert "journal forget" in (caught.value.hint or "")
    assert positions(storage) == {"other": 0x300}


class TrimmedMeanwhile(LocalStorage):
    """A journal that is trimmed after a consumer has looked where it begins."""

    trim = True

    def replace(self, name: str, content: bytes, *, durable: bool, from_reserve: bool = True) -> None:
        super().replace(name, content, durable=durable, from_reserve=from_reserve)
        if self.trim and name.startswith("named-"):
            self.trim = False
            self.delete([name])  # the writer's listing does not show it yet
            passed(self, 0x300)
            with writing(self, applied=0x300) as journal:
                journal.trim()
            super().replace(name, content, durable=durable, from_reserve=from_reserve)


def test_a_journal_that_is_trimmed_while_a_consumer_registers_leaves_no_gap(storage):
    assert register(TrimmedMeanwhile(storage.folder), "orders") == 0x300
    assert positions(storage) == {"orders": 0x300}


def test_a_position_that_is_trimmed_while_it_is_registered_is_refused(storage):
    with pytest.raises(JournalGap, match="needs the changes after 0/200"):
        register(TrimmedMeanwhile(storage.folder), "orders", LSN(0x200))
    assert positions(storage) == {}


def test_a_known_position_stays_when_an_earlier_one_is_trimmed_while_it_is_registered(storage):
    register(storage, "orders", LSN(0x400))
    with pytest.raises(JournalGap, match="needs the changes after 0/200"):
        register(TrimmedMeanwhile(storage.folder), "orders", LSN(0x200))
    assert positions(storage) == {"orders": 0x400}


def test_without_a_journal_there_is_nothing_to_register_in(tmp_path):
    with pytest.raises(JournalGap, match="there is no journal") as caught:
        register(LocalStorage(tmp_path), "orders")
    assert "subscriber receive" in (caught.value.hint or "")
    assert list(tmp_path.iterdir()) == []


# What is kept -------------------------------------------------------------------------------------


def test_what_a_named_consumer_has_not_passed_is_kept(storage):
    passed(storage, 0x400)
    register(storage, "orders", LSN(0x200))
    assert trimmed(storage) == [0x300, 0x400]
    advance(storage, "orders", LSN(0x300))
    assert trimmed(storage) == [0x400]


def test_the_slowest_of_two_named_consumers_counts(storage):
    register(storage, "fast", LSN(0x400))
    register(storage, "slow", LSN(0x300))
    assert trimmed(storage) == [0x400]


def test_a_position_never_moves_back(storage):
    register(storage, "orders", LSN(0x300))
    advance(storage, "orders", LSN(0x200))
    assert positions(storage) == {"orders": 0x300}


def test_the_publisher_is_told_what_the_targets_have_applied_and_not_what_queries_have_read(storage):
    """Commits may wait for it (synchronous_commit = remote_apply)."""
    register(storage, "orders", LSN(0x200))
    files = consumer_files(storage, storage.names())
    assert passed_by(storage, files) == Passed(slowest=LSN(0x200), fastest=LSN(0x200), applied=LSN(0x200))
    passed(storage, 0x300)
    files = consumer_files(storage, storage.names())
    assert passed_by(storage, files) == Passed(slowest=LSN(0x200), fastest=LSN(0x300), applied=LSN(0x300))


def test_a_named_consumer_is_no_subscription(storage):
    """Its slot may be handed to a subscription."""
    register(storage, "orders")
    assert list_consumers(storage) == []


def test_a_damaged_position_keeps_everything(storage):
    register(storage, "orders", LSN(0x300))
    for file in storage.folder.glob("named-*"):
        file.write_bytes(b"")
    assert trimmed(storage) == [0x200, 0x300, 0x400]
    assert positions(storage) == {"orders": INVALID_LSN}
    assert register(storage, "orders", LSN(0x300)) == 0x300


def test_a_consumer_says_when_it_has_last_moved(storage, monkeypatch):
    monkeypatch.setattr(named_consumers, "now", lambda: "2026-01-01T00:00:00.000+00:00")
    register(storage, "orders")
    monkeypatch.setattr(named_consumers, "now", lambda: "2026-01-02T00:00:00.000+00:00")
    assert the(storage, "orders").moved == "2026-01-01T00:00:00.000+00:00"
    advance(storage, "orders", LSN(0x100))
    assert the(storage, "orders").moved == "2026-01-01T00:00:00.000+00:00"
    advance(storage, "orders", LSN(0x200))
    assert the(storage, "orders").moved == "2026-01-02T00:00:00.000+00:00"


# Dropped and forgotten ----------------------------------------------------------------------------


def dropped(storage: Storage, name: str = "orders", lsn: int = 0x200) -> None:
    register(storage, name, LSN(lsn))
    drop(storage, the(storage, name))


def test_nothing_is_kept_for_a_dropped_consumer(storage):
    dropped(storage)
    passed(storage, 0x400)
    assert trimmed(storage) == []


@pytest.mark.parametrize("lsn", [INVALID_LSN, LSN(0x200), LSN(0x400)])
def test_a_dropped_consumer_cannot_come_back(storage, lsn):
    dropped(storage)
    with pytest.raises(JournalGap, match=r'consumer "orders" was dropped on .* at 0/200') as caught:
        register(storage, "orders", lsn)
    assert f"`subscriber journal forget --journal {storage.url} orders --yes`" in (caught.value.hint or "")
    assert caught.value.stops
    with pytest.raises(JournalGap, match="was dropped"):
        advance(storage, "orders", LSN(0x400))
    assert positions(storage) == {}


def test_a_position_that_is_written_while_its_consumer_is_dropped_does_not_count(storage):
    register(storage, "orders", LSN(0x200))
    (file,) = storage.folder.glob("named-*.lsn")
    content = file.read_bytes()
    drop(storage, the(storage, "orders"))
    file.write_bytes(content)
    passed(storage, 0x400)
    assert trimmed(storage) == []


class DroppedMeanwhile(LocalStorage):
    """A journal that drops a consumer just before it writes its position."""

    def replace(self, name: str, content: bytes, *, durable: bool, from_reserve: bool = True) -> None:
        drop(LocalStorage(self.folder), the(self, "orders"))
        super().replace(name, content, durable=durable, from_reserve=from_reserve)


def test_a_consumer_that_is_dropped_while_it_moves_is_told(storage):
    register(storage, "orders", LSN(0x200))
    with pytest.raises(JournalGap, match="was dropped"):
        advance(DroppedMeanwhile(storage.folder), "orders", LSN(0x300))
    assert [file.suffix for file in storage.folder.glob("named-*")] == [".dropped"]


def test_a_forgotten_consumer_may_return_where_nothing_is_missing(storage):
    dropped(storage, lsn=0x200)
    register(storage, "other", LSN(0x300))
    trimmed(storage)
    assert forget(storage, "orders")
    with pytest.raises(JournalGap, match="needs the changes after 0/200"):
        register(storage, "orders", LSN(0x200))
    assert register(storage, "orders", LSN(0x300)) == 0x300


def test_a_forgotten_consumer_keeps_nothing_and_is_told(storage):
    register(storage, "orders", LSN(0x200))
    register(storage, "other", LSN(0x300))
    assert forget(storage, "orders")
    assert trimmed(storage) == [0x400]
    with pytest.raises(UsageError, match='has no consumer "orders"') as caught:
        advance(storage, "orders", LSN(0x300))
    assert "Start the query again" in (caught.value.hint or "")


def test_to_forget_an_unknown_consumer_changes_nothing(storage):
    register(storage, "orders")
    assert not forget(storage, "other")
    assert positions(storage) == {"orders": 0x100}


def test_a_journal_that_begins_again_drops_the_consumers_before_its_beginning(storage):
    register(storage, "behind", LSN(0x300))
    register(storage, "ahead", LSN(0x500))
    with writing(storage, confirmed=0x500, applied=0x500) as journal:
        assert positions(storage) == {"ahead": 0x500}
        publish(journal, 0x600, transaction(0x600, T, insert(6)))
    with pytest.raises(JournalGap, match='"behind" was dropped'):
        register(storage, "behind", LSN(0x300))


# Absent consumers ---------------------------------------------------------------------------------


def trimmed_by(storage: Storage, rules: KeepRules) -> list[int]:
    with writing(storage, applied=0x400, rules=rules) as journal:
        journal.trim()  # the first one, when it is opened, has not found every consumer
    return [entry.end for entry in journal_entries(storage)]


def size_of(storage: Storage, after: int) -> int:
    return sum(entry.size for entry in journal_entries(storage) if entry.end > after)


def test_an_absent_consumer_holds_everything_by_default(storage):
    register(storage, "absent", LSN(0x200))
    register(storage, "present", LSN(0x400))
    assert trimmed_by(storage, KeepRules()) == [0x300, 0x400]


def test_a_consumer_for_which_too_much_is_kept_is_dropped_with_a_warning(storage, caplog):
    register(storage, "absent", LSN(0x200))
    register(storage, "slow", LSN(0x300))
    kept, most = size_of(storage, 0x200), size_of(storage, 0x300)
    assert trimmed_by(storage, KeepRules(absent_size=most)) == [0x400]
    assert positions(storage) == {"slow": 0x300}
    assert (
        f'consumer "absent" of the journal was dropped at 0/200: {kept} bytes are after its position,'
        f" SUBSCRIBER_JOURNAL_ABSENT_CONSUMERS allows {most}"
    ) in caplog.text
    with pytest.raises(JournalGap, match="was dropped"):
        register(storage, "absent", LSN(0x200))


def test_subscriptions_are_never_dropped(storage):
    passed(storage, 0x200)
    assert trimmed_by(storage, KeepRules(absent_size=1)) == [0x300, 0x400]


def test_a_consumer_whose_position_is_damaged_is_not_dropped(storage):
    register(storage, "orders", LSN(0x200))
    for file in storage.folder.glob("named-*"):
        file.write_bytes(b"")
    assert trimmed_by(storage, KeepRules(absent_size=1)) == [0x200, 0x300, 0x400]
    assert positions(storage) == {"orders": INVALID_LSN}


def test_without_any_consumer_the_newest_entries_are_kept_up_to_the_size_if_no_target_is_to_come(storage):
    most = size_of(storage, 0x200)
    assert trimmed_by(storage, KeepRules(absent_size=most)) == [0x200, 0x300, 0x400]
    assert trimmed_by(storage, KeepRules(absent_size=most, unread_size=most)) == [0x300, 0x400]
    assert register(storage, "orders") == 0x200


# Names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../x", "a b", 'quote"', "Ä", "orders", "ORDERS", "new\nline", "x" * 63, "\0"])
def test_any_name_is_a_file_of_the_journal(storage, name):
    register(storage, name, LSN(0x200))
    register(storage, "another", LSN(0x400))
    assert positions(storage) == {name: 0x200, "another": 0x400}
    (file,) = (one for one in storage.folder.glob("named-*") if name.encode().hex() in one.name)
    assert file.name.isascii()
    assert file.name == file.name.lower()
    assert trimmed(storage) == [0x300, 0x400]


@pytest.mark.parametrize("name", ["", "x" * 64, "ä" * 32, "\ud800", "consumer-a.lsn"])
def test_a_name_that_cannot_be_one_is_refused(storage, name):
    for use in (register, forget):
        with pytest.raises(UsageError, match="invalid name of a consumer"):
            use(storage, name)
    assert positions(storage) == {}


def test_a_journal_at_a_url_has_named_consumers_too():
    storage = open_storage("mock:///bucket/7300_named")
    with writing(storage) as journal:
        for end in (0x200, 0x300, 0x400):
            publish(journal, end, transaction(end, T, insert(end)))
        register(storage, "orders", LSN(0x300))
        journal.trim()
    assert keys_of(storage, 0x300) == [0x400]
    assert JournalReader(storage).control().begin == 0x300

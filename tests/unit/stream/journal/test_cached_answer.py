"""How often a remote journal is asked."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from subscriber.stream.journal.positions import REMOTE_SECONDS, CachedAnswer, watched_positions
from subscriber.stream.journal.storage import RemoteStorage, open_storage
from subscriber.stream.journal.writer import JournalWriter
from tests.frames import transaction
from tests.journals import T, consumer, insert, passed, publish, writing


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_remote_answer_is_cached_for_a_second_and_a_local_one_as_long_as_is_allowed():
    clock, asked = Clock(), iter(range(100))
    remote = CachedAnswer(lambda: next(asked), True, clock=clock)
    assert [remote.get() for _ in range(3)] == [0, 0, 0]
    clock.now += REMOTE_SECONDS
    assert [remote.get() for _ in range(3)] == [1, 1, 1]
    remote.forget()
    assert remote.get() == 2
    local = CachedAnswer(lambda: next(asked), False, clock=clock)
    assert [local.get() for _ in range(3)] == [3, 4, 5]
    cached = CachedAnswer(lambda: next(asked), False, 0.01, clock)
    assert [cached.get() for _ in range(3)] == [6, 6, 6]
    clock.now += 0.01
    assert cached.get() == 7


def test_a_failure_is_not_cached():
    asked = iter([OSError(), 7])

    def ask() -> int:
        answer = next(asked)
        if isinstance(answer, OSError):
            raise answer
        assert isinstance(answer, int)
        return answer

    cached = CachedAnswer(ask, True, clock=Clock())
    with pytest.raises(OSError):
        cached.get()
    assert cached.get() == 7


@pytest.fixture
def requests(monkeypatch):
    """The requests to a remote storage."""
    made: list[str] = []

    def count(name: str) -> None:
        plain = getattr(RemoteStorage, name)

        def counted(*arguments):
            made.append(name)
            return plain(*arguments)

        monkeypatch.setattr(RemoteStorage, name, counted)

    count("names")
    count("read")
    return made


def test_the_receiver_s_loop_reads_remote_consumers_once_a_second(requests):
    """The loop asks for their position up to 200 times a second."""
    storage = open_storage("mock:///bucket/7300_s")
    with writing(storage) as journal:
        publish(journal, 0x200, transaction(0x200, T, insert(1)))
        passed(storage, 0x200)
        journal.trim()
        assert journal.applied() == 0x200
        clock = Clock()
        journal._positions._clock = clock
        journal._positions.forget()
        requests.clear()
        for _ in range(200):
            clock.now += 0.005
            journal.applied()
        assert requests.count("read") <= 2
        passed(storage, 0x300, consumer())
        clock.now += REMOTE_SECONDS
        assert journal.applied() == 0x300
        assert isinstance(journal, JournalWriter)


def test_the_supervisor_lists_a_remote_journal_once_a_second(requests):
    watched = watched_positions("mock:///bucket/7300_s")
    clock = Clock()
    watched._clock = clock
    for _ in range(100):
        watched.get()
    assert requests.count("read") == 1
    clock.now += REMOTE_SECONDS
    watched.get()
    assert requests.count("read") == 2


def test_only_one_thread_asks_at_a_time():
    """A worker and whoever waits for it ask for the positions of one journal. When two threads
    updated the same listing, the last entry could be missing, and then everything that was received
    counted as applied.
    """
    inside, most = 0, 0

    def ask() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(0.005)
        inside -= 1

    answer = CachedAnswer(ask, remote=False)
    with ThreadPoolExecutor(max_workers=4) as threads:
        for asked in [threads.submit(answer.get) for _ in range(8)]:
            asked.result()
    assert most == 1

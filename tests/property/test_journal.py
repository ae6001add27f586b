"""A journal that is written, merged, trimmed and killed at random: a reader gets every transaction
once, and in order.

The reader is a consumer as Spark's query is one: it plans a batch, reads it some time later, and
then moves its position. A crash may come at any failpoint of the journal, and between two
deletions.
"""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subscriber.base import failpoints
from subscriber.base.lsn import LSN, MAX_LSN
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.decode_message import decode
from subscriber.stream.journal import compaction
from subscriber.stream.journal.reader import JournalReader, SegmentRange
from subscriber.stream.journal.storage import LocalStorage
from tests.frames import transaction
from tests.journals import BEGIN, T, insert, keys_of, passed, publish, read, writing

pytestmark = pytest.mark.slow

STEP = 0x100

WEIGHTS = {"publish": 8, "large": 1, "trim": 2, "plan": 2, "read": 2, "crash": 1}
actions = st.tuples(
    st.sampled_from([action for action, weight in WEIGHTS.items() for _ in range(weight)]), st.integers(1, 12)
)


class Crash(BaseException):
    """The process ends here. No handler of errors may catch it."""


class History:
    """A journal, its writer's input, and one consumer."""

    def __init__(self, folder) -> None:
        self.storage = LocalStorage(folder)
        self.sent = 0
        self.applied = LSN(BEGIN)
        self.got: list[int] = []
        self.planned: tuple[LSN, list[SegmentRange]] | None = None
        self.reader = JournalReader(self.storage, clock=lambda: 0.0)
        self._steps_left = 0
        passed(self.storage, self.applied)

    def open(self):
        return writing(self.storage, applied=self.applied, segment_bytes=1_000_000)

    def act(self, journal, action: str, number: int) -> None:
        match action:
            case "publish":
                numbers = range(self.sent + 1, self.sent + 1 + number % 4 + 1)
                messages = [one for key in numbers for one in transaction(end_of(key), insert(key))]
                publish(journal, end_of(numbers[-1]), messages, relations={T.relation_id: T})
                self.sent = numbers[-1]
            case "large":
                key = self.sent + 1
                begin, *changes, commit = transaction(end_of(key), insert(key), xid=7)
                publish(journal, end_of(key), [begin, *changes], [commit], xid=7, relations={T.relation_id: T})
                self.sent = key
            case "trim":
                journal.trim()
            case "plan" if self.planned is None:
                end = self.reader.latest(self.applied, number * 1000)
                self.reader.require(self.applied, end)
                self.planned = end, self.reader.plan(self.applied, end)
            case "read" if self.planned is not None:
                end, ranges = self.planned
                for planned in ranges:
                    self.got += [key for batch in read(self.reader, planned) for key in keys_in(batch)]
                self.applied, self.planned = end, None
                passed(self.storage, end)

    def crash_after(self, steps: int) -> None:
        self._steps_left = steps

    def step(self, *_: object) -> None:
        """A place where a crash may come."""
        if self._steps_left:
            self._steps_left -= 1
            if not self._steps_left:
                raise Crash


def end_of(key: int) -> int:
    return BEGIN + STEP * key


def keys_in(batch) -> list[int]:
    messages = [decode(message) for message in batch.column("message").to_pylist()]
    return [int(one.new[0].data) for one in messages if isinstance(one, m.Insert)]  # type: ignore[union-attr]


@settings(max_examples=25, deadline=None)
@given(st.lists(actions, min_size=30, max_size=80))
def test_every_transaction_is_read_once_and_in_order(tmp_path_factory, steps):
    history = History(tmp_path_factory.mktemp("journal"))
    unlink = type(history.storage.folder).unlink

    def unlink_or_crash(path, missing_ok=False):
        history.step()
        unlink(path, missing_ok=missing_ok)

    left = iter(steps)
    going = True
    with (
        mock.patch.object(compaction, "LEAST_RUN", 3),
        mock.patch.object(compaction, "LONGEST_RUN", 6),
        mock.patch("os.fsync"),
        mock.patch.object(failpoints, "hit", history.step),
        mock.patch.object(type(history.storage.folder), "unlink", unlink_or_crash),
    ):
        while going:
            try:
                with history.open() as journal:
                    history.sent = (journal.end - BEGIN) // STEP  # the publisher sends again what is not durable
                    for action, number in left:
                        if action == "crash":
                            history.crash_after(number)
                        history.act(journal, action, number)
                    going = False
            except Crash:
                continue
        assert history.got == list(range(1, (history.applied - BEGIN) // STEP + 1))
        assert keys_of(history.storage, history.applied) == list(range(len(history.got) + 1, history.sent + 1))
        history.crash_after(0)
        assert history.reader.latest(history.applied, None) == max(history.applied, end_of(history.sent))
        assert history.reader.latest(history.applied, int(MAX_LSN)) == max(history.applied, end_of(history.sent))

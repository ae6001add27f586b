"""Random histories: the target equals the publisher, however the stream is cut into frames and
batches, and whatever is applied again.
"""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subscriber.apply.exact import ExactApplier
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.changes import Frame
from subscriber.targets import Target, open_target
from tests.frames import finishes_of, frame, prepared, relation, transaction, values

pytestmark = pytest.mark.slow

KEYED = relation("public.keyed", {"k": "int4", "v": "text", "big": "text"}, ["k"], oid=1)
BAG = relation("public.bag", {"a": "int4", "b": "text"}, identity="f", oid=2)
SHAPES = [KEYED, BAG]

keys = st.integers(0, 4)
texts = st.none() | st.sampled_from(["", "x", "007"])
operations = st.lists(
    st.tuples(
        st.sampled_from(["put", "move", "remove", "touch", "bag+", "bag-", "bag~", "truncate"]), keys, keys, texts
    ),
    max_size=8,
)
histories = st.lists(st.tuples(st.booleans(), operations), min_size=1, max_size=6)


@dataclass
class Publisher:
    """A publisher of two tables that records what pgoutput would send."""

    keyed: dict[int, tuple[str | None, str | None]] = field(default_factory=dict)
    bag: Counter[tuple[int, str | None]] = field(default_factory=Counter)

    def run(self, operation: str, key: int, other: int, text: str | None) -> m.Message | None:
        match operation:
            case "put" if key in self.keyed:
                self.keyed[key] = (text, text)
                return m.Update(1, None, None, values(str(key), text, text))
            case "put":
                self.keyed[key] = (text, text)
                return m.Insert(1, values(str(key), text, text))
            case "touch" if key in self.keyed:
                self.keyed[key] = (text, self.keyed[key][1])
                return m.Update(1, None, None, values(str(key), text, m.UNCHANGED))
            case "move" if key in self.keyed and other not in self.keyed:
                self.keyed[other] = (text, self.keyed.pop(key)[1])
                return m.Update(1, "K", values(str(key), None, None), values(str(other), text, m.UNCHANGED))
            case "remove" if key in self.keyed:
                del self.keyed[key]
                return m.Delete(1, "K", values(str(key), None, None))
            case "bag+":
                self.bag[key, text] += 1
                return m.Insert(2, values(str(key), text))
            case "bag-" if self.bag[key, text]:
                self.bag[key, text] -= 1
                return m.Delete(2, "O", values(str(key), text))
            case "bag~" if self.bag[key, text]:
                self.bag[key, text] -= 1
                self.bag[other, text] += 1
                return m.Update(2, "O", values(str(key), text), values(str(other), text))
            case "truncate" if key == 0:
                self.bag.clear()
                return m.Truncate((2,), cascade=False, restart_identity=False)
        return None

    def state(self) -> tuple[object, object]:
        return dict(self.keyed), +self.bag


@contextmanager
def fresh_target() -> Iterator[Target]:
    with tempfile.TemporaryDirectory() as folder, open_target(f"sqlite:///{Path(folder, 't.db')}") as target:
        with target.begin() as connection:
            CATALOG.create_all(connection)
            OriginProgress(1).create(connection, LSN(0))
            connection.exec_driver_sql("CREATE TABLE keyed (k INTEGER PRIMARY KEY, big TEXT, v TEXT)")
            connection.exec_driver_sql("CREATE TABLE bag (b TEXT, a INTEGER)")
        yield target


def contents(target: Target) -> tuple[object, object]:
    with target.begin() as connection:
        keyed = {row.k: (row.v, row.big) for row in connection.exec_driver_sql("SELECT k, v, big FROM keyed")}
        return keyed, Counter((row.a, row.b) for row in connection.exec_driver_sql("SELECT a, b FROM bag"))


def played(history: Sequence[tuple[bool, list[tuple[str, int, int, str | None]]]]):
    """Each transaction's messages with its finish LSN, and the publisher's state after it."""
    publisher, transactions, states = Publisher(), [], [Publisher().state()]
    for number, (two_phase, steps) in enumerate(history, start=1):
        changes = [change for step in steps if (change := publisher.run(*step)) is not None]
        make = prepared if two_phase else transaction
        transactions.append((LSN(number * 1000), make(number * 1000, *changes, xid=number)))
        states.append(publisher.state())
    return transactions, states


def cut(messages: Sequence[m.Message], at: Sequence[int], shapes: Sequence[m.Relation] = SHAPES) -> list[Frame]:
    """Frames of the messages, cut at some places. Each is encoded and decoded."""
    bounds = [0, *sorted({place % (len(messages) + 1) for place in at}), len(messages)]
    parts = [messages[first:last] for first, last in itertools.pairwise(bounds)]
    finishes = finishes_of(messages)
    return [Frame.decode(frame(shapes, part, finishes=finishes).encode()) for part in parts]


@settings(max_examples=60)
@given(histories, st.lists(st.integers(0, 200), max_size=5), st.lists(st.integers(0, 6), max_size=6))
def test_the_target_is_a_prefix_of_the_publisher_after_every_batch(history, cuts, batches):
    """Invariants commit_order, progress_with_data: a batch may begin at the progress or before
    it.
    """
    transactions, states = played(history)
    with fresh_target() as target:
        applier = ExactApplier(target, subscription="s", subid=1)
        done = 0
        for goal in [*batches, len(transactions)]:
            last = min(goal, len(transactions))
            first = min(cuts[0] % (done + 1) if cuts else done, last)
            batch = [message for _, part in transactions[first:last] for message in part]
            result = applier.apply(cut(batch, cuts), start=LSN(first * 1000), end=LSN(last * 1000))
            assert result.transactions == max(0, last - done)
            assert result.conflicts == {}
            done = max(done, last)
            assert result.progress == done * 1000
            assert contents(target) == states[done]


@settings(max_examples=60)
@given(histories, st.integers(0, 6), st.lists(st.integers(0, 200), max_size=4))
def test_a_second_pass_applies_exactly_the_transactions_before_its_limit(history, goal, cuts):
    """Rule C35: after an error, the transactions before the one that failed are applied."""
    transactions, states = played(history)
    last = min(goal, len(transactions))
    with fresh_target() as target:
        applier = ExactApplier(target, subscription="s", subid=1)
        everything = [message for _, part in transactions for message in part]
        applier.apply(cut(everything, cuts), start=LSN(0), end=LSN(last * 1000), before=LSN(last * 1000))
        assert contents(target) == states[last]

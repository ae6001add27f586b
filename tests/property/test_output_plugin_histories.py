"""Random histories through a whole replication system in this process: Publisher, pgoutput, our
receiver, our journal and our apply. Whenever the target has caught up, it has what the publications
show of the publisher.

Nothing of the expectation passes through the code that is tested: it is what the publisher's tables
have, filtered by a function of the test.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import event as note
from hypothesis import given, settings
from hypothesis import strategies as st

from subscriber.apply.message_listener import ReceivedMessage
from subscriber.postgres.logical_decoding import ReorderSettings
from subscriber.targets import open_target
from subscriber.testing.in_process import InProcessSubscription, Streaming, stream_options
from tests.output_plugin_histories import PUBLICATIONS, History, Step, contents, create_tables, steps

pytestmark = pytest.mark.slow

EVENTS = ("catch up", "catch up", "receive", "apply a little", "reconnect")
mixed = st.one_of(*[steps] * 6, st.tuples(st.sampled_from(EVENTS), *[st.just(0)] * 3))
histories = st.lists(mixed, min_size=10, max_size=60)
long_histories = st.lists(mixed, min_size=40, max_size=300)


@dataclass(frozen=True)
class Setting:
    """How a history is sent.

    Attributes:
        options: the options of pgoutput.
        memory: ``logical_decoding_work_mem`` in bytes; None for ``immediate``.
        segment_bytes: the memory of the receiver.
    """

    version: int
    streaming: Streaming
    two_phase: bool
    binary: bool
    memory: int | None
    segment_bytes: int

    def options(self, publications: Sequence[str]) -> dict[str, str]:
        return stream_options(
            publications,
            proto_version=self.version,
            streaming=self.streaming,
            two_phase=self.two_phase,
            binary=self.binary,
            messages=True,
        )

    def server(self) -> ReorderSettings:
        if self.memory is None:
            return ReorderSettings(debug_logical_replication_streaming="immediate")
        return ReorderSettings(self.memory)


@st.composite
def sendings(draw: st.DrawFn) -> Setting:
    version = draw(st.sampled_from((4, 4, 3, 2, 1)))
    allowed: list[Streaming] = {1: ["off"], 4: ["parallel", "parallel", "on", "off"]}.get(version, ["on", "off"])  # type: ignore[assignment]
    return Setting(
        version,
        draw(st.sampled_from(allowed)),
        version >= 3 and draw(st.booleans()),
        draw(st.booleans()),
        draw(st.sampled_from((None, 1, 300, 300, 1000, 1 << 26))),
        draw(st.sampled_from((1, 1000, 1 << 23))),
    )


class Replication:
    """A history and a subscription to it."""

    def __init__(self, history: History, subscription: InProcessSubscription) -> None:
        self._history = history
        self._subscription = subscription

    def run(self, step: Step) -> None:
        subscription = self._subscription
        match step[0]:
            case "catch up":
                self.catch_up()
            case "receive":
                subscription.receive()
            case "apply a little":
                assert subscription.apply(max_bytes=1).conflicts == {}
            case "reconnect":
                subscription.reconnect()
            case _:
                self._history.run(step)

    def catch_up(self) -> None:
        assert self._subscription.catch_up().conflicts == {}
        history = self._history
        found, expected = contents(self._subscription.applier.target, history.dropped), history.expected()
        for table in expected:  # one at a time, so that a failure is readable
            assert (table, found[table]) == (table, expected[table])


def replicate(published: str, sending: Setting, history: Sequence[Step]) -> None:
    made = History(published)
    received: list[tuple[bool, str, str]] = []

    def hear(message: ReceivedMessage) -> None:
        received.append((message.transactional, message.prefix, message.content.decode()))

    with (
        mock.patch("os.fsync"),
        tempfile.TemporaryDirectory() as folder,
        open_target(f"sqlite:///{Path(folder, 't.db')}") as target,
    ):
        create_tables(target)
        with InProcessSubscription(
            made.publisher,
            target,
            sending.options([one.name for one in made.publications]),
            settings=sending.server(),
            segment_bytes=sending.segment_bytes,
            on_message=hear,
        ) as subscription:
            replication = Replication(made, subscription)
            for step in history:
                replication.run(step)
            made.finish()
            replication.catch_up()
            assert subscription.sender.decoding.reorder_buffer.size == 0
            note(f"streamed: {subscription.sender.decoding.reorder_buffer.statistics.stream_count > 0}")
    check_messages(received, made.messages, streamed=sending.streaming != "off")


def check_messages(received: list[Any], expected: list[Any], *, streamed: bool) -> None:
    """A streamed message has the number of its top-level transaction. So it is delivered although
    its savepoint was rolled back, as in PostgreSQL.
    """
    if not streamed:
        assert received == expected
        return
    assert not Counter(expected) - Counter(received)
    wanted = Counter(expected)
    assert [one for one in received if one in wanted] == expected


published = st.sampled_from(list(PUBLICATIONS))


@settings(max_examples=60)
@given(published, sendings(), histories)
def test_the_target_has_what_the_publications_show_whenever_it_has_caught_up(published, sending, history):
    """Sections A, B and E; issue 17."""
    replicate(published, sending, history)


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(1, 3)), max_size=12),
    st.sampled_from(("off", "on", "parallel")),
    st.sampled_from((1, 300, 1 << 26)),
)
def test_with_origin_none_the_target_has_local_transactions_only(transactions, streaming, memory):
    """Rules A27, E16."""
    made = History()
    session, (name, *_) = made.publisher.session(), made.publisher.origins
    local: Counter[tuple[str | None, ...]] = Counter()
    for number, (replicated, committed, count) in enumerate(transactions):
        session.replicate_origin(name if replicated else "")
        session.begin()
        for _ in range(count):
            session.insert("log", a=number)
            local[str(number), None] += committed and not replicated
        (session.commit if committed else session.rollback)()
    with (
        mock.patch("os.fsync"),
        tempfile.TemporaryDirectory() as folder,
        open_target(f"sqlite:///{Path(folder, 't.db')}") as target,
    ):
        create_tables(target)
        options = stream_options(["p"], streaming=streaming, origin="none")
        with InProcessSubscription(made.publisher, target, options, settings=ReorderSettings(memory)) as subscription:
            subscription.catch_up()
        assert contents(target)["log"] == +local


@pytest.mark.long
@settings(max_examples=1000)
@given(published, sendings(), long_histories)
def test_the_target_has_what_the_publications_show_after_many_long_histories(published, sending, history):
    """Sections A, B and E; issue 17."""
    replicate(published, sending, history)

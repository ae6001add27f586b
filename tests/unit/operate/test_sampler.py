"""Publishers and journals are asked beside the run, and one that does not answer delays nobody."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from subscriber.base.errors import PublisherUnavailable
from subscriber.base.settings import Settings
from subscriber.operate import sampler
from subscriber.operate.sampler import Sampler, process_sample
from subscriber.postgres.protocol import messages as m
from subscriber.stream.journal.storage import journal_url
from tests.frames import relation, transaction, values
from tests.observations import subscription
from tests.scripted_publisher import PublishedSlot, ScriptedPublisher
from tests.streams import SYSTEM, receive
from tests.waits import wait_until

T = relation("public.t", {"a": "int4", "b": "text"}, key=["a"])


class Supervisor:
    """A supervisor whose subscriptions and workers are given."""

    jvm_pid = None

    def __init__(self, *subscriptions: Any) -> None:
        self.catalog_watch = SimpleNamespace(subscriptions=subscriptions)

    def snapshots(self, *, look: bool) -> dict[int, Any]:
        assert not look
        return {1: SimpleNamespace(receiver_pid=os.getpid(), applied=0x100)}


@pytest.fixture
def publisher(monkeypatch):
    """A publisher at every address but those with the name nowhere."""
    played = ScriptedPublisher()
    monkeypatch.setattr(ScriptedPublisher, "close", lambda _: None, raising=False)
    played.slots["s"] = PublishedSlot(pid=4711)
    played.answer("clock_timestamp", [{"clock": 1000.0}])
    opened: list[str] = []

    def connected(conninfo: str) -> Any:
        opened.append(conninfo)
        if "nowhere" in conninfo:
            raise PublisherUnavailable("could not connect to the publisher", hint="Start it.")
        return played.connection

    monkeypatch.setattr(sampler, "connected", connected)
    return SimpleNamespace(played=played, opened=opened)


def sampled(of: Any, tmp_path: Any) -> Sampler:
    """A sampler that has all answers."""
    made = Sampler(of, Settings(str(tmp_path)))
    made.sample()

    def has_all() -> bool:
        made.sample(asks=False)
        publishers = made.samples.publishers
        asked = {one.connection for one in of.catalog_watch.subscriptions}
        answered = {name for name, one in publishers.items() if one.moments or one.error}
        return answered == asked and not made._asking.is_under_way

    wait_until(has_all)
    made.sample(asks=False)
    return made


def test_a_publisher_says_its_time_its_position_and_its_slots(publisher, tmp_path):
    samples = sampled(Supervisor(subscription(system_identifier=None)), tmp_path).samples
    found = samples.publishers["host=db password=secret"]
    assert (found.moments[0].at, found.error) == (1000.0, None)
    assert found.slots["s"].active_pid == 4711


def test_subscriptions_of_one_publisher_share_a_connection_which_is_kept(publisher, tmp_path):
    made = sampled(Supervisor(subscription(), subscription("t", 2, slot_name="s")), tmp_path)
    made.sample()

    def has_two_answers() -> bool:
        made.sample(asks=False)
        return [len(one.moments) for one in made.samples.publishers.values()] == [2]

    wait_until(has_two_answers)
    assert len(publisher.opened) == 1


def test_a_publisher_that_does_not_answer_has_a_reason_and_the_others_answer(publisher, tmp_path):
    away = subscription("t", 2, connection="host=nowhere")
    samples = sampled(Supervisor(subscription(), away), tmp_path).samples
    assert samples.publishers["host=nowhere"].error == "could not connect to the publisher"
    assert samples.publishers["host=db password=secret"].error is None


def test_what_was_dropped_is_forgotten(publisher, tmp_path):
    of = Supervisor(subscription())
    made = sampled(of, tmp_path)
    of.catalog_watch.subscriptions = ()
    made.sample()
    assert (made.samples.publishers, made.samples.journals) == ({}, {})


def test_a_journal_has_a_size_an_age_and_free_space(publisher, tmp_path):
    folder = Path(journal_url(str(tmp_path), SYSTEM, "s"))
    folder.mkdir()
    receive(folder, [*transaction(0x200, T, m.Insert(T.relation_id, values("1", "x"))), None])
    found = sampled(Supervisor(subscription()), tmp_path).samples.journals[1]
    assert found.entries == 1
    assert found.bytes > 0
    assert found.oldest is not None
    assert found.backlog is not None
    assert found.free_bytes


def test_a_process_has_memory_and_processor_time(tmp_path):
    found = process_sample(os.getpid())
    assert found is not None
    assert found.resident_bytes > 1_000_000
    assert found.cpu_seconds > 0
    assert process_sample(os.getpid(), tmp_path) is None

"""What ``subscriber receive`` does with errors, with a walreceiver that a test scripts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from subscriber.base.errors import (
    RECREATE_SLOT,
    JournalGap,
    JournalUnavailable,
    ProtocolError,
    PublisherNotReady,
    PublisherUnavailable,
    SlotInUse,
    SlotLost,
    SubscriberError,
    UsageError,
)
from subscriber.base.retry import PATIENT_FAILURES
from subscriber.base.settings import Settings
from subscriber.publisher.server_errors import RULES
from subscriber.stream.journal.named_consumers import register
from subscriber.stream.journal.storage import LocalStorage
from subscriber.worker import slot_receiver
from subscriber.worker.slot_receiver import SlotReceiver, SlotSource
from tests.assignments import assignment_to_nowhere
from tests.imports import imported_by
from tests.journals import three_transactions

SOURCE = SlotSource("host=nowhere password=secret", "s", ("p",))
Step = SubscriberError | Exception | str


@pytest.fixture
def receiver(tmp_path, monkeypatch):
    """A function that runs a receiver through a script: an error is raised, ``"streams"`` lets the
    stream begin, and ``"stop"`` stops the command.
    """
    monkeypatch.setattr(slot_receiver, "_STANDBY_SECONDS", 0.0)
    three_transactions(tmp_path)

    def run(*script: Step, journal_absent_consumers: int | None = None, **options: Any) -> tuple[SlotReceiver, bool]:
        steps, stop = list(script), threading.Event()
        settings = Settings(
            str(tmp_path), wal_retrieve_retry_interval=0.001, journal_absent_consumers=journal_absent_consumers
        )
        made = SlotReceiver(SOURCE, settings, **options)
        made.assignment = replace(assignment_to_nowhere(tmp_path), journal=str(tmp_path))

        def receive(
            _assignment: object, _settings: object, stop: threading.Event, emit: Callable[..., None], **_: object
        ) -> None:
            while True:
                step = steps.pop(0)
                if step == "streams":
                    emit("streaming", start="0/100", server="host")
                elif step == "stop":
                    stop.set()
                    return
                else:
                    assert isinstance(step, Exception)
                    raise step

        monkeypatch.setattr(slot_receiver, "receive", receive)
        done = made.run(stop)
        assert steps == []
        return made, done

    return run


def test_what_passes_by_itself_is_tried_again_before_and_after_the_stream_begins(receiver, caplog):
    away = PublisherUnavailable("away")
    made, done = receiver(away, away, "streams", away, JournalUnavailable("full"), "stop")
    assert done
    assert made.attempts.failed.in_all == 4
    assert 'slot "s": away (attempt 1, trying again in' in caplog.text


@pytest.mark.parametrize("error", [PublisherNotReady("wrong"), SlotLost("lost"), JournalGap("gap")])
def test_an_error_that_needs_an_action_ends_the_command_before_the_stream_begins(receiver, error):
    with pytest.raises(type(error)):
        receiver(error)


def test_an_error_that_needs_an_action_is_tried_again_when_the_options_have_proved_right(receiver):
    assert receiver("streams", PublisherNotReady("somebody has revoked a privilege"), "streams", "stop")[1]


@pytest.mark.parametrize("error", [SlotLost("lost"), JournalGap("gap"), ProtocolError("bytes")])
def test_a_loss_ends_the_command_at_any_time(receiver, error):
    with pytest.raises(type(error)):
        receiver("streams", error)


@pytest.mark.parametrize(("size", "kept"), [(None, "everything"), (1024, "its newest 1024 bytes")])
def test_what_is_kept_while_there_is_no_consumer_is_said_once(receiver, caplog, size, kept):
    caplog.set_level("INFO")
    receiver("streams", "streams", "stop", journal_absent_consumers=size)
    assert caplog.text.count(f"no consumer is registered: the journal keeps {kept}") == 1


def test_nothing_is_said_of_what_is_kept_when_there_is_a_consumer(receiver, tmp_path, caplog):
    caplog.set_level("INFO")
    register(LocalStorage(tmp_path), "orders")
    receiver("streams", "stop")
    assert "no consumer is registered" not in caplog.text


def test_an_unforeseen_exception_is_reported_and_tried_again(receiver, caplog):
    assert receiver("streams", ZeroDivisionError("a row's value"), "streams", "stop")[1]
    assert "the receiver failed" in caplog.text
    assert "ZeroDivisionError at" in caplog.text
    assert "a row's value" not in caplog.text


def test_once_gives_up_after_several_failures_in_a_row(receiver):
    with pytest.raises(PublisherUnavailable):
        receiver(*[PublisherUnavailable("away")] * PATIENT_FAILURES, once=True)


def test_a_stop_is_a_success_unless_once_was_asked_for(receiver):
    assert receiver("streams", "stop")[1]
    assert not receiver("streams", "stop", once=True)[1]


def test_a_standby_waits_while_another_receiver_has_the_slot(receiver, caplog):
    caplog.set_level("INFO")
    made, _ = receiver(SlotInUse("active"), SlotInUse("active"), "streams", "stop", standby=True)
    assert made.attempts.failed.in_all == 0
    assert caplog.text.count("standby: active; waiting until the other receiver ends") == 1


def test_a_slot_that_was_just_released_is_waited_for_if_its_journal_is_here(receiver):
    made, done = receiver(SlotInUse("active"), "streams", "stop")
    assert done
    assert made.attempts.failed.in_all == 1


def test_it_works_again_when_it_has_streamed_for_a_while(receiver, caplog):
    caplog.set_level("INFO")
    made, _ = receiver("streams", PublisherUnavailable("away"), "stop")
    made.state, made._streaming_since = "streaming", 0.0
    made._look(threading.Event())
    assert made.attempts.error is None
    assert 'slot "s" is received again' in caplog.text


def test_a_publication_that_is_named_twice_is_refused_in_postgresqls_words():
    with pytest.raises(UsageError, match='publication name "p" used more than once'):
        SlotSource("", "s", ("p", "q", "p"))


WORDS_OF_SUBSCRIPTIONS = ("SUBSCRIPTION", "subscription", "CONNECTION", "slot_name", "subscriber run")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.sqlstate} {rule.text}"[:60])
def test_a_hint_of_the_publishers_errors_names_options_of_the_command(rule):
    error = rule.kind("x", hint=rule.hint)
    found = SlotReceiver(SOURCE, Settings("/j"))._in_words(error).hint or ""
    assert [word for word in WORDS_OF_SUBSCRIPTIONS if word in found] == []
    assert bool(found) == bool(rule.hint)


@pytest.mark.parametrize("error", [SlotLost("lost", hint=RECREATE_SLOT), JournalGap("gap", hint=RECREATE_SLOT)])
def test_a_loss_says_how_to_start_again(receiver, error):
    with pytest.raises(type(error)) as caught:
        receiver("streams", error)
    hint = caught.value.hint or ""
    assert "pg_drop_replication_slot('s')" in hint
    assert "--create-slot" in hint
    assert "SUBSCRIPTION" not in hint


def test_a_receiver_loads_neither_spark_nor_the_libraries_of_targets():
    """It may run on a small machine beside the journal."""
    found = imported_by("import subscriber.worker.slot_receiver, subscriber.operate.service_manager")
    assert found & {"pyspark", "sqlalchemy", "sqlglot", "pandas", "duckdb"} == set()

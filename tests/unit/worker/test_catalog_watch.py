"""The catalog as the supervisor reads it, a few times a second."""

from __future__ import annotations

import logging
import os
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from subscriber.base.errors import SubscriberError, TargetError, TargetUnavailable
from subscriber.base.settings import Settings
from subscriber.catalog.subscriptions import set_enabled
from subscriber.catalog.table_states import RelationState
from subscriber.commands.wake import wake_run, watched_folder
from subscriber.targets import Target
from subscriber.worker import catalog_watch
from subscriber.worker.catalog_watch import CatalogWatch, EnabledSubscriptions
from tests.leases import pause_lease, store_lease
from tests.subscriptions import create_subscription, set_state


class FailingTarget:
    """A target that raises :attr:`error` when it is queried, if there is one."""

    def __init__(self, target: Target) -> None:
        self.error: SubscriberError | None = None
        self.engine = target.engine
        self.files: tuple[Path, ...] = ()
        self._target = target

    def reporting(self) -> AbstractContextManager[None]:
        if self.error is not None:
            raise self.error
        return self._target.reporting()


@pytest.fixture
def failing(target) -> FailingTarget:
    return FailingTarget(target)


@pytest.fixture
def watch(failing, monkeypatch) -> CatalogWatch:
    """A watch whose next read is due only after :meth:`CatalogWatch.poll_soon`."""
    monkeypatch.setattr(catalog_watch, "_LEAST_SECONDS", 3600.0)
    return CatalogWatch(failing, 3600.0)


def test_enabled_subscriptions_are_wanted_with_their_tables_and_disabled_ones_are_known(watch, target):
    enabled = create_subscription(target, "s")
    disabled = create_subscription(target, "t")
    set_state(target, "a", RelationState.INIT)
    with target.begin() as connection:
        set_enabled(connection, "t", enabled=False)
    wanted = watch.poll()
    assert list(wanted) == [enabled.subid]
    subscription, states = wanted[enabled.subid]
    assert subscription == enabled
    assert [(one.name, one.state) for one in states] == [("a", RelationState.INIT)]
    assert {one.subid for one in watch.subscriptions} == {enabled.subid, disabled.subid}


def test_pauses_are_read_with_the_subscriptions(watch, target):
    pause = pause_lease(create_subscription(target).subid)
    with target.begin() as connection:
        store_lease(connection, pause)
    watch.poll()
    assert watch.pauses == {pause.subid: pause}


def test_the_catalog_is_read_only_when_its_time_has_come(watch, target):
    assert watch.poll() == {}
    create_subscription(target)
    assert watch.poll() is None
    watch.poll_soon()
    assert list(watch.poll()) == [1]
    assert watch.polls == 2


def test_the_pause_is_200_times_as_long_as_a_read_but_no_longer_than_the_limit(failing, monkeypatch):
    """A read of SQLite's catalog takes 0.3 ms, a read of DuckDB's 20 ms."""
    clock, costs = [0.0], [0.0]

    def read() -> EnabledSubscriptions:
        clock[0] += costs[0]
        return {}

    monkeypatch.setattr("subscriber.worker.catalog_watch.time.monotonic", lambda: clock[0])
    for costs[0], pause in ((0.0003, 0.2), (0.002, 0.4), (0.02, 1.0)):
        watch = CatalogWatch(failing, 1.0)
        monkeypatch.setattr(watch, "_read", read)
        assert watch.poll() == {}
        clock[0] += pause - 0.001
        assert watch.poll() is None
        clock[0] += 0.002
        assert watch.poll() == {}


@pytest.fixture
def file(failing, monkeypatch, tmp_path) -> Path:
    """A file of the target that was changed a minute ago. Reads are always due."""
    monkeypatch.setattr(catalog_watch, "_LEAST_SECONDS", 0.0)
    monkeypatch.setattr(catalog_watch, "_READS_IN_PAUSE", 0.0)
    file: Path = tmp_path / "file"
    file.write_text("1")
    changed(file, ago=60)
    failing.files = (file, tmp_path / "missing")
    return file


def changed(file: Path, *, ago: float) -> None:
    os.utime(file, times=(time.time() - ago,) * 2)


def test_the_catalog_is_not_read_again_while_the_files_of_the_target_are_unchanged(failing, file):
    watch = CatalogWatch(failing, 1.0)
    assert watch.poll() == {}
    assert watch.poll() is None
    changed(file, ago=30)
    assert watch.poll() == {}
    assert watch.poll() is None
    file.with_name("missing").write_text("")
    assert watch.poll() == {}
    watch.poll_soon()
    assert watch.poll() == {}
    assert watch.polls == 4


def test_the_catalog_is_read_again_after_a_change_that_is_not_old(failing, file):
    """Another change may get the same time."""
    changed(file, ago=0.5)
    watch = CatalogWatch(failing, 1.0)
    assert (watch.poll(), watch.poll()) == ({}, {})


def test_the_catalog_is_read_again_after_a_read_that_failed(failing, file):
    watch = CatalogWatch(failing, 1.0)
    assert watch.poll() == {}
    changed(file, ago=30)
    failing.error = TargetUnavailable("away")
    assert watch.poll() is None
    failing.error = None
    assert watch.poll() == {}


def test_the_first_read_must_succeed(watch, failing):
    failing.error = TargetUnavailable("away")
    with pytest.raises(TargetUnavailable):
        watch.poll()
    assert (watch.polls, watch.failed_polls) == (0, 0)


def look_after(watch: CatalogWatch, failing: FailingTarget, *errors: SubscriberError | None) -> list[bool]:
    """Read the catalog once for each of ``errors``; return which reads gave an answer."""
    answers = []
    for error in errors:
        failing.error = error
        watch.poll_soon()
        answers.append(watch.poll() is not None)
    return answers


def test_failed_reads_are_counted_until_one_succeeds(watch, failing):
    error = TargetError("the database says no")
    assert look_after(watch, failing, None, error, error) == [True, False, False]
    assert (watch.polls, watch.failed_polls) == (1, 2)
    assert look_after(watch, failing, None) == [True]
    assert (watch.polls, watch.failed_polls) == (2, 0)


def test_a_failed_read_keeps_the_subscriptions_of_the_last_one(watch, failing, target):
    create_subscription(target)
    look_after(watch, failing, None, TargetUnavailable("away"))
    assert [one.name for one in watch.subscriptions] == ["s"]


def test_a_failed_read_is_not_repeated_before_its_time(watch, failing):
    look_after(watch, failing, None, TargetUnavailable("away"))
    failing.error = None
    assert watch.poll() is None


def test_a_lasting_failure_is_a_warning_once_until_a_read_succeeds(watch, failing, caplog):
    error = TargetError("the database says no")
    with caplog.at_level(logging.DEBUG):
        look_after(watch, failing, None, error, error, None, error)
    levels = [record.levelname for record in caplog.records if "the catalog cannot be read now" in record.message]
    assert levels == ["WARNING", "DEBUG", "WARNING"]


def test_a_target_that_is_away_causes_no_warning(watch, failing, caplog):
    """The worker that needs the target reports it."""
    with caplog.at_level(logging.DEBUG):
        look_after(watch, failing, None, TargetUnavailable("away"))
    assert [record.levelname for record in caplog.records if "cannot be read now" in record.message] == ["DEBUG"]


def test_a_read_is_due_as_soon_as_one_of_the_files_has_changed(failing, file):
    watch = CatalogWatch(failing, 1.0)
    assert watch.is_due()
    assert watch.poll() == {}
    assert not watch.is_due()
    changed(file, ago=30)
    assert watch.is_due()


def test_a_command_of_this_machine_makes_the_next_read_due_whatever_the_pause(failing, tmp_path):
    settings = Settings(str(tmp_path))
    watch = CatalogWatch(failing, 3600.0, watched_folder(settings))
    os.utime(tmp_path, (1, 1))
    assert watch.poll() == {}
    assert not watch.is_due()
    wake_run(settings)
    assert watch.is_due()
    assert watch.poll() == {}
    assert not watch.is_due()

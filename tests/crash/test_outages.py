"""Publisher, target and disk go away and come back, one after the other, while one
``subscriber run`` works and a load writes.

The tests of this module follow each other on one replication; each begins and ends with equal
tables.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import threading

import pytest

from subscriber.base.lsn import format_lsn, parse_lsn
from tests.crash.conftest import caught_up_load, filled, replicating, small_file_system
from tests.crash.harness import Locked, barrier, log_grows_by, wait_until

NAME = "outages"


@pytest.fixture(scope="module")
def replication(own_server, tmp_path_factory):
    folder = tmp_path_factory.mktemp(NAME)
    with (
        small_file_system(folder / "journal", "32m") as small,
        replicating(own_server, folder, NAME, full_disk=True) as replication,
    ):
        replication.journal_is_small = small
        yield replication


@pytest.fixture(scope="module")
def load(replication):
    with caught_up_load(replication, seed=7) as load:
        yield load


def confirmed(server):
    ((text,),) = server.execute(f"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{NAME}'")
    return parse_lsn(text)


def kill_ahead_of_the_target(replication, load, own_server):
    """Kill the run while its journal has changes that the target lacks."""
    runner = replication.runner
    replication.settle(load)
    with Locked(replication.database):
        with load.paused():
            mark = barrier(replication.conninfo)
        wait_until(lambda: confirmed(own_server) > mark, "the slot to be confirmed beyond the target")
        runner.kill()
    wait_until(lambda: not runner.processes(), "all processes to end", 60)


@contextlib.contextmanager
def kept_full(folder):
    """Keep the file system of ``folder`` full: a file takes all space that is free or becomes free.

    Written page by page, not allocated by what statvfs tells: the receiver takes from the same
    space meanwhile, and gives back what it trims.
    """
    filler, ending = folder / "filler", threading.Event()
    page = bytes(os.statvfs(folder).f_frsize)

    def fill():
        with filler.open("wb", buffering=0) as file:
            while not ending.is_set():
                try:
                    file.write(page)
                except OSError:
                    ending.wait(0.001)  # full for now

    thread = threading.Thread(target=fill)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()
        filler.unlink()


def journal_bytes(folder):
    """The size of all segments below a folder."""
    total = 0
    for path in folder.glob("*/*.arrow"):
        with contextlib.suppress(FileNotFoundError):  # trimmed at the same time
            total += path.stat().st_size
    return total


def test_a_publisher_restarted_in_mid_stream_is_followed(replication, load, supervisor, own_server):
    """C36: the receiver reconnects and asks for what the journal does not have"""
    own_server.restart()
    replication.settle(load)


def test_a_publisher_that_crashed_sends_again_what_is_applied_once(replication, load, supervisor, own_server):
    """slot_after_disk, C32: after a crash the slot's position is older than what it had
    confirmed
    """
    own_server.kill()
    noticed = log_grows_by(replication.runner, "trying again in")
    noticed()
    own_server.start()
    replication.settle(load)


def test_a_publisher_session_that_is_terminated_is_made_anew(replication, load, supervisor, own_server):
    """C36"""
    noticed = log_grows_by(replication.runner, "streams from")
    own_server.execute(f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{NAME}'")
    noticed()
    replication.settle(load)


def test_while_the_target_is_locked_the_journal_goes_on_and_apply_comes_back(replication, load, supervisor, own_server):
    """C35, slot_after_disk: a target that is not available does not delay the publisher"""
    unavailable = log_grows_by(replication.runner, "is not available (SQLITE_BUSY)")
    with Locked(replication.database):
        with load.paused():
            mark = barrier(replication.conninfo)
        wait_until(lambda: confirmed(own_server) > mark, "the slot to be confirmed while the target is locked")
        unavailable()
    replication.settle(load)


def test_a_disk_that_is_full_for_a_moment_is_written_again_when_room_was_made(replication, load, supervisor):
    """slot_after_disk: changes that could not be written are not confirmed"""
    replication.failpoints.unlock("journal.sync.before")
    wait_until(lambda: replication.failpoints.fired("journal.sync.before"), "a segment to find no space")
    replication.settle(load)


@pytest.mark.long
def test_a_file_system_that_is_full_stops_the_receiver_until_there_is_space(replication, load, supervisor, own_server):
    """slot_after_disk: with a real full file system"""
    if not replication.journal_is_small:
        pytest.skip("mounting a tmpfs is not allowed here")
    runner, complaint = replication.runner, "could not write the journal"
    # Changes that are not applied are not trimmed. So trimming can free no more space, and the
    # receiver stops.
    with Locked(replication.database), kept_full(runner.journal):
        for _ in range(2):
            log_grows_by(runner, complaint)()
        with load.paused():
            mark = barrier(replication.conninfo)
        log_grows_by(runner, complaint)()
        assert confirmed(own_server) < mark
    replication.settle(load)


def test_what_the_target_applies_makes_room_on_a_disk_without_a_free_byte(replication, load, supervisor, own_server):
    """slot_after_disk: nothing else frees space, and neither the target's position nor the control
    file finds free space
    """
    if not replication.journal_is_small:
        pytest.skip("mounting a tmpfs is not allowed here")
    runner = replication.runner
    refused = "could not write the journal"
    with contextlib.ExitStack() as disk:
        with Locked(replication.database):
            own_server.execute(
                "INSERT INTO documents SELECT 1000 + n, 'large', repeat('x', 300000) FROM generate_series(1, 20) n",
                NAME,
            )
            wait_until(lambda: journal_bytes(runner.journal) > 5_000_000, "the journal to hold what is not applied")
            disk.enter_context(filled(runner.journal))
            log_grows_by(runner, refused)()
        replication.settle(load)
        assert journal_bytes(runner.journal) < 5_000_000
    replication.settle(load)


def test_a_second_run_on_the_same_target_says_so_and_leaves(replication, load, supervisor):
    """progress_with_data: a second run is started by mistake"""
    answer = replication.runner.call("run")
    assert answer.returncode == 1
    assert f'another "subscriber run" is already running for {replication.database}' in answer.stderr
    assert "Traceback" not in answer.stderr
    replication.settle(load)


def test_nothing_in_all_of_this_was_a_bug(replication, load):
    """No failure was unexpected: the log has no traceback, and no values."""
    said = replication.runner.said()
    assert "Traceback" not in said
    assert "customer " not in said
    assert 'starting Spark on master "local[2]"' in said


def test_ctrl_c_ends_every_process_in_order(replication, load):
    runner = replication.runner
    assert len(runner.processes()) >= 3  # supervisor, JVM, walreceiver
    assert runner.interrupt() == 0
    wait_until(lambda: not runner.processes(), f"all processes to end: {runner.processes()}", 30)
    assert list(runner.temporary.iterdir()) == []


def test_a_killed_supervisor_leaves_no_process_behind(replication, load, own_server):
    """The walreceiver and the JVM notice the end of their pipes; changes that are not in the target
    stay in the journal.
    """
    replication.runner.start()
    kill_ahead_of_the_target(replication, load, own_server)


@pytest.mark.long
def test_a_lost_journal_with_changes_that_the_target_lacks_is_refused(replication, load, own_server):
    """slot_after_disk: a gap is never skipped; with the restored journal, everything is applied"""
    runner, journal = replication.runner, replication.runner.journal
    if runner.processes():  # the tests before were not selected
        kill_ahead_of_the_target(replication, load, own_server)
    away = runner.folder / "away"
    away.mkdir()
    for entry in journal.iterdir():
        shutil.move(entry, away / entry.name)
    before = confirmed(own_server)
    answer = runner.call("run", "--master", "local[2]")
    assert answer.returncode == 1
    with sqlite3.connect(replication.database) as connection:
        (applied,) = connection.execute("SELECT remote_lsn FROM subscriber_replication_origin_status").fetchone()
    connection.close()
    expected = f"the slot was confirmed up to {format_lsn(before)}, but the journal ends at {applied}"
    assert expected in answer.stderr
    assert "Restore the journal's folder" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert confirmed(own_server) == before
    assert expected in runner.status()[NAME]["last_error"]

    for entry in list(journal.iterdir()):
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    for entry in away.iterdir():
        shutil.move(entry, journal / entry.name)
    with load.paused():
        answer = runner.once()
        assert answer.returncode == 0, answer.stderr
        replication.compare()

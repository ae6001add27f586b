"""Processes are told apart, and their time and memory is read."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from benchmarks.process_watch import (
    ProcessWatch,
    descendants,
    mebibytes,
    part_of,
    process_with,
    processor_seconds,
    tree_seconds,
)

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


@pytest.mark.parametrize(
    ("root", "command", "part"),
    [
        ("driver", ["/usr/bin/python", "-c", "from multiprocessing.spawn import spawn_main"], "driver"),
        ("driver", ["/usr/lib/jvm/bin/java", "-cp", "…/site-packages/pyspark/jars/*"], "jvm"),
        ("driver", ["/usr/bin/python", "-m", "pyspark.daemon", "pyspark.worker"], "workers"),
        ("publisher", ["postgres: walsender postgres bench 127.0.0.1(4711) START_REPLICATION"], "walsender"),
        ("publisher", ["postgres: checkpointer "], "publisher"),
        ("target", ["postgres: postgres bench 127.0.0.1(4711) idle"], "target"),
    ],
)
def test_the_part_of_a_process(root, command, part):
    assert part_of(root, command) == part


def test_a_receiver_is_known_by_its_name():
    forked = ["/usr/bin/python", "-m", "subscriber.base.fork_server", "/tmp/socket", "pyspark.worker"]
    assert (part_of("driver", forked, "walreceiver"), part_of("driver", forked, "python")) == ("receiver", "workers")


def test_processor_time_is_read_behind_a_name_with_brackets():
    ticks = os.sysconf("SC_CLK_TCK")
    fields = ["S", *["0"] * 10, str(3 * ticks), str(2 * ticks), "0"]
    assert processor_seconds(f"12 (a) name (b)) {' '.join(fields)}") == 5.0


def test_memory_is_read_by_its_name():
    assert mebibytes("Name:\tpython\nPss_Anon:      512 kB\nPss:      2048 kB\n", "Pss") == 2.0
    assert mebibytes("", "Pss") == 0.0


@ON_LINUX
def test_a_watch_finds_the_time_and_the_memory_of_a_process():
    with ProcessWatch({os.getpid(): "driver"}) as watch:
        began = time.process_time()
        while time.process_time() < began + 0.1:
            pass
    assert watch.usage.cpu_seconds["driver"] > 0.05
    assert watch.usage.python_mib > 1


@ON_LINUX
def test_a_child_process_is_found_by_the_words_of_its_command():
    with subprocess.Popen([sys.executable, "-c", "input()", "the words"], stdin=subprocess.PIPE) as child:
        assert process_with("the words") == child.pid
        assert descendants({os.getpid(): "driver"})[child.pid] == "driver"
        child.communicate(b"\n")
    assert process_with("the words") is None


@ON_LINUX
def test_the_time_of_a_tree_has_that_of_a_child_which_has_ended():
    before = tree_seconds(os.getpid())
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass"], check=True)
    assert tree_seconds(os.getpid()) - before > 0.25

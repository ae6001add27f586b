"""pyspark's daemon, with the modules of the workers."""

from __future__ import annotations

import subprocess
import sys

import pytest

STARTED = """
import os, sys
from pyspark import daemon

def manager():
    print(*sorted(open(f"/proc/self/task/{task}/comm").read().strip() for task in os.listdir("/proc/self/task")))
    print("subscriber.stages.decode_frames" in sys.modules, "pyspark.worker" in sys.modules)

daemon.manager = manager
sys.argv = ["daemon", "pyspark.worker"]
from subscriber.pipeline import worker_daemon
worker_daemon.main()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only there threads are listed so")
def test_the_modules_are_imported_and_no_thread_is_started_that_a_fork_would_lose():
    """The allocator of Arrow has a thread, without which it works in the new process."""
    printed = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, text=True, check=True).stdout
    threads, imported = printed.splitlines()
    assert [name for name in threads.split() if name != "jemalloc_bg_thd"] == [threads.split()[-1]]
    assert imported == "True True"

"""A job that waits because the cluster gives no executors. With a cluster:
tests/conformance/test_cluster.py.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from subscriber.errors import PipelineError
from subscriber.pipeline.executors import PATIENCE_SECONDS, ExecutorWatch, lacks_executors


class Scene:
    """A watch, its clock, and whether executors are missing."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lacks = True
        context: Any = SimpleNamespace(master="spark://m:7077")
        self.watch = ExecutorWatch(context, lambda _context: self.lacks, lambda: self.now)

    def wait(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            self.now += 1.0
            self.watch.check()


def test_a_job_that_gets_no_executor_fails_with_the_master_and_what_to_do():
    scene = Scene()
    with pytest.raises(PipelineError) as raised:
        scene.wait(PATIENCE_SECONDS + 2)
    assert raised.value.message == 'Spark has no executors: master "spark://m:7077" has given none for 15 s'
    assert "spark.executor.memory" in str(raised.value.hint)
    assert raised.value.transient
    scene.wait(PATIENCE_SECONDS - 2)  # the next attempt waits as long


def test_an_executor_that_comes_late_ends_the_wait():
    scene = Scene()
    scene.wait(PATIENCE_SECONDS - 2)
    scene.lacks = False
    scene.wait(2)
    scene.lacks = True
    scene.wait(PATIENCE_SECONDS - 2)


def test_another_wait_begins_anew():
    scene = Scene()
    scene.wait(PATIENCE_SECONDS - 2)
    scene.now += 100.0
    scene.wait(PATIENCE_SECONDS - 2)


@pytest.mark.parametrize(
    ("local", "jobs", "nodes", "lacks"),
    [(False, 1, 1, True), (False, 1, 2, False), (False, 0, 1, False), (True, 1, 1, False)],
    ids=["only the driver", "an executor", "no job", "threads"],
)
def test_executors_lack_only_while_a_job_waits_for_them(local, jobs, nodes, lacks):
    jvm = SimpleNamespace(
        isLocal=lambda: local,
        statusTracker=lambda: SimpleNamespace(getActiveJobIds=lambda: [1] * jobs),
        getExecutorMemoryStatus=lambda: SimpleNamespace(size=lambda: nodes),
    )
    context: Any = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: jvm))
    assert lacks_executors(context) is lacks

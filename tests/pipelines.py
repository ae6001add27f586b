"""Pipelines for tests that need no Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from subscriber.pipeline.on_spark import Pipeline


def nothing(*_: object, **__: object) -> Any:
    """Fail, whatever the arguments are."""
    raise AssertionError("nothing of this may happen")


def unused_pipeline(
    has_ended: Callable[[], bool] = lambda: False,
    check: Callable[[], None] = lambda: None,
    warm_up: Callable[[], bool] = lambda: True,
) -> Pipeline:
    """A pipeline with which no query and no copy may be started."""
    return Pipeline(nothing, nothing, has_ended, check, warm_up)

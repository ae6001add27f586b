"""Functions on Spark for tests that need no Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from subscriber.spark.spark_functions import SparkFunctions


def nothing(*_: object, **__: object) -> Any:
    """Fail, whatever the arguments are."""
    raise AssertionError("nothing of this may happen")


def unused_functions(
    has_ended: Callable[[], bool] = lambda: False,
    check: Callable[[], None] = lambda: None,
    warm_up: Callable[[], bool] = lambda: True,
) -> SparkFunctions:
    """Functions with which no loop and no copy may be started."""
    return SparkFunctions(nothing, nothing, has_ended, check, warm_up)

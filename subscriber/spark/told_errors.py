"""How Spark shows our errors to the user of the source.

Spark calls the source in Python workers, and puts the text of an exception with its whole traceback
into one of its own. An error of ours says what is wrong and what to do, so its traceback only hides
that. Spark leaves tracebacks out where a variable of the worker says so; it is set when such an
error ends the worker. Unforeseen exceptions are shown with their traceback.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from subscriber.base.errors import SubscriberError

P = ParamSpec("P")
T = TypeVar("T")

_WITHOUT_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"
_IN_A_WORKER: Final = "PYTHON_WORKER_FACTORY_SECRET"


def told(call: Callable[P, T]) -> Callable[P, T]:
    """A method that Spark calls. Its errors have detail and hint in their text."""

    @wraps(call)
    def calling(*arguments: P.args, **named: P.kwargs) -> T:
        try:
            return call(*arguments, **named)
        except SubscriberError as error:
            raise _told(error) from None

    return calling


def told_while_reading(read: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """:func:`told` for a method that is a generator."""

    @wraps(read)
    def reading(*arguments: P.args, **named: P.kwargs) -> Iterator[T]:
        try:
            yield from read(*arguments, **named)
        except SubscriberError as error:
            raise _told(error) from None

    return reading


def _told(error: SubscriberError) -> SubscriberError:
    if _IN_A_WORKER in os.environ:
        os.environ[_WITHOUT_TRACEBACK] = "1"
    return error.replace(message=f"{error.message}{error.further}", detail=None, hint=None, context=None)

"""Questions to target, journals and publishers, in threads of their own.

::

    page ──▶ Questions.ask ──▶ thread ──▶ target, journal, publisher
              └ waits 5 s at most, and four at a time: /metrics and the probes keep their threads
    page, again and again ──▶ Asking.answer ──▶ thread ──▶ …
                               └ does not wait: it has the answer that has come

A question that is not answered goes on alone until its server answers, and counts as long.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from subscriber.base.background import Background
from subscriber.base.errors import SubscriberError, fault

T = TypeVar("T")

_SECONDS: Final = 5.0
_MOST: Final = 4


class Asking(Generic[T]):
    """A question that is asked in a thread, and not again before its answer has come."""

    def __init__(self, ask: Callable[[], T], name: str) -> None:
        self._work = Background(ask, name)
        self.is_under_way = False

    def answer(self, *, asks: bool, wait_seconds: float = 0.0) -> T | None:
        """The answer, once; with ``asks``, ask if no answer is waited for, and wait so long."""
        if not (asks or self.is_under_way):
            return None
        self.is_under_way = True
        answer = self._work.take(wait_seconds)
        self.is_under_way = answer is None
        return answer


class Questions:
    """At most ``most`` questions at a time; each is waited for ``seconds``."""

    def __init__(self, seconds: float = _SECONDS, most: int = _MOST) -> None:
        self._seconds = seconds
        self._most = most
        self._free = threading.Semaphore(most)

    def ask(self, question: Callable[[], T]) -> T:
        """The answer, which is not None. SubscriberError: the one of the question, or there was no
        answer in time.
        """
        if not self._free.acquire(blocking=False):
            raise _no_answer(f"{self._most} other pages wait for answers")
        work = Background(question, "question of a page", self._free.release)
        try:
            answer = work.take(self._seconds)
        except SubscriberError:
            raise
        except Exception as error:
            raise fault("the page cannot be shown", error) from error
        if answer is None:
            raise _no_answer(f"there was no answer within {self._seconds:g} s")
        return answer


def _no_answer(reason: str) -> SubscriberError:
    return SubscriberError(
        f"the page cannot be shown now: {reason}", sqlstate="57014", hint="Load it again. The run itself goes on."
    )

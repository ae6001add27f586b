"""What a page asks of target, journal and publisher: in a thread, and for a short time.

::

    page ──▶ ask ──▶ thread of its own ──▶ target, journal, publisher
              └ waits 5 s at most, and four at a time: /metrics and the probes keep their threads

A question that is not answered goes on alone until its server answers, and counts as long.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from subscriber.base.background import Background
from subscriber.base.errors import SubscriberError, fault

T = TypeVar("T")

_SECONDS: Final = 5.0
_MOST: Final = 4


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

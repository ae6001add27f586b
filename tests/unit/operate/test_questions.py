"""Questions of pages: they wait for a short time, and only some at a time."""

from __future__ import annotations

import contextlib
import threading

import pytest

from subscriber.base.errors import PipelineError, SubscriberError, UsageError
from subscriber.operate.questions import Questions
from tests.waits import wait_until


def test_an_answer_is_returned_and_an_error_raised():
    questions = Questions()
    assert questions.ask(lambda: 7) == 7

    def refused() -> int:
        raise UsageError("no")

    with pytest.raises(UsageError, match="no"):
        questions.ask(refused)


def test_an_unforeseen_error_says_its_place_and_not_its_text():
    def failing() -> int:
        raise ValueError("secret")

    with pytest.raises(PipelineError, match="cannot be shown") as caught:
        Questions().ask(failing)
    assert "secret" not in caught.value.report()


def is_answered(questions: Questions) -> bool:
    with contextlib.suppress(SubscriberError):
        return questions.ask(lambda: True)
    return False


def test_a_question_without_an_answer_is_left_alone_and_counts_until_it_ends():
    answers, ended = threading.Event(), threading.Event()

    def late() -> int:
        answers.wait(30)
        ended.set()
        return 1

    questions = Questions(seconds=0.01, most=1)
    with pytest.raises(SubscriberError, match=r"no answer within 0\.01 s"):
        questions.ask(late)
    with pytest.raises(SubscriberError, match="1 other pages wait"):
        questions.ask(lambda: 2)
    answers.set()
    assert ended.wait(30)
    wait_until(lambda: is_answered(questions))

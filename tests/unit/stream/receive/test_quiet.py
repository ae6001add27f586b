"""A stream that brings nothing for a while, and what its walsender waits for."""

from __future__ import annotations

import pytest

from subscriber.base import waiting
from subscriber.base.lsn import LSN
from subscriber.base.waiting import notices_to
from subscriber.stream.receive.quiet import QUIET_SECONDS, Quiet
from tests.waits import wait_until


class Scene:
    """A stream, and how often was asked."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked = 0
        self.quiet = Quiet("the walsender", self.ask, lambda: self.now)

    def ask(self) -> list[str]:
        self.asked += 1
        return ["a standby"]


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(waiting, "PATIENCE_SECONDS", 0.01)


def test_what_a_silent_walsender_waits_for_is_told_once():
    scene = Scene()
    told: list[str] = []
    with notices_to(told.append), scene.quiet:
        scene.quiet.look(LSN(1))
        scene.now += QUIET_SECONDS
        scene.quiet.look(LSN(1))
        wait_until(lambda: scene.asked > 2)
        scene.quiet.look(LSN(1))
    assert told == ["the walsender waits for a standby"]


def test_nothing_is_asked_while_the_position_moves():
    scene = Scene()
    with scene.quiet:
        for position in range(1, 5):
            scene.now += QUIET_SECONDS
            scene.quiet.look(LSN(position))
        assert not scene.quiet._watches


def test_the_watch_ends_when_something_arrives():
    scene = Scene()
    with scene.quiet:
        scene.quiet.look(LSN(1))
        scene.now += QUIET_SECONDS
        scene.quiet.look(LSN(1))
        wait_until(lambda: scene.asked)
        scene.quiet.look(LSN(2))
        asked = scene.asked
        scene.now += QUIET_SECONDS / 2
        scene.quiet.look(LSN(2))
        assert scene.asked == asked

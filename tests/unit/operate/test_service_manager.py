"""What systemd is told, over a real socket."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from subscriber.operate.service_manager import ServiceManager, is_ready
from tests.observations import subscription


def supervisor(*, polls: int = 1, workers: tuple[int, ...] = (1,)) -> Any:
    states = {subid: SimpleNamespace(state="streaming") for subid in workers}
    return SimpleNamespace(
        catalog_watch=SimpleNamespace(polls=polls, subscriptions=[subscription()]),
        workers=states,
        snapshots=lambda look: states,
    )


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path):
    """The socket of a service manager; its name may be a file or an abstract one."""
    address = str(tmp_path / "notify") if request.param == "path" else f"@{tmp_path.name}-notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(address.replace("@", "\0"))
        listening.settimeout(10)
        yield SimpleNamespace(environment={"NOTIFY_SOCKET": address}, listening=listening)


def heard(manager: Any) -> list[str]:
    text: str = manager.listening.recv(4096).decode()
    return text.split("\n")


def test_a_run_is_ready_when_its_workers_are_started(manager):
    told = ServiceManager(manager.environment)
    told.tick(supervisor(polls=0, workers=()))
    assert heard(manager) == ["STATUS=no subscription is enabled"]
    told.tick(supervisor())
    assert heard(manager) == ["READY=1"]


def test_the_watchdog_is_told_from_the_loop_and_the_end_is_told(manager):
    told = ServiceManager(manager.environment | {"WATCHDOG_USEC": "2"})
    for _ in range(2):
        told.tick(supervisor())
        assert "WATCHDOG=1" in heard(manager)
    told.close()
    assert heard(manager) == ["STOPPING=1"]


def test_a_watchdog_of_another_process_and_a_missing_manager_are_no_trouble(tmp_path):
    told = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "nowhere"), "WATCHDOG_USEC": "2", "WATCHDOG_PID": "1"})
    told.tick(supervisor())
    ServiceManager({}).tick(supervisor())


def test_what_a_run_lacks_to_be_ready_is_named():
    assert is_ready(supervisor()) is None
    assert is_ready(supervisor(polls=0)) == "the catalog was not read yet"
    assert is_ready(supervisor(workers=())) == "no worker yet: s"

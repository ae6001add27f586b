"""Leases as a command of another machine would store them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from subscriber.base import clock
from subscriber.catalog.leases import Lease, LeaseKind, claim


def pause_lease(subid: int = 1, state: str = "requested", **fields: Any) -> Lease:
    """The pause of a command on another machine, which is alive."""
    now = clock.now()
    given: dict[str, Any] = {
        "holder": "a" * 32,
        "host": "db1",
        "process_id": 4711,
        "machine": "",
        "since": now,
        "heartbeat": now,
    }
    return Lease(LeaseKind.PAUSE, subid, **(given | fields), state=state)


def store_lease(connection: Connection, lease: Lease) -> None:
    assert claim(connection, lease) is None

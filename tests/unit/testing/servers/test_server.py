"""A server is started at the beginning of its block, and removed at the end."""

from __future__ import annotations

import pytest

from subscriber.testing.servers.processes import DatabaseServer


class Recorded(DatabaseServer):
    """A server that this program starts."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")

    def close(self) -> None:
        self.calls.append("close")


def test_a_server_is_closed_even_if_the_block_fails():
    server = Recorded()
    with pytest.raises(ValueError, match="in the block"), server as entered:
        assert entered is server
        raise ValueError("in the block")
    assert server.calls == ["start", "close"]

"""What all servers have in common: a block, at whose end a server that this program has started is
stopped.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Server:
    """A server that is running already. A server that this program starts overrides the methods."""

    def start(self) -> None:
        """Start the server if this program starts it. Another server is running already, or its
        user has to start it.
        """

    def stop(self) -> None:
        """Stop the server if this program has started it."""

    def close(self) -> None:
        """Stop the server and remove its data if this program has started it."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

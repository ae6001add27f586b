"""Failpoints that are armed in a test."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from subscriber.base import failpoints


@contextlib.contextmanager
def armed(text: str) -> Iterator[None]:
    """Arm failpoints as SUBSCRIBER_FAILPOINTS does, for a block."""
    failpoints.arm({failpoints.ENVIRONMENT: text})
    try:
        yield
    finally:
        failpoints.arm({})

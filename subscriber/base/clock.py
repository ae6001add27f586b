"""The time as text, as the catalog and the files beside a journal store it: UTC, ISO 8601."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def as_text(moment: float) -> str:
    """A time in seconds since 1970 as text.

    >>> as_text(0.25)
    '1970-01-01T00:00:00.250+00:00'
    """
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")


def seconds_since(text: str) -> float:
    """How many seconds ago a time was; 0 for one in the future."""
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds())

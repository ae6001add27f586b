"""The progress of a copy, for tests that show it."""

from __future__ import annotations

from subscriber.worker.copy_progress import CopyStatus

COPY = CopyStatus(
    schema="public",
    name="t",
    rows=1,
    bytes=2,
    estimated_rows=3,
    estimated_bytes=4,
    rows_per_second=5.0,
    started_at="2026-01-02T03:04:05Z",
)

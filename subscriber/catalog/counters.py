"""What a worker counts. A metric is declared here, and counted by ``state.count("notices")``."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCounters:
    """Since the worker began. Each is a column of ``subscriber_stat_subscription`` and a key of
    ``worker`` in ``subscriber status --json``; ``subscriber status`` calls it ``shown``. It is
    also a metric with the text ``help``.
    """

    notices: int = field(
        default=0, metadata={"shown": "notices in the log", "help": "Notices and warnings of the publisher."}
    )

"""The lag and the rate of each subscription in the last hour, in memory: a point every 10 s."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from subscriber.operate.observation import Observation, RunObservation

_POINTS: Final = 360

Table = tuple[str, str]


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """``lag`` in seconds, None if not known; ``rate`` in rows a second since the last point."""

    at: float
    lag: float | None
    rate: float


@dataclass(slots=True)
class SubscriptionHistory:
    """``rates`` are the rows a second of each table between the last two points."""

    points: deque[HistoryPoint] = field(default_factory=lambda: deque(maxlen=_POINTS))
    rates: Mapping[Table, float] = field(default_factory=dict)
    _rows: Mapping[Table, float] = field(default_factory=dict)

    def record(self, one: Observation) -> None:
        rows = _rows_by_table(one)
        seconds = one.now - self.points[-1].at if self.points else 0.0
        if seconds > 0:
            # A worker that was replaced counts from 0 again.
            self.rates = {
                table: max(0.0, number - self._rows.get(table, 0.0)) / seconds for table, number in rows.items()
            }
        self._rows = rows
        self.points.append(HistoryPoint(one.now, one.lag_seconds, sum(self.rates.values())))


class History:
    """One thread writes points; any thread may read a copy of them."""

    def __init__(self) -> None:
        self._subscriptions: dict[int, SubscriptionHistory] = {}

    def record(self, run: RunObservation) -> None:
        known = {one.subscription.subid for one in run.subscriptions}
        self._subscriptions = {subid: history for subid, history in self._subscriptions.items() if subid in known}
        for one in run.subscriptions:
            self._subscriptions.setdefault(one.subscription.subid, SubscriptionHistory()).record(one)

    def of(self, subid: int) -> SubscriptionHistory:
        return self._subscriptions.get(subid) or SubscriptionHistory()


def _rows_by_table(one: Observation) -> Mapping[Table, float]:
    found: defaultdict[Table, float] = defaultdict(float)
    counts = {} if one.worker is None else dict(one.worker.counts)
    for labels, number in counts.items():
        if labels[0] == "rows":
            found[labels[1], labels[2]] += number
    return found

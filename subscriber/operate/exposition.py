"""The metrics in the text format of Prometheus, by prometheus_client.

A collector makes all samples at the scrape from one observation, so the series of what
was dropped vanish, and no value is older than the observation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from subscriber.operate.metrics import (
    METRICS,
    RECEIVER_METRICS,
    RUN_METRICS,
    Kind,
    Labels,
    Metric,
    ReceiverMetric,
    rows,
)
from subscriber.operate.observation import ReceiverObservation, RunObservation

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_FAMILIES: Final[Mapping[Kind, Any]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
    "info": InfoMetricFamily,
}


class RunCollector(Collector):
    """Collects the metrics of a run; ``most_tables`` of a subscription have rows of their own."""

    def __init__(self, observe: Callable[[], RunObservation], most_tables: int) -> None:
        self._observe = observe
        self._rows = partial(rows, most_tables=most_tables)

    def collect(self) -> Iterable[Family]:
        run = self._observe()
        for metric in METRICS:
            family = _family(metric.name, metric.kind, metric.help, ("subscription", *metric.labels))
            read = self._rows if metric.value is rows else metric.value
            for one in run.subscriptions:
                for labels, value in _samples(metric, read(one)):
                    _add(family, metric, (one.name, *labels), value)
            yield family
        for of_run in RUN_METRICS:
            family = _family(of_run.name, of_run.kind, of_run.help, ())
            value = of_run.value(run)
            if isinstance(value, int | float):
                family.add_metric((), float(value))
            yield family

    def describe(self) -> Iterable[Family]:
        """Nothing: the registry need not collect to know the names."""
        return ()


class ReceiverCollector(Collector):
    """Collects the metrics of a receiver without a target."""

    def __init__(self, observe: Callable[[], ReceiverObservation]) -> None:
        self._observe = observe

    def collect(self) -> Iterable[Family]:
        one = self._observe()
        for metric in RECEIVER_METRICS:
            family = _family(metric.name, metric.kind, metric.help, ("slot", *metric.labels))
            for labels, value in _samples(metric, metric.value(one)):
                family.add_metric((one.name, *labels), float(value))
            yield family

    def describe(self) -> Iterable[Family]:
        """Nothing, as above."""
        return ()


def registry(collector: Collector) -> CollectorRegistry:
    """A registry with the metrics of a collector, and those of its own process."""
    made = CollectorRegistry(auto_describe=False)
    made.register(collector)
    ProcessCollector(registry=made)
    PlatformCollector(registry=made)
    return made


def exposition(registry: CollectorRegistry) -> bytes:
    return generate_latest(registry)


def _family(name: str, kind: Kind, text: str, labels: Labels) -> Any:
    return _FAMILIES[kind](name, text, labels=labels)


def _samples(metric: Metric | ReceiverMetric, value: Any) -> Iterator[tuple[Labels, Any]]:
    if value is None:
        return
    if metric.kind == "histogram":
        yield (), value
    elif isinstance(value, Mapping):
        yield from value.items()
    else:
        yield (), value


def _add(family: Any, metric: Metric, labels: Labels, value: Any) -> None:
    match metric.kind:
        case "histogram":
            family.add_metric(labels, _buckets(value), value["sum",])
        case "info":
            names = ("subscription", *metric.labels)
            family.add_metric((), dict(zip(names, labels, strict=True)))
        case _:
            family.add_metric(labels, float(value))


def _buckets(counts: Mapping[Labels, float]) -> list[tuple[str, float]]:
    found, total = [], 0.0
    for (bound,), number in counts.items():
        if bound != "sum":
            total += number
            found.append(("+Inf" if float(bound) == math.inf else bound, total))
    return found

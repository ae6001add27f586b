"""The results of a run of the benchmarks, as JSON, and their comparison with earlier ones.

::

    {"machine": …, "commit": …, "size": 1.0, "runs": 3,
     "workloads": {"W1": {"what": …, "amount": 1000000,
                          "subscribers": {"native": {"per_second": …, …},
                                          "sqlite": {"ratio": …, "ratios": […], "per_second": …, …},
                                          "duckdb": {"failure": "did not finish within 300 s"}}}}}

A ratio is the native subscriber's time divided by the time of the other, in the same run. Above 1.0
the other is faster. Of latency it is the ratio of the medians. Every figure is the median of the
runs; of memory it is the greatest.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import statistics
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.measure import NATIVE, Outcome, Sample
from benchmarks.workloads import Workload
from subscriber.spark.session import find_java
from subscriber.testing.servers.processes import find_mariadb, find_postgresql

FALLEN: Final = 2 / 3
"""A ratio below this part of an earlier ratio has fallen: by more than a third."""

Json = dict[str, Any]


def describe(workload: Workload, outcomes: Mapping[str, Outcome]) -> Json:
    """The figures of a workload."""
    native = {sample.run: sample for sample in outcomes[NATIVE].samples}
    return {
        "what": workload.what,
        "kind": workload.kind,
        "amount": workload.amount,
        "subscribers": {name: _figures(workload, name, outcome, native) for name, outcome in outcomes.items()},
    }


def _figures(workload: Workload, name: str, outcome: Outcome, native: Mapping[int, Sample]) -> Json:
    figures: Json = {}
    if outcome.failure is not None:
        figures["failure"] = outcome.failure
    samples = outcome.samples
    if not samples:
        return figures
    if workload.kind == "latency":
        figures["p50_ms"] = _median(samples, lambda one: percentile(one.latencies, 50))
        figures["p99_ms"] = _median(samples, lambda one: percentile(one.latencies, 99))
        figures["idle_cores"] = _median(samples, lambda one: one.idle_cores, 3)
    else:
        figures["per_second"] = _median(samples, lambda one: workload.amount / one.usage.seconds, 0)
        figures["seconds"] = [round(one.usage.seconds, 2) for one in samples]
    if name != NATIVE:
        pairs = [(native[one.run], one) for one in samples if one.run in native]
        ratios = [round(_cost(theirs) / _cost(ours), 4) for theirs, ours in pairs]
        if ratios:
            figures |= {"ratio": round(statistics.median(ratios), 4), "ratios": ratios}
        figures["python_mib"] = round(max(one.usage.python_mib for one in samples))
        figures["jvm_mib"] = round(max(one.usage.jvm_mib for one in samples))
    figures["cpu_seconds"] = _processor_times(samples)
    return figures


def _processor_times(samples: Sequence[Sample]) -> dict[str, float]:
    parts = sorted({part for one in samples for part in one.usage.cpu_seconds})
    return {
        part: round(statistics.median(one.usage.cpu_seconds.get(part, 0.0) for one in samples), 2) for part in parts
    }


def _cost(sample: Sample) -> float:
    return percentile(sample.latencies, 50) if sample.latencies else sample.usage.seconds


def _median(samples: Sequence[Sample], value: Callable[[Sample], float], digits: int = 1) -> float:
    return round(statistics.median(map(value, samples)), digits)


def percentile(values: Sequence[float], percent: float) -> float:
    """The least of the sorted values that is at least as great as ``percent`` % of them."""
    return values[max(0, -int(-len(values) * percent // 100) - 1)]


def short(ratio: float) -> str:
    """A ratio with two digits after the point, or two that count if it is small."""
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"


# Comparison ---------------------------------------------------------------------------------------


def ratios_of(results: Json) -> Iterator[tuple[str, str, float]]:
    """Workload, subscriber and ratio of everything that has a ratio."""
    for workload, figures in results["workloads"].items():
        for name, found in figures["subscribers"].items():
            if "ratio" in found:
                yield workload, name, found["ratio"]


def fallen(now: Json, before: Json) -> list[str]:
    """A sentence for each ratio that has fallen by more than a third, and for each subscriber that
    had a ratio and does not finish any more. What was not measured now is not compared.

    Raises:
        ValueError: the results are of different sizes.
    """
    if now["size"] != before["size"]:
        raise ValueError(f"results of size {now['size']} cannot be compared with those of size {before['size']}")
    found = {(workload, name): ratio for workload, name, ratio in ratios_of(now)}
    sentences = []
    for workload, name, ratio in ratios_of(before):
        figures = now["workloads"].get(workload, {}).get("subscribers", {}).get(name)
        if figures is None:
            continue
        if "failure" in figures:
            sentences.append(f"{workload} {name}: had a ratio of {ratio}, now fails: {figures['failure']}")
        elif found[workload, name] < ratio * FALLEN:
            sentences.append(f"{workload} {name}: the ratio fell from {ratio} to {found[workload, name]}")
    return sentences


def growth(results: Json) -> list[str]:
    """For each workload that was also measured with a larger size, a sentence for each subscriber:
    the time and the memory of the larger one.
    """
    sentences = []
    for label, large in results["workloads"].items():
        name, _, times = label.partition(" x ")
        for subscriber, after in large["subscribers"].items() if times else ():
            before = results["workloads"][name]["subscribers"][subscriber]
            if "seconds" in before and "seconds" in after:
                longer = statistics.median(after["seconds"]) / statistics.median(before["seconds"])
                memory = "".join(
                    f", {what} {after[key]:,} MiB instead of {before[key]:,}"
                    for key, what in (("python_mib", "Python"), ("jvm_mib", "JVM"))
                    if key in after
                )
                sentences.append(f"{name} {subscriber}: {times} times the size in {longer:.1f} times the time{memory}")
    return sentences


# Machine ------------------------------------------------------------------------------------------


def circumstances() -> Json:
    """The machine, the versions of what was measured, and the commit."""
    return {
        "machine": {
            "processor": _first_match("/proc/cpuinfo", r"model name\s*: (.*)"),
            "cores": os.cpu_count(),
            "memory_gib": round(int(_first_match("/proc/meminfo", r"MemTotal:\s*(\d+)") or 0) / 1024**2, 1),
            "system": platform.platform(),
        },
        "versions": {
            "python": platform.python_version(),
            "java": _said([str(find_java() / "bin" / "java"), "-version"]),
            "postgresql": _said([str(find_postgresql(18).bin / "postgres"), "--version"]),
            "mariadb": _said([str(find_mariadb().server), "--version"]),
            **{
                name: importlib.metadata.version(name)
                for name in ("pyspark", "pyarrow", "duckdb", "sqlalchemy", "psycopg")
            },
        },
        "commit": _said(["git", "describe", "--always", "--dirty", "--abbrev=12"]),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def _first_match(file: str, pattern: str) -> str | None:
    found = re.search(pattern, Path(file).read_text())
    return found.group(1) if found else None


def _said(command: Sequence[str]) -> str:
    answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent)
    return (answer.stdout or answer.stderr).partition("\n")[0]

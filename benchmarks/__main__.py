"""``make bench``: measures every figure of ``docs/performance.md``, each as the median of three
runs, and the native subscriber in the same run.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable

from benchmarks import apply, copy, decoder, end_to_end, filters, transform
from benchmarks.harness import rig

ROWS = 1_000_000
LARGE_ROWS = 10_000_000
COPY_ROWS = 3_000_000
LARGE_COPY_ROWS = 30_000_000


def main() -> None:
    """Run the benchmarks and print a line for each figure. ``--json FILE`` also writes them to a
    file.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only",
        choices=["stream", "copy", "filters"],
        help="the changes, the initial copy, or row filters (default: all)",
    )
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of the backlog (default: a million)")
    parser.add_argument(
        "--copy-rows", type=int, default=COPY_ROWS, help="rows of the table that is copied (default: three million)"
    )
    parser.add_argument("--runs", type=int, default=3, help="runs that the median is taken of (default: 3)")
    parser.add_argument(
        "--large", type=int, default=LARGE_ROWS, help="rows of the memory run (default: ten million; 0: none)"
    )
    parser.add_argument(
        "--large-copy",
        type=int,
        default=LARGE_COPY_ROWS,
        help="rows of the copy that memory is measured with (default: thirty million; 0: none)",
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()
    figures: dict[str, float] = {}

    def note(name: str, value: float) -> None:
        figures[name] = value
        print(f"{name:32} {value:14,.2f}", flush=True)

    if arguments.only in {None, "stream"}:
        _stream(arguments, note)
    if arguments.only in {None, "copy"}:
        copy.measure(arguments.copy_rows, arguments.runs, arguments.large_copy, note)
    if arguments.only in {None, "filters"}:
        for name, value in (filters.measure() | transform.measure_transform()).items():
            note(name, value)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)


def _stream(arguments: argparse.Namespace, note: Callable[[str, float], None]) -> None:
    natives, drains, peaks = [], [], []
    # This runs first, while this process is small: its memory is measured, since it is the Spark
    # driver.
    with rig() as bench:
        median, ninety_fifth = end_to_end.latency(bench)
        note("latency_p50_ms", median)
        note("latency_p95_ms", ninety_fifth)
        note("idle_cores", end_to_end.idle())
        for _ in range(arguments.runs):
            # The runs alternate, so that both are slower if the machine becomes slower.
            natives.append(end_to_end.native(arguments.rows))
            rate, peak = end_to_end.drain(bench, arguments.rows)
            drains.append(rate)
            peaks.append(peak)
        note("drain_rows_per_second", statistics.median(drains))
        note("native_rows_per_second", statistics.median(natives))
        note("drain_ratio", statistics.median(ours / theirs for ours, theirs in zip(drains, natives, strict=True)))
        note("memory_1m_mib", max(peaks))
        if arguments.large:
            rate, peak = end_to_end.drain(bench, arguments.large)
            note("large_rows_per_second", rate)
            note("memory_10m_mib", peak)
    note("receive_rows_per_second", _median(arguments.runs, lambda: end_to_end.receive_alone(arguments.rows)))
    note("decoder_rows_per_second", decoder.measure()["rows_per_second"])
    note("apply_rows_per_second", apply.measure()["rows_per_second"])


def _median(runs: int, measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(runs))


if __name__ == "__main__":
    main()

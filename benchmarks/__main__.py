"""``make bench``: measures the workloads W1 to W11 with every kind of target and with PostgreSQL's
own subscriber, in the same run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from benchmarks import apply, change_feed, decoder, filters, receive, transform
from benchmarks.measure import bench
from benchmarks.page import rates, usage
from benchmarks.peers import PEERS
from benchmarks.results import Json, circumstances, describe, fallen, growth
from benchmarks.subscribers import WATCHED
from benchmarks.workloads import BY_NAME, LARGER, SMOKE
from subscriber.testing.servers.open_servers import FURTHER_KINDS, TARGET_KINDS


def main() -> int:
    """Run the benchmarks, and print the results as tables.

    Returns:
        The exit code: 1 if a ratio has fallen, see ``--compare``.
    """
    options = _options()
    if options.parts:
        return _parts()
    size, runs = (0.1, 1) if options.smoke else (options.size, options.runs)
    results: Json = {**circumstances(), "size": size, "runs": runs, "workloads": {}}
    with bench(options.limit, _say, options.profile) as servers:
        for name, targets in SMOKE.items() if options.smoke else ((name, options.targets) for name in options.only):
            for times in (1, LARGER) if options.large else (1,):
                workload = BY_NAME[name].scaled(size * times)
                label = name if times == 1 else f"{name} x {times}"
                if workload.kind == "latency" and options.rate != workload.rate:
                    # as many seconds
                    count = workload.transactions * options.rate // workload.rate
                    workload = replace(workload, rate=options.rate, transactions=count)
                    label += f" at {options.rate}/s"
                results["workloads"][label] = describe(workload, servers.measure(workload, targets, runs))
                if options.json:
                    # After each workload, so that an interrupted run has results.
                    options.json.parent.mkdir(parents=True, exist_ok=True)
                    options.json.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    print(rates(results), usage(results), *growth(results), sep="\n\n")
    sentences = fallen(results, json.loads(options.compare.read_text())) if options.compare else []
    for sentence in sentences:
        print(sentence, file=sys.stderr)
    return 1 if sentences else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    known = [*TARGET_KINDS, *FURTHER_KINDS, *(f"{kind}{WATCHED}" for kind in TARGET_KINDS), *PEERS]
    parser.add_argument("--only", type=_among(BY_NAME), default=[*BY_NAME], metavar="W1,W2", help="default: all")
    parser.add_argument(
        "--targets",
        type=_among(known),
        default=[*TARGET_KINDS],
        metavar="NAMES",
        help=f"of {', '.join(known)}; the peers {' and '.join(PEERS)} are installed when they are first used,"
        f" and the runs whose names end with {WATCHED} have a page open and are scraped"
        f" (default: {','.join(TARGET_KINDS)})",
    )
    parser.add_argument("--runs", type=int, default=3, help="runs that the median is taken of (default: 3)")
    parser.add_argument("--size", type=float, default=1.0, help="the part of the changes and rows (default: 1)")
    parser.add_argument(
        "--rate", type=int, default=BY_NAME["W6"].rate, help="commits a second of W6 (default: %(default)s)"
    )
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that a measurement may take (default: 300)")
    parser.add_argument("--large", action="store_true", help=f"measure each workload with {LARGER} times the size, too")
    parser.add_argument("--smoke", action="store_true", help="a few workloads and targets of a tenth of the size, once")
    parser.add_argument("--parts", action="store_true", help="measure the parts of the program alone instead")
    parser.add_argument(
        "--profile",
        type=Path,
        metavar="FOLDER",
        help="write a flame graph of each part there, by py-spy, which makes all of it slower",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    parser.add_argument(
        "--compare",
        type=Path,
        metavar="FILE",
        help="earlier results of the same size: exit with 1 if a ratio fell by more than a third",
    )
    options = parser.parse_args()
    if options.compare and not options.compare.exists():
        parser.error(f"there are no results in {options.compare}; measure with --json {options.compare} first")
    return options


def _among(known: Collection[str]) -> Callable[[str], list[str]]:
    def read(text: str) -> list[str]:
        names = text.split(",")
        unknown = [name for name in names if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}")
        return names

    return read


def _parts() -> int:
    measures = (
        receive.measure,
        decoder.measure,
        apply.measure,
        filters.measure,
        transform.measure_transform,
        change_feed.measure_rows,
    )
    for measure in measures:
        for name, value in measure().items():
            print(f"{measure.__module__.rpartition('.')[2]:10} {name:32} {value:14,.0f}", flush=True)
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
